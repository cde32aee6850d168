//! Git configuration as one list of keys and values, whoever read it. Never written.

use std::num::NonZeroUsize;

use super::{Repository, RepositoryError};
use crate::git::Side;

/// Every value, in order of precedence: the last one of a key wins.
#[derive(Debug)]
pub(super) struct Config {
    /// Key (`section.subsection.name`, section and name in lower case), and value; no value is an implicit `true`.
    entries: Vec<(String, Option<String>)>,
}

/// A configured remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteConfig {
    /// What it is called.
    pub name: String,
    /// `remote.<name>.url`, all of them, as written (`url.*.insteadOf` not applied).
    pub urls: Vec<String>,
    /// `remote.<name>.pushurl`, all of them.
    pub push_urls: Vec<String>,
    /// `remote.<name>.fetch`, all of them.
    pub fetch: Vec<String>,
}

impl RemoteConfig {
    /// Where a ref of the remote is kept here, by the `fetch` refspecs.
    pub fn tracking_ref(&self, remote: &str) -> Option<String> {
        self.fetch.iter().find_map(|refspec| {
            let (source, destination) = refspec.trim_start_matches('+').split_once(':')?;
            mapped(remote, source, destination)
        })
    }
}

/// A ref's name on the other side of a refspec: `of` is the refspec's side that the name is on.
pub(crate) fn mapped(name: &str, of: &str, to: &str) -> Option<String> {
    match (of.split_once('*'), to.split_once('*')) {
        (Some((prefix, suffix)), Some((before, after))) => {
            let middle = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            Some(format!("{before}{middle}{after}"))
        }
        (None, None) if of == name => Some(to.to_owned()),
        _ => None,
    }
}

impl Repository {
    /// The value of a key such as `parler.base`, the one that wins; a key without a value counts as `true`.
    pub fn config_string(&self, key: &str) -> Result<Option<String>, RepositoryError> {
        Ok(self.config()?.last(key).map(|value| value.unwrap_or("true").to_owned()))
    }

    /// Whether anything is set in a section without subsections, such as `pack`.
    pub(crate) fn config_has_section(&self, section: &str) -> Result<bool, RepositoryError> {
        let is_in_it = |(key, _): &(String, _)| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
        Ok(self.config()?.entries.iter().any(is_in_it))
    }

    /// The value of a key as git reads booleans.
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>, RepositoryError> {
        let Some(value) = self.config()?.last(key) else {
            return Ok(None);
        };
        let not_a_boolean = || RepositoryError::NotABoolean {
            key: key.to_owned(),
            value: value.unwrap_or_default().to_owned(),
        };
        parse_bool(value).map(Some).ok_or_else(not_a_boolean)
    }

    /// The value of a key that counts something, from 1 to `most`.
    pub fn config_count(&self, key: &str, most: usize) -> Result<Option<NonZeroUsize>, RepositoryError> {
        let Some(value) = self.config_string(key)? else {
            return Ok(None);
        };
        let count = value.trim().parse().ok();
        match count.filter(|count: &NonZeroUsize| count.get() <= most) {
            Some(count) => Ok(Some(count)),
            None => Err(RepositoryError::NotACount {
                key: key.to_owned(),
                value,
                most,
            }),
        }
    }

    /// The value of a key that is a number of bytes, as git reads those: `k`, `m` and `g` stand for binary thousands.
    pub fn config_bytes(&self, key: &str) -> Result<Option<u64>, RepositoryError> {
        let Some(value) = self.config_string(key)? else {
            return Ok(None);
        };
        match parse_bytes(value.trim()) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(RepositoryError::NotASize {
                key: key.to_owned(),
                value,
            }),
        }
    }

    /// The configured remotes, in the order in which they first appear.
    pub fn remotes(&self) -> Result<Vec<RemoteConfig>, RepositoryError> {
        let mut remotes: Vec<RemoteConfig> = Vec::new();
        for (key, value) in &self.config()?.entries {
            let Some((name, variable)) = key.strip_prefix("remote.").and_then(|rest| rest.rsplit_once('.')) else {
                continue;
            };
            let index = remotes
                .iter()
                .position(|remote| remote.name == name)
                .unwrap_or_else(|| {
                    let name = name.to_owned();
                    remotes.push(RemoteConfig {
                        name,
                        urls: Vec::new(),
                        push_urls: Vec::new(),
                        fetch: Vec::new(),
                    });
                    remotes.len() - 1
                });
            let list = match variable {
                "url" => &mut remotes[index].urls,
                "pushurl" => &mut remotes[index].push_urls,
                "fetch" => &mut remotes[index].fetch,
                _ => continue,
            };
            match value.as_deref() {
                // Git: an empty url forgets those before it.
                None | Some("") => list.clear(),
                Some(value) => list.push(value.to_owned()),
            }
        }
        Ok(remotes)
    }

    /// The remote that a partial clone takes the objects from which it lacks. None in every other repository.
    pub fn promisor(&self) -> Result<Option<String>, RepositoryError> {
        for (key, _) in &self.config()?.entries {
            let remote = key
                .strip_prefix("remote.")
                .and_then(|rest| rest.strip_suffix(".promisor"));
            if let Some(name) = remote
                && self.config_bool(key)? == Some(true)
            {
                return Ok(Some(name.to_owned()));
            }
        }
        // How git wrote it down when there could be one only.
        self.config_string("extensions.partialClone")
    }

    fn config(&self) -> Result<&Config, RepositoryError> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let read = if self.asks_git {
            self.config_by_git()?
        } else {
            self.config_by_gix()
        };
        Ok(self.config.get_or_init(|| read))
    }

    fn config_by_gix(&self) -> Config {
        let local = self.local();
        let snapshot = local.config_snapshot();
        let mut entries = Vec::new();
        for section in snapshot.plumbing().sections() {
            let header = section.header();
            let mut prefix = header.name().to_string().to_ascii_lowercase();
            if prefix == "gitoxide" {
                continue; // the library's own notes, among them environment variables
            }
            if let Some(subsection) = header.subsection_name() {
                prefix.push('.');
                prefix.push_str(&String::from_utf8_lossy(subsection));
            }
            let mut seen = Vec::new();
            for name in section.body().value_names() {
                if seen.contains(&name) {
                    continue;
                }
                let key = format!("{prefix}.{}", name.to_ascii_lowercase());
                let values = section.body().values(&name);
                entries.extend(values.iter().map(|value| (key.clone(), Some(value.to_string()))));
                // The list of values does not tell `name` alone from `name =`.
                if section.body().value_implicit(&name) == Some(None)
                    && let Some(last) = entries.last_mut()
                {
                    last.1 = None;
                }
                seen.push(name);
            }
        }
        Config { entries }
    }

    fn config_by_git(&self) -> Result<Config, RepositoryError> {
        let listed = self.command(Side::Push, "config").args(["-z", "--list"]).run()?;
        let entry = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            match text.split_once('\n') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (text.into_owned(), None),
            }
        };
        let entries = listed
            .split(|byte| *byte == 0)
            .filter(|bytes| !bytes.is_empty())
            .map(entry)
            .collect();
        Ok(Config { entries })
    }
}

/// Git's numbers without a sign: `k`, `m` and `g` stand for binary thousands.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Config {
    fn last(&self, key: &str) -> Option<Option<&str>> {
        let key = normal_key(key);
        let last = self.entries.iter().rfind(|(entry, _)| *entry == key);
        last.map(|(_, value)| value.as_deref())
    }
}

/// Section and variable name in lower case; a subsection keeps its case.
fn normal_key(key: &str) -> String {
    let (Some(first), Some(last)) = (key.find('.'), key.rfind('.')) else {
        return key.to_ascii_lowercase();
    };
    [
        &key[..first].to_ascii_lowercase(),
        &key[first..last],
        &key[last..].to_ascii_lowercase(),
    ]
    .concat()
}

/// Git's booleans: true, yes, on or a number that is not 0; false, no, off, 0 or nothing after `=`. No value at all is
/// true; what is none of these is none.
pub fn parse_bool(value: Option<&str>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" | "" => Some(false),
        number => number.parse::<i64>().ok().map(|number| number != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_case_of_a_subsection_only() {
        assert_eq!(normal_key("Parler.Base"), "parler.base");
        assert_eq!(normal_key("Remote.My.Fork.PushURL"), "remote.My.Fork.pushurl");
        assert_eq!(normal_key("plain"), "plain");
    }

    #[test]
    fn sizes_are_gits() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("3k", 3 << 10),
            ("128M", 128 << 20),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "m", "-1", "1.5g", "1 m", "1mm", "1t", "99999999999g"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn booleans_are_gits() {
        for (value, meaning) in [
            ("true", true),
            ("YES", true),
            ("1", true),
            ("-1", true),
            ("off", false),
            ("", false),
        ] {
            assert_eq!(parse_bool(Some(value)), Some(meaning), "{value}");
        }
        assert_eq!(parse_bool(None), Some(true));
        assert_eq!(parse_bool(Some("maybe")), None);
    }
}

//! The names a room's refs may have: what `git check-ref-format` accepts under `refs/`, less the two kinds that would
//! mislead a reader.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_REF_NAME_BYTES;
use crate::{ParseError, serde_as_string};

/// A full ref name such as `refs/heads/main`.
///
/// Rules 1-9 of git-check-ref-format(1), and: UTF-8, begins with `refs/`, is not under `refs/parler/` (those are pins,
/// made by the receiver), and its last component is not exactly 40 or 64 hexadecimal digits (it would read as an
/// object id).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefName(String);

impl RefName {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without `refs/`: `heads/main`.
    pub fn without_refs(&self) -> &str {
        &self.0["refs/".len()..]
    }

    /// The branch's name when this is a branch: `main` of `refs/heads/main`.
    pub fn branch(&self) -> Option<&str> {
        self.0.strip_prefix("refs/heads/")
    }

    /// Whether one of the two would be a directory of the other, so that they cannot both exist.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let (long, short) = if self.0.len() > other.0.len() {
            (self, other)
        } else {
            (other, self)
        };
        long.0
            .strip_prefix(short.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl AsRef<str> for RefName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for RefName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = |why| Err(ParseError::new("ref name", text, why));
        if text.len() > MAX_REF_NAME_BYTES {
            return no("is too long");
        }
        let Some(rest) = text.strip_prefix("refs/") else {
            return no("does not begin with refs/");
        };
        if text
            .bytes()
            .any(|byte| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte))
        {
            return no("holds a character that git allows in no ref name");
        }
        if text.contains("..") || text.contains("@{") || text.ends_with('.') {
            return no("is not one that git allows");
        }
        for component in rest.split('/') {
            if component.is_empty() || component.starts_with('.') || component.ends_with(".lock") {
                return no("has a component that git does not allow");
            }
        }
        if rest == "parler" || rest.starts_with("parler/") {
            return no("is under refs/parler/, where only the receiver writes");
        }
        let last = rest.rsplit('/').next().unwrap_or(rest);
        if matches!(last.len(), 40 | 64) && last.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return no("ends like an object id");
        }
        Ok(Self(text.to_owned()))
    }
}

serde_as_string!(RefName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_git_judges_them() {
        for good in [
            "refs/heads/main",
            "refs/tags/v1.0",
            "refs/notes/commits",
            "refs/stash",
            "refs/heads/-dash",
            "refs/heads/@",
            "refs/heads/é/ü",
            "refs/heads/a.lock.b",
            "refs/heads/abcdef0",
            "refs/heads/CON",
            "refs/parlers/x",
        ] {
            assert_eq!(good.parse::<RefName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "HEAD",
            "main",
            "heads/main",
            "refs",
            "refs/",
            "refs//x",
            "refs/heads/",
            "refs/heads/.x",
            "refs/heads/x.lock",
            "refs/x.lock/y",
            "refs/heads/a..b",
            "refs/heads/a b",
            "refs/heads/a~b",
            "refs/heads/a\x1b[0m",
            "refs/heads/a\u{7f}",
            "refs/heads/a@{b",
            "refs/heads/a.",
            "refs/heads/a\\b",
            "refs/parler",
            "refs/parler/x",
            "refs/heads/0123456789012345678901234567890123456789",
            "refs/heads/ABCDEF6789012345678901234567890123456789",
        ] {
            assert!(bad.parse::<RefName>().is_err(), "{bad}");
        }
        assert!(format!("refs/heads/{}", "a".repeat(64)).parse::<RefName>().is_err());
        assert!(format!("refs/heads/{}", "a".repeat(63)).parse::<RefName>().is_ok());
    }

    #[test]
    fn a_directory_of_another_conflicts() {
        let name = |text: &str| text.parse::<RefName>().unwrap();
        assert!(name("refs/heads/a").conflicts_with(&name("refs/heads/a/b")));
        assert!(name("refs/heads/a/b").conflicts_with(&name("refs/heads/a")));
        assert!(!name("refs/heads/a").conflicts_with(&name("refs/heads/ab")));
        assert!(!name("refs/heads/a").conflicts_with(&name("refs/heads/a")));
    }
}

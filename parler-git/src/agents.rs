//! Which agent acts: said by flag, environment, work tree or configuration, else the one that belongs to this place.

use std::path::Path;

use parler_protocol::AgentName;
use parler_protocol::limits::MAX_AGENT_NAME_BYTES;

use crate::error::{Error, ErrorKind, Result};

/// Bytes of a default name left for the number that tells equal ones apart.
const NUMBER_BYTES: usize = 8;

/// Where the name of the agent came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameSource {
    Flag,
    Environment,
    WorkTree,
    Config,
    Place,
    Token,
}

impl NameSource {
    /// For people, and in `--json` output.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Flag => "--as",
            Self::Environment => "PARLER_AGENT",
            Self::WorkTree => "git parler connect --as",
            Self::Config => "parler.agent",
            Self::Place => "default",
            Self::Token => "PARLER_TOKEN",
        }
    }
}

/// Every place where an agent may be named.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Named<'a> {
    pub(crate) flag: Option<&'a str>,
    pub(crate) environment: Option<&'a str>,
    pub(crate) work_tree: Option<&'a str>,
    pub(crate) config: Option<&'a str>,
}

impl Named<'_> {
    /// The name that counts. None: nobody named an agent.
    pub(crate) fn winner(&self) -> Result<Option<(AgentName, NameSource)>> {
        let named = [
            (self.flag, NameSource::Flag),
            (self.environment, NameSource::Environment),
            (self.work_tree, NameSource::WorkTree),
            (self.config, NameSource::Config),
        ];
        let Some((name, source)) = named.into_iter().find_map(|(name, source)| Some((name?, source))) else {
            return Ok(None);
        };
        let name = name.parse().map_err(|error| {
            Error::new(ErrorKind::Usage, format_args!("{}: {error}", source.describe()))
                .then("git parler connect --as NAME")
        })?;
        Ok(Some((name, source)))
    }
}

/// What the agent of a place is called when nobody named it: `user@host/DIRECTORY`, or `user@host` outside of any
/// repository.
pub(crate) fn default_name(user: &str, host: &str, place: Option<&Path>) -> AgentName {
    let directory = place
        .and_then(Path::file_name)
        .map(|name| format!("/{}", name.to_string_lossy()));
    let wanted = format!("{user}@{host}{}", directory.unwrap_or_default());
    // Directories may be called what agents may not: every character is tried by itself.
    let mut name = String::new();
    for character in wanted.chars() {
        let character = if format!("x{character}x").parse::<AgentName>().is_ok() {
            character
        } else {
            '_'
        };
        if name.len() + character.len_utf8() > MAX_AGENT_NAME_BYTES - NUMBER_BYTES {
            break;
        }
        name.push(character);
    }
    name.trim()
        .parse()
        .expect("a name of visible characters with '@' in it, within the limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_wins() {
        let all = Named {
            flag: Some("a"),
            environment: Some("b"),
            work_tree: Some("c"),
            config: Some("d"),
        };
        let winner = |named: Named<'_>| named.winner().unwrap().map(|(name, source)| (name.to_string(), source));
        assert_eq!(winner(all), Some(("a".into(), NameSource::Flag)));
        assert_eq!(
            winner(Named { flag: None, ..all }),
            Some(("b".into(), NameSource::Environment))
        );
        assert_eq!(
            winner(Named {
                flag: None,
                environment: None,
                ..all
            }),
            Some(("c".into(), NameSource::WorkTree))
        );
        assert_eq!(
            winner(Named {
                config: Some("d"),
                ..Named::default()
            }),
            Some(("d".into(), NameSource::Config))
        );
        assert_eq!(winner(Named::default()), None);
    }

    #[test]
    fn a_bad_name_is_not_passed_over() {
        let error = Named {
            environment: Some(" x"),
            config: Some("good"),
            ..Named::default()
        }
        .winner()
        .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.line().starts_with("PARLER_AGENT: "), "{error}");
    }

    #[test]
    fn a_place_names_its_agent() {
        let name = |place: Option<&str>| default_name("ada", "engine", place.map(Path::new)).to_string();
        assert_eq!(name(None), "ada@engine");
        assert_eq!(name(Some("/home/ada/src/checkout")), "ada@engine/checkout");
        assert_eq!(name(Some("/x/a\nb\u{202e}c")), "ada@engine/a_b_c");
        assert_eq!(name(Some("/x/ends with blank ")), "ada@engine/ends with blank");
        let long = name(Some(&format!("/x/{}", "é".repeat(200))));
        assert!(long.len() <= MAX_AGENT_NAME_BYTES - NUMBER_BYTES, "{}", long.len());
    }
}

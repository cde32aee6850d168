//! The agents of this user: a key each, made when its name is first used and kept in one private file together with
//! what belongs to it. Which of them acts is decided elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parler_client::Identity;
use parler_protocol::{AccessToken, AgentKey, AgentName, BundleId};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::home::{Home, create_private, create_private_dir, read_private, write_private};

/// Most work trees of one name that are told apart by a number.
const MAX_NUMBERED: u32 = 1000;

/// An agent with its key.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    /// What it signs with, and what it is called.
    pub(crate) identity: Identity,
    /// The work tree it is the default agent of.
    pub(crate) place: Option<String>,
}

impl Agent {
    /// The agent of a job that has a token: a new key, kept nowhere, in the token's name.
    pub(crate) fn of_token(token: &AccessToken) -> Result<Self> {
        Ok(Self {
            identity: Identity {
                key: Arc::new(AgentKey::from_random(random_seed()?)),
                name: token.name().sender(),
                role: None,
            },
            place: None,
        })
    }
}

/// The file of an agent. Holds its secret key, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: AgentName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<AgentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    seed: String,
}

/// All agents of this user.
#[derive(Debug, Clone)]
pub(crate) struct Agents {
    directory: PathBuf,
}

impl Agents {
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            directory: home.agents_dir(),
        }
    }

    /// The agent that was asked for by name, with a new key if this is its first use.
    pub(crate) fn named(&self, name: &AgentName) -> Result<Agent> {
        self.load_or_make(name, None)
    }

    /// The agent that a place has when nobody names one: `name`, or `name-2` and so on where that is another place's.
    pub(crate) fn of_place(&self, name: &AgentName, place: Option<&Path>) -> Result<Agent> {
        let place = place.map(|path| path.to_string_lossy().into_owned());
        for number in 1..=MAX_NUMBERED {
            let agent = self.load_or_make(&numbered(name, number)?, place.as_deref())?;
            if agent.place == place {
                return Ok(agent);
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format_args!("{MAX_NUMBERED} other directories are called '{name}'"),
        )
        .then("git parler connect --as NAME"))
    }

    /// The agent that was asked for by name, if it has a key already.
    pub(crate) fn known(&self, name: &AgentName) -> Result<Option<Agent>> {
        let path = self.path(name);
        self.read(&path, name)?.map(|stored| agent(stored, &path)).transpose()
    }

    /// The agent that a place has when nobody names one, if it has a key already.
    pub(crate) fn known_of_place(&self, name: &AgentName, place: Option<&Path>) -> Result<Option<Agent>> {
        let place = place.map(|path| path.to_string_lossy().into_owned());
        for number in 1..=MAX_NUMBERED {
            match self.known(&numbered(name, number)?)? {
                Some(agent) if agent.place != place => {}
                known => return Ok(known),
            }
        }
        Ok(None)
    }

    /// Gives an agent a role, or none.
    pub(crate) fn set_role(&self, name: &AgentName, role: Option<&AgentName>) -> Result<()> {
        let path = self.path(name);
        if let Some(mut stored) = self.read(&path, name)?
            && stored.role.as_ref() != role
        {
            stored.role = role.cloned();
            write_private(&path, &encode(&stored)?)?;
        }
        Ok(())
    }

    fn load_or_make(&self, name: &AgentName, place: Option<&str>) -> Result<Agent> {
        let path = self.path(name);
        if let Some(stored) = self.read(&path, name)? {
            return agent(stored, &path);
        }
        let made = Stored {
            name: name.clone(),
            role: None,
            place: place.map(str::to_owned),
            seed: AgentKey::from_random(random_seed()?).to_seed(),
        };
        create_private_dir(&self.directory)?;
        if create_private(&path, &encode(&made)?)? {
            return agent(made, &path);
        }
        // Another process was first: its key is the agent's.
        match self.read(&path, name)? {
            Some(stored) => agent(stored, &path),
            None => Err(Error::fatal(format_args!("{} comes and goes", path.display()))),
        }
    }

    fn read(&self, path: &Path, name: &AgentName) -> Result<Option<Stored>> {
        let Some(content) = read_private(path)? else {
            return Ok(None);
        };
        let stored: Stored = serde_json::from_slice(&content).map_err(|_| damaged(path))?;
        if stored.name == *name {
            Ok(Some(stored))
        } else {
            Err(damaged(path))
        }
    }

    /// The file of a name: readable for people, and one only for each spelling whatever the file system makes of case.
    fn path(&self, name: &AgentName) -> PathBuf {
        let readable = |character: char| {
            if character.is_ascii_alphanumeric() || "@._".contains(character) {
                character
            } else {
                '-'
            }
        };
        let slug: String = name
            .as_str()
            .chars()
            .take(48)
            .map(|character| readable(character).to_ascii_lowercase())
            .collect();
        let slug = slug.trim_start_matches('.');
        self.directory.join(format!(
            "{slug}-{}.json",
            BundleId::of(name.as_str().as_bytes()).short()
        ))
    }
}

pub(crate) fn random_seed() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| Error::fatal(format_args!("no random numbers for a key: {error}")))?;
    Ok(seed)
}

/// `name`, `name-2` and so on.
fn numbered(name: &AgentName, number: u32) -> Result<AgentName> {
    match number {
        1 => Ok(name.clone()),
        _ => format!("{name}-{number}").parse().map_err(Error::usage),
    }
}

fn agent(stored: Stored, path: &Path) -> Result<Agent> {
    let key = AgentKey::from_seed(&stored.seed).map_err(|_| damaged(path))?;
    Ok(Agent {
        identity: Identity {
            key: Arc::new(key),
            name: stored.name,
            role: stored.role,
        },
        place: stored.place,
    })
}

fn encode(stored: &Stored) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(stored).map_err(|error| Error::fatal(format_args!("cannot keep a key: {error}")))
}

fn damaged(path: &Path) -> Error {
    // What is in the file is never repeated: it may be most of a key.
    Error::new(
        ErrorKind::Refused,
        format_args!("{} holds no key of this agent", path.display()),
    )
    .then(format!(
        "put it back from a backup, or remove it to become a new agent: rm '{}'",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn agents() -> (tempfile::TempDir, Agents) {
        let directory = tempfile::tempdir().unwrap();
        let agents = Agents {
            directory: directory.path().join("agents"),
        };
        (directory, agents)
    }

    fn name(text: &str) -> AgentName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_keeps_its_key_and_role() {
        let (_directory, agents) = agents();
        let first = agents.named(&name("alice")).unwrap();
        agents.set_role(&name("alice"), Some(&name("planner"))).unwrap();
        let again = agents.named(&name("alice")).unwrap();
        assert_eq!(first.identity.key.id(), again.identity.key.id());
        assert_eq!(again.identity.role, Some(name("planner")));
        assert_ne!(
            agents.named(&name("Alice")).unwrap().identity.key.id(),
            first.identity.key.id()
        );
    }

    #[test]
    fn the_same_directory_name_elsewhere_is_another_agent() {
        let (_directory, agents) = agents();
        let base = name("ada@engine/work");
        let at = |path: &str| agents.of_place(&base, Some(Path::new(path))).unwrap();
        let (here, there) = (at("/a/work"), at("/b/work"));
        assert_eq!(here.identity.name, base);
        assert_eq!(there.identity.name, name("ada@engine/work-2"));
        assert_eq!(at("/a/work").identity.key.id(), here.identity.key.id());
        assert_eq!(at("/b/work").identity.key.id(), there.identity.key.id());
        assert_eq!(at("/c/work").identity.name, name("ada@engine/work-3"));
        // Outside of any repository there is no place, and that is a place of its own.
        assert_eq!(
            agents.of_place(&name("ada@engine"), None).unwrap().identity.name,
            name("ada@engine")
        );
    }

    #[test]
    fn threads_that_start_at_once_agree_on_one_key() {
        let (_directory, agents) = agents();
        let ids: Vec<_> = std::thread::scope(|scope| {
            let start = || agents.named(&name("alice")).unwrap().identity.key.id();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused_without_repeating_it() {
        let (_directory, agents) = agents();
        let key = agents.named(&name("alice")).unwrap().identity.key;
        let path = agents.path(&name("alice"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = agents.named(&name("alice")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(!error.line().contains(&key.to_seed()));
        std::fs::remove_file(&path).unwrap();
        let cut = &key.to_seed()[..50];
        create_private(&path, format!(r#"{{"name":"alice","seed":"{cut}"}}"#).as_bytes()).unwrap();
        let error = agents.named(&name("alice")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(!error.line().contains(cut), "{error}");
    }

    #[test]
    fn file_names_are_plain_whatever_the_agent_is_called() {
        let (_directory, agents) = agents();
        for text in ["../../x", ".hidden", "a/b", &"é".repeat(60), "user@host/dir"] {
            let path = agents.path(&name(text));
            assert_eq!(path.parent(), Some(agents.directory.as_path()), "{text}");
            let file = path.file_name().unwrap().to_str().unwrap();
            assert!(!file.starts_with('.') && file.len() < 100, "{file}");
        }
    }
}

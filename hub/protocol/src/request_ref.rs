//! Where a ref stands that came with a job: each requester has a place of its own in the service's room, so that nobody's
//! branch is in anybody's way. Says nothing of who may write there.

use std::fmt::Write;

use crate::{AgentName, Oid, ParseError, RefName, RefsPart};

/// Below it each requester has a directory.
const PLACES: &str = "refs/requests/";

impl RefName {
    /// Where the room of a service has this ref of whoever asks under this name: `refs/requests/alice/heads/main` of
    /// `refs/heads/main`. Different names have different places, and none is a directory of another.
    ///
    /// # Errors
    /// When that would be too long for a ref.
    pub fn requested_by(&self, name: &AgentName) -> Result<Self, ParseError> {
        format!("{PLACES}{}/{}", component(name.as_str()), self.without_refs()).parse()
    }

    /// Whether it is below the place of whoever asks under this name.
    pub fn is_place_of(&self, name: &AgentName) -> bool {
        let below = self.as_str().strip_prefix(PLACES);
        let below = below.and_then(|rest| rest.strip_prefix(&component(name.as_str())));
        below.is_some_and(|rest| rest.starts_with('/'))
    }

    /// The ref as its sender calls it, where this is such a place: `refs/heads/main` of `refs/requests/alice/heads/main`.
    pub fn requested(&self) -> Option<Self> {
        let (_, rest) = self.as_str().strip_prefix(PLACES)?.split_once('/')?;
        format!("refs/{rest}").parse().ok()
    }
}

impl RefsPart {
    /// The ref that a job is about, as its sender calls it, and what it points at. None where the part is no job's.
    pub fn requested(&self) -> Option<(RefName, Oid)> {
        let mut requested = self
            .updates
            .iter()
            .filter_map(|update| Some((update.name.requested()?, update.new?)));
        requested.next().filter(|_| requested.next().is_none())
    }
}

/// An agent's name as one component of a ref: what git allows in none, and what would make it two, in hexadecimal.
fn component(name: &str) -> String {
    let mut component = String::with_capacity(name.len());
    let mut before = None;
    for character in name.chars() {
        let is_plain = character.is_alphanumeric() || "-_@".contains(character);
        // Not at an end, nor twice in a row, nor before `lock`.
        let is_inner_dot = character == '.' && before.is_some_and(char::is_alphanumeric) && !name.ends_with(".lock");
        if is_plain || is_inner_dot && !name.ends_with('.') {
            component.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(component, "%{byte:02x}");
            }
        }
        before = Some(character);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectFormat, RefUpdate};

    fn place(agent: &str, name: &str) -> String {
        let name: RefName = name.parse().unwrap();
        let place = name.requested_by(&agent.parse().unwrap()).unwrap();
        assert_eq!(place.requested(), Some(name), "{place}");
        assert!(place.is_place_of(&agent.parse().unwrap()), "{place}");
        place.to_string()
    }

    #[test]
    fn everybody_has_a_place_that_git_allows() {
        for (agent, component) in [
            ("alice", "alice"),
            ("ci/nightly_build.2", "ci%2fnightly_build.2"),
            ("ada@engine/project", "ada@engine%2fproject"),
            ("é", "é"),
            ("a b", "a%20b"),
            ("a%2fb", "a%252fb"),
            (".a..b.", "%2ea%2e%2eb%2e"),
            ("a.lock", "a%2elock"),
            ("a@{b", "a@%7bb"),
            ("@", "@"),
        ] {
            for name in ["refs/heads/main", "refs/tags/v1.0", "refs/heads/a/b"] {
                let expected = format!("refs/requests/{component}/{}", &name["refs/".len()..]);
                assert_eq!(place(agent, name), expected);
            }
        }
        let long: RefName = format!("refs/heads/{}", "a".repeat(4080)).parse().unwrap();
        assert!(long.requested_by(&"alice".parse().unwrap()).is_err());
        for other in ["refs/requests/al/x", "refs/requests/alice2/x", "refs/heads/alice/x"] {
            let other: RefName = other.parse().unwrap();
            assert!(!other.is_place_of(&"alice".parse().unwrap()), "{other}");
        }
        for other in ["refs/heads/main", "refs/requests/alice", "refs/requests/a/parler/x"] {
            assert_eq!(other.parse::<RefName>().unwrap().requested(), None, "{other}");
        }
    }

    #[test]
    fn a_job_is_about_one_ref() {
        let oid = |digit: &str| -> Oid { digit.repeat(40).parse().unwrap() };
        let update = |name: &str, new: Option<&str>| RefUpdate {
            name: name.parse().unwrap(),
            old: None,
            new: new.map(oid),
            forced: false,
            peeled: None,
        };
        let part = |updates| RefsPart {
            updates,
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let gone = || update("refs/requests/alice/heads/x", None);
        let one = part(vec![gone(), update("refs/requests/alice/heads/x/y", Some("a"))]);
        assert_eq!(one.requested(), Some(("refs/heads/x/y".parse().unwrap(), oid("a"))));
        let two = part(vec![
            update("refs/requests/alice/heads/x", Some("a")),
            update("refs/requests/alice/heads/y", Some("b")),
        ]);
        for none in [two, part(vec![update("refs/heads/x", Some("a"))]), part(vec![gone()])] {
            assert_eq!(none.requested(), None);
        }
    }
}

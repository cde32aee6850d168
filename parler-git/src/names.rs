//! Whose key belongs to a name in one room: the first that was seen under it, and those that the reader accepted. Names
//! that differ in case or only look alike are one name. Says what is the case; whom to follow is the reader's to decide.

use std::collections::BTreeMap;

use parler_protocol::{AgentId, AgentName, Message, Seq, TOKEN_SENDER_PREFIX};
use serde::{Deserialize, Serialize};

mod skeleton;

use skeleton::skeleton;

/// Most names of one room that are remembered: those that come later are not told apart by their keys.
const MAX_NAMES: usize = 1000;
/// Most keys under one name, and under all.
const MAX_KEYS: usize = 16;
const MAX_KEYS_IN_ALL: usize = 3000;

/// A key that was seen under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedKey {
    /// The key.
    pub(crate) key: AgentId,
    /// The name as it was spelled then. Text from elsewhere: escape it before it reaches a terminal.
    pub(crate) name: String,
    /// The message it was first seen in.
    pub(crate) since: Seq,
    /// Whether it was the first, or the reader accepted it.
    pub(crate) accepted: bool,
}

/// How a message's author stands to the name it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// The key belongs to the name.
    #[default]
    Known,
    /// The first message under that name.
    First,
    /// The name is another key's.
    NewKey {
        /// The name that it is, or looks like.
        of: String,
    },
    /// A CI job, whose keys are not remembered.
    Ci,
    /// Nothing that is signed says whose message it is.
    Unsigned,
}

impl Standing {
    /// Whether a handoff of such an author may lead the reader.
    pub(crate) const fn leads(&self) -> bool {
        !matches!(self, Self::NewKey { .. })
    }

    /// In `--json` output.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::First => "first",
            Self::NewKey { .. } => "newKey",
            Self::Ci => "ci",
            Self::Unsigned => "unsigned",
        }
    }
}

/// The names of one room.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Names {
    names: BTreeMap<String, Vec<NamedKey>>,
}

/// What names that look alike have in common.
pub(crate) fn likeness(name: &str) -> String {
    // Once as spelled and once in lower case: a capital alpha looks like an A, a small one like an a.
    let alike: String = skeleton(name.trim()).collect();
    let alike = skeleton(&alike.to_lowercase()).collect::<String>().to_lowercase();
    // A capital i, a small L, a one and a bar are one stroke.
    alike.replace('l', "i")
}

impl Names {
    /// Sees a message, and says how its author stands to its name if the signature is good. Asks whether it is only where
    /// the answer changes what is remembered: a key that was seen under the name before is no news. `me`: whose name
    /// needs no proof.
    pub(crate) fn sight(
        &mut self,
        me: (&AgentId, &AgentName),
        message: &Message,
        is_valid: impl FnOnce() -> bool,
    ) -> Standing {
        let (id, name) = (message.from.id, &message.from.name);
        if id == *me.0 {
            return Standing::Known;
        }
        // A job's: a new key for each run. The hub gives the name, and keeps it from others.
        if name.starts_with(TOKEN_SENDER_PREFIX) {
            return Standing::Ci;
        }
        let like = likeness(name);
        let mut keys = self.names.get(&like).into_iter().flatten();
        let is_seen = keys.any(|known| known.key == id && known.since <= message.seq);
        if !is_seen && !is_valid() {
            return Standing::Unsigned;
        }
        if like == likeness(me.1.as_str()) && !self.is_accepted(&like, &id) {
            self.add(like, id, name, message.seq, false);
            return Standing::NewKey { of: me.1.to_string() };
        }
        let keys = self.names.get(&like).map(Vec::as_slice).unwrap_or_default();
        let owner = keys.iter().find(|known| known.accepted);
        match owner {
            None => {
                self.add(like, id, name, message.seq, true);
                Standing::First
            }
            Some(_) if keys.iter().any(|known| known.accepted && known.key == id) => Standing::Known,
            Some(owner) => {
                let of = owner.name.clone();
                self.add(like, id, name, message.seq, false);
                Standing::NewKey { of }
            }
        }
    }

    fn is_accepted(&self, like: &str, id: &AgentId) -> bool {
        let keys = self.names.get(like).into_iter().flatten();
        keys.filter(|known| known.accepted).any(|known| known.key == *id)
    }

    fn add(&mut self, like: String, key: AgentId, name: &str, since: Seq, accepted: bool) {
        let is_full = self.all().count() >= MAX_KEYS_IN_ALL;
        if !self.names.contains_key(&like) && self.names.len() >= MAX_NAMES {
            return;
        }
        let keys = self.names.entry(like).or_default();
        if let Some(known) = keys.iter_mut().find(|known| known.key == key) {
            known.since = known.since.min(since);
        } else if keys.len() < MAX_KEYS && !is_full {
            let name = name.to_owned();
            keys.push(NamedKey {
                key,
                name,
                since,
                accepted,
            });
        }
    }

    /// Every key that was seen, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NamedKey> {
        self.names.values().flatten()
    }

    /// The keys under a name that were seen and not accepted.
    pub(crate) fn strange<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a NamedKey> {
        let keys = self.names.get(&likeness(name)).into_iter().flatten();
        keys.filter(|known| !known.accepted)
    }

    /// Whether the name belongs to this key. None: it belongs to none.
    pub(crate) fn belongs(&self, name: &str, key: &AgentId) -> Option<bool> {
        let keys = self.names.get(&likeness(name)).into_iter().flatten();
        let mut owners = keys.filter(|known| known.accepted).peekable();
        owners.peek()?;
        Some(owners.any(|known| known.key == *key))
    }

    /// Whether the name is somebody else's than this key's. `me`: whose name needs no proof.
    pub(crate) fn is_anothers(&self, me: (&AgentId, &AgentName), name: &str, key: &AgentId) -> bool {
        let is_mine = *me.0 != *key && likeness(me.1.as_str()) == likeness(name);
        is_mine || self.belongs(name, key) == Some(false)
    }

    /// Whether any key was seen under this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(&likeness(name))
    }

    /// From now on this key belongs to this name, beside those that did.
    pub(crate) fn accept(&mut self, name: &str, key: &AgentId) {
        let keys = self.names.get_mut(&likeness(name)).into_iter().flatten();
        for known in keys.filter(|known| known.key == *key) {
            known.accepted = true;
        }
    }

    /// Takes in what this process saw since it read `self`. Where two processes saw a name first, under two keys, the
    /// one that wrote first counts.
    pub(crate) fn join(&mut self, seen: &Self) {
        for (like, keys) in &seen.names {
            for known in keys {
                let owned = self.names.get(like).into_iter().flatten().any(|other| other.accepted);
                self.add(
                    like.clone(),
                    known.key,
                    &known.name,
                    known.since,
                    known.accepted && !owned,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parler_client::Identity;

    use super::*;
    use crate::log_entry::tests::{entry, identity};

    fn sight(names: &mut Names, me: &Identity, from: &Identity, seq: u64) -> Standing {
        let entry = entry(from, seq, Vec::new(), |_| ());
        let (message, verdict) = entry.message().unwrap();
        names.sight((&me.key.id(), &me.name), message, || verdict.is_valid())
    }

    #[test]
    fn the_first_key_under_a_name_owns_it() {
        let me = identity(9, "me", None);
        let mut names = Names::default();
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        assert_eq!(sight(&mut names, &me, &alice, 3), Standing::First);
        assert_eq!(sight(&mut names, &me, &alice, 4), Standing::Known);
        assert_eq!(sight(&mut names, &me, &bob, 5), Standing::First);
        for name in [
            "alice",
            "Alice",
            "\u{430}lice",
            "a1ice",
            "aIice",
            "ALICE",
            "\u{391}LICE",
        ] {
            let other = identity(3, name, None);
            let standing = sight(&mut names, &me, &other, 6);
            assert_eq!(standing, Standing::NewKey { of: "alice".to_owned() }, "{name}");
            assert!(!standing.leads());
        }
        // The owner, spelled otherwise, and renamed.
        assert_eq!(sight(&mut names, &me, &identity(1, "ALICE", None), 7), Standing::Known);
        assert_eq!(sight(&mut names, &me, &identity(1, "alicia", None), 8), Standing::First);
        // A known key that takes another's name is a new key there.
        assert!(matches!(
            sight(&mut names, &me, &identity(2, "alice", None), 9),
            Standing::NewKey { .. }
        ));
        let strange: Vec<_> = names.strange("Alice").map(|known| known.since.get()).collect();
        assert_eq!(strange, [6, 9]);
        let key = identity(2, "x", None).key.id();
        names.accept("alice", &key);
        assert_eq!(sight(&mut names, &me, &identity(2, "alice", None), 10), Standing::Known);
        assert_eq!(sight(&mut names, &me, &alice, 11), Standing::Known);
        assert_eq!(names.strange("alice").count(), 1);
    }

    #[test]
    fn my_own_name_is_mine_and_ci_jobs_have_none() {
        let me = identity(9, "me", None);
        let mut names = Names::default();
        assert!(matches!(
            sight(&mut names, &me, &identity(1, "ME", None), 1),
            Standing::NewKey { .. }
        ));
        assert_eq!(sight(&mut names, &me, &me, 2), Standing::Known);
        names.accept("me", &identity(1, "x", None).key.id());
        assert_eq!(sight(&mut names, &me, &identity(1, "me", None), 3), Standing::Known);
        for seed in 1..4 {
            assert_eq!(
                sight(&mut names, &me, &identity(seed, "ci/nightly", None), 4),
                Standing::Ci
            );
        }
        assert!(!names.has("ci/nightly"));
        let unsigned = entry(&identity(1, "alice", None), 5, Vec::new(), |value| {
            value["parts"] = serde_json::json!([])
        });
        let (message, verdict) = unsigned.message().unwrap();
        assert_eq!(
            names.sight((&me.key.id(), &me.name), message, || verdict.is_valid()),
            Standing::Unsigned
        );
        assert!(!names.has("alice"));
    }

    #[test]
    fn of_two_processes_the_first_to_write_decides() {
        let me = identity(9, "me", None);
        let (mut one, mut two) = (Names::default(), Names::default());
        sight(&mut one, &me, &identity(1, "alice", None), 1);
        sight(&mut two, &me, &identity(2, "alice", None), 2);
        sight(&mut two, &me, &identity(3, "bob", None), 3);
        let mut file = one.clone();
        file.join(&two);
        assert_eq!(sight(&mut file, &me, &identity(1, "alice", None), 4), Standing::Known);
        assert!(matches!(
            sight(&mut file, &me, &identity(2, "alice", None), 4),
            Standing::NewKey { .. }
        ));
        assert_eq!(sight(&mut file, &me, &identity(3, "bob", None), 4), Standing::Known);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let me = identity(9, "me", None);
        let mut names = Names::default();
        for number in 0..MAX_NAMES + 10 {
            let name = format!("agent{number}x");
            names.add(likeness(&name), me.key.id(), &name, Seq::new(1), true);
        }
        assert!(names.all().count() <= MAX_NAMES);
        let bytes = serde_json::to_vec(&names).unwrap().len();
        assert!(bytes < 400_000, "{bytes}");
    }
}

//! Every key of git's configuration that these programs read, and every variable of theirs, with what it means: for the
//! manual, and to tell a misspelt key. What a value does is decided where it is read.

/// A key or variable, and what it is for.
pub(crate) type Meaning = (&'static str, &'static str);

/// Keys of git's configuration. A part in capitals stands for itself: a host.
pub(crate) const KEYS: &[Meaning] = &[
    ("parler.hub", "The hub: a URL, or `local`."),
    ("parler.room", "The room of verbs that need one."),
    ("parler.agent", "The agent's name."),
    (
        "parler.base",
        "What a push may leave out: `auto` (what the other remotes have), `none` (what the room has), or revisions.",
    ),
    (
        "parler.createRoom",
        "Whether a push makes the room it names. Otherwise only on the local hub.",
    ),
    (
        "parler.fetchBase",
        "Whether commits that a bundle builds on are fetched from the configured remote they are from. Default: true.",
    ),
    (
        "parler.HOST[:PORT].insecure",
        "Whether to speak plain http to this host, which is not this machine.",
    ),
    (
        "parler.allowSubmodules",
        "Whether to follow a room's URL that nobody typed, such as a submodule's. Git must allow it as well \
         (`protocol.parler.allow`).",
    ),
    (
        "color.parler",
        "Whether to colour the output: `always`, `auto`, `never`.",
    ),
];

/// Environment variables.
pub(crate) const VARIABLES: &[Meaning] = &[
    (
        "PARLER_HOME",
        "A directory for keys, state and the local hub, instead of the user's.",
    ),
    ("PARLER_AGENT", "Act as this agent."),
    ("PARLER_HUB", "The hub: a URL, or `local`."),
    ("PARLER_ROOM", "The room of verbs that need one."),
    ("PARLER_GIT", "The git program, instead of the first on `PATH`."),
    (
        "PARLER_LOG",
        "What the local hub logs: `info`, `warn`, `parler_hub=debug`.",
    ),
    (
        "NO_COLOR, CLICOLOR_FORCE, TERM",
        "Whether to colour the output, where no option and no configuration says it.",
    ),
    ("TZ", "The time zone in which times are shown."),
];

/// The key that these programs read under this name, as git lists it: section and variable in lower case.
pub(crate) fn is_known(listed: &str) -> bool {
    listed.starts_with("parler.") && KEYS.iter().any(|(key, _)| matches(key, listed))
}

/// The known key that this one, which is none, is most like.
pub(crate) fn similar(listed: &str) -> Option<&'static str> {
    let keys = KEYS
        .iter()
        .map(|(key, _)| *key)
        .filter(|key| key.starts_with("parler."));
    keys.map(|key| (distance(&key.to_ascii_lowercase(), listed), key))
        .filter(|(distance, _)| *distance <= MAX_DISTANCE)
        .min()
        .map(|(_, key)| key)
}

/// Most letters in which a misspelt key differs from the one that was meant.
const MAX_DISTANCE: usize = 3;

fn matches(key: &str, listed: &str) -> bool {
    match (key.find('.'), key.rfind('.')) {
        (Some(first), Some(last)) if first < last => {
            // A host in the middle may have dots of its own.
            let (head, tail) = (&key[..=first], &key[last..]);
            listed.len() > head.len() + tail.len() && listed.starts_with(head) && listed.ends_with(tail)
        }
        _ => key.eq_ignore_ascii_case(listed),
    }
}

/// In how many letters two short texts differ.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, their) in other.iter().enumerate() {
            let changed = diagonal + usize::from(character != *their);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_told_from_one_that_is_read() {
        for key in [
            "parler.hub",
            "parler.createroom",
            "parler.lab.example:7777.insecure",
            "parler.localhost.insecure",
        ] {
            assert!(is_known(key), "{key}");
        }
        for (key, meant) in [
            ("parler.hubb", Some("parler.hub")),
            ("parler.rooms", Some("parler.room")),
            ("parler.createrom", Some("parler.createRoom")),
            ("parler.insecure", None),
            ("parler.something", None),
        ] {
            assert!(!is_known(key), "{key}");
            assert_eq!(similar(key), meant, "{key}");
        }
    }

    #[test]
    fn the_reference_has_every_one_of_them() {
        let reference = include_str!("../../docs/cli.md");
        for (names, _) in KEYS.iter().chain(VARIABLES) {
            for name in names.split(", ") {
                assert!(reference.contains(&format!("`{name}`")), "{name}");
            }
        }
    }
}

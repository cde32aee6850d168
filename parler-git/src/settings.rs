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
        "parler.deepen",
        "What becomes of a push from a shallow clone whose history is cut off where no receiver can go on: `auto` fetches \
         the rest from the remotes that are no rooms; otherwise it is refused, with the command.",
    ),
    (
        "parler.downloads",
        "How many answers with bundles a fetch reads side by side, 1 to 16. Default: 1 from a hub on this machine, 4 from \
         others.",
    ),
    (
        "parler.fetchBase",
        "Whether commits that a bundle builds on are fetched from the configured remote they are from. Default: true.",
    ),
    (
        "parler.hook.maxPerHour",
        "How many turns the hooks of coding agents make by themselves in an hour, by going on at the end of one or waking an \
         idle session; 0: none. Default: 20.",
    ),
    (
        "parler.hook.wait",
        "How many milliseconds such a hook waits for the hub before a turn, and three times as many after one, up to 10000; \
         what it knows already it says in any case. Default: 300.",
    ),
    (
        "parler.maxObjectSize",
        "How large an object may become that a bundle brings, whatever the bundle's size; of a large bundle it may be 64 \
         times as large as the bundle, and all objects together 32 times as large as the largest may be. Default: 128m.",
    ),
    (
        "parler.maxObjects",
        "How many objects a bundle may bring, however small they are; of a bundle of more than 80 bytes for each there may be \
         more. Default: 4000000.",
    ),
    (
        "parler.timeout",
        "How many seconds a hub that says nothing is waited for. Default: 60.",
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
        "pager.parler, core.pager",
        "What shows long results on a terminal: a program with its arguments, split into words as a shell would and started \
         without one. `pager.parler` may also be false: none.",
    ),
    (
        "color.parler, color.ui",
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
    (
        "PARLER_TOKEN",
        "A token for CI, in place of an agent: no key, no home directory and no `connect` are needed.",
    ),
    (
        "PARLER_TOKEN_FILE",
        "A file that holds one, in place of `PARLER_TOKEN`. No child of these programs sees either.",
    ),
    (
        "PARLER_OIDC",
        "Whether the job shows the hub the identity token of its CI system, and acts by the token that it gets for it.",
    ),
    (
        "PARLER_OIDC_TOKEN",
        "That identity token, where the runner gives none itself.",
    ),
    ("PARLER_ID_TOKEN", "The same, where GitLab puts it."),
    (
        "PARLER_OIDC_TOKEN_FILE",
        "A file that holds it, in place of `PARLER_OIDC_TOKEN`.",
    ),
    (
        "PARLER_OIDC_AUDIENCE",
        "Whom a token that the runner gives is for, where that is not the hub's address.",
    ),
    (
        "PARLER_TIMEOUT",
        "How many seconds a hub that says nothing is waited for.",
    ),
    ("PARLER_GIT", "The git program, instead of the first on `PATH`."),
    (
        "PARLER_LOG",
        "What the local hub logs: `info`, `warn`, `parler_hub=debug`.",
    ),
    (
        "PARLER_JOB_ROOM, PARLER_JOB_SEQ, PARLER_JOB_CHAIN",
        "The service's job that a command runs in, as its worker tells it: a job that is asked for there says what it is for.",
    ),
    (
        "PARLER_TRACE",
        "Tells requests, git children and decisions line by line: `1` on standard error, or appended to the file at an \
         absolute path. No secret is in it.",
    ),
    (
        "GIT_PAGER, PAGER",
        "What shows long results on a terminal: the first before `core.pager`, the second after it.",
    ),
    (
        "LESS, LV",
        "The options of two such programs, which are told `FRX` and `-c` where nobody says any.",
    ),
    (
        "NO_COLOR, CLICOLOR_FORCE, TERM",
        "Whether to colour the output, where no option and no configuration says it.",
    ),
    ("TZ", "The time zone in which times are shown."),
    ("TMPDIR", "Where what is gone again soon is put. Default: `/tmp`."),
    (
        "HOME, XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME",
        "Where the user's directories are, unless `PARLER_HOME` is set.",
    ),
    (
        "PATH, MANPATH",
        "Where git and the helper are looked for, and where `man` looks for pages.",
    ),
    (
        "SSL_CERT_FILE, SSL_CERT_DIR",
        "The authorities whose certificates of hubs are trusted, instead of the system's.",
    ),
    (
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "The proxy through which hubs are reached, as with other programs; in small letters too.",
    ),
];

/// The names of a list, of which several may share a meaning.
fn names(list: &'static [Meaning]) -> impl Iterator<Item = &'static str> {
    list.iter().flat_map(|(names, _)| names.split(", "))
}

/// The key that these programs read under this name, as git lists it: section and variable in lower case.
pub(crate) fn is_known(listed: &str) -> bool {
    listed.starts_with("parler.") && names(KEYS).any(|key| matches(key, listed))
}

/// The known key that this one, which is none, is most like.
pub(crate) fn similar(listed: &str) -> Option<&'static str> {
    let keys = names(KEYS).filter(|key| key.starts_with("parler."));
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
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

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
        for name in names(KEYS).chain(names(VARIABLES)) {
            assert!(reference.contains(&format!("`{name}`")), "{name}");
        }
    }

    /// Every name that stands in the code of the two programs and of the libraries below them, as what it is.
    #[test]
    fn what_the_code_reads_is_in_the_lists_and_nothing_else() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        for sources in ["parler-git/src", "git-remote-parler/src", "hub/client/src"] {
            rust_files(&workspace.join(sources), &mut files);
        }
        assert!(files.len() > 50, "{}", files.len());
        let mut read = BTreeSet::new();
        for file in files.iter().filter(|file| !file.ends_with("settings.rs")) {
            let source = fs::read_to_string(file).unwrap();
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            // What stands in quotation marks, with the other side of each mark between.
            read.extend(source.split('"').filter(|text| is_name(text)).map(str::to_owned));
        }
        // Told to git's children, by which a later run knows whose they were. Nobody sets it for us.
        assert!(read.remove("PARLER_CHILD_OF"));
        // The key of a host is made of its parts.
        read.insert("parler.HOST[:PORT].insecure".to_owned());
        let listed: BTreeSet<_> = names(KEYS).chain(names(VARIABLES)).map(str::to_owned).collect();
        let unknown: Vec<_> = read.difference(&listed).collect();
        assert!(unknown.is_empty(), "read by the code and not listed: {unknown:?}");
        let ours = |name: &&String| name.starts_with("parler.") || name.starts_with("PARLER_");
        let unread: Vec<_> = listed.difference(&read).filter(ours).collect();
        assert!(unread.is_empty(), "listed and read by nothing: {unread:?}");
    }

    /// Whether a text looks like a key of ours, of colours or of the pager, or like a variable of ours, of the user's
    /// directories or of the pager.
    fn is_name(text: &str) -> bool {
        let mut prefixes = ["parler.", "color.", "pager."].iter();
        let key = prefixes.find_map(|prefix| text.strip_prefix(prefix));
        let variable = ["PARLER_", "XDG_"].iter().find_map(|prefix| text.strip_prefix(prefix));
        ["core.pager", "GIT_PAGER", "PAGER", "LESS", "LV"].contains(&text)
            || key.is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '.')
            })
            || variable.is_some_and(|rest| {
                !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
            })
    }

    fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
}

//! Whether what an object says is plain: of a form in which git's checks find nothing, whatever their severities. Decides
//! nothing else: what is not plain may well be good, and is for git to judge.
//!
//! The rules are those of git's `fsck.c` (2.39 to 2.47), each taken on the narrow side: where git looks at a name as several
//! file systems would, only names are plain that no file system takes for another.

use std::collections::HashSet;

use gix::ObjectId;
use gix::hash::{Kind, oid};

/// Digits of a date that are surely no overflow: until the year 2286.
const DATE_DIGITS: usize = 10;
/// Bytes of a name that no system finds long.
const NAME_BYTES: usize = 255;
/// Bytes of a symbolic link's target.
const TARGET_BYTES: usize = 1024;

/// What a plain commit refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainCommit {
    pub(super) tree: ObjectId,
    pub(super) parents: Vec<ObjectId>,
}

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Link,
    Tree,
    /// A commit of another repository.
    Submodule,
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    pub(super) kind: EntryKind,
    pub(super) name: &'t [u8],
    pub(super) oid: &'t oid,
}

/// What an entry's name makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    /// Nothing.
    Plain,
    /// A file that git does what it says: as good as what it says.
    Obeyed,
    /// Perhaps something, in the eyes of some file system.
    Odd,
}

/// The commit, if it is plain.
pub(super) fn commit(content: &[u8], hash: Kind) -> Option<PlainCommit> {
    if content.contains(&0) {
        return None;
    }
    let mut lines = Lines { rest: content };
    let tree = lines.named(b"tree ", hash)?;
    let mut parents = Vec::new();
    while lines.rest.starts_with(b"parent ") {
        parents.push(lines.named(b"parent ", hash)?);
    }
    for who in [b"author ".as_slice(), b"committer "] {
        if !is_plain_person(lines.next()?.strip_prefix(who)?) {
            return None;
        }
    }
    // An empty line ends the header; a second author is an error to git.
    loop {
        match lines.next()? {
            [] => return Some(PlainCommit { tree, parents }),
            line if line.starts_with(b"author ") => return None,
            _ => {}
        }
    }
}

/// The entries of a tree as far as they are of the kinds that git writes, in the order of the tree; none where one is not.
pub(super) fn entries(content: &[u8], hash: Kind) -> Option<Vec<Entry<'_>>> {
    let mut rest = content;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let kind = match &rest[..space] {
            b"100644" | b"100755" => EntryKind::File,
            b"120000" => EntryKind::Link,
            b"40000" => EntryKind::Tree,
            b"160000" => EntryKind::Submodule,
            _ => return None,
        };
        rest = &rest[space + 1..];
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (name, behind) = rest.split_at(end);
        let (id, behind) = behind[1..].split_at_checked(hash.len_in_bytes())?;
        let oid = oid::try_from_bytes(id).ok().filter(|oid| !oid.is_null())?;
        entries.push(Entry { kind, name, oid });
        rest = behind;
    }
    Some(entries)
}

/// Whether the entries are in git's order and each name is there once.
pub(super) fn is_in_order(entries: &[Entry<'_>]) -> bool {
    let names: HashSet<&[u8]> = entries.iter().map(|entry| entry.name).collect();
    names.len() == entries.len() && entries.windows(2).all(|two| sort_key(&two[0]).lt(sort_key(&two[1])))
}

/// As git compares names in trees: that of a directory as if it ended with a slash.
fn sort_key<'e>(entry: &Entry<'e>) -> impl Iterator<Item = u8> + use<'e> {
    let slash = (entry.kind == EntryKind::Tree).then_some(b'/');
    entry.name.iter().copied().chain(slash)
}

/// What its name makes of an entry.
pub(super) fn name_kind(entry: &Entry<'_>) -> NameKind {
    let (name, is_file) = (entry.name, entry.kind == EntryKind::File);
    // The tilde is in short names of NTFS, the colon before its streams; a backslash is a slash there. HFS leaves out
    // some characters beyond ASCII.
    let is_plain_byte = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'/' | b'\\' | b':' | b'~');
    if name.is_empty() || name.len() > NAME_BYTES || !name.iter().all(is_plain_byte) {
        return NameKind::Odd;
    }
    // NTFS leaves out dots and spaces at the end. So "." and ".." are odd too.
    if matches!(name.last(), Some(b'.' | b' ')) {
        return NameKind::Odd;
    }
    match name.to_ascii_lowercase().as_slice() {
        b".git" => NameKind::Odd,
        b".gitmodules" | b".gitattributes" if is_file => NameKind::Obeyed,
        b".gitmodules" | b".gitattributes" => NameKind::Odd,
        b".gitignore" | b".mailmap" if !is_file => NameKind::Odd,
        _ => NameKind::Plain,
    }
}

/// Whether a symbolic link's target is one that git has nothing to say of, nor had in any version.
pub(super) fn is_plain_target(target: &[u8]) -> bool {
    let has_git = |part: &[u8]| part.get(..4).is_some_and(|head| head.eq_ignore_ascii_case(b".git"));
    let is_plain_byte = |byte: &u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'\\' | b':' | b'~');
    (1..=TARGET_BYTES).contains(&target.len())
        && target.iter().all(is_plain_byte)
        && !target.split(|byte| *byte == b'/').any(has_git)
}

/// `Name <address> seconds +zone`, as git writes it.
fn is_plain_person(person: &[u8]) -> bool {
    let is_bracket = |byte: &u8| matches!(byte, b'<' | b'>');
    let mut parts = person.splitn(2, |byte| *byte == b'<');
    let (Some(name), Some(rest)) = (parts.next(), parts.next()) else {
        return false;
    };
    let mut parts = rest.splitn(2, |byte| *byte == b'>');
    let (Some(address), Some(when)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some((seconds, zone)) = when.strip_prefix(b" ").and_then(|when| {
        let space = when.iter().position(|byte| *byte == b' ')?;
        Some((&when[..space], &when[space + 1..]))
    }) else {
        return false;
    };
    let is_number = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    name.ends_with(b" ")
        && !name.iter().any(is_bracket)
        && !address.iter().any(is_bracket)
        && (1..=DATE_DIGITS).contains(&seconds.len())
        && is_number(seconds)
        && (seconds == b"0" || seconds[0] != b'0')
        && matches!(zone, [b'+' | b'-', digits @ ..] if digits.len() == 4 && is_number(digits))
}

/// The lines of a commit's header.
struct Lines<'c> {
    rest: &'c [u8],
}

impl<'c> Lines<'c> {
    /// The next line, without its end; none where it has none.
    fn next(&mut self) -> Option<&'c [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(line)
    }

    /// The id that the next line gives under this name.
    fn named(&mut self, name: &[u8], hash: Kind) -> Option<ObjectId> {
        let digits = self.next()?.strip_prefix(name)?;
        let is_lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = digits.len() == hash.len_in_hex() && digits.iter().all(is_lower_hex);
        is_id
            .then(|| ObjectId::from_hex(digits).ok())?
            .filter(|id| !id.is_null())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const HASH: Kind = Kind::Sha1;
    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    /// What an error in a name or a number would be made of.
    const BYTES: &[u8] = b"\0\n <>.+/0:\\~gGx9\xc3";

    fn a_commit() -> Vec<u8> {
        let who = "A U Thor <a@example.invalid> 1700000000 +0130";
        format!("tree {ID}\nparent {ID}\nparent {ID}\nauthor {who}\ncommitter {who}\ngpgsig x\n y\n\nwords\n").into()
    }

    fn a_tree(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let id = ObjectId::from_hex(ID.as_bytes()).unwrap();
        let entry = |(mode, name): &(&str, &[u8])| [mode.as_bytes(), b" ", name, b"\0", id.as_slice()].concat();
        entries.iter().flat_map(entry).collect()
    }

    fn is_plain_tree(content: &[u8]) -> bool {
        entries(content, HASH).is_some_and(|entries| {
            is_in_order(&entries) && entries.iter().all(|entry| name_kind(entry) != NameKind::Odd)
        })
    }

    /// Whether git finds nothing in it.
    fn passes_git(kind: &str, content: &[u8]) -> bool {
        let mut git = Command::new("git")
            .args(["hash-object", "-t", kind, "--stdin"])
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        git.stdin.take().unwrap().write_all(content).unwrap();
        git.wait().unwrap().success()
    }

    /// Every byte replaced, left out, and doubled.
    fn damaged(content: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        (0..content.len()).flat_map(move |at| {
            let (before, behind) = (&content[..at], &content[at + 1..]);
            let replaced = BYTES.iter().map(move |byte| [before, &[*byte], behind].concat());
            replaced.chain([
                [before, behind].concat(),
                [before, &content[at..=at], &content[at..]].concat(),
            ])
        })
    }

    #[test]
    fn what_is_plain_passes_git() {
        let tree = a_tree(&[
            ("100644", b".gitattributes"),
            ("100644", b".gitignore"),
            ("160000", b"a"),
            ("100644", b"a.b"),
            ("40000", b"a"),
            ("120000", b"link"),
        ]);
        assert!(!is_plain_tree(&tree), "a name is there twice");
        let tree = tree_without(&tree, b"160000 a\0");
        type IsPlain = fn(&[u8]) -> bool;
        let cases: [(&str, Vec<u8>, IsPlain); 2] = [
            ("commit", a_commit(), |content| commit(content, HASH).is_some()),
            ("tree", tree, is_plain_tree),
        ];
        for (kind, content, is_plain) in cases {
            assert!(is_plain(&content) && passes_git(kind, &content), "{kind}");
            let plain: HashSet<Vec<u8>> = damaged(&content).filter(|content| is_plain(content)).collect();
            assert!(plain.len() > 50, "{kind}: {}", plain.len());
            // Ids and words change nothing; what is left are names, dates and modes.
            for content in plain.iter().take(400) {
                assert!(passes_git(kind, content), "{}", content.escape_ascii());
            }
        }
    }

    fn tree_without(tree: &[u8], entry: &[u8]) -> Vec<u8> {
        let at = tree.windows(entry.len()).position(|part| part == entry).unwrap();
        [&tree[..at], &tree[at + entry.len() + HASH.len_in_bytes()..]].concat()
    }

    #[test]
    fn commits_that_git_would_speak_of_are_not_plain() {
        let good = String::from_utf8(a_commit()).unwrap();
        assert_eq!(commit(good.as_bytes(), HASH).unwrap().parents.len(), 2);
        let odd = [
            ("tree 4b", "tree 4B"),
            ("tree", "tre"),
            ("author A U Thor <", "author <"),
            ("author A U Thor <", "author A U Thor<"),
            ("author A U Thor <", "author A U Thor "),
            ("author A U Thor", "author A> Thor"),
            ("invalid> 17", "invalid>17"),
            ("invalid> 17", "invalid> 017"),
            ("invalid> 17", "invalid> -17"),
            ("invalid> 17", "invalid> 179"),
            ("+0130\nc", "+130\nc"),
            ("+0130\nc", "0130\nc"),
            ("+0130\nc", "+0130 \nc"),
            ("committer", "commiter"),
            ("gpgsig x", "author B <b> 1 +0000"),
            ("words", "wo\0rds"),
            ("\n y\n\nwords\n", "\n y\nwords\n"),
        ];
        for (from, to) in odd {
            let content = good.replacen(from, to, 1);
            assert_ne!(content, good);
            assert_eq!(commit(content.as_bytes(), HASH), None, "{content}");
        }
        let null = good.replacen(ID, &"0".repeat(40), 1);
        assert_eq!(commit(null.as_bytes(), HASH), None);
    }

    #[test]
    fn trees_that_git_would_speak_of_are_not_plain() {
        let plain: [&[(&str, &[u8])]; 4] = [
            &[],
            &[("100644", b"a.b"), ("40000", b"a"), ("100755", b"a0")],
            &[
                ("100644", b".gitattributes"),
                ("40000", b".github"),
                ("100644", b".gitmodules"),
            ],
            &[("100644", b"with space"), ("160000", b"z*?\"")],
        ];
        for tree in plain {
            assert!(is_plain_tree(&a_tree(tree)), "{tree:?}");
        }
        let odd: [&[(&str, &[u8])]; 16] = [
            &[("100664", b"a")],
            &[("0100644", b"a")],
            &[("040000", b"a")],
            &[("100644", b"b"), ("100644", b"a")],
            &[("40000", b"a"), ("100644", b"a.b")],
            &[("100644", b"a"), ("100644", b"a")],
            &[("100644", b"a"), ("100644", b"a.b"), ("40000", b"a")],
            &[("100644", b"")],
            &[("100644", b".")],
            &[("40000", b"..")],
            &[("40000", b".Git")],
            &[("40000", b".git. .")],
            &[("40000", b"git~1")],
            &[("120000", b".gitmodules")],
            &[("120000", b".GITIGNORE")],
            &[("120000", b".mailmap")],
        ];
        for tree in odd {
            assert!(!is_plain_tree(&a_tree(tree)), "{tree:?}");
        }
        for name in [
            b"a/b".as_slice(),
            b"a\\.git",
            b".git:x",
            b"\xc3\xa9",
            b"a\x1b",
            b".gitmodules ",
            &[b'a'; 256],
        ] {
            assert!(!is_plain_tree(&a_tree(&[("100644", name)])), "{}", name.escape_ascii());
        }
        let cut = a_tree(&[("100644", b"a")]);
        for length in 1..cut.len() {
            assert!(!is_plain_tree(&cut[..length]), "{length}");
        }
    }

    #[test]
    fn links_into_gits_own_places_are_not_plain() {
        for target in [b"a".as_slice(), b"../a/b", b"/usr/bin/env", b".hidden"] {
            assert!(is_plain_target(target), "{}", target.escape_ascii());
        }
        for target in [
            b"".as_slice(),
            b".git/hooks",
            b"../.GIT",
            b"a/git~1",
            b"c:x",
            b"a\0",
            b"\xc3\xa9",
            &[b'a'; 1025],
        ] {
            assert!(!is_plain_target(target), "{}", target.escape_ascii());
        }
    }
}

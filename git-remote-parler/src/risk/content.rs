//! What small files tell: where a link leads, which drivers attributes name, where submodules come from, and which scripts
//! a package has.

use std::collections::{BTreeMap, BTreeSet};

use gix::bstr::ByteSlice;

/// Longest target of a link that is read.
pub(super) const MAX_LINK_BYTES: u64 = 4 << 10; // 4 KiB
/// Largest file that is read.
pub(super) const MAX_TEXT_BYTES: u64 = 256 << 10; // 256 KiB

/// Drivers that git has itself, and that run nothing.
const OWN_DRIVERS: &[&str] = &[
    "diff=ada",
    "diff=bash",
    "diff=bibtex",
    "diff=cpp",
    "diff=csharp",
    "diff=css",
    "diff=dts",
    "diff=elixir",
    "diff=fortran",
    "diff=fountain",
    "diff=golang",
    "diff=html",
    "diff=ini",
    "diff=java",
    "diff=kotlin",
    "diff=markdown",
    "diff=matlab",
    "diff=objc",
    "diff=pascal",
    "diff=perl",
    "diff=php",
    "diff=python",
    "diff=ruby",
    "diff=rust",
    "diff=scheme",
    "diff=tex",
    "merge=binary",
    "merge=text",
    "merge=union",
];

/// Whether a link at this path leads out of the tree, into `.git`, or where that cannot be told from its words alone.
pub(super) fn link_leaves(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&b'\\') || target.contains(&0) {
        return true;
    }
    let mut above = path.iter().filter(|byte| **byte == b'/').count();
    let mut has_name = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            // What is named before may be a link itself: then nobody knows what is above it.
            b".." if has_name || above == 0 => return true,
            b".." => above -= 1,
            name if name.eq_ignore_ascii_case(b".git") => return true,
            _ => has_name = true,
        }
    }
    false
}

/// The drivers that attributes name: `filter=lfs`.
pub(super) fn drivers(text: &[u8]) -> BTreeSet<String> {
    let words = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(b"#"))
        .flat_map(|line| line.fields().skip(1));
    let is_driver = |word: &&[u8]| {
        [b"filter=".as_slice(), b"diff=", b"merge="]
            .iter()
            .any(|begin| word.starts_with(begin))
    };
    let named = words
        .filter(is_driver)
        .map(|word| String::from_utf8_lossy(word).into_owned());
    named.filter(|word| !OWN_DRIVERS.contains(&word.as_str())).collect()
}

/// Where submodules come from.
pub(super) fn submodule_urls(text: &[u8]) -> BTreeSet<String> {
    let url = |line: &[u8]| {
        let (key, value) = line.split_once_str("=")?;
        let is_url = key.trim().eq_ignore_ascii_case(b"url");
        is_url.then(|| String::from_utf8_lossy(value.trim()).into_owned())
    };
    text.lines().filter_map(url).collect()
}

/// The scripts of a package. None: it is no JSON of that form.
pub(super) fn scripts(text: &[u8]) -> Option<BTreeMap<String, String>> {
    #[derive(serde::Deserialize)]
    struct Package {
        #[serde(default)]
        scripts: BTreeMap<String, String>,
    }
    let package: Package = serde_json::from_slice(text).ok()?;
    Some(package.scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_judged_by_their_words() {
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", "../x"),
            ("a/b", "../../x"),
            ("a/b/c", "x/../.."),
            ("a", ".git/hooks"),
            ("a/b", "../.GIT"),
            ("a", "c:\\x"),
            ("a", ""),
            ("a/b/c", "../../../.."),
        ] {
            assert!(link_leaves(path.as_bytes(), target.as_bytes()), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", "b"),
            ("a", "./b/c"),
            ("a/b", "../c"),
            ("a/b/c", "../../.github/x"),
            ("a", ".gitignore"),
        ] {
            assert!(!link_leaves(path.as_bytes(), target.as_bytes()), "{path} -> {target}");
        }
    }

    #[test]
    fn attributes_name_drivers() {
        let text = b"# *.x filter=no\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.rs diff=rust text\r\n*.c filter=lfs merge=union\n* text=auto";
        assert_eq!(Vec::from_iter(drivers(text)), ["diff=lfs", "filter=lfs", "merge=lfs"]);
        let many: String = (0..60).map(|number| format!("* filter=x{number}\n")).collect();
        assert_eq!(
            drivers(many.as_bytes()).len(),
            60,
            "how many are told is said elsewhere"
        );
        assert!(drivers(b"filter=x\n").is_empty(), "a pattern");
    }

    #[test]
    fn submodules_come_from_somewhere() {
        let text = b"[submodule \"x\"]\n\tpath = x\n\tURL = ext::sh -c id\n[submodule \"y\"]\n url=https://example.invalid/y\n url = https://example.invalid/y";
        assert_eq!(
            Vec::from_iter(submodule_urls(text)),
            ["ext::sh -c id", "https://example.invalid/y"]
        );
    }

    #[test]
    fn a_package_has_scripts_or_is_none() {
        assert_eq!(scripts(b"{}").unwrap().len(), 0);
        assert_eq!(scripts(br#"{"scripts":{"test":"x"},"name":"a"}"#).unwrap()["test"], "x");
        assert!(scripts(b"not").is_none() && scripts(br#"{"scripts":3}"#).is_none());
    }
}

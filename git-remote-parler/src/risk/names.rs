//! What names tell: which files configure agents and tools, which are hooks, which names fall together, and which are odd.

use parler_protocol::is_hidden;
use unicode_normalization::UnicodeNormalization;

use super::RiskKind;
use crate::repository::Repository;

/// Directories whose files agents read, at any depth. All names here are lowercase: many systems do not tell case apart.
const AGENT_DIRECTORIES: &[&str] = &[
    ".agents",
    ".aider",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".gemini",
    ".roo",
    ".windsurf",
];
/// Files that agents read, at any depth.
const AGENT_FILES: &[&str] = &[
    ".aider.conf.yml",
    ".clinerules",
    ".cursorrules",
    ".mcp.json",
    ".windsurfrules",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "copilot-instructions.md",
    "gemini.md",
    "mcp.json",
];
/// Directories whose files editors, build tools and CI read.
const TOOL_DIRECTORIES: &[&str] = &[
    ".buildkite",
    ".cargo",
    ".circleci",
    ".devcontainer",
    ".idea",
    ".mvn",
    ".vscode",
    ".yarn",
];
/// Files that those read, or run.
const TOOL_FILES: &[&str] = &[
    ".editorconfig",
    ".envrc",
    ".gitlab-ci.yml",
    ".lfsconfig",
    ".npmrc",
    ".pre-commit-config.yaml",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "cmakelists.txt",
    "conftest.py",
    "dockerfile",
    "gnumakefile",
    "gradlew",
    "jenkinsfile",
    "justfile",
    "lefthook.yml",
    "makefile",
    "mise.toml",
    "mvnw",
    "package.json",
    "rakefile",
    "rust-toolchain",
    "rust-toolchain.toml",
    "setup.py",
    "taskfile.yml",
];
/// Directories below another one whose files CI runs.
const TOOL_PATHS: &[&str] = &[
    ".github/actions/",
    ".github/workflows/",
    ".gitea/workflows/",
    ".forgejo/workflows/",
];
/// Directories that tools make `core.hooksPath` of.
const HOOK_DIRECTORIES: &[&str] = &[".githooks", ".husky"];
/// What git runs.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];
/// Names that are devices on Windows, whatever comes behind a dot.
const DEVICES: &[&str] = &["aux", "con", "conin$", "conout$", "nul", "prn"];

/// The last part of a path.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether it is this name where case does not count. `name` is lowercase.
pub(super) fn is_called(found: &[u8], name: &[u8]) -> bool {
    found.eq_ignore_ascii_case(name)
}

/// Who is configured by this file, and by what of it: the file, or the directory that all of its like are in.
pub(super) fn configured_by(path: &[u8]) -> Option<(RiskKind, Vec<u8>)> {
    let lower = path.to_ascii_lowercase();
    let below = |directories: &[&str]| place_below(&lower, directories).map(|end| path[..end].to_vec());
    let base = base_name(&lower);
    let is_one_of = |names: &[&str]| names.iter().any(|name| name.as_bytes() == base);
    if let Some(place) = below(AGENT_DIRECTORIES) {
        return Some((RiskKind::AgentConfiguration, place));
    }
    if is_one_of(AGENT_FILES) {
        return Some((RiskKind::AgentConfiguration, path.to_vec()));
    }
    if let Some(place) = below(TOOL_DIRECTORIES) {
        return Some((RiskKind::ToolConfiguration, place));
    }
    let in_path = TOOL_PATHS.iter().find(|begin| lower.starts_with(begin.as_bytes()));
    if let Some(begin) = in_path {
        return Some((RiskKind::ToolConfiguration, path[..begin.len()].to_vec()));
    }
    is_one_of(TOOL_FILES).then(|| (RiskKind::ToolConfiguration, path.to_vec()))
}

/// Where the part of a path ends that is one of these directories, or a link that is called like one.
fn place_below(path: &[u8], directories: &[&str]) -> Option<usize> {
    let mut begin = 0;
    for part in path.split(|byte| *byte == b'/') {
        let end = begin + part.len();
        if directories.iter().any(|name| name.as_bytes() == part) {
            return Some(path.len().min(end + 1));
        }
        begin = end + 1;
    }
    None
}

/// Where hooks of this repository are, as far as that is in its work tree.
#[derive(Debug, Default)]
pub(super) struct HookPlace {
    /// Below the root, lowercase, with `/` at its end; nothing for the root itself.
    configured: Option<Vec<u8>>,
}

impl HookPlace {
    pub(super) fn of(repository: &Repository) -> Self {
        let place = || {
            let path = repository.config_string("core.hooksPath").ok()??;
            let path = match path.strip_prefix('/') {
                Some(_) => {
                    let root = repository.work_dir()?;
                    let below = std::path::Path::new(&path).strip_prefix(root).ok()?;
                    below.to_str()?.to_owned()
                }
                None => path,
            };
            let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
            let mut place: String = parts.flat_map(|part| [part, "/"]).collect();
            place.make_ascii_lowercase();
            Some(place.into_bytes())
        };
        Self { configured: place() }
    }

    /// The directory of hooks that this file is in, or the file where it is in none but is a hook.
    pub(super) fn holding(&self, path: &[u8]) -> Option<Vec<u8>> {
        let lower = path.to_ascii_lowercase();
        let is_hook = || HOOKS.iter().any(|hook| hook.as_bytes() == lower);
        match &self.configured {
            Some(root) if root.is_empty() => is_hook().then(|| path.to_vec()),
            // A link may stand where the directory was, or above it.
            Some(place)
                if lower.starts_with(place)
                    || place
                        .strip_prefix(lower.as_slice())
                        .is_some_and(|rest| rest.starts_with(b"/")) =>
            {
                Some(path[..place.len().min(path.len())].to_vec())
            }
            _ => None,
        }
        .or_else(|| place_below(&lower, HOOK_DIRECTORIES).map(|end| path[..end].to_vec()))
    }
}

/// A name as systems see it where neither case nor the way an accent is written counts.
pub(super) fn folded(name: &[u8]) -> String {
    let lower = String::from_utf8_lossy(name)
        .nfd()
        .flat_map(char::to_lowercase)
        .collect::<String>();
    lower.nfc().collect()
}

/// Whether a name is not what it seems, or not a name everywhere.
pub(super) fn is_odd(name: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(name) else { return true };
    text.chars()
        .any(|character| is_hidden(character) || matches!(character, '\\' | ':'))
        || text.starts_with('-')
        || text.ends_with([' ', '.'])
        || text.starts_with(' ')
        || is_device(text)
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let is_numbered = |port: &str| {
        stem.strip_prefix(port)
            .is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
    };
    DEVICES.contains(&stem.as_str()) || is_numbered("com") || is_numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_configure_are_known_by_their_names() {
        use RiskKind::{AgentConfiguration, ToolConfiguration};
        for (path, expected) in [
            ("CLAUDE.md", Some((AgentConfiguration, "CLAUDE.md"))),
            ("docs/AGENTS.md", Some((AgentConfiguration, "docs/AGENTS.md"))),
            (".claude/settings.json", Some((AgentConfiguration, ".claude/"))),
            ("a/.Claude/skills/x.md", Some((AgentConfiguration, "a/.Claude/"))),
            (
                ".github/workflows/ci.yml",
                Some((ToolConfiguration, ".github/workflows/")),
            ),
            (
                ".GitHub/Workflows/ci.yml",
                Some((ToolConfiguration, ".GitHub/Workflows/")),
            ),
            ("a/.Claude", Some((AgentConfiguration, "a/.Claude"))),
            ("sub/build.rs", Some((ToolConfiguration, "sub/build.rs"))),
            (".vscode/tasks.json", Some((ToolConfiguration, ".vscode/"))),
            (".envrc", Some((ToolConfiguration, ".envrc"))),
            ("src/claude.rs", None),
            (".github/CODEOWNERS", None),
            ("claude/x", None),
        ] {
            let found = configured_by(path.as_bytes());
            let expected = expected.map(|(kind, place)| (kind, place.as_bytes().to_vec()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn hooks_are_where_they_are_looked_for() {
        let place = |configured: Option<&str>| HookPlace {
            configured: configured.map(|place| place.as_bytes().to_vec()),
        };
        let holding = |configured, path: &str| {
            place(configured)
                .holding(path.as_bytes())
                .map(|found| String::from_utf8(found).unwrap())
        };
        assert_eq!(holding(None, ".husky/pre-commit").as_deref(), Some(".husky/"));
        assert_eq!(
            holding(Some("tools/hooks/"), "tools/Hooks/x").as_deref(),
            Some("tools/Hooks/")
        );
        // A link that leads to where they are.
        assert_eq!(holding(Some("tools/hooks/"), "tools").as_deref(), Some("tools"));
        assert_eq!(holding(Some(""), "post-checkout").as_deref(), Some("post-checkout"));
        for (configured, path) in [
            (None, "pre-commit"),
            (Some("tools/hooks/"), "tools/x"),
            (Some(""), "a/pre-commit"),
            (Some(""), "x"),
        ] {
            assert_eq!(holding(configured, path), None, "{path}");
        }
    }

    #[test]
    fn odd_names_are_told_from_plain_ones() {
        let odd: [&[u8]; 14] = [
            b"a\\b",
            b"C:x",
            b"\x1b[2J",
            "a\u{202e}b".as_bytes(),
            "a\u{200b}".as_bytes(),
            b"\xff",
            b"x ",
            b"x.",
            b" x",
            b"-rf",
            b"CON",
            b"nul.txt",
            b"com1",
            b"Lpt9.c",
        ];
        for name in odd {
            assert!(is_odd(name), "{name:?}");
        }
        for name in [
            "a b",
            ".gitignore",
            "console",
            "com10",
            "com",
            "é",
            "漢字",
            "x-y",
            "auxiliary.rs",
            "a..b",
        ] {
            assert!(!is_odd(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_fall_together_as_systems_see_them() {
        for (one, other) in [("README", "readme"), ("\u{e9}", "E\u{301}"), ("\u{c4}x", "a\u{308}X")] {
            assert_eq!(folded(one.as_bytes()), folded(other.as_bytes()));
        }
        assert_ne!(folded(b"a"), folded("\u{e1}".as_bytes()));
    }
}

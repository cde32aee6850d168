//! The process environment as the program's edge found it. Never read from the process here.

use std::ffi::{OsStr, OsString};

/// Variables that change what git sees in a repository and that the library reading repositories in-process does not
/// know of: with one of them set, git itself is asked.
const SEEN_BY_GIT_ONLY: [&str; 7] = [
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_COMMON_DIR",
];

/// Where git writes a trace of what it does. They choose that and nothing else.
const TRACES: [&str; 9] = [
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
    "GIT_TRACE2_PERF",
    "GIT_TRACE_PACKET",
    "GIT_TRACE_PACK_ACCESS",
    "GIT_TRACE_PERFORMANCE",
    "GIT_TRACE_SETUP",
    "GIT_TRACE_SHALLOW",
];
/// How much of it, and beneath whose.
const OF_TRACES: [&str; 4] = [
    "GIT_TRACE2_EVENT_NESTING",
    "GIT_TRACE2_MAX_FILES",
    "GIT_TRACE2_PARENT_NAME",
    "GIT_TRACE2_PARENT_SID",
];
/// What leaves the time out of a trace's lines.
pub(super) const TIMELESS_TRACES: [&str; 3] = ["GIT_TRACE2_BRIEF", "GIT_TRACE2_PERF_BRIEF", "GIT_TRACE_BARE"];

/// All environment variables of this process, handed in by the edge.
#[derive(Debug, Clone, Default)]
pub struct GitEnvironment {
    variables: Vec<(OsString, OsString)>,
}

impl GitEnvironment {
    /// An environment of these variables; the edge passes `std::env::vars_os()`.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            variables: variables.into_iter().collect(),
        }
    }

    /// One variable's value.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_os_str())
    }

    /// Whether a variable is set that only git itself honours.
    pub fn needs_git(&self) -> bool {
        SEEN_BY_GIT_ONLY.iter().any(|name| self.get(name).is_some())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(key, value)| (key.as_os_str(), value.as_os_str()))
    }

    /// Whether git children write a trace to their stderr.
    pub(super) fn has_visible_traces(&self) -> bool {
        self.all()
            .any(|(name, value)| name.as_encoded_bytes().starts_with(b"GIT_TRACE") && is_stderr(value))
    }

    /// The variables by which git children write a trace, as far as they lead to stderr, a file or a socket: the number
    /// of a file descriptor could be one that the child opens for something else.
    pub(super) fn of_traces(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let leads_somewhere = |name: &OsStr, value: &OsStr| {
            let bytes = value.as_encoded_bytes();
            let is_socket = bytes.starts_with(b"af_unix:") && name.as_encoded_bytes().starts_with(b"GIT_TRACE2");
            is_stderr(value) || bytes.starts_with(b"/") || is_socket
        };
        self.all().filter(move |(name, value)| {
            let is_one_of = |names: &[&str]| names.iter().any(|known| name == known);
            is_one_of(&OF_TRACES) || (is_one_of(&TRACES) && leads_somewhere(name, value))
        })
    }

    pub(super) fn without_git(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.all()
            .filter(|(key, _)| !key.as_encoded_bytes().starts_with(b"GIT_"))
    }
}

/// As git reads the value of a variable that asks for a trace.
fn is_stderr(value: &OsStr) -> bool {
    let value = value.as_encoded_bytes();
    value == b"1" || value == b"2" || value.eq_ignore_ascii_case(b"true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(names: &[&str]) -> GitEnvironment {
        GitEnvironment::new(names.iter().map(|name| (OsString::from(name), OsString::from("1"))))
    }

    #[test]
    fn only_what_the_library_cannot_see_asks_for_git() {
        assert!(!environment(&["PATH", "GIT_DIR", "GIT_TRACE"]).needs_git());
        assert!(environment(&["PATH", "GIT_CONFIG_PARAMETERS"]).needs_git());
        assert!(environment(&["GIT_OBJECT_DIRECTORY"]).needs_git());
    }

    #[test]
    fn traces_lead_to_stderr_files_and_sockets_alone() {
        let environment = GitEnvironment::new(
            [
                ("GIT_TRACE", "1"),
                ("GIT_TRACE_SETUP", "/tmp/trace"),
                ("GIT_TRACE2_EVENT", "af_unix:/tmp/socket"),
                ("GIT_TRACE2_EVENT_NESTING", "3"),
                ("GIT_TRACE2", "trace.log"),
                ("GIT_TRACE2_PERF", "5"),
                ("GIT_TRACE_PACKET", "0"),
                ("GIT_TRACE_BARE", "1"),
                ("GIT_TRACE_PACKFILE", "/tmp/pack"),
                ("GIT_DIR", "/x"),
            ]
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        let passed: Vec<_> = environment.of_traces().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(
            passed,
            [
                "GIT_TRACE",
                "GIT_TRACE_SETUP",
                "GIT_TRACE2_EVENT",
                "GIT_TRACE2_EVENT_NESTING"
            ]
        );
        assert!(environment.has_visible_traces());
        assert!(!GitEnvironment::new([("GIT_TRACE".into(), "/tmp/x".into())]).has_visible_traces());
    }

    #[test]
    fn the_clean_environment_has_no_git_variable() {
        let environment = environment(&["PATH", "GIT_DIR", "GITHUB_TOKEN", "GIT_CONFIG_COUNT"]);
        let kept: Vec<_> = environment.without_git().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(kept, ["PATH", "GITHUB_TOKEN"]);
    }
}

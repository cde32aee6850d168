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

    pub(super) fn without_git(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.all()
            .filter(|(key, _)| !key.as_encoded_bytes().starts_with(b"GIT_"))
    }
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
    fn the_clean_environment_has_no_git_variable() {
        let environment = environment(&["PATH", "GIT_DIR", "GITHUB_TOKEN", "GIT_CONFIG_COUNT"]);
        let kept: Vec<_> = environment.without_git().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(kept, ["PATH", "GITHUB_TOKEN"]);
    }
}

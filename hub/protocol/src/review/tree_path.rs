//! The path of a file in a commit's tree, as git has it. Names nothing on any machine: whoever reads it must not open it.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_TREE_PATH_BYTES;
use crate::{ParseError, serde_as_string};

/// A path in a tree: components with `/` between, none of them empty, `.` or `..`; at most 4,096 bytes without NUL. Git
/// allows everything else in it: escape it before it reaches a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(String);

impl TreePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TreePath {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = |why| Err(ParseError::new("path", text, why));
        if text.len() > MAX_TREE_PATH_BYTES {
            return no("is longer than 4096 bytes");
        }
        if text.contains('\0') {
            return no("holds a NUL");
        }
        match text.split('/').any(|component| matches!(component, "" | "." | "..")) {
            true => no("is no path in a tree"),
            false => Ok(Self(text.to_owned())),
        }
    }
}

serde_as_string!(TreePath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_its_tree() {
        for good in ["a", "src/main.rs", "a b/é", ".github/x", "...", "-x"] {
            assert!(good.parse::<TreePath>().is_ok(), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "./a", "a/../b", "..", "a\0b", &"x".repeat(4097)] {
            assert!(bad.parse::<TreePath>().is_err(), "{bad:?}");
        }
    }
}

//! The arguments of a command as tests write them: a line that is split at blanks, or a list where a value holds one.

use std::ffi::OsString;

/// Something that lists arguments.
pub trait Arguments {
    /// The arguments in order.
    fn list(self) -> Vec<OsString>;
}

impl Arguments for &str {
    fn list(self) -> Vec<OsString> {
        self.split_whitespace().map(OsString::from).collect()
    }
}

impl Arguments for &String {
    fn list(self) -> Vec<OsString> {
        self.as_str().list()
    }
}

impl Arguments for String {
    fn list(self) -> Vec<OsString> {
        self.as_str().list()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn list(self) -> Vec<OsString> {
        self.into_iter().map(OsString::from).collect()
    }
}

impl Arguments for Vec<OsString> {
    fn list(self) -> Vec<OsString> {
        self
    }
}

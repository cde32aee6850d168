//! What a command answered. Its exit status must be asserted before its words can be read, and every failed assertion
//! shows all of it.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A finished command whose exit status nobody has looked at yet.
#[must_use = "assert the exit status with .success() or .code(n)"]
#[derive(Debug, Clone)]
pub struct Output(Answer);

/// A finished command.
#[derive(Clone)]
pub struct Answer {
    command: String,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    pub(crate) fn new(command: String, status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        Self(Answer {
            command,
            status,
            stdout,
            stderr,
        })
    }

    /// Asserts exit code 0.
    #[track_caller]
    pub fn success(self) -> Answer {
        self.code(0)
    }

    /// Asserts this exit code.
    #[track_caller]
    pub fn code(self, expected: i32) -> Answer {
        assert!(
            self.0.status.code() == Some(expected),
            "expected exit code {expected}\n{:?}",
            self.0
        );
        self.0
    }

    /// Asserts that the command failed by itself: not with 0, and not by a signal.
    #[track_caller]
    pub fn failure(self) -> Answer {
        assert!(
            self.0.status.code().is_some_and(|code| code != 0),
            "expected a failure\n{:?}",
            self.0
        );
        self.0
    }

    /// The answer of a command that may have done either.
    pub fn either(self) -> Answer {
        self.0
    }
}

impl Answer {
    /// Whether it ended with 0.
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// The exit code; none after a signal.
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Standard output.
    #[track_caller]
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap_or_else(|_| panic!("output is not UTF-8\n{self:?}"))
    }

    /// Standard error.
    #[track_caller]
    pub fn err(&self) -> &str {
        std::str::from_utf8(&self.stderr).unwrap_or_else(|_| panic!("output is not UTF-8\n{self:?}"))
    }

    /// Standard output as bytes.
    pub fn out_bytes(&self) -> &[u8] {
        &self.stdout
    }

    /// Standard output without blanks at its ends.
    #[track_caller]
    pub fn word(&self) -> &str {
        self.out().trim()
    }

    /// Asserts that standard output holds this text.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.out().contains(text), "expected on stdout: {text:?}\n{self:?}");
        self
    }

    /// Asserts that standard output does not hold this text.
    #[track_caller]
    pub fn says_no(&self, text: &str) -> &Self {
        assert!(!self.out().contains(text), "not expected on stdout: {text:?}\n{self:?}");
        self
    }

    /// Asserts that standard error holds this text.
    #[track_caller]
    pub fn warns(&self, text: &str) -> &Self {
        assert!(self.err().contains(text), "expected on stderr: {text:?}\n{self:?}");
        self
    }

    /// Asserts that standard error does not hold this text.
    #[track_caller]
    pub fn warns_no(&self, text: &str) -> &Self {
        assert!(!self.err().contains(text), "not expected on stderr: {text:?}\n{self:?}");
        self
    }

    /// Asserts that standard error is exactly one line, and returns it.
    #[track_caller]
    pub fn one_error_line(&self) -> &str {
        let err = self.err();
        let line = err.strip_suffix('\n').unwrap_or(err);
        assert!(
            !line.trim().is_empty() && !line.contains('\n'),
            "expected one line on stderr\n{self:?}"
        );
        line
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{self:?}"))
    }

    /// Standard output as JSON Lines.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let read = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}\n{self:?}"))
        };
        self.out().lines().map(read).collect()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |name: &str, bytes: &[u8]| format!("--- {name}\n{}", String::from_utf8_lossy(bytes));
        write!(
            f,
            "$ {}\n{}\n{}\n{}",
            self.command,
            self.status,
            show("stdout", &self.stdout),
            show("stderr", &self.stderr)
        )
    }
}

//! The system calls by which a watched program keeps its promises, in the order in which they were done; and one of them
//! made to fail. By a library that stands before the C library (`system_calls.c`), compiled where the test runs. Sees
//! nothing of a program that calls the kernel past the C library.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::World;

const SOURCE: &str = include_str!("system_calls.c");

/// Call numbers that are noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Bytes into a file.
    Write,
    /// A file or directory to the disk.
    Sync,
    /// Another name for a file.
    Rename,
    /// One more name for a file.
    Link,
    /// A name less.
    Unlink,
    /// Another length.
    Truncate,
    /// A file that was not there. Made to fail, but not noted.
    Make,
    /// A directory that was not there. Made to fail, but not noted.
    MakeDirectory,
    /// Bytes to a client.
    Send,
    /// One of the above, made to fail.
    Fault,
}

impl CallKind {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Write, "write"),
        (Self::Sync, "sync"),
        (Self::Rename, "rename"),
        (Self::Link, "link"),
        (Self::Unlink, "unlink"),
        (Self::Truncate, "truncate"),
        (Self::Make, "make"),
        (Self::MakeDirectory, "mkdir"),
        (Self::Send, "send"),
        (Self::Fault, "fault"),
    ];

    fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind)
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(known, _)| *known == self);
        found.expect("all are listed").1
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub kind: CallKind,
    /// What it returned; of a send, how many bytes there are to send; of a fault, the error's number.
    pub result: i64,
    /// The path it is about, of several the new one; of a send, the first line.
    pub what: String,
}

impl Call {
    /// Reads a line of the trace.
    ///
    /// # Panics
    /// Where it is none.
    pub fn parse(line: &str) -> Self {
        let mut words = line.splitn(3, ' ');
        let kind = words.next().and_then(CallKind::named);
        let result = words.next().and_then(|result| result.parse().ok());
        match (kind, result) {
            (Some(kind), Some(result)) => Self {
                kind,
                result,
                what: words.next().unwrap_or_default().to_owned(),
            },
            _ => panic!("no line of a trace: {line}"),
        }
    }
}

/// A call that is to fail.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which.
    pub call: CallKind,
    /// The how manieth of those, counted from 1.
    pub nth: usize,
    /// And every later one.
    pub and_on: bool,
    /// `EIO`, `ENOSPC`, `EDQUOT` or `EROFS`.
    pub error: &'static str,
    /// Part of the path that it is about; its end where this ends with `$`.
    pub path: String,
}

impl Fault {
    fn variable(&self) -> String {
        let (call, on) = (self.call.name(), if self.and_on { "+" } else { "" });
        format!("{call}:{}{on}:{}:{}", self.nth, self.error, self.path)
    }
}

/// The library, compiled.
#[derive(Debug, Clone)]
pub struct SystemCalls {
    library: PathBuf,
}

impl SystemCalls {
    /// Compiles it into this world.
    #[track_caller]
    pub fn watched_in(world: &World) -> Self {
        let directory = world.directory("system-calls");
        let (source, library) = (directory.join("system_calls.c"), directory.join("system_calls.so"));
        fs::write(&source, SOURCE).expect("a directory of ours");
        let compiled = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .expect("a C compiler");
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        Self { library }
    }

    /// The variables of a program whose calls are added to this file.
    pub fn variables(&self, trace: &Path) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("PARLER_CALLS_TRACE", trace.into()),
        ]
    }

    /// The same, with a fault.
    pub fn variables_with(&self, trace: &Path, fault: &Fault) -> Vec<(&'static str, OsString)> {
        let mut variables = self.variables(trace);
        variables.push(("PARLER_CALLS_FAIL", fault.variable().into()));
        variables
    }

    /// The same, with a fault that lasts as long as this file exists.
    pub fn variables_while(&self, trace: &Path, fault: &Fault, file: &Path) -> Vec<(&'static str, OsString)> {
        let mut variables = self.variables_with(trace, fault);
        variables.push(("PARLER_CALLS_WHILE", file.into()));
        variables
    }
}

/// The calls that were noted in this file.
#[track_caller]
pub fn read_trace(trace: &Path) -> Vec<Call> {
    let text = fs::read(trace).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(Call::parse).collect()
}

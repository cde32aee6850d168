//! How far a long command is: one line on stderr that is written over, and only where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use parler_hub::Progress;

/// How often it is written.
const INTERVAL: Duration = Duration::from_millis(200);

/// The line.
pub(super) struct Meter {
    is_terminal: bool,
    shown: Option<Instant>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            shown: None,
        }
    }

    /// Shows what `line` says, unless that was done a moment ago.
    pub(super) fn show(&mut self, line: impl FnOnce() -> String) {
        if !self.is_terminal || self.shown.is_some_and(|shown| shown.elapsed() < INTERVAL) {
            return;
        }
        self.shown = Some(Instant::now());
        // Nobody who looks at it is no reason to stop.
        let _ = write!(io::stderr(), "\r\x1b[K{}", line());
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// How far a check is.
pub(super) fn checking(progress: &Progress) -> String {
    let Progress {
        messages,
        messages_of,
        blobs,
        blob_bytes,
    } = progress;
    let bytes = bytesize::ByteSize(*blob_bytes);
    format!("checking: {messages} of {messages_of} messages, {blobs} blobs, {bytes}")
}

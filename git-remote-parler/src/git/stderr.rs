//! What a git child writes to stderr, sorted as it comes: meters and lines of git's trace go on to whoever looks on, all
//! else is kept, for it may be the reason of a failure.

use super::message::visible;
use super::meter_line::is_meter;
use crate::terminal::Terminal;

/// How much is kept; the rest is read and dropped.
const MAX_KEPT_BYTES: usize = 64 << 10; // 64 KiB
/// Longest line that is waited for to its end. A trace names every argument.
const MAX_LINE_BYTES: usize = 64 << 10; // 64 KiB

/// To whom a child's stderr goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct Onlookers {
    /// Who sees meters.
    pub(super) meters: Terminal,
    /// Who sees what git traces to stderr.
    pub(super) traces: Terminal,
}

/// The stderr of one child.
#[derive(Debug)]
pub(super) struct Stderr {
    onlookers: Onlookers,
    kept: Vec<u8>,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

impl Stderr {
    pub(super) const fn new(onlookers: Onlookers) -> Self {
        Self {
            onlookers,
            kept: Vec::new(),
            line: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        if !self.is_sorted() {
            return self.keep(bytes);
        }
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\r") || piece.ends_with(b"\n") || self.line.len() > MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.line);
                self.sort(&line);
            }
        }
    }

    /// Nothing more comes. Gives what was kept.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.sort(&line);
        }
        self.onlookers.meters.end_line();
        std::mem::take(&mut self.kept)
    }

    fn is_sorted(&self) -> bool {
        self.onlookers.meters.is_there() || self.onlookers.traces.is_there()
    }

    /// Takes one line with its end, or the last one without.
    fn sort(&mut self, line: &[u8]) {
        let content = line.strip_suffix(b"\n").or_else(|| line.strip_suffix(b"\r"));
        match content {
            Some(content) if self.onlookers.meters.is_there() && is_meter(content) => self.onlookers.meters.meter(line),
            Some(content) if self.onlookers.traces.is_there() && is_trace(content) => {
                self.onlookers.traces.line(&visible(content, MAX_LINE_BYTES));
            }
            _ => self.keep(line),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_KEPT_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Whether git's trace begins its lines so: `12:34:56.123456 file.c:7 ..`, or an event as JSON.
fn is_trace(line: &[u8]) -> bool {
    const TIME: &[u8] = b"00:00:00.000000 ";
    let is_time = |beginning: &[u8]| {
        beginning.iter().zip(TIME).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
    };
    line.starts_with(b"{\"event\":\"") || line.get(..TIME.len()).is_some_and(is_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::tests::recording;

    #[test]
    fn each_line_goes_where_it_belongs() {
        let (meters, metered) = recording();
        let (traces, traced) = recording();
        let mut stderr = Stderr::new(Onlookers { meters, traces });
        for piece in [
            "Receiving obj",
            "ects:  50% (1/2)\rReceiving objects: 100% (2/2)\r",
            "fatal: a\n12:34:56.123456 git.c:1  trace: x\x1b[2J",
            "\n{\"event\":\"start\"}\nReceiving objects: 100% (2/2)\x1b[2J, done.\n",
            "error: b",
        ] {
            stderr.take(piece.as_bytes());
        }
        let kept = String::from_utf8(stderr.end()).unwrap();
        assert_eq!(kept, "fatal: a\nReceiving objects: 100% (2/2)\x1b[2J, done.\nerror: b");
        assert_eq!(
            metered(),
            "Receiving objects:  50% (1/2)\rReceiving objects: 100% (2/2)\r\n"
        );
        assert_eq!(
            traced(),
            "12:34:56.123456 git.c:1  trace: x\\u{1b}[2J\n{\"event\":\"start\"}\n"
        );
    }

    #[test]
    fn without_onlookers_all_is_kept() {
        let mut stderr = Stderr::new(Onlookers::default());
        let said = b"Receiving objects: 100% (2/2), done.\n12:34:56.123456 x\nfatal: a\n";
        stderr.take(said);
        assert_eq!(stderr.end(), said);
        stderr.take(&[b'x'; 3 * MAX_KEPT_BYTES]);
        assert_eq!(stderr.end().len(), MAX_KEPT_BYTES);
    }

    #[test]
    fn a_line_without_end_is_not_held_back_for_ever() {
        let (meters, shown) = recording();
        let traces = Terminal::none();
        let mut stderr = Stderr::new(Onlookers { meters, traces });
        (0..100).for_each(|_| stderr.take(&[b'x'; 4096]));
        assert!(stderr.line.len() <= MAX_LINE_BYTES + 4096);
        assert_eq!(stderr.end().len(), MAX_KEPT_BYTES);
        assert_eq!(shown(), "");
    }
}

//! Where people look on while a command works: meters that redraw their line, and whole lines. Given by the program's
//! edge; without one nothing is written. Never decides what may be shown: what comes here is safe to show.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// A stream for people, shared by all who write to it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Terminal(Option<Arc<Mutex<Shown>>>);

struct Shown {
    stream: Box<dyn Write + Send>,
    is_screen: bool,
    /// A meter whose line is not ended: what it is of, and how wide it is.
    open: Option<(Vec<u8>, usize)>,
}

impl Terminal {
    /// Nobody looks on.
    pub fn none() -> Self {
        Self::default()
    }

    /// This stream, which may be a terminal device. It should not be buffered: each meter and each line is written at
    /// once.
    pub fn to(stream: impl Write + Send + 'static, is_screen: bool) -> Self {
        Self(Some(Arc::new(Mutex::new(Shown {
            stream: Box::new(stream),
            is_screen,
            open: None,
        }))))
    }

    /// Whether somebody looks on.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is a terminal device: some of git's meters are shown there only, whatever was asked for.
    pub(crate) fn is_screen(&self) -> bool {
        self.lock().is_some_and(|shown| shown.is_screen)
    }

    /// Shows a state of a meter as git writes it: it ends with a carriage return, or with a line feed when it is the last.
    pub(crate) fn meter(&self, state: &[u8]) {
        let Some(mut shown) = self.lock() else { return };
        let title = state.split(|byte| *byte == b':').next().unwrap_or_default();
        if shown.open.as_ref().is_some_and(|(open, _)| open != title) {
            shown.wipe();
        }
        shown.open = state.strip_suffix(b"\r").map(|visible| (title.to_vec(), visible.len()));
        shown.write(state);
    }

    /// Shows a whole line; the line feed is added.
    pub(crate) fn line(&self, line: &str) {
        let Some(mut shown) = self.lock() else { return };
        shown.wipe();
        shown.write(format!("{line}\n").as_bytes());
    }

    /// Ends the line of a meter that goes no further, so that what follows does not stand in it.
    pub(crate) fn end_line(&self) {
        let Some(mut shown) = self.lock() else { return };
        if shown.open.take().is_some() {
            shown.write(b"\n");
        }
    }

    fn lock(&self) -> Option<std::sync::MutexGuard<'_, Shown>> {
        let shared = self.0.as_ref()?;
        Some(shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shown {
    /// Takes an open meter off its line.
    fn wipe(&mut self) {
        if let Some((_, width)) = self.open.take() {
            self.write(format!("\r{:width$}\r", "").as_bytes());
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        // Nobody may be there to read it, and the work goes on.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_there() { "Terminal" } else { "no Terminal" })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A terminal, and what has been written to it.
    pub(crate) fn recording() -> (Terminal, impl Fn() -> String) {
        #[derive(Clone, Default)]
        struct Tape(Arc<Mutex<Vec<u8>>>);

        impl Write for Tape {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let tape = Tape::default();
        let terminal = Terminal::to(tape.clone(), true);
        (terminal, move || {
            String::from_utf8(tape.0.lock().unwrap().clone()).unwrap()
        })
    }

    #[test]
    fn an_open_meter_makes_way_for_others() {
        let (terminal, shown) = recording();
        terminal.meter(b"A:  1\r");
        terminal.meter(b"A:  2\r");
        terminal.meter(b"B:  1\r");
        terminal.line("x");
        terminal.meter(b"A:  3\r");
        terminal.end_line();
        terminal.end_line();
        assert_eq!(shown(), "A:  1\rA:  2\r\r     \rB:  1\r\r     \rx\nA:  3\r\n");
        Terminal::none().line("nobody");
    }
}

//! Where results and remarks go: stdout carries the result, stderr what people should know besides. Knows colour and
//! JSON; says when the reader of the result has gone away.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use git_remote_parler::terminal::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use serde::Serialize;

use crate::cli::ColorWhen;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{text, visible_json};

/// The line that tells of a handoff.
pub(crate) const BANNER: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
/// The line above a message.
pub(crate) const HEADER: Style = Style::new().bold();
/// What is not to be believed.
pub(crate) const WARNING: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

/// Where people look on: stderr, whatever it is.
pub(crate) fn terminal() -> Terminal {
    Terminal::to(io::stderr(), has_terminal())
}

/// Whether stderr is a terminal: without one nobody sees a meter.
pub(crate) fn has_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The two streams of one run.
pub(crate) struct Output {
    json: bool,
    result: BufWriter<AutoStream<io::Stdout>>,
    remarks: AutoStream<io::Stderr>,
}

impl Output {
    /// Streams of the process, coloured as `color` says.
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        Self {
            json,
            result: BufWriter::new(AutoStream::new(io::stdout(), color)),
            remarks: AutoStream::new(io::stderr(), color),
        }
    }

    /// Whether the result is for a program.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether somebody looks at the result.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Fails where stdout was closed by whoever started this program: then all that is written would count as read. For
    /// verbs whose result is what they are for.
    ///
    /// Rust's runtime, and git before it, put `/dev/null` in the place of a closed stream, open for reading as well; a
    /// shell's `>/dev/null` is open for writing only, and meant.
    pub(crate) fn require_open(&self) -> Result<()> {
        let stdout = io::stdout();
        let closed = || -> io::Result<bool> {
            let is_for_both = fcntl_getfl(stdout.as_fd())?.contains(OFlags::RDWR);
            let null = std::fs::metadata("/dev/null")?;
            let ours = fstat(stdout.as_fd())?;
            Ok(is_for_both && (ours.st_dev, ours.st_ino) == (null.dev(), null.ino()))
        };
        // Who cannot be asked is heard: a failing write tells more.
        if closed().unwrap_or(false) {
            return Err(
                Error::fatal("standard output is closed, so nobody would see the result")
                    .then("open it, or use >/dev/null"),
            );
        }
        Ok(())
    }

    /// Adds text to the result. What others wrote in it has been escaped.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        self.result
            .write_all(text.as_bytes())
            .map_err(|error| Error::output(&error))
    }

    /// Adds a line to the result.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.text(line)?;
        self.text("\n")
    }

    /// Adds one JSON value on a line of its own to the result.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let value =
            visible_json::to_string(value).map_err(|error| Error::fatal(format_args!("cannot write JSON: {error}")))?;
        self.line(&value)
    }

    /// The line where it is for people, the value where it is for a program.
    pub(crate) fn either(&mut self, line: &str, value: &impl Serialize) -> Result<()> {
        if self.json { self.json(value) } else { self.line(line) }
    }

    /// Where the result's bytes go as they are. Nothing else of the result is kept back.
    pub(crate) fn bytes(&mut self) -> Result<impl Write> {
        self.result.flush().map_err(|error| Error::output(&error))?;
        // Past the stream that takes styles away: it would take whatever in a pack looks like one.
        Ok(io::stdout())
    }

    /// Hands everything to the reader. Fails when the reader has gone away, also where the last bytes still found room
    /// in a pipe.
    pub(crate) fn deliver(&mut self) -> Result<()> {
        self.result.flush().map_err(|error| Error::output(&error))?;
        let stdout = io::stdout();
        let mut polled = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&now)) {
            Ok(_) if polled[0].revents().contains(PollFlags::ERR) => {
                Err(Error::output(&io::ErrorKind::BrokenPipe.into()))
            }
            _ => Ok(()),
        }
    }

    /// Warns people about what they are going to read, or have read: lines of ours, escaped.
    pub(crate) fn warn(&mut self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(self.remarks, "{}", styled(WARNING, &text::one_line(line)));
        }
    }

    /// Tells people something besides the result, escaped.
    pub(crate) fn remark(&mut self, remark: &str) {
        // A remark that cannot be shown is no reason to fail.
        let _ = writeln!(self.remarks, "{}", text::one_line(remark));
    }
}

/// `text` in this style. The stream takes the style away where there is to be no colour.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether to colour: the option, then git's configuration, then NO_COLOR and its like, then whether somebody looks.
pub(crate) fn color_choice(
    flag: Option<ColorWhen>,
    environment: &Environment,
    config: impl Fn(&str) -> Result<Option<String>>,
) -> Result<ColorChoice> {
    let configured = match config("color.parler")? {
        Some(value) => Some(value),
        None => config("color.ui")?,
    };
    let configured = configured.and_then(|value| parse_color(&value));
    Ok(match flag.or(configured) {
        Some(ColorWhen::Always) => ColorChoice::Always,
        Some(ColorWhen::Never) => ColorChoice::Never,
        Some(ColorWhen::Auto) | None => {
            let set = |name: &str| environment.filled(name).is_some_and(|value| value != "0");
            let dumb = environment.variable("TERM").is_none_or(|term| term == "dumb");
            if environment.filled("NO_COLOR").is_some() {
                ColorChoice::Never
            } else if set("CLICOLOR_FORCE") || (io::stdout().is_terminal() && !dumb) {
                ColorChoice::Always
            } else {
                ColorChoice::Never
            }
        }
    })
}

/// Git's words for colour.
fn parse_color(value: &str) -> Option<ColorWhen> {
    match value.to_ascii_lowercase().as_str() {
        "always" => Some(ColorWhen::Always),
        "never" | "false" | "no" | "off" | "0" => Some(ColorWhen::Never),
        "auto" | "true" | "yes" | "on" | "1" => Some(ColorWhen::Auto),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_beats_configuration_and_that_beats_the_environment() {
        let quiet = Environment::for_test(&[("NO_COLOR", "1"), ("TERM", "xterm")]);
        let loud = Environment::for_test(&[("CLICOLOR_FORCE", "1"), ("TERM", "xterm")]);
        let color_choice = |flag, environment, config: &dyn Fn(&str) -> Option<String>| {
            color_choice(flag, environment, |key| Ok(config(key))).unwrap()
        };
        let none = &|_: &str| None;
        let ui = &|key: &str| (key == "color.ui").then(|| "always".to_owned());
        let both = &|key: &str| Some(if key == "color.parler" { "never" } else { "always" }.to_owned());
        assert_eq!(color_choice(Some(ColorWhen::Always), &quiet, none), ColorChoice::Always);
        assert_eq!(color_choice(None, &quiet, none), ColorChoice::Never);
        assert_eq!(color_choice(None, &quiet, ui), ColorChoice::Always);
        assert_eq!(color_choice(None, &loud, both), ColorChoice::Never);
        assert_eq!(color_choice(None, &loud, none), ColorChoice::Always);
        assert_eq!(color_choice(Some(ColorWhen::Never), &loud, ui), ColorChoice::Never);
    }
}

//! Where results and remarks go: stdout, or a pager before it, carries the result, stderr what people should know
//! besides. Knows colour and JSON; says when the reader of the result has gone away.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use git_remote_parler::terminal::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::ioctl_fionread;
use serde::Serialize;

use crate::cli::ColorWhen;
use crate::context::Context;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::pager::{Pager, PagerCommand};
use crate::{room_labels, text, visible_json};

/// How long the reader of a pipe may take to read what is in it, before that counts as read.
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// How long a reader that has read everything may take to close the pipe: `head` prints its lines in between.
const CLOSING: Duration = Duration::from_millis(20);
/// Between two looks into a pipe.
const LOOK: Duration = Duration::from_millis(2);

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
    color: ColorChoice,
    result: BufWriter<Sink>,
    remarks: AutoStream<io::Stderr>,
    /// The pager that is started when there is something to show.
    pager: Option<PagerCommand>,
    /// What is said when the pager has ended: it has the screen.
    kept_back: Vec<String>,
}

/// Where the bytes of a result go.
enum Sink {
    Stdout(AutoStream<io::Stdout>),
    /// Styled or not, as stdout would be: a pager shows what it is given.
    Pager(Pager, ColorChoice),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stream) => stream.write(bytes),
            Self::Pager(pager, ColorChoice::Never) => {
                pager.write_all(&anstream::adapter::strip_bytes(bytes).into_vec())?;
                Ok(bytes.len())
            }
            Self::Pager(pager, _) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stream) => stream.flush(),
            Self::Pager(pager, _) => pager.flush(),
        }
    }
}

impl Output {
    /// Streams of the process, coloured as `color` says.
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        Self {
            json,
            color,
            result: BufWriter::new(Sink::Stdout(AutoStream::new(io::stdout(), color))),
            remarks: AutoStream::new(io::stderr(), color),
            pager: None,
            kept_back: Vec::new(),
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

    /// From now on the result goes through a pager, where somebody looks at it.
    pub(crate) fn page(&mut self, context: &Context) -> Result<()> {
        if !self.json && self.is_terminal() {
            self.pager = PagerCommand::meant(context)?;
        }
        Ok(())
    }

    fn start_pager(&mut self) {
        if let Some(pager) = self.pager.take().and_then(|command| command.start()) {
            self.result = BufWriter::new(Sink::Pager(pager, self.color));
        }
    }

    /// Waits until the pager, if there is one, has been left, and says what was kept back meanwhile. What is shown after
    /// that goes to stdout.
    pub(crate) fn leave_pager(&mut self) {
        let stdout = BufWriter::new(Sink::Stdout(AutoStream::new(io::stdout(), self.color)));
        if let Sink::Pager(..) = self.result.get_ref() {
            let mut paged = std::mem::replace(&mut self.result, stdout);
            // Who left it early has seen enough.
            let _ = paged.flush();
            drop(paged);
        }
        for line in std::mem::take(&mut self.kept_back) {
            let _ = writeln!(self.remarks, "{line}");
        }
    }

    /// Adds text to the result. What others wrote in it has been escaped.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        match self.json {
            true => self.put(text),
            false => self.put(&room_labels::shown(text)),
        }
    }

    fn put(&mut self, text: &str) -> Result<()> {
        if self.pager.is_some() {
            self.start_pager();
        }
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
        match self.is_closed_within(Duration::ZERO) {
            true => Err(Error::output(&io::ErrorKind::BrokenPipe.into())),
            false => Ok(()),
        }
    }

    /// As [`Output::deliver`], for what counts as read from then on: where it goes through a pipe it waits until the
    /// reader has taken it out. A pager is waited for as long as somebody looks at it, another reader for a moment: it may
    /// begin to read when this process has ended.
    pub(crate) fn deliver_to_reader(&mut self) -> Result<()> {
        self.result.flush().map_err(|error| Error::output(&error))?;
        let begun = Instant::now();
        let gone = || Err(Error::output(&io::ErrorKind::BrokenPipe.into()));
        while self.unread().is_some_and(|unread| unread > 0) {
            if self.is_closed_within(LOOK) {
                return gone();
            }
            let is_paged = matches!(self.result.get_ref(), Sink::Pager(..));
            if !is_paged && begun.elapsed() >= READER_PATIENCE {
                return Ok(());
            }
        }
        match self.result.get_ref() {
            // It has read all there is: whoever leaves it now has been shown it.
            Sink::Pager(..) => Ok(()),
            Sink::Stdout(_) if self.is_pipe() && self.is_closed_within(CLOSING) => gone(),
            Sink::Stdout(_) if self.is_closed_within(Duration::ZERO) => gone(),
            Sink::Stdout(_) => Ok(()),
        }
    }

    /// How many bytes are in the pipe that nobody has read yet, where it is a pipe that can tell.
    fn unread(&self) -> Option<u64> {
        match self.result.get_ref() {
            Sink::Pager(pager, _) => ioctl_fionread(pager.pipe()?).ok(),
            Sink::Stdout(_) if self.is_pipe() => ioctl_fionread(io::stdout()).ok(),
            Sink::Stdout(_) => None,
        }
    }

    fn is_pipe(&self) -> bool {
        fstat(io::stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
    }

    /// Whether the reader goes away in this time, or has.
    fn is_closed_within(&self, time: Duration) -> bool {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let is_closed = |fd: std::os::fd::BorrowedFd<'_>| {
            let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
            poll(&mut polled, Some(&wait)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
        };
        match self.result.get_ref() {
            Sink::Pager(pager, _) => pager.pipe().is_none_or(|pipe| is_closed(pipe.as_fd())),
            Sink::Stdout(_) => is_closed(io::stdout().as_fd()),
        }
    }

    /// Warns people about what they are going to read, or have read: lines of ours, escaped.
    pub(crate) fn warn(&mut self, lines: &[String]) {
        for line in lines {
            self.say(styled(WARNING, &text::own_line(line)));
        }
    }

    /// Tells people something besides the result, escaped.
    pub(crate) fn remark(&mut self, remark: &str) {
        self.say(text::own_line(remark));
    }

    fn say(&mut self, line: String) {
        if let Sink::Pager(..) = self.result.get_ref() {
            self.kept_back.push(line);
            return;
        }
        // A remark that cannot be shown is no reason to fail.
        let _ = writeln!(self.remarks, "{line}");
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

//! `PARLER_TRACE`: what this program does, line by line, for whoever looks for a fault: requests, git children, decisions.
//! Without the variable nothing is set up. What is traced holds no token, key or invite, because nobody writes one into an
//! event; what others wrote in it is escaped here.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use jiff::Zoned;
use rustix::fs::OFlags;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{room_labels, text};

/// The variable, with the values of `GIT_TRACE`.
const VARIABLE: &str = "PARLER_TRACE";

/// What is traced: our own crates' events, and nobody else's.
const FILTER: &str = "off,parler_client=trace,git_remote_parler=trace,parler_git=trace";

/// Where the trace goes.
#[derive(Debug)]
enum Place {
    Nowhere,
    Stderr,
    File(File),
}

/// Traces from now on, if the environment asks for it.
pub(crate) fn start(environment: &Environment) -> Result<()> {
    let sink: Box<dyn Write + Send> = match place(environment)? {
        Place::Nowhere => return Ok(()),
        Place::Stderr => Box::new(io::stderr()),
        Place::File(file) => Box::new(file),
    };
    // Fails only when this process traces already.
    let _ = subscriber(sink).try_init();
    let arguments: Vec<_> = environment
        .arguments
        .iter()
        .map(|argument| argument.to_string_lossy())
        .collect();
    tracing::debug!(
        version = env!("CARGO_PKG_VERSION"),
        directory = %environment.directory.display(),
        "start: {}",
        arguments.first().map(|name| &**name).unwrap_or_default(),
    );
    Ok(())
}

fn subscriber(sink: Box<dyn Write + Send>) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(FILTER))
        // Nobody who reads the trace is no reason to say so where it should have been.
        .log_internal_errors(false)
        .event_format(Line)
        .with_writer(Mutex::new(sink))
        .finish()
}

fn place(environment: &Environment) -> Result<Place> {
    let Some(value) = environment.filled(VARIABLE) else {
        return Ok(Place::Nowhere);
    };
    let told = value.to_string_lossy();
    match &*told.to_ascii_lowercase() {
        "0" | "false" => return Ok(Place::Nowhere),
        "1" | "2" | "true" => return Ok(Place::Stderr),
        _ => {}
    }
    let path = Path::new(value);
    if !path.is_absolute() {
        return Err(Error::usage(format_args!(
            "{VARIABLE} is '{told}', which is neither 1 nor an absolute path"
        ))
        .then(format!("{VARIABLE}=1, or {VARIABLE}=/path/to/file")));
    }
    // A pipe that nobody reads would otherwise be waited for without a word.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nonblocking)
        .open(path)
        .and_then(|file| {
            rustix::io::ioctl_fionbio(&file, false)?;
            Ok(file)
        });
    opened
        .map(Place::File)
        .map_err(|error| Error::io(format_args!("write the trace to {told} ({VARIABLE})"), &error))
}

/// Lines as git's trace has them: the time of day, who, what.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut told = String::new();
        context.format_fields(Writer::new(&mut told), event)?;
        let metadata = event.metadata();
        let who = metadata.target().split("::").next().unwrap_or_default();
        let mark = if *metadata.level() <= Level::WARN { "! " } else { "" };
        let time = Zoned::now().strftime("%H:%M:%S%.6f").to_string();
        writeln!(
            writer,
            "{time} {who:<17} {mark}{}",
            room_labels::joined(&text::one_line(&told))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(value: &str) -> Result<Place> {
        place(&Environment::for_test(&[(VARIABLE, value)]))
    }

    #[test]
    fn it_takes_the_values_of_git_trace() {
        for value in ["", "0", "false"] {
            assert!(matches!(placed(value), Ok(Place::Nowhere)), "{value}");
        }
        for value in ["1", "2", "true", "TRUE"] {
            assert!(matches!(placed(value), Ok(Place::Stderr)), "{value}");
        }
        for value in ["yes", "3", "trace.log", "./trace.log", "~/trace.log"] {
            let refused = placed(value).unwrap_err();
            assert!(refused.line().contains("PARLER_TRACE=1"), "{}", refused.line());
        }
    }

    #[test]
    fn what_others_wrote_stays_in_its_line_and_other_crates_are_silent() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = Box::new(file.reopen().unwrap());
        tracing::subscriber::with_default(subscriber(sink), || {
            let theirs = "one\n12:34:56.000000 parler_git forged\u{1b}[2J\u{202e}";
            tracing::debug!(target: "parler_client::exchange", error = %theirs, "told");
            tracing::error!(target: "hyper", "not ours");
        });
        let trace = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(trace.lines().count(), 1, "{trace:?}");
        assert!(trace.contains(" parler_client     told error=one"), "{trace:?}");
        let is_hidden = |character: char| character.is_control() || character == '\u{202e}';
        assert!(!trace.trim_end().contains(is_hidden), "{trace:?}");
    }

    #[test]
    fn a_file_is_appended_to_and_is_its_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        for _ in 0..2 {
            let Ok(Place::File(mut file)) = placed(path.to_str().unwrap()) else {
                panic!("no file");
            };
            file.write_all(b"x\n").unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"x\nx\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(placed(directory.path().join("no/trace").to_str().unwrap()).is_err());
        assert!(placed(directory.path().to_str().unwrap()).is_err());
        // A pipe without a reader is not waited for; one with a reader gets all.
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(placed(pipe.to_str().unwrap()).is_err());
        let reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let Ok(Place::File(file)) = placed(pipe.to_str().unwrap()) else {
            panic!("no pipe");
        };
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
        drop(reader);
    }
}

//! The program that shows a long result page by page where somebody looks on: which one is meant, in the order that git
//! has, and its life. Started without a shell: its setting is split into words as a shell would, and nothing else of a
//! shell's language means anything in it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Context;
use crate::error::{Error, Result};

/// What git starts where nobody says anything.
const DEFAULT: &str = "less";
/// What git tells pagers that were told nothing: `less` ends by itself where all fits on the screen, and shows colours.
const SETTINGS: &[(&str, &str)] = &[("LESS", "FRX"), ("LV", "-c")];

static RUNS: AtomicBool = AtomicBool::new(false);

/// Whether a pager of ours runs now: then Ctrl-C is its business.
pub(crate) fn runs() -> bool {
    RUNS.load(Ordering::SeqCst)
}

/// How to start a pager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagerCommand {
    words: Vec<String>,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl PagerCommand {
    /// The pager that is meant: `--no-pager`, `pager.parler`, `GIT_PAGER`, `core.pager`, `PAGER`, `less`. None: there is to
    /// be none.
    pub(crate) fn meant(context: &Context) -> Result<Option<Self>> {
        if context.globals.no_pager {
            return Ok(None);
        }
        let text = |name: &str| {
            let value = context.environment.variable(name)?;
            Some((name.to_owned(), value.to_string_lossy().into_owned()))
        };
        let config = |key: &str| Ok::<_, Error>(context.config(key)?.map(|value| (key.to_owned(), value)));
        let own = match config("pager.parler")? {
            Some((_, value)) if is_bool(&value, false) => return Ok(None),
            Some((_, value)) if is_bool(&value, true) => None,
            own => own,
        };
        let chosen = match own.or_else(|| text("GIT_PAGER")) {
            Some(chosen) => Some(chosen),
            None => config("core.pager")?.or_else(|| text("PAGER")),
        };
        let (from, value) = chosen.unwrap_or_else(|| ("the default".to_owned(), DEFAULT.to_owned()));
        let words = shlex::split(&value).ok_or_else(|| {
            Error::usage(format_args!("{from} '{value}': a quotation mark is not closed"))
                .then("git config core.pager less")
        })?;
        // As for git, `cat` is no pager.
        if words.is_empty() || words == ["cat"] {
            return Ok(None);
        }
        let mut environment = context.environment.variables.clone();
        for (name, value) in SETTINGS {
            if context.environment.variable(name).is_none() {
                environment.push((name.into(), value.into()));
            }
        }
        Ok(Some(Self { words, environment }))
    }

    /// Starts it. None: it cannot be started, and what there is to show is shown without.
    pub(crate) fn start(&self) -> Option<Pager> {
        let (program, arguments) = self.words.split_first()?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .spawn()
            .ok()?;
        let stdin = child.stdin.take()?;
        RUNS.store(true, Ordering::SeqCst);
        Some(Pager {
            child,
            pipe: Some(File::from(OwnedFd::from(stdin))),
        })
    }
}

/// Git's words for yes and no.
fn is_bool(value: &str, which: bool) -> bool {
    let words: &[&str] = match which {
        true => &["true", "yes", "on", "1"],
        false => &["false", "no", "off", "0"],
    };
    words.iter().any(|word| word.eq_ignore_ascii_case(value))
}

/// A pager that runs. Waited for when it is dropped.
#[derive(Debug)]
pub(crate) struct Pager {
    child: Child,
    pipe: Option<File>,
}

impl Pager {
    /// Where what it shows is written.
    pub(crate) fn pipe(&self) -> Option<impl AsFd + '_> {
        self.pipe.as_ref()
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.pipe {
            Some(pipe) => pipe.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // The end of what it reads; whoever looks at it ends it.
        self.pipe = None;
        let _ = self.child.wait();
        RUNS.store(false, Ordering::SeqCst);
    }
}

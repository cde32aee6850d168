//! Being told to end by a signal: what waits in a repository to be proven, and what is half written, is removed, then the process ends as it would
//! have without us. Not for programs that handle signals themselves.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

use git_remote_parler::{git, quarantine};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::NamedTempFile;

use crate::pager;

/// Files that are being written, under names that nobody knows.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What a verb does before anything is ended.
static FIRST: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// From now on a signal that ends this process has this done first: for a verb that has more to bring to an end than files.
pub(crate) fn do_first(first: impl FnOnce() + Send + 'static) {
    *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first));
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file that is removed when a signal ends the process before it is [`finished`].
pub(crate) fn make_unfinished(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    // Made under the lock: a signal finds it neither half known nor unknown.
    let mut unfinished = unfinished();
    let file = make()?;
    unfinished.push(file.path().to_owned());
    Ok(file)
}

/// The file is in its place, or gone.
pub(crate) fn finished(path: &Path) {
    unfinished().retain(|other| other != path);
}

/// From now on these signals leave nothing unfinished. Where that cannot be arranged, the next fetch tidies up.
pub(crate) fn tidy_up_on_signals() {
    let ignored = ignored_signals();
    let heard = [SIGHUP, SIGINT, SIGTERM]
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let Ok(mut signals) = Signals::new(heard) else { return };
    thread::spawn(move || {
        for signal in signals.forever() {
            // Whoever looks at a pager stops what it does with Ctrl-C, and leaves it otherwise.
            if signal == SIGINT && pager::runs() {
                continue;
            }
            let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(first) = first {
                first();
            }
            let _no_more = git::end_children();
            let unfinished = unfinished();
            for file in unfinished.iter() {
                // One that cannot be removed is no reason to stay.
                let _ = fs::remove_file(file);
            }
            quarantine::remove_all_and(|| {
                // Fails only for what is no signal.
                let _ = emulate_default_handler(signal);
            });
        }
    });
}

/// The signals that whoever started us wants ignored, as `nohup` does and a shell for what runs in the background: one
/// bit each, as Linux tells them.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

//! Being told to end by a signal: what waits in a repository to be proven is removed, then the process ends as it would
//! have without us. Not for programs that handle signals themselves.

use std::fs;
use std::thread;

use git_remote_parler::quarantine;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From now on these signals leave nothing in a repository. Where that cannot be arranged, the next fetch tidies up.
pub(crate) fn tidy_up_on_signals() {
    let ignored = ignored_signals();
    let heard = [SIGHUP, SIGINT, SIGTERM]
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let Ok(mut signals) = Signals::new(heard) else { return };
    thread::spawn(move || {
        for signal in signals.forever() {
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

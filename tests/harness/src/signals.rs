//! Signals as a program finds them at a terminal, however the suite was started: what a shell runs in the background
//! inherits that SIGINT is ignored, and our programs respect that.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

/// Makes these signals end this process, so that programs started from it find them unignored: an ignored signal stays
/// ignored in a new program, a handled one is as usual there.
pub(crate) fn hand_down_as_usual() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let always = Arc::new(AtomicBool::new(true));
            // What a shell says of a program that the signal ended.
            register_conditional_shutdown(signal, 128 + signal, always).expect("a signal that can be handled");
        }
    });
}

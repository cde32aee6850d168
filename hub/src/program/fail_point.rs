//! Ends this process where a test wants it to end, in debug builds: `PARLER_HUB_FAIL_POINT=NAME` or `NAME:N` for the N-th
//! time. As the kernel would end it: no destructor runs, nothing is flushed.

use parler_hub::fail_point::{self, FailPoint};
use rustix::process::{Signal, getpid, kill_process};

use super::Failure;

const VARIABLE: &str = "PARLER_HUB_FAIL_POINT";

/// Arms the point that the environment names, if it names one.
pub(super) fn arm() -> Result<(), Failure> {
    let Ok(wanted) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    let (name, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    match (name.parse::<FailPoint>(), nth.parse()) {
        (Ok(point), Ok(nth)) => fail_point::arm(point, nth, end),
        _ => {
            return Err(Failure::Usage(format!(
                "{VARIABLE}: '{}' is no fail point",
                wanted.escape_debug()
            )));
        }
    }
    Ok(())
}

fn end() {
    // Where it cannot, the test that waits for the end says so.
    let _ = kill_process(getpid(), Signal::KILL);
}

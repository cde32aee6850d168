//! Messages read and their signatures checked, on all processors where there are many: most of what the first look at a
//! large room costs. Decides nothing about them.

use std::thread;

use parler_protocol::{HubId, Message, Verdict, verify};

/// How many are read at once: parsed, a message is several times as large.
pub(super) const AT_ONCE: usize = 512;
/// For fewer than this a thread does not pay.
const WORTH_A_THREAD: usize = 16;

/// A message with what is said of its signature, or why it cannot be read.
pub(super) type Checked = Result<(Message, Verdict), String>;

/// Reads messages, in their order.
pub(super) fn read(messages: &[impl AsRef<[u8]> + Sync], hub: &HubId) -> Vec<Checked> {
    let check_all = |some: &[_]| -> Vec<Checked> { some.iter().map(|bytes| check(bytes, hub)).collect() };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(messages.len() / WORTH_A_THREAD);
    if threads < 2 {
        return check_all(messages);
    }
    let share = messages.len().div_ceil(threads);
    thread::scope(|scope| {
        let shares: Vec<_> = messages
            .chunks(share)
            .map(|some| {
                (
                    some,
                    thread::Builder::new().spawn_scoped(scope, move || check_all(some)),
                )
            })
            .collect();
        let mut checked = Vec::with_capacity(messages.len());
        for (some, thread) in shares {
            // Where the system gives no thread, or it panicked, this one does the work.
            match thread.ok().and_then(|thread| thread.join().ok()) {
                Some(done) => checked.extend(done),
                None => checked.extend(check_all(some)),
            }
        }
        checked
    })
}

fn check(bytes: &impl AsRef<[u8]>, hub: &HubId) -> Checked {
    let message = Message::parse(bytes.as_ref()).map_err(|error| error.to_string())?;
    let verdict = verify(&message, hub);
    Ok((message, verdict))
}

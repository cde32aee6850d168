//! What ends threads that work until a test is over: set when it is dropped, so that a failed assertion ends them too. A scope
//! waits for its threads, and would for ever.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag when it goes.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

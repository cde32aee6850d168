//! What a hub still knows after its process was ended in the middle of work, or its disk failed: everything that it
//! acknowledged, once, in order; and that it says nothing before the disk has it. Ends the real program with SIGKILL.

#![allow(clippy::unwrap_used, missing_docs)]

mod busy_agent;
mod disk_errors;
// Steps at which a hub can be ended are in debug builds only.
#[cfg(debug_assertions)]
mod fail_points;
mod full_disk;
mod histories;
mod killed_hub;
mod kills;
mod load;
mod memory;
#[cfg(debug_assertions)]
mod migrations;
mod order;
mod stage;
mod worker;

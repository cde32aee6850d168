//! What a hub still knows after its process was ended in the middle of work: everything that it acknowledged, once, in
//! order. Ends the real program with SIGKILL; what only a power cut could show is shown elsewhere.

#![allow(clippy::unwrap_used, missing_docs)]

mod busy_agent;
mod killed_hub;
mod memory;

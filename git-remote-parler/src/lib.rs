//! The git transport of Parler: room refs, bundles, import, push, and the remote-helper session over any reader and
//! writer. Never prints, reads the environment or exits; that is the program's edge.

pub mod address;
pub mod addressee;
mod advertisement;
pub mod base;
mod base_fetch;
pub mod bundle;
pub mod checkout;
pub mod fetch;
mod fetch_plan;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod git;
pub mod held;
pub mod import;
mod keep;
mod lock_claim;
pub mod meter;
mod object_fetch;
pub mod pack;
mod packed_refs;
pub mod pins;
pub mod push;
pub mod quarantine;
pub mod repository;
pub mod risk;
pub mod room;
pub mod room_cache;
pub mod room_state;
pub mod session;
pub mod signing;
pub mod spool;
pub mod terminal;

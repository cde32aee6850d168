//! The git transport of Parler: room refs, bundles, import, push, and the remote-helper session over any reader and
//! writer. Never prints, reads the environment or exits; that is the program's edge.

pub mod address;
pub mod base;
pub mod bundle;
mod fetch_plan;
pub mod git;
pub mod pack;
pub mod push;
pub mod repository;
pub mod room;
pub mod room_cache;
pub mod room_state;
pub mod spool;

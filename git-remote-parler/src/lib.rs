//! The git transport of Parler: room refs, bundles, import, push, and the remote-helper session over any reader and
//! writer. Never prints, reads the environment or exits; that is the program's edge.

pub mod git;
pub mod repository;

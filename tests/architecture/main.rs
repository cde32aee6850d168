//! The shape of the code, as the design has it: which crate may know which, and what no library does or prints. Never looks at
//! behaviour.

#![allow(clippy::unwrap_used, missing_docs)]

mod arrows;
mod quiet_libraries;
mod secrets;
mod threat_cases;

use std::path::{Path, PathBuf};

/// The workspace's directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

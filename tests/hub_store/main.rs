//! The store and the blob store, on real files: what they promise about order, repetition, refs, members, blobs and
//! faults. Speaks no HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blob_files;
mod blobs;
mod claims;
mod contacts;
mod faults;
mod formats;
mod idempotency;
mod io_error;
mod job_members;
mod job_soak;
mod jobs;
mod log;
mod members;
mod model;
mod refs;
mod retention;
mod services;
mod staged_blobs;
mod support;
mod tokens;

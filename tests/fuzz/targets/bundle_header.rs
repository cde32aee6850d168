//! The beginning of a bundle.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| git_remote_parler::fuzzing::bundle_header(bytes));

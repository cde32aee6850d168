//! What git says to its helper.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| git_remote_parler::fuzzing::helper_input(bytes));

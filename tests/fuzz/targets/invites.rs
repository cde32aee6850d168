//! An invite's code or link.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_git::fuzzing::invite(bytes));

//! The names and ids of the protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_protocol::fuzzing::names(bytes));

//! A connection to a hub, byte by byte.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_hub::fuzzing::connection(bytes));

//! Requests to a hub that are HTTP.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_hub::fuzzing::call(bytes));

//! A hub's stream of events.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_client::fuzzing::event_stream(bytes));

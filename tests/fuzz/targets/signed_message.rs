//! A message as a hub returns it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parler_protocol::fuzzing::signed_message(bytes));

//! A remote's address, and a hub's.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    git_remote_parler::fuzzing::address(bytes);
    parler_client::fuzzing::hub_address(&String::from_utf8_lossy(bytes));
});

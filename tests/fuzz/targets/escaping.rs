//! Text of others, on its way to a terminal.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    parler_git::fuzzing::escaping(bytes);
    git_remote_parler::fuzzing::shown_line(bytes);
});

//! The seeds of the fuzz targets, `fixtures/fuzz/TARGET/*`, for the ordinary tests that try each of them once. Knows nothing
//! of what they are tried on.

use std::path::Path;

/// Hands each seed of a target to what is tried. Where one does not hold, its name is told.
pub fn each(target: &str, tried: impl Fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/fuzz")
        .join(target);
    let listed = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut seeds: Vec<_> = listed
        .map(|entry| entry.expect("a directory is read to its end").path())
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds in {}", directory.display());
    for seed in seeds {
        let bytes = std::fs::read(&seed).expect("a seed is a file");
        // What it says itself has been printed by then.
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tried(&bytes)));
        assert!(held.is_ok(), "{} does not hold", seed.display());
    }
}

//! Programs that a test writes. Never written by this process itself: a thread that forks meanwhile hands the file on,
//! open for writing, and until its child has become another program nobody can run the file (ETXTBSY).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a program with this text.
///
/// # Panics
/// When it cannot be made.
pub fn write_executable(path: &Path, text: &str) {
    let mut name = path.file_name().expect("a program has a name").to_owned();
    name.push(".text");
    let source = path.with_file_name(name);
    fs::write(&source, text).expect("a test's directory can be written");
    copy_executable(&source, path);
    fs::remove_file(&source).expect("it was written above");
}

/// Makes a program that is a copy of this one.
///
/// # Panics
/// When it cannot be made.
pub fn copy_executable(from: &Path, to: &Path) {
    let copied = Command::new("install")
        .args(["-m", "755"])
        .args([from, to])
        .stdin(Stdio::null())
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", to.display());
}

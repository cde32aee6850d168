//! A repository with a long history, made once for all tests and runs: the making takes longer than the tests.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::World;

/// Lines of every file. Long enough that a change of one travels as a delta.
const LINES: usize = 120;
const FILES: usize = 150;

/// A bare repository with this many commits on `main`, kept under `cache` (`CARGO_TARGET_TMPDIR`). Clone it; never
/// change it.
pub fn large_history(world: &World, cache: &str, commits: usize) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let made = Path::new(cache).join(format!("history-1-{commits}.git"));
    // A test that fails while making it must not fail the others.
    let _guard = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if made.join("complete").exists() {
        return made;
    }
    fs::create_dir_all(cache).expect("a directory for test data");
    let name = format!("history-{commits}.git");
    let repository = world.init(&name, "--bare");
    repository.import(stream(commits).as_bytes());
    repository.git("repack -adq").success();
    fs::write(repository.path().join("complete"), "").expect("just made");
    // Another suite may have made it at the same time; both are equal.
    if copy(repository.path(), &made).is_err() || !made.join("complete").exists() {
        return repository.path().to_owned();
    }
    made
}

/// Copies into a new directory beside the final place and moves it there whole.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let parent = to.parent().expect("a directory of the cache");
    let fresh = tempfile::Builder::new().prefix("making-").tempdir_in(parent)?;
    copy_tree(from, &fresh.path().join("r"))?;
    fs::rename(fresh.path().join("r"), to)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn stream(commits: usize) -> String {
    let mut stream = String::new();
    let content = |file: usize, changed: usize| {
        let mut text = String::new();
        for line in 0..LINES {
            let mark = if line == changed % LINES { changed } else { 0 };
            let _ = writeln!(
                text,
                "file {file} line {line} {:x} {mark}",
                (file * LINES + line) * 2_654_435_761
            );
        }
        text
    };
    for number in 0..commits {
        let message = format!("Change {number}\n");
        let _ = write!(
            stream,
            "commit refs/heads/main\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{message}\n",
            1_500_000_000 + number * 600,
            message.len()
        );
        let first = if number == 0 {
            0..FILES
        } else {
            number % FILES..number % FILES + 1
        };
        for file in first {
            let text = content(file, number);
            let _ = write!(
                stream,
                "M 100644 inline src/part{}/file{file}.txt\ndata {}\n{text}\n",
                file % 12,
                text.len()
            );
        }
    }
    stream
}

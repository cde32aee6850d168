//! Directories of files as they are: another one with the same files, however they came to be there.

use std::fs;
use std::path::Path;

/// Copies a directory with everything in it.
#[track_caller]
pub fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a place for the copy");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("an entry").is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file that can be read");
        }
    }
}

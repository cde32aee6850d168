//! Libraries do not speak, do not look around and do not leave: printing, the environment, the home directory and the
//! end of the process belong to the programs' edges.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// Where the sources of libraries are.
pub(super) const LIBRARIES: [&str; 5] = [
    "hub/protocol/src",
    "hub/client/src",
    "hub/src",
    "git-remote-parler/src",
    "parler-git/src",
];

/// The edges: programs, the one file that reads what the process was started with, and the wait that ends with its host.
const EDGES: [&str; 5] = [
    "hub/src/main.rs",
    "hub/src/program",
    "parler-git/src/bin/",
    "parler-git/src/commands/hook/park.rs",
    "parler-git/src/environment.rs",
];

const FORBIDDEN: [&str; 13] = [
    "println!(",
    "eprintln!(",
    "print!(",
    "eprint!(",
    "dbg!(",
    "std::env::",
    "use std::env",
    " env::",
    "(env::",
    "process::exit",
    "process::abort",
    "temp_dir()",
    "home_dir()",
];

/// What only the command line speaks through, and there where it says so by name.
const STANDARD_STREAMS: [&str; 3] = ["stdin()", "stdout()", "stderr()"];

/// The files of the command line that are its terminal.
const TERMINAL: [&str; 10] = [
    "parler-git/src/commands/hook.rs",
    "parler-git/src/helper.rs",
    "parler-git/src/input.rs",
    "parler-git/src/lib.rs",
    "parler-git/src/local_hub/serve.rs",
    "parler-git/src/outgoing.rs",
    "parler-git/src/output.rs",
    "parler-git/src/screen.rs",
    "parler-git/src/trace.rs",
    "parler-git/src/worker/guard.rs",
];

pub(super) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines that are built into the library: without comments, and without what is for tests alone.
fn built_lines(source: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    // Where an item for tests began: it ends with the closing bracket in the same column.
    let mut skipped: Option<(usize, bool)> = None;
    for (number, line) in source.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if let Some((column, opened)) = &mut skipped {
            let is_attribute = code.starts_with("#[");
            *opened |= code.contains('{');
            let ends = indent == *column
                && if *opened {
                    code.starts_with('}') || code.ends_with('}')
                } else {
                    code.ends_with(';')
                };
            if ends && !is_attribute {
                skipped = None;
            }
            continue;
        }
        if code.starts_with("#[cfg(test)]") || code == "#[test]" {
            skipped = Some((indent, false));
            continue;
        }
        if !code.starts_with("//") {
            lines.push((number + 1, line));
        }
    }
    lines
}

#[test]
fn libraries_print_nothing_read_no_environment_and_never_exit() {
    let root = root();
    let mut files = Vec::new();
    for library in LIBRARIES {
        sources(&root.join(library), &mut files);
    }
    assert!(files.len() > 40, "only {} sources found", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if EDGES.iter().any(|edge| name.starts_with(edge)) || name.ends_with("/tests.rs") || name.contains("/tests/") {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        for (number, line) in built_lines(&source) {
            // Splits a text and looks at nothing.
            let line = &line.replace("std::env::split_paths", "");
            let is_terminal = TERMINAL.contains(&name.as_str());
            let streams = STANDARD_STREAMS.iter().filter(|_| !is_terminal);
            for forbidden in FORBIDDEN.iter().chain(streams) {
                if line.contains(forbidden) {
                    found.push(format!("{name}:{number}: {}", line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_for_tests_is_told_apart() {
    let source = "fn a() {}\n// println!\n#[cfg(test)]\nuse b;\nfn c() {}\n#[cfg(test)]\nimpl D {\n    fn e() {\n    }\n}\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    let kept: Vec<_> = built_lines(source).into_iter().map(|(_, line)| line).collect();
    assert_eq!(kept, ["fn a() {}", "fn c() {}", "fn f() {}"]);
}

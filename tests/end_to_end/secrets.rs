//! Keys, tokens and the local hub's secret stay in their files: they are in no command line, log, configuration, message
//! or error, and nobody else can read the files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use parler_harness::LocalHub;

use super::world;

/// Every file below a directory.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_eq!(
                path.metadata().unwrap().permissions().mode() & 0o077,
                0,
                "{}",
                path.display()
            );
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The strings of a JSON value that are secret by their names.
fn secrets(value: &serde_json::Value, found: &mut Vec<String>) {
    let serde_json::Value::Object(fields) = value else {
        return;
    };
    for (name, value) in fields {
        match value.as_str() {
            Some(text) if ["seed", "token", "secret"].contains(&name.as_str()) => found.push(text.to_owned()),
            _ => secrets(value, found),
        }
    }
}

#[test]
fn secrets_stay_in_their_files() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    work.git("remote add team parler::room/try").success();
    work.commit("a.txt", "one\n");
    let user = work
        .user()
        .with("GIT_TRACE", "1")
        .with("GIT_TRACE_PACKET", "1")
        .with("PARLER_LOG", "trace");
    let mut said = Vec::new();
    let mut say = |answer: parler_harness::Output| {
        let answer = answer.either();
        said.push(format!("{answer:?}"));
    };
    for command in [
        "push team HEAD:refs/heads/x",
        "fetch team",
        "ls-remote parler::room/nosuch",
        "push team :refs/heads/nosuch",
    ] {
        say(user.git(command));
    }
    for command in [
        "whoami",
        "whoami --json",
        "rooms --json",
        "recv --room try --all --json",
        "roster --room try --json",
        "recv --room nosuch",
        "connect --local",
    ] {
        say(user.parler(command));
    }
    let hub = LocalHub::of(&user);
    let process = Path::new("/proc").join(hub.process.to_string());
    for file in ["cmdline", "environ"] {
        said.push(String::from_utf8_lossy(&fs::read(process.join(file)).unwrap()).into_owned());
    }
    said.push(hub.log().text());
    said.push(fs::read_to_string(work.path().join(".git/config")).unwrap());
    let mut caches = Vec::new();
    files_of_cache(&work.path().join(".git/parler"), &mut caches);
    said.extend(
        caches
            .iter()
            .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()),
    );

    let mut kept = Vec::new();
    files(&world.parler_home(), &mut kept);
    let mut secret = Vec::new();
    for path in &kept {
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o077,
            0,
            "{}",
            path.display()
        );
        if let Ok(value) = serde_json::from_slice(&fs::read(path).unwrap()) {
            secrets(&value, &mut secret);
        }
    }
    // A key, a session, and the hub's own.
    assert!(secret.len() >= 3, "{} secrets in {kept:#?}", secret.len());
    for (number, secret) in secret.iter().enumerate() {
        for text in &said {
            assert!(
                !text.contains(secret.as_str()),
                "secret {number} was said: {}",
                text.replace(secret.as_str(), "<SECRET>")
            );
        }
    }
}

fn files_of_cache(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_of_cache(&path, found)
        } else {
            found.push(path)
        }
    }
}

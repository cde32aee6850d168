//! Packs with large files that do not get smaller, made without git: git takes them, and what it must see to itself it packs.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git_remote_parler::bundle::{BundleHeader, HeaderRef};
use git_remote_parler::pack::{BuiltBundle, PackError, build_bundle};
use parler_harness::noise;
use parler_protocol::Oid;

use crate::bundle::{bytes_of, commits};
use crate::sandbox::{Repo, Sandbox};

/// As much noise as makes git's effort worth sparing.
const LARGE: usize = 16 << 20; // 16 MiB

/// The least that goes through in pieces.
const LARGE_TOO: usize = (8 << 20) + 1;

/// A bundle of a tip, and the git commands that it took. The room is known to take at most so many bytes.
fn built(
    sandbox: &Sandbox,
    repo: &Repo<'_>,
    tip: Oid,
    prerequisites: &[Oid],
    most: Option<u64>,
) -> (Result<BuiltBundle, PackError>, Vec<String>) {
    let repository = sandbox.open(repo);
    let header = BundleHeader {
        object_format: repository.object_format(),
        prerequisites: prerequisites.to_vec(),
        refs: vec![HeaderRef {
            name: "refs/heads/main".parse().unwrap(),
            oid: tip,
        }],
    };
    let commits = commits(&repository, &header);
    let git = sandbox.counting_git("started");
    let _ = fs::remove_file(sandbox.path("started"));
    let counted = git_remote_parler::repository::Repository::open(git, &repo.git_dir()).unwrap();
    let built = build_bundle(&counted, &header, commits, &sandbox.path("spools"), most);
    let started = match sandbox.path("started").exists() {
        true => sandbox.lines("started"),
        false => Vec::new(),
    };
    (built, started)
}

fn write(repo: &Repo<'_>, file: &str, content: &[u8]) {
    let path = repo.directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn committed(repo: &Repo<'_>) -> Oid {
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "-q", "-m", "Work"]);
    repo.oid("HEAD")
}

/// A sender whose second commit brings two large files beside small ones.
fn sender<'s>(sandbox: &'s Sandbox, format: &str) -> (Repo<'s>, Oid, Oid) {
    let sender = sandbox.init("sender", &["--object-format", format]);
    write(&sender, "small", b"text\n");
    write(&sender, "deep/er/small", b"more text\n");
    let base = committed(&sender);
    write(&sender, "small", b"text\nand a line\n");
    write(&sender, "deep/noise", &noise(LARGE, 1));
    write(&sender, "noise", &noise(LARGE_TOO, 2));
    let tip = committed(&sender);
    (sender, base, tip)
}

fn loose(repo: &Repo<'_>, revision: &str) -> PathBuf {
    let oid = repo.oid(revision).to_string();
    repo.git_dir().join("objects").join(&oid[..2]).join(&oid[2..])
}

#[test]
fn git_takes_what_is_written_without_it() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let (sender, base, tip) = sender(&sandbox, format);
        let receiver = sandbox.init("receiver", &["--object-format", format]);
        // The commit, 2 trees, 3 files; and all of history: twice 1 commit and 3 trees, less what did not change, 5 files.
        for (prerequisites, objects) in [(vec![], 12), (vec![base], 6)] {
            let (built, started) = built(&sandbox, &sender, tip, &prerequisites, None);
            assert_eq!(started, Vec::<String>::new());
            let built = built.unwrap();
            assert_eq!(built.objects, objects);
            let path = sandbox.path("a.bundle");
            fs::write(&path, bytes_of(&built)).unwrap();
            let path = path.to_str().unwrap();
            receiver.git(&[
                "-c",
                "transfer.fsckObjects=true",
                "fetch",
                "-q",
                path,
                "refs/heads/main",
            ]);
            receiver.git(&["fsck", "--strict", "--no-dangling"]);
            assert_eq!(receiver.oid("FETCH_HEAD"), tip);
            // Not more than the files, what is said of them, and a few small objects.
            let bytes = built.spool.size() as usize;
            assert!(bytes < LARGE + LARGE_TOO + (16 << 10), "{bytes}");
            if prerequisites.is_empty() {
                receiver.git(&["fetch", "-q", sender.directory.to_str().unwrap(), &base.to_string()]);
                let emptied = receiver.git_dir().join("objects");
                for pack in fs::read_dir(emptied.join("pack")).unwrap() {
                    fs::remove_file(pack.unwrap().path()).unwrap();
                }
                receiver.git(&["fetch", "-q", sender.directory.to_str().unwrap(), &base.to_string()]);
            }
        }
    }
}

#[test]
fn what_is_not_as_expected_is_for_git() {
    let sandbox = Sandbox::new();
    let (sender, base, tip) = sender(&sandbox, "sha1");
    let packs = |started: &[String]| started.iter().filter(|line| line.contains("pack-objects")).count();
    let built = |prerequisites: &[Oid]| built(&sandbox, &sender, tip, prerequisites, None);
    assert_eq!(packs(&built(&[base]).1), 0);

    // Whoever says how to pack.
    for setting in [
        "core.compression",
        "pack.compression",
        "pack.window",
        "core.bigFileThreshold",
    ] {
        sender.git(&["config", setting, "1"]);
        let (made, started) = built(&[base]);
        assert_eq!(packs(&started), 1, "{setting}");
        assert_eq!(made.unwrap().objects, 6);
        sender.git(&["config", "--unset", setting]);
    }

    // A file that is damaged or cut: git has words for it. Of one that has not the length that it says it makes a pack.
    let path = loose(&sender, "HEAD:deep/noise");
    let whole = fs::read(&path).unwrap();
    let replaced = |bytes: &[u8]| {
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    let mut damaged = whole.clone();
    damaged[LARGE / 2] ^= 1;
    let of_length = |length: usize| {
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::none());
        deflated.write_all(format!("blob {LARGE}\0").as_bytes()).unwrap();
        deflated.write_all(&noise(length, 1)).unwrap();
        deflated.finish().unwrap()
    };
    let (short, long) = (of_length(LARGE - 5), of_length(LARGE + 5));
    for bytes in [&damaged, &whole[..LARGE / 2].to_vec(), &short, &long] {
        replaced(bytes);
        let (made, started) = built(&[base]);
        let is_seen_by_git = ![&short, &long].contains(&bytes);
        assert_eq!(packs(&started), usize::from(is_seen_by_git));
        if is_seen_by_git {
            assert!(matches!(made, Err(PackError::Git(_))));
            continue;
        }
        let error = made.map(|built| built.objects).unwrap_err().to_string();
        let oid = sender.oid("HEAD:deep/noise");
        assert!(error.starts_with(&format!("object {oid} is damaged: ")), "{error}");
        assert!(error.ends_with("; what else is: git fsck"), "{error}");
    }
    replaced(&whole);
    assert_eq!(packs(&built(&[base]).1), 0);

    // In a pack git finds it compressed.
    sender.git(&["repack", "-q", "-a", "-d"]);
    assert_eq!(packs(&built(&[base]).1), 1);
}

#[test]
fn what_is_too_large_is_not_written_to_its_end() {
    let sandbox = Sandbox::new();
    let (sender, base, tip) = sender(&sandbox, "sha1");
    for most in [1 << 20, 9 << 20] {
        let (built, started) = built(&sandbox, &sender, tip, &[base], Some(most));
        assert_eq!(started, Vec::<String>::new());
        match built {
            Err(PackError::TooLarge { most: limit, so_far }) => {
                assert_eq!(limit, most);
                assert!(so_far < most + (1 << 20), "{so_far}");
            }
            other => panic!("{:?}", other.map(|built| built.objects)),
        }
    }
}

#[test]
fn files_of_which_git_would_send_what_changed_are_not_sent_whole() {
    const FILES: u64 = 6;
    let sandbox = Sandbox::new();
    let sender = sandbox.init("sender", &[]);
    let mut files: Vec<Vec<u8>> = (0..FILES).map(|number| noise(3 << 20, number)).collect();
    let put = |files: &[Vec<u8>]| {
        for (number, content) in files.iter().enumerate() {
            write(&sender, &format!("noise{number}"), content);
        }
        committed(&sender)
    };
    let base = put(&files);
    for content in &mut files {
        content[1 << 20] ^= 1;
    }
    let tip = put(&files);
    let (built, _) = built(&sandbox, &sender, tip, &[base], None);
    let size = built.unwrap().spool.size();
    assert!(size < 100 << 10, "{size}");
}

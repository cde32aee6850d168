//! What a repository holds at one moment, byte for byte, so that a test can say what a command changed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parler_protocol::BundleId;

use crate::Repository;

/// Everything in a repository's directories, and its refs as git tells them.
#[derive(Debug, Clone)]
pub struct Snapshot {
    entries: BTreeMap<String, String>,
}

/// One difference between two snapshots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// `ref NAME`, or the path of a file: below `.git/` for those of the repository itself, also in a bare or linked
    /// one.
    pub what: String,
    /// What it was; none where it did not exist.
    pub before: Option<String>,
    /// What it is; none where it is gone.
    pub after: Option<String>,
}

impl Snapshot {
    /// Looks at a repository.
    #[track_caller]
    pub fn of(repository: &Repository<'_>) -> Self {
        let mut entries = BTreeMap::new();
        // Refs first: asking git for them must not change anything, and if it did the files would tell.
        let refs = repository
            .git(["for-each-ref", "--format=%(objectname)%(symref) %(refname)"])
            .success();
        for line in refs.out().lines() {
            let (value, name) = line.split_once(' ').expect("the format above");
            entries.insert(format!("ref {name}"), value.to_owned());
        }
        let (git_dir, common_dir) = (repository.git_dir(), repository.common_dir());
        // A bare repository has no work tree.
        if !same_directory(repository.path(), &common_dir) {
            collect(repository.path(), "", &[&git_dir, &common_dir], &mut entries);
        }
        collect(&common_dir, ".git/", &[], &mut entries);
        if !git_dir.starts_with(&common_dir) {
            collect(&git_dir, ".git/", &[], &mut entries);
        }
        Self { entries }
    }

    /// What changed since an earlier look.
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (what, value) in &before.entries {
            let after = self.entries.get(what);
            if after != Some(value) {
                changes.push(Change {
                    what: what.clone(),
                    before: Some(value.clone()),
                    after: after.cloned(),
                });
            }
        }
        for (what, value) in &self.entries {
            if !before.entries.contains_key(what) {
                changes.push(Change {
                    what: what.clone(),
                    before: None,
                    after: Some(value.clone()),
                });
            }
        }
        changes.sort();
        changes
    }

    /// Asserts that nothing changed since an earlier look, except below these beginnings.
    #[track_caller]
    pub fn assert_same_as(&self, before: &Self, except: &[&str]) {
        let changes: Vec<_> = self
            .changes_since(before)
            .into_iter()
            .filter(|change| !except.iter().any(|allowed| change.what.starts_with(allowed)))
            .collect();
        assert!(changes.is_empty(), "changed: {changes:#?}");
    }

    /// What files and refs there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
}

fn same_directory(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok() == other.canonicalize().ok()
}

fn collect(directory: &Path, prefix: &str, without: &[&Path], entries: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let entry = entry.expect("a directory of the repository");
        let path: PathBuf = entry.path();
        if without.contains(&path.as_path()) {
            continue;
        }
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let meta = path.symlink_metadata().expect("nobody else changes it");
        let mode = meta.permissions().mode();
        let state = if meta.is_dir() {
            collect(&path, &format!("{name}/"), without, entries);
            format!("directory {mode:o}")
        } else if meta.is_symlink() {
            format!("link to {}", fs::read_link(&path).expect("a link").display())
        } else {
            let content = fs::read(&path).expect("a file of the repository");
            format!("{} bytes {mode:o} {}", content.len(), BundleId::of(&content).short())
        };
        entries.insert(name, state);
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |state: &Option<String>| state.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{}: {} -> {}", self.what, state(&self.before), state(&self.after))
    }
}

//! Everything in a repository before and after, to prove what an import left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parler_protocol::BundleId;

use crate::sandbox::Repo;

/// Every file and directory of the git directory and the work tree, with a hash of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    files: BTreeMap<String, String>,
    refs: String,
}

impl Snapshot {
    pub fn of(repo: &Repo) -> Self {
        let common = repo.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let mut files = BTreeMap::new();
        for root in [Path::new(&common), &repo.directory] {
            add(root, root, &mut files);
        }
        let refs = repo.git(&["for-each-ref", "--format=%(objectname) %(refname)"]);
        Self { files, refs }
    }

    /// Leaves out a file of the git directory.
    pub fn forget(&mut self, file: &str) {
        self.files.retain(|name, _| name.trim_start_matches(".git/") != file);
    }

    /// What an import may not change: all but objects and the refs under refs/parler/, however refs are stored.
    pub fn untouchable(&self) -> Self {
        let keep = |name: &str| {
            !["objects", "refs/parler", "packed-refs", "reftable", "logs/refs/parler"]
                .iter()
                .any(|part| name.starts_with(part) || name.starts_with(&format!(".git/{part}")))
        };
        // Locking a packed ref makes its directory, and removes it when it is empty afterwards.
        let is_ref_directory =
            |name: &str, hash: &str| name.trim_start_matches(".git/").starts_with("refs") && hash == "directory";
        let mut files = self.files.clone();
        files.retain(|name, hash| keep(name) && !is_ref_directory(name, hash));
        let refs = self
            .refs
            .lines()
            .filter(|line| !line.contains(" refs/parler/"))
            .collect::<Vec<_>>()
            .join("\n");
        Self { files, refs }
    }

    /// Fails with what differs, if anything does.
    pub fn assert_is(&self, before: &Self, what: &str) {
        assert_eq!(self.refs, before.refs, "{what}");
        assert_eq!((self.news(before), before.news(self)), (vec![], vec![]), "{what}");
    }

    /// Names of files that are in this snapshot and not in `before`, or differ.
    pub fn news<'a>(&'a self, before: &'a Self) -> Vec<&'a str> {
        let is_new = |(name, hash): &(&String, &String)| before.files.get(*name) != Some(*hash);
        self.files
            .iter()
            .filter(is_new)
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

fn add(root: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && !path.is_symlink() {
            files.insert(name, "directory".to_owned());
            add(root, &path, files);
        } else {
            files.insert(name, BundleId::of(&fs::read(&path).unwrap()).to_string());
        }
    }
}

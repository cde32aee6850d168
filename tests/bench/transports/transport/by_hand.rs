//! The floor of everything that carries bundles: git makes one, it is copied, git fetches from the copy. No server, no
//! signature, no check but a checksum, and nothing is waited for until it is on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{World, write_executable};

use super::{BRANCH, TRACKING, Transport};
use crate::arguments::TransportName;
use crate::meter::Task;

/// `push PLACE [BASE]`
const PUSH: &str = r#"#!/bin/sh
set -e
tip=$(git rev-parse refs/heads/main)
[ "$tip" != "$(cat "$1/tip" 2>/dev/null)" ] || exit 0
git bundle create --quiet "$1/new" refs/heads/main ${2:+"^$2"}
sum=$(sha256sum <"$1/new")
cp "$1/new" "$1/${sum%% *}"
rm "$1/new"
echo "${sum%% *}" >"$1/last"
echo "$tip" >"$1/tip"
"#;

/// `fetch PLACE REF [NEW]`
const FETCH: &str = r#"#!/bin/sh
set -e
name=$(cat "$1/last" 2>/dev/null) || exit 0
if [ -n "$3" ]; then git init --quiet --bare "$3"; cd "$3"; fi
[ "$name" != "$(cat last-by-hand 2>/dev/null)" ] || exit 0
sum=$(sha256sum <"$1/$name")
[ "${sum%% *}" = "$name" ]
git fetch --quiet "$1/$name" "+refs/heads/main:$2"
echo "$name" >last-by-hand
"#;

/// A directory of bundles for each remote.
#[derive(Debug)]
pub(super) struct ByHand {
    directory: PathBuf,
}

impl ByHand {
    pub(super) fn new(world: &World) -> Self {
        let directory = world.directory("by-hand");
        write_executable(&directory.join("push"), PUSH);
        write_executable(&directory.join("fetch"), FETCH);
        Self { directory }
    }

    fn task(&self, program: &str, directory: &Path, arguments: &[&str]) -> Task {
        let program = self.directory.join(program).display().to_string();
        let words = [program.as_str()];
        Task {
            words: words.iter().chain(arguments).map(|word| (*word).to_owned()).collect(),
            directory: directory.to_owned(),
            variables: Vec::new(),
        }
    }
}

impl<'w> Transport<'w> for ByHand {
    fn name(&self) -> TransportName {
        TransportName::Bundle
    }

    fn note(&self) -> String {
        "git bundle create, sha256sum, cp; sha256sum, git fetch from the file: the floor, with no network, fsync or check"
            .to_owned()
    }

    fn make(&self, remote: &str, _from: Option<&Path>) {
        fs::create_dir(self.directory.join(remote)).unwrap();
    }

    fn url(&self, remote: &str) -> String {
        self.directory.join(remote).display().to_string()
    }

    fn push(&self, client: &Path, remote: &str, base: Option<&str>) -> Task {
        let place = self.url(remote);
        let arguments: Vec<&str> = [place.as_str()].into_iter().chain(base).collect();
        self.task("push", client, &arguments)
    }

    fn fetch(&self, client: &Path, remote: &str) -> Task {
        self.task("fetch", client, &[&self.url(remote), TRACKING])
    }

    fn clone_to(&self, remote: &str, to: &Path) -> Task {
        let arguments = [&self.url(remote), BRANCH, to.to_str().unwrap()];
        self.task("fetch", to.parent().unwrap(), &arguments)
    }
}

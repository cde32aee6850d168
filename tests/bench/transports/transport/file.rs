//! `file://`: bare repositories, and git's own programs at both ends. Their processes are the client's children.

use std::path::{Path, PathBuf};

use parler_harness::World;

use super::{BRANCH, Transport};
use crate::arguments::TransportName;
use crate::prepared::link_repository;

/// A directory of bare repositories.
#[derive(Debug)]
pub(super) struct Served<'w> {
    world: &'w World,
    directory: PathBuf,
}

impl<'w> Served<'w> {
    pub(super) fn new(world: &'w World, name: &str) -> Self {
        let directory = world.directory(name);
        Self { world, directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, remote: &str) -> PathBuf {
        self.directory.join(format!("{remote}.git"))
    }

    /// Makes one that takes pushes.
    pub(super) fn make(&self, remote: &str, from: Option<&Path>) {
        let path = self.path(remote);
        if let Some(from) = from {
            link_repository(from, &path);
        } else {
            let user = self.world.user();
            user.git(["init", "--quiet", "--bare", path.to_str().unwrap()])
                .success();
        }
        let repository = self.world.repository(path);
        repository.git(["symbolic-ref", "HEAD", BRANCH]).success();
        repository.git("config http.receivepack true").success();
    }
}

/// Files of this machine.
#[derive(Debug)]
pub(super) struct File<'w>(Served<'w>);

impl<'w> File<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Self(Served::new(world, "served-as-files"))
    }
}

impl<'w> Transport<'w> for File<'w> {
    fn name(&self) -> TransportName {
        TransportName::File
    }

    fn note(&self) -> String {
        "no server: git's own programs read and write the other repository, as children of the command".to_owned()
    }

    fn make(&self, remote: &str, from: Option<&Path>) {
        self.0.make(remote, from);
    }

    fn url(&self, remote: &str) -> String {
        format!("file://{}", self.0.path(remote).display())
    }
}

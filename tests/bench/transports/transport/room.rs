//! Rooms of the hub of this machine, which the first command starts: every commit to the database is on the disk before the
//! command ends.

use std::fs;
use std::path::Path;

use parler_harness::{LocalHub, World};

use super::{BRANCH, Transport};
use crate::arguments::TransportName;
use crate::prepared::link_repository;

/// The local hub's rooms.
#[derive(Debug)]
pub(super) struct Room<'w> {
    world: &'w World,
}

impl<'w> Room<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        Self { world }
    }
}

impl<'w> Transport<'w> for Room<'w> {
    fn name(&self) -> TransportName {
        TransportName::Room
    }

    fn note(&self) -> String {
        "a room of the local hub: a process of its own, HTTP over loopback, signatures, synchronous=FULL, every check of an \
         import"
            .to_owned()
    }

    fn make(&self, remote: &str, from: Option<&Path>) {
        let user = self.world.user();
        match from {
            Some(from) => {
                // A copy, because a push leaves the name of its bundle behind.
                let copy = self.world.path().join("room-seed.git");
                link_repository(from, &copy);
                let push = ["push", "--quiet", &self.url(remote), &format!("{BRANCH}:{BRANCH}")];
                // Longer on a busy machine than any command of a test may take.
                let pushed = user.within(&copy).command("git", push).status();
                assert!(pushed.unwrap().success());
                fs::remove_dir_all(copy).unwrap();
            }
            None => {
                user.parler(["invite", "--group", remote]).success();
            }
        }
    }

    fn url(&self, remote: &str) -> String {
        format!("parler::room/{remote}")
    }

    fn server(&self) -> Option<u32> {
        LocalHub::if_any(&self.world.parler_home()).map(|hub| hub.process)
    }
}

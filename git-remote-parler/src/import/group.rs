//! Small bundles that arrived one after the other and wait to be taken in together.

use gix::ObjectId;
use parler_protocol::Oid;

use super::joined::JoinedPack;
use super::stores::Stores;
use super::vouching::{Vouched, vouches};
use crate::pack::entries::PackFlaw;

/// Bundles whose bytes have been checked, and whose objects git has not seen yet.
pub(super) struct Group {
    /// How many bundles there are.
    members: usize,
    /// The pack of the first: alone, it is handed on as it came.
    first: Vec<u8>,
    joined: JoinedPack,
    /// Whether each finds in the group all commits that it builds on.
    is_closed: bool,
}

/// A pack to be taken in, and what is known of it.
pub(super) struct GroupPack {
    pub(super) bytes: Vec<u8>,
    /// Whether everything that its objects refer to should be in it too.
    pub(super) is_whole: bool,
}

impl Group {
    pub(super) fn new(stores: &Stores) -> Self {
        Self {
            members: 0,
            first: Vec::new(),
            joined: JoinedPack::new(stores.hash()),
            is_closed: true,
        }
    }

    /// Takes a bundle's pack. `builds_on_others` says whether it expects commits that are not in the group. After a
    /// failure the group is as it was.
    pub(super) fn push(&mut self, pack: &[u8], builds_on_others: bool, stores: &Stores) -> Result<(), PackFlaw> {
        self.joined.push(pack, stores)?;
        if self.members == 0 {
            self.first = pack.to_vec();
        }
        self.members += 1;
        self.is_closed &= !builds_on_others;
        Ok(())
    }

    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// Whether the object comes with the group.
    pub(super) fn holds(&self, id: &[u8]) -> bool {
        self.joined.holds(id)
    }

    pub(super) fn is_full(&self) -> bool {
        self.joined.is_full()
    }

    /// Which of them, from 0, brought the object that git's words are about, where they are about one.
    pub(super) fn to_blame(&self, message: &str) -> Option<usize> {
        let (oid, _) = message.strip_prefix("object ")?.split_once(':')?;
        let oid: Oid = oid.parse().ok()?;
        self.joined.member_with(oid.as_bytes())
    }

    /// Its objects and those here that they rest on, if they need no git to be judged. `tips` are those of its bundles,
    /// `prerequisites` what these find in the repository.
    pub(super) fn vouched(&self, tips: &[Oid], prerequisites: &[Oid], stores: &Stores) -> Option<Vouched> {
        let ids = |oids: &[Oid]| -> Option<Vec<ObjectId>> {
            let id = |oid: &Oid| ObjectId::try_from(oid.as_bytes()).ok();
            oids.iter().map(id).collect()
        };
        let objects = self.joined.objects()?;
        let prerequisites = ids(prerequisites)?.into_iter().collect();
        let here = vouches(&objects, &ids(tips)?, &prerequisites, stores)?;
        Some(Vouched { objects, here })
    }

    /// How many bytes its pack has, or nearly so.
    pub(super) fn bytes(&self) -> u64 {
        match self.members {
            1 => self.first.len() as u64,
            _ => self.joined.bytes(),
        }
    }

    /// The pack that brings all of them.
    pub(super) fn finish(&mut self) -> Result<GroupPack, PackFlaw> {
        if self.members == 1 {
            return Ok(GroupPack {
                bytes: std::mem::take(&mut self.first),
                is_whole: self.is_closed,
            });
        }
        let is_whole = self.is_closed && !self.joined.is_thin();
        let bytes = self.joined.finish()?;
        Ok(GroupPack { bytes, is_whole })
    }
}

//! A room's log as read for retention: from its first message, and on from there when more has come. And what is remembered
//! of that until the next look, so that a room in which nothing became old is not read again. Gives up nothing itself.

use std::collections::{HashMap, HashSet};

use parler_protocol::{BundleId, Message, RoomName, Seq};

use super::needed::Scan;
use crate::store::{RoomMark, Store, StoreError};

/// What was seen of each room.
pub(super) type Memory = HashMap<RoomName, Seen>;

/// A log, as far as it was read.
#[derive(Debug)]
pub(super) struct Reading {
    scan: Scan,
    /// What came earlier is old, milliseconds since 1970.
    before: i64,
    /// The last message that was read.
    pub(super) up_to: Seq,
    /// The newest that is old.
    pub(super) old_up_to: Seq,
    /// When the first of the young that speak of blobs came, or may have spoken of some.
    next: i64,
    /// When the newest message came. What follows is no older.
    last: i64,
}

impl Reading {
    /// Nothing yet.
    pub(super) fn new(before: i64) -> Self {
        Self {
            scan: Scan::default(),
            before,
            up_to: Seq::ZERO,
            old_up_to: Seq::ZERO,
            next: i64::MAX,
            last: 0,
        }
    }

    /// Reads what follows, up to the end. False: there is a message that cannot be read.
    pub(super) async fn read_on(&mut self, store: &dyn Store, room: &RoomName) -> Result<bool, StoreError> {
        loop {
            let slice = store.log_slice(room, self.up_to).await?;
            if slice.is_empty() {
                return Ok(true);
            }
            for message in &slice {
                let seq = self.up_to.next();
                let (not_after, may_hold) = match (message.dropped_at, Message::parse(&message.stored)) {
                    // Its own time is gone, and was before this one; so is what it spoke of.
                    (Some(dropped_at), _) => (dropped_at, true),
                    (None, Ok(message)) => {
                        self.last = self.last.max(message.ts);
                        (message.ts, self.scan.take(&message, message.ts < self.before))
                    }
                    (None, Err(_)) => return Ok(false),
                };
                self.up_to = seq;
                if not_after < self.before {
                    // Times never go back along a log.
                    self.old_up_to = seq;
                } else if may_hold {
                    self.next = self.next.min(not_after);
                }
            }
        }
    }

    /// The blobs that are needed. None: it cannot be decided.
    pub(super) fn needed(&self) -> Option<HashSet<BundleId>> {
        self.scan.needed()
    }

    /// What is to be remembered of it, of a room that was not beyond this mark when the reading began.
    pub(super) fn seen(&self, mark: &RoomMark) -> Seen {
        Seen {
            mark: mark.clone(),
            next: self.next,
            last: self.last,
        }
    }
}

/// What a look at a room's blobs has left to later ones.
#[derive(Debug)]
pub(super) struct Seen {
    mark: RoomMark,
    /// When the first came that was too young, milliseconds since 1970.
    next: i64,
    /// When the newest message came.
    last: i64,
}

impl Seen {
    /// Of a room without blobs.
    pub(super) fn nothing(mark: &RoomMark) -> Self {
        Self {
            mark: mark.clone(),
            next: i64::MAX,
            // Nothing is known of its times: what comes later may bring one.
            last: i64::MIN,
        }
    }

    /// Whether another look would find nothing more: the refs are where they were, and what came since, or was too young
    /// then, is not older than `before`.
    pub(super) fn is_all(&self, now: &RoomMark, before: i64) -> bool {
        let is_same_room = self.mark.made_at == now.made_at && self.mark.newest_push == now.newest_push;
        let oldest = match self.mark.head == now.head {
            true => self.next,
            false => self.next.min(self.last),
        };
        is_same_room && before <= oldest
    }
}

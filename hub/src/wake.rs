//! Tells waiting readers that a room's log grew. A hint and nothing more: it may come late, doubled or not at all, and
//! carries no message. Whoever waits reads the log afterwards, and once before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_protocol::Head;
use tokio::sync::watch;

/// A way for the part of a hub that appends to wake the parts that wait.
pub trait Wake: Send + Sync + 'static {
    /// Says that the room's log reaches `head` now. Never blocks. `room` is [`parler_protocol::RoomName::key`].
    fn notify(&self, room: &str, head: Head);

    /// From now on hears of this room. Subscribe first and read afterwards, or a message in between goes unnoticed.
    fn subscribe(&self, room: &str) -> Subscription;
}

/// [`Wake`] within one process.
#[derive(Debug, Clone, Default)]
pub struct LocalWake {
    rooms: Arc<Rooms>,
}

/// The rooms that somebody waits for, and no others.
#[derive(Debug, Default)]
struct Rooms(Mutex<HashMap<String, Arc<watch::Sender<Option<Head>>>>>);

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<watch::Sender<Option<Head>>>>> {
        // The map is whole between any two of its calls, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalWake {
    /// One that nobody waits on.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rooms somebody waits for.
    pub fn rooms(&self) -> usize {
        self.rooms.lock().len()
    }
}

impl Wake for LocalWake {
    fn notify(&self, room: &str, head: Head) {
        // Waking a thousand readers takes a while; the map is free meanwhile.
        let sender = self.rooms.lock().get(room).cloned();
        if let Some(sender) = sender {
            sender.send_if_modified(|known| {
                let grew = known.is_none_or(|known| known.seq < head.seq);
                if grew {
                    *known = Some(head);
                }
                grew
            });
        }
    }

    fn subscribe(&self, room: &str) -> Subscription {
        let mut rooms = self.rooms.lock();
        let sender = rooms
            .entry(room.to_owned())
            .or_insert_with(|| Arc::new(watch::channel(None).0));
        let receiver = Some(sender.subscribe());
        drop(rooms);
        Subscription {
            room: room.to_owned(),
            receiver,
            rooms: Arc::clone(&self.rooms),
        }
    }
}

/// Hears of one room until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    room: String,
    /// Empty only while being dropped.
    receiver: Option<watch::Receiver<Option<Head>>>,
    rooms: Arc<Rooms>,
}

impl Subscription {
    /// Waits until the room's log has grown since the subscription, or since the last call returned. Nothing is lost
    /// when the future is dropped before it is ready.
    pub async fn changed(&mut self) -> Head {
        loop {
            if let Some(receiver) = &mut self.receiver
                && receiver.changed().await.is_ok()
            {
                if let Some(head) = *receiver.borrow_and_update() {
                    return head;
                }
            } else {
                // Its sender stays in the map as long as the subscription lives, so this is not reached; waiting for
                // ever is what a hint that never comes looks like.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut rooms = self.rooms.lock();
        self.receiver = None;
        if rooms.get(&self.room).is_some_and(|sender| sender.receiver_count() == 0) {
            rooms.remove(&self.room);
        }
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::{ChainHash, Seq};

    use super::*;

    fn head(seq: u64) -> Head {
        Head {
            seq: Seq::new(seq),
            h: ChainHash::from_bytes([0; 32]),
        }
    }

    #[tokio::test]
    async fn a_waiter_hears_of_its_room_and_of_no_other() {
        let wake = LocalWake::new();
        let (mut mine, mut other) = (wake.subscribe("a"), wake.subscribe("b"));
        wake.notify("a", head(1));
        wake.notify("a", head(2));
        assert_eq!(mine.changed().await, head(2));
        wake.notify("a", head(1));
        wake.notify("b", head(9));
        assert_eq!(other.changed().await, head(9));
        let quiet = tokio::time::timeout(std::time::Duration::ZERO, mine.changed()).await;
        assert!(quiet.is_err(), "an older head is no news");
    }

    #[tokio::test]
    async fn what_was_said_before_the_wait_is_heard() {
        let wake = LocalWake::new();
        let mut waiter = wake.subscribe("a");
        drop(tokio::time::timeout(std::time::Duration::ZERO, waiter.changed()).await);
        wake.notify("a", head(3));
        assert_eq!(waiter.changed().await, head(3));
    }

    #[test]
    fn rooms_nobody_waits_for_are_forgotten() {
        let wake = LocalWake::new();
        wake.notify("a", head(1));
        assert_eq!(wake.rooms(), 0);
        let (one, two) = (wake.subscribe("a"), wake.subscribe("a"));
        drop(one);
        assert_eq!(wake.rooms(), 1);
        drop(two);
        assert_eq!(wake.rooms(), 0);
    }
}

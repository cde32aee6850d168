//! Which blobs each member was sent to their end, in one answer or in several. Knows what went out, not what arrived;
//! what is whole is kept in the store behind the answer's back, so no reader waits for a disk.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use parler_protocol::{AgentId, BundleId, RoomName};

use crate::room_call::RoomCall;
use crate::state::SharedState;

/// Downloads of which a part went out and the rest may follow. With more of them the oldest are forgotten, and are whole
/// only when they begin anew.
const MAX_PARTIAL: usize = 4096;
/// Pieces of one download that do not touch each other.
const MAX_PIECES: usize = 64;

/// Whose download of what: the agent, the room by its key, the blob.
type Download = (AgentId, String, BundleId);

/// Downloads that are under way or were cut off.
#[derive(Debug, Default)]
pub(crate) struct Fetches(Mutex<Partial>);

#[derive(Debug, Default)]
struct Partial {
    sent: HashMap<Download, Vec<Range<u64>>>,
    order: VecDeque<Download>,
}

impl Fetches {
    /// These bytes of a blob of `size` went out. Whether all of it has by now.
    fn sent(&self, download: Download, bytes: Range<u64>, size: u64) -> bool {
        let mut partial = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = partial.sent.remove(&download);
        let is_new = earlier.is_none();
        let mut pieces = earlier.unwrap_or_default();
        add(&mut pieces, bytes);
        if size == 0 || pieces.first() == Some(&(0..size)) {
            partial.order.retain(|known| *known != download);
            return true;
        }
        if pieces.is_empty() || pieces.len() > MAX_PIECES {
            partial.order.retain(|known| *known != download);
            return false;
        }
        if is_new {
            partial.order.push_back(download.clone());
        }
        partial.sent.insert(download, pieces);
        if partial.order.len() > MAX_PARTIAL
            && let Some(oldest) = partial.order.pop_front()
        {
            partial.sent.remove(&oldest);
        }
        false
    }
}

/// Adds a range to ranges that are in order and do not touch.
fn add(pieces: &mut Vec<Range<u64>>, mut new: Range<u64>) {
    if new.is_empty() {
        return;
    }
    pieces.retain(|piece| {
        let touches = piece.start <= new.end && new.start <= piece.end;
        if touches {
            new = piece.start.min(new.start)..piece.end.max(new.end);
        }
        !touches
    });
    let place = pieces.partition_point(|piece| piece.start < new.start);
    pieces.insert(place, new);
}

/// What one answer sends to one member.
pub(crate) struct Sending {
    state: SharedState,
    agent: AgentId,
    room: RoomName,
}

impl Sending {
    /// An answer to this call. None for a token: it is nobody in the room.
    pub(crate) fn of(call: &RoomCall) -> Option<Self> {
        call.token.is_none().then(|| Self {
            state: Arc::clone(&call.state),
            agent: call.principal.agent,
            room: call.room.clone(),
        })
    }

    /// These bytes of a blob of `size` went out.
    pub(crate) fn sent(&self, id: BundleId, bytes: Range<u64>, size: u64) {
        if self.state.fetches.sent((self.agent, self.room.key(), id), bytes, size) {
            self.keep(vec![id]);
        }
    }

    /// These blobs went out whole.
    pub(crate) fn keep(&self, ids: Vec<BundleId>) {
        let (state, agent, room) = (Arc::clone(&self.state), self.agent, self.room.clone());
        // Without a runtime the hub is gone, and what it knows with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            match state.store.record_fetches(agent, &room, &ids, state.now_ms()).await {
                Ok(true) => state.wake.notify_facts(&room.key()),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "what was fetched is not kept"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::AgentKey;

    use super::*;

    fn download(blob: u8) -> Download {
        let agent = AgentKey::from_random([1; 32]).id();
        (agent, "build".to_owned(), BundleId::of(&[blob]))
    }

    #[test]
    fn a_blob_is_whole_when_all_of_it_went_out() {
        let fetches = Fetches::default();
        for (bytes, whole) in [
            (0..10, false),
            (60..100, false),
            (5..50, false),
            (50..59, false),
            (59..61, true),
            // And begins anew afterwards.
            (0..99, false),
            (99..100, true),
            (0..100, true),
        ] {
            assert_eq!(fetches.sent(download(1), bytes.clone(), 100), whole, "{bytes:?}");
        }
        assert!(fetches.sent(download(2), 0..0, 0), "an empty one is whole at once");
        assert!(!fetches.sent(download(3), 0..0, 9));
        let partial = fetches.0.lock().unwrap();
        assert_eq!((partial.sent.len(), partial.order.len()), (0, 0));
    }

    #[test]
    fn downloads_are_told_apart_and_old_ones_forgotten() {
        let fetches = Fetches::default();
        assert!(!fetches.sent(download(1), 0..5, 10));
        assert!(!fetches.sent(download(2), 5..10, 10));
        let mut of_other = download(1);
        of_other.1 = "ops".to_owned();
        assert!(!fetches.sent(of_other, 5..10, 10));
        for number in 0..MAX_PARTIAL as u64 {
            let (agent, room, _) = download(1);
            let blob = BundleId::of(&number.to_le_bytes());
            fetches.sent((agent, room, blob), 0..1, 10);
        }
        assert!(!fetches.sent(download(1), 5..10, 10), "forgotten");
        let partial = fetches.0.lock().unwrap();
        assert!(partial.sent.len() <= MAX_PARTIAL && partial.order.len() == partial.sent.len());
    }

    #[test]
    fn many_holes_are_not_remembered() {
        let fetches = Fetches::default();
        for number in 0..=MAX_PIECES as u64 {
            assert!(!fetches.sent(download(1), number * 2..number * 2 + 1, 1000));
        }
        assert_eq!(fetches.0.lock().unwrap().sent.len(), 0);
    }
}

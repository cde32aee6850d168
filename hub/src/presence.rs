//! Who is there: when each agent was last heard of, and in which rooms a new message would reach it at once. Kept in memory
//! alone: a hub that starts anew knows of nobody until they ask something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_protocol::AgentId;
use parler_protocol::api::WakePath;

use crate::wake::Wake;

/// Agents that are remembered although they wait for nothing. With more of them those are forgotten: the store knows when
/// each last posted something.
const MAX_AGENTS: usize = 64 << 10;

/// For how long an agent whose hooks looked for messages is taken for one whose next turn begins with them.
const TURN_MS: i64 = 24 * 3_600_000;

/// What is known of an agent.
#[derive(Debug, Default)]
struct Seen {
    /// Milliseconds since 1970.
    last: i64,
    /// How many streams and reads wait in each room, by [`parler_protocol::RoomName::key`].
    waiting: HashMap<String, Waits>,
    /// When a hook last looked for what leads the next turn; milliseconds since 1970.
    turn: Option<i64>,
}

/// How many wait in a room.
#[derive(Debug, Default)]
struct Waits {
    all: usize,
    /// As many of them as are of hooks that wake a coding agent's session.
    sessions: usize,
}

/// What is known of all agents.
pub(crate) struct Presence {
    agents: Mutex<HashMap<AgentId, Seen>>,
    wake: Arc<dyn Wake>,
}

impl Presence {
    /// Nobody is there. Those who look at a room are told by `wake` when somebody comes or goes.
    pub(crate) fn new(wake: Arc<dyn Wake>) -> Self {
        Self {
            agents: Mutex::default(),
            wake,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentId, Seen>> {
        // The map is whole between any two of its calls.
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent has asked for something.
    pub(crate) fn heard(&self, agent: AgentId, now_ms: i64) {
        let mut agents = self.lock();
        if agents.len() >= MAX_AGENTS && !agents.contains_key(&agent) {
            agents.retain(|_, seen| !seen.waiting.is_empty());
        }
        let seen = agents.entry(agent).or_default();
        seen.last = seen.last.max(now_ms);
    }

    /// When the agent was last heard of, where that is remembered.
    pub(crate) fn last_heard(&self, agent: &AgentId) -> Option<i64> {
        // One that waits was let in when it asked.
        self.lock().get(agent).map(|seen| seen.last)
    }

    /// A hook of the agent has looked for what leads its next turn.
    pub(crate) fn looked_for_turn(&self, agent: AgentId, now_ms: i64) {
        if let Some(seen) = self.lock().get_mut(&agent) {
            seen.turn = Some(now_ms);
        }
    }

    /// What would tell the agent of a message of this room.
    pub(crate) fn wake_path(&self, agent: &AgentId, room: &str, now_ms: i64) -> WakePath {
        let agents = self.lock();
        let Some(seen) = agents.get(agent) else {
            return WakePath::None;
        };
        match seen.waiting.get(room) {
            Some(waits) if waits.sessions > 0 => WakePath::Session,
            Some(_) => WakePath::Stream,
            None if seen.turn.is_some_and(|turn| now_ms - turn < TURN_MS) => WakePath::Turn,
            None => WakePath::None,
        }
    }

    /// An agent that waits, in no room as yet.
    pub(crate) fn waiting(self: &Arc<Self>, agent: AgentId) -> Waiting {
        self.waiting_for(agent, false)
    }

    /// As [`Presence::waiting`]. `is_session`: what waits is a hook that wakes the agent's session.
    pub(crate) fn waiting_for(self: &Arc<Self>, agent: AgentId, is_session: bool) -> Waiting {
        Waiting {
            presence: Arc::clone(self),
            agent,
            is_session,
            // Most wait in one.
            rooms: Vec::with_capacity(1),
        }
    }

    fn begin(&self, agent: AgentId, room: &str, is_session: bool) {
        let mut agents = self.lock();
        let seen = agents.entry(agent).or_default();
        let waits = seen.waiting.entry(room.to_owned()).or_default();
        waits.all += 1;
        waits.sessions += usize::from(is_session);
        let is_first = waits.all == 1;
        drop(agents);
        if is_first {
            self.wake.notify_facts(room);
        }
    }

    fn end(&self, agent: &AgentId, room: &str, is_session: bool) {
        let mut agents = self.lock();
        let Some(seen) = agents.get_mut(agent) else { return };
        let Some(waits) = seen.waiting.get_mut(room) else {
            return;
        };
        waits.all -= 1;
        waits.sessions -= usize::from(is_session);
        let is_last = waits.all == 0;
        if is_last {
            seen.waiting.remove(room);
        }
        drop(agents);
        if is_last {
            self.wake.notify_facts(room);
        }
    }
}

/// One stream or read of an agent that waits for messages, until it is dropped.
pub(crate) struct Waiting {
    presence: Arc<Presence>,
    agent: AgentId,
    is_session: bool,
    rooms: Vec<String>,
}

impl Waiting {
    /// It hears of this room, too.
    pub(crate) fn in_room(&mut self, room: &str) {
        if !self.rooms.iter().any(|known| known == room) {
            self.presence.begin(self.agent, room, self.is_session);
            self.rooms.push(room.to_owned());
        }
    }

    /// It no longer hears of this room.
    pub(crate) fn left(&mut self, room: &str) {
        if let Some(index) = self.rooms.iter().position(|known| known == room) {
            let room = self.rooms.swap_remove(index);
            self.presence.end(&self.agent, &room, self.is_session);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for room in &self.rooms {
            self.presence.end(&self.agent, room, self.is_session);
        }
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::AgentKey;

    use super::*;
    use crate::wake::LocalWake;

    #[tokio::test]
    async fn who_waits_in_a_room_is_woken_there_and_nowhere_else() {
        let wake = Arc::new(LocalWake::new());
        let presence = Arc::new(Presence::new(Arc::clone(&wake) as Arc<dyn Wake>));
        let agent = AgentKey::from_random([1; 32]).id();
        let mut changes = wake.subscribe_facts("a");
        let quiet = |changes: &mut crate::wake::FactSubscription| {
            let now = std::task::Context::from_waker(std::task::Waker::noop());
            let mut now = now;
            let mut changed = Box::pin(changes.changed());
            changed.as_mut().poll(&mut now).is_pending()
        };
        let mut one = presence.waiting(agent);
        assert_eq!(presence.wake_path(&agent, "a", 0), WakePath::None);
        one.in_room("a");
        one.in_room("a");
        changes.changed().await;
        assert_eq!(presence.wake_path(&agent, "a", 0), WakePath::Stream);
        assert_eq!(presence.wake_path(&agent, "b", 0), WakePath::None);
        let mut two = presence.waiting(agent);
        two.in_room("a");
        drop(one);
        assert_eq!(presence.wake_path(&agent, "a", 0), WakePath::Stream);
        assert!(quiet(&mut changes), "it still waits");
        two.left("a");
        changes.changed().await;
        assert_eq!(presence.wake_path(&agent, "a", 0), WakePath::None);
        drop(two);
        assert!(quiet(&mut changes));
    }

    #[test]
    fn hooks_are_a_way_of_their_own() {
        let presence = Arc::new(Presence::new(Arc::new(LocalWake::new())));
        let agent = AgentKey::from_random([1; 32]).id();
        presence.looked_for_turn(agent, 5);
        assert_eq!(
            presence.wake_path(&agent, "a", 5),
            WakePath::None,
            "nobody that was heard of"
        );
        presence.heard(agent, 5);
        presence.looked_for_turn(agent, 5);
        assert_eq!(presence.wake_path(&agent, "a", 6), WakePath::Turn);
        assert_eq!(presence.wake_path(&agent, "a", 5 + TURN_MS), WakePath::None);
        let mut session = presence.waiting_for(agent, true);
        session.in_room("a");
        assert_eq!(presence.wake_path(&agent, "a", 6), WakePath::Session);
        let mut stream = presence.waiting(agent);
        stream.in_room("a");
        drop(session);
        assert_eq!(presence.wake_path(&agent, "a", 6), WakePath::Stream);
        drop(stream);
        assert_eq!(presence.wake_path(&agent, "a", 6), WakePath::Turn);
    }

    #[test]
    fn the_last_word_of_an_agent_counts() {
        let presence = Presence::new(Arc::new(LocalWake::new()));
        let agent = AgentKey::from_random([1; 32]).id();
        assert_eq!(presence.last_heard(&agent), None);
        presence.heard(agent, 7);
        presence.heard(agent, 5);
        assert_eq!(presence.last_heard(&agent), Some(7));
    }
}

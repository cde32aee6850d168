//! Tells those who wait that a room's log grew, that an agent came into a room, that its readers did something, or that there
//! is work in it. A hint and nothing more: it may come late, doubled or not at all, and carries no message. Whoever waits
//! reads afterwards, and once before.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_protocol::{AgentId, Head};
use tokio::sync::Notify;

/// A way for the part of a hub that writes to wake the parts that wait.
pub trait Wake: Send + Sync + 'static {
    /// Says that the room's log reaches `head` now. Never blocks. `room` is [`parler_protocol::RoomName::key`].
    fn notify(&self, room: &str, head: Head);

    /// From now on hears of this room. Subscribe first and read afterwards, or a message in between goes unnoticed.
    fn subscribe(&self, room: &str) -> Subscription;

    /// Says that the agent may be in a room now that it was not in before. Never blocks.
    fn notify_joined(&self, agent: AgentId);

    /// From now on hears of rooms that are new to this agent.
    fn subscribe_joined(&self, agent: AgentId) -> JoinSubscription;

    /// Says that somebody may no longer be in this room, or the room no longer there: who waits for it looks again. Never
    /// blocks. `room` is [`parler_protocol::RoomName::key`].
    fn notify_left(&self, room: &str);

    /// From now on hears of such departures from this room.
    fn subscribe_left(&self, room: &str) -> FactSubscription;

    /// Says that what is known of a room beside its log may have changed: a cursor, a download, who waits. Never
    /// blocks. `room` is [`parler_protocol::RoomName::key`].
    fn notify_facts(&self, room: &str);

    /// From now on hears of such changes in this room.
    fn subscribe_facts(&self, room: &str) -> FactSubscription;

    /// Says that there may be a job in this room for whoever waits for one, or sooner than was said. Never blocks. `room` is
    /// [`parler_protocol::RoomName::key`].
    fn notify_jobs(&self, room: &str);

    /// From now on hears of such jobs in this room, and of departures from it.
    fn subscribe_jobs(&self, room: &str) -> FactSubscription;
}

/// [`Wake`] within one process.
#[derive(Debug, Clone, Default)]
pub struct LocalWake {
    rooms: Arc<Topics<Arc<str>, News>>,
    agents: Arc<Topics<AgentId, ()>>,
    facts: Arc<Topics<Arc<str>, ()>>,
    jobs: Arc<Topics<Arc<str>, ()>>,
    departures: Arc<Topics<Arc<str>, ()>>,
}

/// What is told of a room's log.
#[derive(Debug, Clone, Copy, Default)]
struct News {
    /// How far it reaches, where that was said since the last departure.
    head: Option<Head>,
    /// How often somebody may have left: no head that is told afterwards hides it.
    departures: u64,
}

/// What somebody waits for, and nothing else.
#[derive(Debug)]
struct Topics<K, V>(Mutex<HashMap<K, Arc<Topic<V>>>>);

/// What is told of one of them. A third of what a channel of tokio's holds: ten thousand streams have one each.
#[derive(Debug, Default)]
struct Topic<V> {
    told: Mutex<Told<V>>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Told<V> {
    what: V,
    /// How often that was news.
    times: u64,
    listeners: usize,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two calls, so a panic elsewhere does not spoil it.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V> Topic<V> {
    /// Changes what is told, and wakes who waits for it where `change` says that it is news.
    fn tell(&self, change: impl FnOnce(&mut V) -> bool) {
        let mut told = lock(&self.told);
        let is_news = change(&mut told.what);
        told.times += u64::from(is_news);
        drop(told);
        if is_news {
            self.news.notify_waiters();
        }
    }
}

impl<K, V> Default for Topics<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Default> Topics<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Topic<V>>>> {
        lock(&self.0)
    }

    /// Tells it to who waits for this. The map is free meanwhile: to wake a thousand readers takes a while.
    fn tell<Q: Eq + Hash + ?Sized>(&self, key: &Q, change: impl FnOnce(&mut V) -> bool)
    where
        K: Borrow<Q>,
    {
        let topic = self.lock().get(key).cloned();
        if let Some(topic) = topic {
            topic.tell(change);
        }
    }

    fn subscribe(self: &Arc<Self>, key: K) -> Listener<K, V> {
        let mut topics = self.lock();
        // All who wait for it share one key.
        let known = topics
            .get_key_value(&key)
            .map(|(key, topic)| (key.clone(), Arc::clone(topic)));
        let (key, topic) = known.unwrap_or_else(|| {
            let topic = Arc::default();
            topics.insert(key.clone(), Arc::clone(&topic));
            (key, topic)
        });
        let mut told = lock(&topic.told);
        told.listeners += 1;
        let heard = told.times;
        drop(told);
        Listener {
            key,
            topic,
            heard,
            topics: Arc::clone(self),
        }
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

    /// How many agents' new rooms somebody waits for.
    pub fn agents(&self) -> usize {
        self.agents.lock().len()
    }
}

impl Wake for LocalWake {
    fn notify(&self, room: &str, head: Head) {
        self.rooms.tell(room, |known: &mut News| {
            let grew = known.head.is_none_or(|known| known.seq < head.seq);
            if grew {
                known.head = Some(head);
            }
            grew
        });
    }

    fn subscribe(&self, room: &str) -> Subscription {
        let listener = self.rooms.subscribe(Arc::from(room));
        let departures = lock(&listener.topic.told).what.departures;
        Subscription { listener, departures }
    }

    fn notify_joined(&self, agent: AgentId) {
        self.agents.tell(&agent, |()| true);
    }

    fn subscribe_joined(&self, agent: AgentId) -> JoinSubscription {
        JoinSubscription(self.agents.subscribe(agent))
    }

    fn notify_left(&self, room: &str) {
        // No news of the log, and yet a reason to read it. The room may be gone: another one under its name begins anew.
        self.rooms.tell(room, |known: &mut News| {
            known.head = None;
            known.departures += 1;
            true
        });
        for topic in [&self.departures, &self.facts, &self.jobs] {
            topic.tell(room, |()| true);
        }
    }

    fn subscribe_left(&self, room: &str) -> FactSubscription {
        FactSubscription(self.departures.subscribe(Arc::from(room)))
    }

    fn notify_facts(&self, room: &str) {
        self.facts.tell(room, |()| true);
    }

    fn subscribe_facts(&self, room: &str) -> FactSubscription {
        FactSubscription(self.facts.subscribe(Arc::from(room)))
    }

    fn notify_jobs(&self, room: &str) {
        self.jobs.tell(room, |()| true);
    }

    fn subscribe_jobs(&self, room: &str) -> FactSubscription {
        FactSubscription(self.jobs.subscribe(Arc::from(room)))
    }
}

/// Hears of one room until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    listener: Listener<Arc<str>, News>,
    /// Of which it has heard.
    departures: u64,
}

impl Subscription {
    /// Waits until the room's log has grown since the subscription, or since the last call returned, or somebody may have
    /// left the room. Says how far the log reaches, or nothing where somebody may have left: then whoever hears it looks for
    /// itself. Nothing is lost when the future is dropped before it is ready.
    pub async fn changed(&mut self) -> Option<Head> {
        let news = self.listener.changed().await;
        let heard = std::mem::replace(&mut self.departures, news.departures);
        news.head.filter(|_| heard == news.departures)
    }
}

/// Hears of rooms that are new to one agent until it is dropped.
#[derive(Debug)]
pub struct JoinSubscription(Listener<AgentId, ()>);

impl JoinSubscription {
    /// As [`Subscription::changed`].
    pub async fn changed(&mut self) {
        self.0.changed().await;
    }
}

/// Hears of changes among the readers of one room, of jobs in it, or of departures from it, until it is dropped.
#[derive(Debug)]
pub struct FactSubscription(Listener<Arc<str>, ()>);

impl FactSubscription {
    /// As [`Subscription::changed`].
    pub async fn changed(&mut self) {
        self.0.changed().await;
    }

    /// Whether [`FactSubscription::changed`] would return at once.
    pub fn has_changed(&self) -> bool {
        lock(&self.0.topic.told).times != self.0.heard
    }
}

#[derive(Debug)]
struct Listener<K: Eq + Hash + Clone, V: Default> {
    key: K,
    topic: Arc<Topic<V>>,
    /// How often there was news that it knows.
    heard: u64,
    topics: Arc<Topics<K, V>>,
}

impl<K: Eq + Hash + Clone, V: Default + Copy> Listener<K, V> {
    async fn changed(&mut self) -> V {
        loop {
            // First, so that no news comes between looking and waiting.
            let news = self.topic.news.notified();
            let (what, times) = {
                let told = lock(&self.topic.told);
                (told.what, told.times)
            };
            if times != self.heard {
                self.heard = times;
                return what;
            }
            news.await;
        }
    }
}

impl<K: Eq + Hash + Clone, V: Default> Drop for Listener<K, V> {
    fn drop(&mut self) {
        let mut topics = self.topics.lock();
        let mut told = lock(&self.topic.told);
        told.listeners -= 1;
        let is_last = told.listeners == 0;
        drop(told);
        if is_last {
            topics.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::{AgentKey, ChainHash, Seq};

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
        assert_eq!(mine.changed().await, Some(head(2)));
        wake.notify("a", head(1));
        wake.notify("b", head(9));
        assert_eq!(other.changed().await, Some(head(9)));
        let quiet = tokio::time::timeout(std::time::Duration::ZERO, mine.changed()).await;
        assert!(quiet.is_err(), "an older head is no news");
        wake.notify_left("a");
        assert_eq!(mine.changed().await, None, "who waits looks again");
        wake.notify("a", head(1));
        assert_eq!(mine.changed().await, Some(head(1)), "a room made anew begins anew");
        wake.notify_left("a");
        wake.notify("a", head(2));
        assert_eq!(mine.changed().await, None, "what came after hides no departure");
        wake.notify("a", head(3));
        assert_eq!(mine.changed().await, Some(head(3)));
        let mut late = wake.subscribe("a");
        wake.notify("a", head(4));
        assert_eq!(
            late.changed().await,
            Some(head(4)),
            "what was before it is nothing to it"
        );
    }

    #[test]
    fn what_each_of_ten_thousand_streams_has_is_small() {
        let bytes = size_of::<Topic<News>>();
        assert!(bytes < 140, "{bytes} bytes");
    }

    #[tokio::test]
    async fn what_was_said_before_the_wait_is_heard() {
        let wake = LocalWake::new();
        let mut waiter = wake.subscribe("a");
        drop(tokio::time::timeout(std::time::Duration::ZERO, waiter.changed()).await);
        wake.notify("a", head(3));
        assert_eq!(waiter.changed().await, Some(head(3)));
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

    #[tokio::test]
    async fn an_agent_hears_of_its_own_new_rooms_and_is_forgotten_afterwards() {
        let wake = LocalWake::new();
        let [alice, bob] = [1, 2].map(|seed| AgentKey::from_random([seed; 32]).id());
        let mut waiter = wake.subscribe_joined(alice);
        wake.notify_joined(bob);
        let quiet = tokio::time::timeout(std::time::Duration::ZERO, waiter.changed()).await;
        assert!(quiet.is_err(), "somebody else's room");
        wake.notify_joined(alice);
        waiter.changed().await;
        assert_eq!(wake.agents(), 1);
        drop(waiter);
        assert_eq!(wake.agents(), 0);
    }
}

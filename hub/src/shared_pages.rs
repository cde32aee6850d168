//! Pages of logs that several streams of a room read together: each is read once for all who stand where it begins, or come
//! there soon. Holds no page where all have what there is, and reads none for a stream that is alone. Knows nothing of what
//! a page says, nor why a stream may not have it: who gets none here reads by itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_protocol::{AgentId, Seq};
use tokio::sync::watch;

use crate::wake::{FactSubscription, Wake};

/// Streams that are so many messages behind the beginning of a page at most are asked for when it is read: they come there
/// while others have already left.
const NEARBY: u64 = 16;
/// Most pages of one room.
const MOST_PAGES: usize = 4;

/// The rooms that have streams, by [`parler_protocol::RoomName::key`].
type Rooms<P> = Mutex<HashMap<String, Arc<Room<P>>>>;

/// Where the streams of all rooms stand.
pub(crate) struct SharedPages<P>(Arc<Rooms<P>>);

impl<P> Default for SharedPages<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

struct Room<P> {
    key: String,
    watched: Mutex<Watched<P>>,
}

/// What is known of the streams of a room.
struct Watched<P> {
    /// Whose each is, by where it stands and its number. One of them is held in place: most rooms have no other.
    one: Option<((Seq, u64), AgentId)>,
    others: BTreeMap<(Seq, u64), AgentId>,
    opened: u64,
    /// By where they begin.
    pages: BTreeMap<Seq, Arc<Joint<P>>>,
}

/// A page that is read for several.
struct Joint<P> {
    /// Those since before it is read: what is known of who may have it is worth nothing after one.
    departures: FactSubscription,
    /// Once it is read. Its sender is gone without it: there is none.
    read: watch::Receiver<Option<Arc<Read<P>>>>,
}

struct Read<P> {
    page: P,
    /// Who could read the room when it was read.
    readers: HashSet<AgentId>,
}

/// Where one stream stands in its room, until it is dropped.
pub(crate) struct Place<P> {
    rooms: Arc<Rooms<P>>,
    room: Arc<Room<P>>,
    number: u64,
    agent: AgentId,
    /// The last message that was read.
    at: Seq,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two calls.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P> SharedPages<P> {
    /// A stream of this agent that has read the room up to here.
    pub(crate) fn stand(&self, room: &str, agent: AgentId, at: Seq) -> Place<P> {
        let mut rooms = lock(&self.0);
        let room = Arc::clone(rooms.entry(room.to_owned()).or_insert_with(|| {
            Arc::new(Room {
                key: room.to_owned(),
                watched: Mutex::new(Watched {
                    one: None,
                    others: BTreeMap::new(),
                    opened: 0,
                    pages: BTreeMap::new(),
                }),
            })
        }));
        let mut watched = lock(&room.watched);
        watched.opened += 1;
        let number = watched.opened;
        watched.insert((at, number), agent);
        drop(watched);
        drop(rooms);
        Place {
            rooms: Arc::clone(&self.0),
            room,
            number,
            agent,
            at,
        }
    }
}

impl<P> Watched<P> {
    fn insert(&mut self, stream: (Seq, u64), agent: AgentId) {
        match self.one {
            None => self.one = Some((stream, agent)),
            Some(_) => drop(self.others.insert(stream, agent)),
        }
    }

    fn remove(&mut self, stream: (Seq, u64)) {
        match self.one {
            Some((one, _)) if one == stream => self.one = None,
            _ => drop(self.others.remove(&stream)),
        }
    }

    fn count(&self) -> usize {
        usize::from(self.one.is_some()) + self.others.len()
    }

    /// Whose the streams are that stand from one place to another.
    fn between(&self, from: Seq, to: Seq) -> impl Iterator<Item = &AgentId> {
        let range = (from, 0)..=(to, u64::MAX);
        let one = self.one.iter().filter(|(stream, _)| range.contains(stream));
        let one: Option<&AgentId> = one.map(|(_, agent)| agent).next();
        one.into_iter().chain(self.others.range(range).map(|(_, agent)| agent))
    }

    /// Those that stand here, or come here soon.
    fn near(&self, at: Seq) -> impl Iterator<Item = &AgentId> {
        self.between(Seq::new(at.get().saturating_sub(NEARBY)), at)
    }

    /// Forgets the pages that nobody comes to any more, after a stream has left this place.
    fn forget_passed(&mut self, left: Seq) {
        let is_alone = self.count() < 2;
        if !is_alone && self.between(left, left).next().is_some() {
            return;
        }
        let mut pages = std::mem::take(&mut self.pages);
        pages.retain(|at, _| !is_alone && self.near(*at).next().is_some());
        self.pages = pages;
    }

    /// Makes room for a page that begins here, unless those that are there are all further on: then whoever stands here has
    /// fallen behind the others.
    fn has_room_for(&mut self, at: Seq) -> bool {
        if self.pages.len() < MOST_PAGES {
            return true;
        }
        let is_behind = self.pages.first_key_value().is_some_and(|(first, _)| at < *first);
        if !is_behind {
            self.pages.pop_first();
        }
        !is_behind
    }
}

impl<P> Place<P> {
    /// The last message that was read.
    pub(crate) fn at(&self) -> Seq {
        self.at
    }

    /// The stream has read up to here.
    pub(crate) fn move_to(&mut self, at: Seq) {
        let left = std::mem::replace(&mut self.at, at);
        if left != at {
            let mut watched = lock(&self.room.watched);
            watched.remove((left, self.number));
            watched.insert((at, self.number), self.agent);
            watched.forget_passed(left);
        }
    }
}

impl<P: Clone + Send + Sync + 'static> Place<P> {
    /// The page that begins here, where others want it, too. `read` reads it for these agents, and says who of them may have it;
    /// it is not called where somebody reads the page already. None: the stream has to read by itself.
    pub(crate) async fn page<F>(&self, wake: &dyn Wake, read: impl FnOnce(Vec<AgentId>) -> F) -> Option<P>
    where
        F: Future<Output = Option<(P, HashSet<AgentId>)>> + Send + 'static,
    {
        let joint = self.joint(wake, read)?;
        let read = joint.read.clone().wait_for(Option::is_some).await.ok()?.clone()?;
        // A room that was deleted since may have another one's log by now.
        let is_reader = read.readers.contains(&self.agent) && !joint.departures.has_changed();
        is_reader.then(|| read.page.clone())
    }

    fn joint<F>(&self, wake: &dyn Wake, read: impl FnOnce(Vec<AgentId>) -> F) -> Option<Arc<Joint<P>>>
    where
        F: Future<Output = Option<(P, HashSet<AgentId>)>> + Send + 'static,
    {
        let mut watched = lock(&self.room.watched);
        watched.pages.retain(|_, joint| !joint.departures.has_changed());
        if let Some(joint) = watched.pages.get(&self.at) {
            return Some(Arc::clone(joint));
        }
        if watched.near(self.at).nth(1).is_none() || !watched.has_room_for(self.at) {
            return None;
        }
        let agents: HashSet<AgentId> = watched.near(self.at).copied().collect();
        let (tell, told) = watch::channel(None);
        let joint = Arc::new(Joint {
            departures: wake.subscribe_left(&self.room.key),
            read: told,
        });
        watched.pages.insert(self.at, Arc::clone(&joint));
        drop(watched);
        let reading = read(agents.into_iter().collect());
        // By itself: the others do not depend on whether this stream's peer still takes anything.
        tokio::spawn(async move {
            if let Some((page, readers)) = reading.await {
                tell.send_replace(Some(Arc::new(Read { page, readers })));
            }
        });
        Some(joint)
    }
}

impl<P> Drop for Place<P> {
    fn drop(&mut self) {
        let mut rooms = lock(&self.rooms);
        let mut watched = lock(&self.room.watched);
        watched.remove((self.at, self.number));
        watched.forget_passed(self.at);
        if watched.count() == 0 {
            rooms.remove(&self.room.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use parler_protocol::AgentKey;

    use super::*;
    use crate::wake::LocalWake;

    const ROOM: &str = "r";

    fn agents<const N: usize>() -> [AgentId; N] {
        std::array::from_fn(|number| AgentKey::from_random([number as u8 + 1; 32]).id())
    }

    fn seq(number: u64) -> Seq {
        Seq::new(number)
    }

    /// Pages of which it is counted how often they are read. Each says who was asked for.
    #[derive(Default)]
    struct Counted {
        pages: SharedPages<Vec<AgentId>>,
        wake: LocalWake,
        reads: AtomicUsize,
    }

    impl Counted {
        fn stand(&self, agent: AgentId, at: u64) -> Place<Vec<AgentId>> {
            self.pages.stand(ROOM, agent, seq(at))
        }

        /// As [`Place::page`], read for all of them but this one.
        async fn page(&self, place: &Place<Vec<AgentId>>, but: Option<AgentId>) -> Option<Vec<AgentId>> {
            let read = |agents: Vec<AgentId>| {
                self.reads.fetch_add(1, Ordering::SeqCst);
                async move {
                    tokio::task::yield_now().await;
                    let readers = agents.iter().copied().filter(|agent| Some(*agent) != but).collect();
                    Some((agents, readers))
                }
            };
            place.page(&self.wake, read).await
        }

        /// How often was read since the last call.
        fn reads(&self) -> usize {
            self.reads.swap(0, Ordering::SeqCst)
        }

        /// How many pages there are of the room. None: it is not known.
        fn held(&self) -> Option<usize> {
            let rooms = lock(&self.pages.0);
            rooms.get(ROOM).map(|room| lock(&room.watched).pages.len())
        }
    }

    #[tokio::test]
    async fn streams_at_one_place_read_once_and_nothing_is_held_afterwards() {
        let counted = Counted::default();
        let [alice, bob, carol] = agents();
        let mut places = [alice, bob, bob, carol].map(|agent| counted.stand(agent, 5));
        for at in 6..9 {
            // All at once, then the last of them later.
            let first = join_all(places[1..].iter().map(|place| counted.page(place, None))).await;
            assert!(
                first
                    .iter()
                    .all(|page| page.as_ref().is_some_and(|page| page.len() == 3))
            );
            places[1..].iter_mut().for_each(|place| place.move_to(seq(at)));
            assert_eq!(counted.held(), Some(1));
            assert!(counted.page(&places[0], None).await.is_some());
            places[0].move_to(seq(at));
            assert_eq!((counted.reads(), counted.held()), (1, Some(0)));
        }
    }

    #[tokio::test]
    async fn who_comes_along_to_where_others_were_reads_nothing_again() {
        let counted = Counted::default();
        let [alice, bob] = agents();
        let (mut first, mut second) = (counted.stand(alice, 5), counted.stand(bob, 5));
        for at in 6..9 {
            assert!(counted.page(&first, None).await.is_some());
            first.move_to(seq(at));
        }
        for at in 6..9 {
            assert!(counted.page(&second, None).await.is_some());
            second.move_to(seq(at));
        }
        assert_eq!((counted.reads(), counted.held()), (3, Some(0)));
    }

    #[tokio::test]
    async fn who_may_not_read_or_came_later_gets_no_page() {
        let counted = Counted::default();
        let [alice, bob, carol] = agents();
        let places = [alice, bob].map(|agent| counted.stand(agent, 5));
        assert!(counted.page(&places[0], Some(bob)).await.is_some());
        assert!(counted.page(&places[1], Some(bob)).await.is_none());
        let late = counted.stand(carol, 5);
        assert!(counted.page(&late, None).await.is_none());
        assert_eq!(counted.reads(), 1);
    }

    #[tokio::test]
    async fn a_page_from_before_a_departure_is_for_nobody() {
        let counted = Counted::default();
        let [alice, bob] = agents();
        let places = [alice, bob].map(|agent| counted.stand(agent, 5));
        assert!(counted.page(&places[0], None).await.is_some());
        counted.wake.notify_left("elsewhere");
        assert!(counted.page(&places[1], None).await.is_some());
        assert_eq!(counted.reads(), 1);
        counted.wake.notify_left(ROOM);
        assert!(counted.page(&places[1], None).await.is_some());
        assert_eq!(counted.reads(), 1, "read again");
        // While it is read.
        let read = |agents: Vec<AgentId>| {
            counted.wake.notify_left(ROOM);
            async { Some((Vec::new(), agents.into_iter().collect())) }
        };
        counted.wake.notify_left(ROOM);
        assert!(places[0].page(&counted.wake, read).await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_stops_nobody() {
        let counted = Counted::default();
        let [alice, bob, carol] = agents();
        let [one, two, three] = [alice, bob, carol].map(|agent| counted.stand(agent, 5));
        tokio::select! {
            biased;
            _ = counted.page(&one, None) => panic!("it was read at once"),
            () = std::future::ready(()) => {}
        }
        drop(one);
        assert!(counted.page(&two, None).await.is_some());
        assert!(counted.page(&three, None).await.is_some());
        assert_eq!(counted.reads(), 1);
    }

    #[tokio::test]
    async fn who_is_alone_reads_by_itself_and_nothing_is_kept_for_it() {
        let counted = Counted::default();
        let [alice, bob] = agents();
        let first = counted.stand(alice, 5);
        assert!(counted.page(&first, None).await.is_none());
        let second = counted.stand(bob, 5);
        assert!(counted.page(&second, None).await.is_some());
        assert_eq!((counted.reads(), counted.held()), (1, Some(1)));
        drop(first);
        assert_eq!(counted.held(), Some(0), "one stream is left");
        // One that is far behind is nobody's company.
        let slow = counted.stand(alice, 5);
        let mut second = second;
        second.move_to(seq(5 + NEARBY + 1));
        assert!(counted.page(&second, None).await.is_none());
        assert!(counted.page(&slow, None).await.is_none());
        assert_eq!(counted.reads(), 0);
        drop((slow, second));
        assert_eq!(counted.held(), None);
        assert_eq!(counted.wake.rooms(), 0);
    }

    #[tokio::test]
    async fn streams_that_stand_still_keep_few_pages() {
        let counted = Counted::default();
        let [alice, bob, carol] = agents();
        let mut quick = counted.stand(alice, 5);
        let stuck = [bob, carol].map(|agent| counted.stand(agent, 5));
        for at in 6..5 + NEARBY {
            assert!(counted.page(&quick, None).await.is_some());
            quick.move_to(seq(at));
            assert!(counted.held() <= Some(MOST_PAGES));
        }
        counted.reads();
        // They have fallen behind all of them.
        for mut stuck in stuck {
            assert!(counted.page(&stuck, None).await.is_none());
            stuck.move_to(quick.at());
        }
        assert_eq!((counted.reads(), counted.held()), (0, Some(0)));
    }

    #[tokio::test]
    async fn a_page_that_cannot_be_read_is_asked_for_once() {
        let counted = Counted::default();
        let [alice, bob] = agents();
        let places = [alice, bob].map(|agent| counted.stand(agent, 5));
        for place in &places {
            let read = |_| {
                counted.reads.fetch_add(1, Ordering::SeqCst);
                async { None }
            };
            assert!(place.page(&counted.wake, read).await.is_none());
        }
        assert_eq!(counted.reads(), 1);
    }
}

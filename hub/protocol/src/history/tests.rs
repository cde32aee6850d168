//! Every way in which a log can turn out to be another, and every order of answers in which it is not.

use proptest::prelude::*;

use super::*;
use crate::{AgentKey, HubId};

/// The messages of a log, and its heads.
struct Log(Vec<Vec<u8>>);

fn start() -> ChainHash {
    ChainHash::start(&HubId::from_bytes([1; 16]), &"x".parse().unwrap())
}

impl Log {
    fn of(messages: &str) -> Self {
        Self(messages.bytes().map(|byte| vec![byte]).collect())
    }

    fn head(&self, seq: usize) -> Head {
        let h = self.0[..seq].iter().fold(start(), |h, message| h.next(message));
        Head {
            seq: Seq::new(seq as u64),
            h,
        }
    }

    /// What a read from `after` to `upto` gives.
    fn page(&self, after: usize, upto: usize) -> impl Iterator<Item = (&[u8], Option<&Claim>)> {
        self.0[after..upto].iter().map(|message| (message.as_slice(), None))
    }
}

fn told(history: &mut History, head: Head) {
    let asked = history.newest();
    history.told(&head, asked, 7);
}

fn read(history: &mut History, log: &Log, after: usize, upto: usize) {
    told(history, log.head(log.0.len()));
    history.read(&start(), Seq::new(after as u64), log.page(after, upto), 7);
}

fn claim(message: u64, name: &str, head: Head) -> Claim {
    let by = Claimant {
        message: Seq::new(message),
        id: AgentKey::from_random([message as u8; 32]).id(),
        name: name.to_owned(),
    };
    Claim { by, head }
}

/// Where a rewritten log begins to be another.
fn between(history: &History) -> Option<(u64, u64)> {
    match history.doubt() {
        Some(Doubt::Rewritten { after, at, .. }) => Some((after.get(), at.get())),
        _ => None,
    }
}

#[test]
fn a_log_that_grows_is_no_surprise() {
    let log = Log::of("abcdefgh");
    let mut history = History::default();
    told(&mut history, log.head(0));
    told(&mut history, log.head(3));
    for (after, upto) in [(0, 3), (3, 5), (4, 8), (0, 8)] {
        history.read(&start(), Seq::new(after), log.page(after as usize, upto), 7);
    }
    told(&mut history, log.head(8));
    for seq in 0..8 {
        history.claimed(&claim(8, "alice", log.head(seq)), 7);
    }
    assert_eq!(history.doubt(), None);
    assert_eq!(history.strangers(), []);
    assert_eq!(history.newest(), Seq::new(8));
    assert_eq!(history.newest_computed().unwrap().0, Seq::new(8));
}

#[test]
fn a_shorter_log_is_one_that_was_rolled_back() {
    let log = Log::of("abcde");
    let mut history = History::default();
    told(&mut history, log.head(5));
    told(&mut history, log.head(3));
    let doubt = history.doubt().unwrap().clone();
    assert_eq!(doubt.to_string(), "it ends at message 3, and message 5 was there");
    // It does not become right by growing again.
    told(&mut history, log.head(5));
    assert_eq!(history.doubt(), Some(&doubt));
}

#[test]
fn an_answer_is_compared_with_what_was_known_when_its_request_was_sent() {
    let log = Log::of("abcdefghi");
    let mut history = History::default();
    told(&mut history, log.head(5));
    let (first, second) = (history.newest(), history.newest());
    // The second request overtakes the first.
    history.told(&log.head(9), second, 7);
    history.told(&log.head(7), first, 7);
    assert_eq!(history.doubt(), None);
    assert_eq!(history.newest(), Seq::new(9));
    // One that was sent now has no such excuse.
    let third = history.newest();
    history.told(&log.head(7), third, 7);
    assert!(matches!(history.doubt(), Some(Doubt::RolledBack { .. })));
}

#[test]
fn another_chain_at_the_same_number_is_a_fork_whatever_the_order() {
    let (log, other) = (Log::of("abcde"), Log::of("abXde"));
    let mut history = History::default();
    told(&mut history, log.head(5));
    history.told(&other.head(5), Seq::ZERO, 7);
    assert_eq!(between(&history), Some((0, 5)));
    let doubt = history.doubt().unwrap().to_string();
    assert_eq!(doubt, "a message from 1 to 5 is not the one that was told of before");
    // Reading shows where.
    let mut reader = History::default();
    read(&mut reader, &log, 0, 5);
    told(&mut reader, other.head(5));
    assert_eq!(between(&reader), Some((0, 5)));
    reader.read(&start(), Seq::ZERO, other.page(0, 5), 7);
    assert_eq!(between(&reader), Some((2, 3)));
    let doubt = reader.doubt().unwrap().to_string();
    assert_eq!(doubt, "message 3 is not the message 3 that was told of before");
}

#[test]
fn a_log_is_hashed_to_every_head_that_was_told() {
    for (name, other) in [
        ("changed", "abcXefgh"),
        ("left out", "abcefghi"),
        ("reordered", "abcedfgh"),
    ] {
        let (log, other) = (Log::of("abcde"), Log::of(other));
        let mut history = History::default();
        read(&mut history, &log, 0, 5);
        read(&mut history, &other, 2, 8);
        assert_eq!(between(&history), Some((3, 4)), "{name}");
        // Where only heads were told, they bound it.
        let mut history = History::default();
        told(&mut history, log.head(2));
        told(&mut history, log.head(5));
        told(&mut history, other.head(8));
        history.read(&start(), Seq::new(2), other.page(2, 8), 7);
        assert_eq!(between(&history), Some((0, 5)), "{name}");
    }
    // A hub that changes what it stores, and keeps its heads.
    let (log, shown) = (Log::of("abcde"), Log::of("aXcde"));
    let mut history = History::default();
    told(&mut history, log.head(5));
    history.read(&start(), Seq::ZERO, shown.page(0, 5), 7);
    assert_eq!(between(&history), Some((0, 5)));
}

#[test]
fn what_cannot_be_known_is_not_claimed() {
    let (log, other) = (Log::of("abcde"), Log::of("Xbcde"));
    let mut history = History::default();
    told(&mut history, log.head(5));
    // Nothing is known at 2 to hash on from.
    history.read(&start(), Seq::new(2), other.page(2, 5), 7);
    assert_eq!(history.doubt(), None);
    assert_eq!(history.newest_computed(), None);
}

#[test]
fn a_member_who_was_shown_something_else_is_named() {
    let (log, other) = (Log::of("abcdef"), Log::of("abXdef"));
    let mut history = History::default();
    read(&mut history, &log, 0, 6);
    history.claimed(&claim(5, "alice", log.head(4)), 7);
    history.claimed(&claim(6, "bob", other.head(4)), 7);
    let [stranger] = history.strangers() else {
        panic!("{history:?}")
    };
    assert_eq!((stranger.by.name.as_str(), stranger.at.get()), ("bob", 4));
    assert_eq!(stranger.against, None);
    // A member's word alone stops nothing.
    assert_eq!(history.doubt(), None);

    // Two members against each other, before anything else is known; and then the log itself.
    let mut history = History::default();
    told(&mut history, log.head(6));
    history.claimed(&claim(5, "alice", other.head(4)), 7);
    history.claimed(&claim(6, "bob", log.head(4)), 7);
    let [stranger] = history.strangers() else {
        panic!("{history:?}")
    };
    assert_eq!(stranger.by.name, "bob");
    assert_eq!(stranger.against.as_ref().unwrap().name, "alice");
    history.read(&start(), Seq::ZERO, log.page(0, 6), 7);
    assert_eq!(history.strangers().len(), 2);
    assert_eq!(history.strangers()[1].by.name, "alice");
    assert_eq!(history.doubt(), None);
}

#[test]
fn processes_of_one_reader_agree_or_find_a_fork() {
    let (log, other) = (Log::of("abcdefgh"), Log::of("abcdXfgh"));
    let mut before = History::default();
    told(&mut before, log.head(4));
    let (mut one, mut two) = (before.clone(), before.clone());
    told(&mut one, log.head(8));
    // Two got an older answer, and writes after one.
    told(&mut two, log.head(4));
    two.merge(&one);
    assert_eq!(two.doubt(), None);
    assert_eq!(two.newest(), Seq::new(8));
    let mut three = before.clone();
    told(&mut three, other.head(8));
    three.merge(&one);
    assert_eq!(between(&three), Some((4, 8)));
    let mut four = one.clone();
    four.merge(&three);
    assert_eq!(between(&four), Some((4, 8)), "a doubt stays");
}

#[test]
fn an_accepted_log_is_where_everything_begins_again() {
    let (log, other) = (Log::of("abcde"), Log::of("abX"));
    let mut history = History::default();
    read(&mut history, &log, 0, 5);
    let before = history.clone();
    told(&mut history, other.head(3));
    assert!(history.doubt().is_some());
    history.accept(&other.head(3), 9);
    assert_eq!((history.doubt(), history.newest()), (None, Seq::new(3)));
    read(&mut history, &other, 0, 3);
    assert_eq!(history.doubt(), None);
    // A process that began before does not bring the old log back.
    let mut late = before.clone();
    late.merge(&history);
    assert_eq!(late, history);
    history.merge(&before);
    assert_eq!(history.doubt(), None);
    assert_eq!(history.newest(), Seq::new(3));
}

#[test]
fn what_is_kept_is_bounded_and_reads_back() {
    let log = Log((0..3000u32).map(|number| number.to_be_bytes().to_vec()).collect());
    let mut history = History::default();
    read(&mut history, &log, 0, 3000);
    assert!(
        history.heads.len() as u64 <= 1 + NEWEST_HEADS + OLDER_HEADS,
        "{}",
        history.heads.len()
    );
    assert_eq!(history.newest(), Seq::new(3000));
    for seq in 2900..3000 {
        history.claimed(&claim(3000, "alice", log.head(seq)), 7);
    }
    assert_eq!(history.strangers(), []);
    let json = serde_json::to_string(&history).unwrap();
    assert!(json.len() < 40_000, "{}", json.len());
    assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
    // A change long ago is found by whoever reads from the start.
    let mut changed = Log(log.0.clone());
    changed.0[100] = b"changed".to_vec();
    history.read(&start(), Seq::ZERO, changed.page(0, 3000), 7);
    let (after, at) = between(&history).unwrap();
    assert!(after <= 100 && (101..3000).contains(&at), "{after} {at}");
}

proptest! {
    /// However requests, answers, pages and processes are mixed, a log that only grows gives no alarm.
    #[test]
    fn an_honest_hub_never_gives_an_alarm(steps in proptest::collection::vec((0u8..5, 0usize..3, 0usize..40), 1..60)) {
        let log = Log((0..60u8).map(|number| vec![number]).collect());
        let mut length = 1;
        let mut file = History::default();
        let mut processes = [History::default(), History::default(), History::default()];
        // Per process: a request in flight, as what was known when it was sent and how long the log was when it was answered.
        let mut in_flight: [Option<(Seq, usize)>; 3] = [None, None, None];
        for (what, who, number) in steps {
            let history = &mut processes[who];
            match what {
                0 => length = (length + number % 5).min(60),
                1 => in_flight[who] = Some((history.newest(), length)),
                2 => if let Some((asked, answered)) = in_flight[who].take() {
                    history.told(&log.head(answered), asked, 1);
                },
                3 => {
                    let after = number % length;
                    let claims: Vec<_> = (after..length).map(|seq| claim(seq as u64 + 1, "alice", log.head(seq))).collect();
                    let page = log.page(after, length).zip(&claims).map(|((message, _), claim)| (message, Some(claim)));
                    history.read(&start(), Seq::new(after as u64), page, 1);
                }
                _ => {
                    history.merge(&file);
                    file = history.clone();
                }
            }
        }
        for history in processes.iter().chain([&file]) {
            prop_assert_eq!(history.doubt(), None);
            prop_assert_eq!(history.strangers(), []);
        }
    }
}

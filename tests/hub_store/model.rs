//! The store against a model of a room that fits on a page: cursors, refs and the chain after any mix of posts, pushes,
//! acknowledgements and restarts.

use std::collections::BTreeMap;

use parler_hub::store::{Principal, Store, StoreError};
use parler_protocol::{ChainHash, HubId, RefConflict, Seq};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::support::{Fixture, oid, push, ref_name, room, text};

const NAMES: [&str; 4] = ["refs/heads/main", "refs/heads/a", "refs/heads/b", "refs/tags/c"];
/// Where a ref can be. Nowhere is one of the places.
const PLACES: [Option<char>; 4] = [None, Some('1'), Some('2'), Some('3')];

#[derive(Debug, Clone)]
enum Step {
    Say,
    /// Moves one ref or two: which, where it is said to be if that is not where it is, and where it goes.
    Push(Vec<(usize, Option<usize>, usize)>),
    Acknowledge(u64),
    Restart,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let place = || 0..PLACES.len();
    let update = (0..NAMES.len(), prop::option::weighted(0.2, place()), place());
    let step = prop_oneof![
        3 => Just(Step::Say),
        4 => prop::collection::vec(update, 1..3).prop_map(Step::Push),
        4 => (0..12_u64).prop_map(Step::Acknowledge),
        1 => Just(Step::Restart),
    ];
    (0..2_usize, step)
}

/// All that a room is.
#[derive(Debug, Default)]
struct Model {
    messages: u64,
    cursors: [u64; 2],
    refs: BTreeMap<&'static str, char>,
}

type Update = (&'static str, Option<char>, Option<char>);

impl Model {
    /// What a push says, made of what was drawn: nothing twice, nothing that stays, and `main`, which is HEAD, is there.
    fn updates(&self, drawn: &[(usize, Option<usize>, usize)]) -> Vec<Update> {
        let mut updates: Vec<Update> = Vec::new();
        for (name, said, to) in drawn {
            let name = NAMES[*name];
            let old = said.map_or_else(|| self.refs.get(name).copied(), |said| PLACES[said]);
            let new = PLACES[*to];
            let is_new = updates.iter().all(|(other, ..)| *other != name);
            if is_new && old != new && (name != NAMES[0] || new.is_some()) {
                updates.push((name, old, new));
            }
        }
        updates
    }

    fn conflicts(&self, updates: &[Update]) -> Vec<RefConflict> {
        let moved = updates
            .iter()
            .filter(|(name, old, _)| self.refs.get(name) != old.as_ref());
        moved
            .map(|(name, old, _)| RefConflict {
                name: ref_name(name),
                expected: old.map(oid),
                actual: self.refs.get(name).copied().map(oid),
            })
            .collect()
    }

    fn make(&mut self, updates: &[Update]) {
        for (name, _, new) in updates {
            match new {
                Some(new) => self.refs.insert(name, *new),
                None => self.refs.remove(name),
            };
        }
        self.messages += 1;
    }
}

async fn assert_alike(fixture: &Fixture, model: &Model, hub: &HubId, members: &[Principal; 2]) {
    let (listed, head) = fixture.store.refs(members[0].agent, &room("a")).await.unwrap();
    let listed: Vec<_> = listed.refs.into_iter().map(|entry| (entry.name, entry.oid)).collect();
    let expected: Vec<_> = model.refs.iter().map(|(name, at)| (ref_name(name), oid(*at))).collect();
    assert_eq!(listed, expected);
    // The chain as docs/protocol.md has it, and nothing of ours.
    let mut h: [u8; 32] = Sha256::digest(format!("{hub}\0a")).into();
    let messages = fixture.messages(&members[0], "a").await;
    for message in &messages {
        h = Sha256::digest([&h[..], &Sha256::digest(message)].concat()).into();
    }
    assert_eq!((head.seq, head.h), (Seq::new(model.messages), ChainHash::from_bytes(h)));
    for (member, cursor) in members.iter().zip(model.cursors) {
        let page = fixture
            .store
            .read(member.agent, &room("a"), None, u32::MAX, usize::MAX)
            .await
            .unwrap();
        let unread = usize::try_from(cursor).unwrap();
        assert_eq!(page.messages, messages[unread..], "what is unread behind {cursor}");
    }
}

async fn play(steps: Vec<(usize, Step)>) {
    let mut fixture = Fixture::new();
    let members = [fixture.owner("one", "a").await, fixture.member("two", "a").await];
    let (hub, mut model) = (fixture.store.hub(), Model::default());
    for (who, step) in [(0, Step::Push(vec![(0, None, 1)]))].into_iter().chain(steps) {
        let by = &members[who];
        match step {
            Step::Say => {
                fixture.append(text(by, "a", "x")).await.unwrap();
                model.messages += 1;
            }
            Step::Push(drawn) => {
                let updates = model.updates(&drawn);
                if updates.is_empty() {
                    continue;
                }
                let conflicts = model.conflicts(&updates);
                match fixture.append(push(by, "a", &updates)).await {
                    Ok(_) if conflicts.is_empty() => model.make(&updates),
                    Err(StoreError::RefMoved(told)) => assert_eq!(told, conflicts),
                    other => panic!("{other:?}, not {conflicts:?}"),
                }
            }
            Step::Acknowledge(seq) => {
                let cursor = &mut model.cursors[who];
                *cursor = seq.min(model.messages).max(*cursor);
                let (told, _) = fixture
                    .store
                    .acknowledge(by.agent, &room("a"), Seq::new(seq))
                    .await
                    .unwrap();
                assert_eq!(told.get(), *cursor);
            }
            Step::Restart => fixture = fixture.restart().await,
        }
    }
    assert_alike(&fixture, &model, &hub, &members).await;
}

proptest! {
    // Each has a store and real files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]
    #[test]
    fn a_room_is_what_a_page_of_model_says(steps in prop::collection::vec(step(), 10..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps));
    }
}

//! The fold against a model of a room that fits on a page: refs, `HEAD`, bundles and who is believed about them after any
//! mix of pushes, announcements, what is told again, what is no message of the room, and restarts.

use std::collections::{BTreeMap, BTreeSet};

use parler_protocol::{AgentId, AgentKey, BundleId, BundlePart, Seq};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::tests::{Log, bundle, moves, name, oid, update};
use super::{FoldError, Part, RoomState};

const NAMES: [&str; 4] = ["refs/tags/c", "refs/heads/b", "refs/heads/main", "refs/heads/a"];
/// Where a ref can be. Nowhere is one of the places.
const PLACES: [Option<char>; 4] = [None, Some('a'), Some('b'), Some('c')];

/// What somebody says of a bundle: which it is, what it brings, and how large it is.
type Said = (u8, usize, u64);
/// Which ref, where it is said to be if that is not where it is, and where it goes.
type Drawn = (usize, Option<usize>, usize);
/// A ref, where it was and where it goes.
type Update = (&'static str, Option<char>, Option<char>);
/// In which message somebody said what.
type Word = (u64, usize, Said);

#[derive(Debug, Clone)]
enum Step {
    Push(Vec<Drawn>, Option<usize>, Option<Said>),
    /// A bundle without refs.
    Announce(Said),
    /// The same, and nobody signed it.
    AnnounceUnsigned(Said),
    PushUnsigned,
    /// Somebody changed what was signed.
    Change(Said),
    /// An earlier message under the next number.
    Repeat(usize),
    /// Under the last number.
    Late(Said),
    /// What the hub says it no longer keeps.
    Drop(BTreeSet<u8>),
    /// Written down, and read again.
    Restart,
}

fn step() -> impl Strategy<Value = (usize, u64, Step)> {
    let place = || 0..PLACES.len();
    let said = || (0..4_u8, 1..PLACES.len(), 1..3_u64);
    let drawn = (0..NAMES.len(), prop::option::weighted(0.05, place()), place());
    let drawn = prop::collection::vec(drawn, 1..4);
    let head = prop::option::weighted(0.2, 1..NAMES.len());
    let step = prop_oneof![
        16 => (drawn, head, prop::option::of(said())).prop_map(|(drawn, head, said)| Step::Push(drawn, head, said)),
        8 => said().prop_map(Step::Announce),
        2 => said().prop_map(Step::AnnounceUnsigned),
        1 => Just(Step::PushUnsigned),
        1 => said().prop_map(Step::Change),
        2 => (0..20_usize).prop_map(Step::Repeat),
        1 => said().prop_map(Step::Late),
        3 => prop::collection::btree_set(0..4_u8, 0..3).prop_map(Step::Drop),
        3 => Just(Step::Restart),
    ];
    // Numbers are left out where somebody only talks.
    (0..2_usize, 1..3_u64, step)
}

/// Why a message is not believed.
#[derive(Debug, PartialEq)]
enum Refused {
    Moved(&'static str),
    Again,
    Late,
    NotSigned,
    Changed,
}

impl Refused {
    fn of(error: &FoldError) -> Self {
        match error {
            FoldError::Forked { name, .. } => {
                let known = NAMES.iter().find(|known| **known == name.as_str());
                Self::Moved(known.unwrap())
            }
            FoldError::Again { .. } => Self::Again,
            FoldError::Order { .. } => Self::Late,
            FoldError::Unsigned { .. } => Self::NotSigned,
            FoldError::Signature { .. } => Self::Changed,
            other => panic!("{other}"),
        }
    }
}

/// What a message did.
#[derive(Clone, Copy)]
enum Told {
    Moved,
    Said(usize, Said),
    Nothing,
}

/// All that a room is.
#[derive(Debug, Default)]
struct Model {
    last: u64,
    /// Where each ref is, the message that moved it there, and whose that was.
    refs: BTreeMap<&'static str, (char, u64, usize)>,
    head: Option<&'static str>,
    /// Who moved a ref to each object first.
    first: BTreeMap<char, usize>,
    /// Whose word counts for each bundle, and whether the hub keeps it.
    words: BTreeMap<u8, (Word, bool)>,
}

impl Model {
    /// What a push says, made of what was drawn: nothing twice and nothing that stays.
    fn updates(&self, drawn: &[Drawn]) -> Vec<Update> {
        let mut updates: Vec<Update> = Vec::new();
        for (which, said, to) in drawn {
            let (name, new) = (NAMES[*which], PLACES[*to]);
            let old = said.map_or_else(|| self.at(name), |said| PLACES[said]);
            if old != new && updates.iter().all(|(other, ..)| *other != name) {
                updates.push((name, old, new));
            }
        }
        updates
    }

    fn at(&self, name: &str) -> Option<char> {
        self.refs.get(name).map(|(at, ..)| *at)
    }

    fn push(&mut self, who: usize, updates: &[Update], head: Option<&'static str>) -> Result<(), Refused> {
        if let Some((name, ..)) = updates.iter().find(|(name, old, _)| self.at(name) != *old) {
            return Err(Refused::Moved(name));
        }
        for (name, _, new) in updates {
            if let Some(new) = new {
                self.refs.insert(name, (*new, self.last, who));
                self.first.entry(*new).or_insert(who);
            } else {
                self.refs.remove(name);
            }
        }
        let mut branches: Vec<_> = updates
            .iter()
            .filter(|(name, _, new)| name.starts_with("refs/heads/") && new.is_some())
            .map(|(name, ..)| *name)
            .collect();
        branches.sort_by_key(|name| *name != "refs/heads/main");
        self.head = head.or(self.head).or(branches.first().copied());
        Ok(())
    }

    /// The first who speaks of a bundle is believed, until somebody does who moved a ref to what it brings before anybody
    /// else.
    fn say(&mut self, who: usize, said: Said) {
        let word = (self.last, who, said);
        let is_firsts = |(_, who, (_, tip, _)): Word| PLACES[tip].and_then(|tip| self.first.get(&tip)) == Some(&who);
        let counts = match self.words.get(&said.0) {
            Some((known, true)) => known.2 != said && !is_firsts(*known) && is_firsts(word),
            _ => true,
        };
        if counts {
            self.words.insert(said.0, (word, true));
        }
    }

    /// The bundles, oldest first.
    fn bundles(&self) -> Vec<Word> {
        let mut kept: Vec<Word> = self
            .words
            .values()
            .filter(|(_, kept)| *kept)
            .map(|(word, _)| *word)
            .collect();
        kept.sort_unstable();
        kept
    }
}

fn part(said: Said) -> BundlePart {
    let (which, tip, size) = said;
    let mut part = bundle(&[which], PLACES[tip].unwrap());
    part.size = size;
    part
}

fn push(updates: &[Update], head: Option<&str>) -> Part {
    let moved = updates
        .iter()
        .map(|(name, old, new)| update(name, *old, *new))
        .collect();
    let Part::Refs(mut part) = moves(moved) else {
        unreachable!()
    };
    part.head = head.map(name);
    part.into()
}

fn assert_alike(state: &RoomState, model: &Model, keys: &[AgentId; 2]) {
    assert_eq!(state.version(), Seq::new(model.last));
    assert_eq!(state.head_ref(), model.head.map(name).as_ref());
    let refs = state.refs().iter();
    let refs: Vec<_> = refs
        .map(|(name, at)| (name.as_str(), at.oid, at.seq.get(), at.mover))
        .collect();
    let expected = model.refs.iter();
    let expected: Vec<_> = expected
        .map(|(name, (at, seq, who))| (*name, oid(*at), *seq, keys[*who]))
        .collect();
    assert_eq!(refs, expected);
    let bundles = state.bundles().iter();
    let bundles: Vec<_> = bundles
        .map(|bundle| (bundle.seq.get(), bundle.author_id, bundle.part.clone()))
        .collect();
    let expected = model.bundles().into_iter();
    let expected: Vec<_> = expected.map(|(seq, who, said)| (seq, keys[who], part(said))).collect();
    assert_eq!(bundles, expected);
    // And they are found by what is looked for.
    for (seq, who, said) in model.bundles() {
        let found = state.bundle(&part(said).blob).unwrap();
        assert_eq!(found.seq, Seq::new(seq));
        let tip = PLACES[said.1].unwrap();
        assert!(state.providers(&oid(tip)).any(|provider| provider == found));
        assert_eq!(state.is_vouched(found, &oid(tip)), model.first.get(&tip) == Some(&who));
    }
}

/// Tells both the same, message by message, until one is refused. Gives how many were taken, and why the last was not.
fn play(steps: Vec<(usize, u64, Step)>) -> (usize, Option<Refused>) {
    let logs = [5, 6].map(|seed| {
        let mut log = Log::new();
        log.key = AgentKey::from_random([seed; 32]);
        log
    });
    let keys = [0, 1].map(|who: usize| logs[who].key.id());
    let (mut state, mut model) = (logs[0].state(), Model::default());
    let mut told: Vec<(Value, Told)> = Vec::new();
    for (who, gap, step) in steps {
        let before = model.last;
        let next = before + gap;
        let message = |parts: Vec<Part>, change: fn(&mut Value)| logs[who].message(next, parts, change);
        let unsigned: fn(&mut Value) = |value| {
            value["parts"].as_array_mut().unwrap().pop();
        };
        let mut does = Told::Nothing;
        let (bytes, expected) = match step {
            Step::Push(drawn, head, said) => {
                let (updates, head) = (model.updates(&drawn), head.map(|head| NAMES[head]));
                model.last = next;
                does = Told::Moved;
                let refused = model.push(who, &updates, head);
                if refused.is_ok()
                    && let Some(said) = said
                {
                    model.say(who, said);
                }
                let parts = [push(&updates, head)].into_iter();
                (
                    message(parts.chain(said.map(|said| part(said).into())).collect(), |_| ()),
                    refused,
                )
            }
            Step::Announce(said) => {
                model.last = next;
                model.say(who, said);
                does = Told::Said(who, said);
                (message(vec![part(said).into()], |_| ()), Ok(()))
            }
            Step::AnnounceUnsigned(said) => {
                model.last = next;
                (message(vec![part(said).into()], unsigned), Ok(()))
            }
            Step::PushUnsigned => (message(vec![push(&[], None)], unsigned), Err(Refused::NotSigned)),
            Step::Change(said) => {
                let changed = |value: &mut Value| value["parts"][0]["size"] = json!(77);
                (message(vec![part(said).into()], changed), Err(Refused::Changed))
            }
            Step::Repeat(which) => {
                let Some((mut value, did)) = told.get(which).cloned() else {
                    continue;
                };
                does = did;
                value["seq"] = json!(next);
                let refused = match did {
                    Told::Moved => Err(Refused::Again),
                    Told::Said(who, said) => {
                        model.last = next;
                        model.say(who, said);
                        Ok(())
                    }
                    Told::Nothing => {
                        model.last = next;
                        Ok(())
                    }
                };
                (value.to_string().into_bytes(), refused)
            }
            Step::Late(_) if before == 0 => continue,
            Step::Late(said) => (
                logs[who].message(before, vec![part(said).into()], |_| ()),
                Err(Refused::Late),
            ),
            Step::Drop(dropped) => {
                for (which, (_, kept)) in &mut model.words {
                    *kept = !dropped.contains(which);
                }
                let dropped: Vec<_> = dropped.iter().map(|which| BundleId::of(&[*which])).collect();
                state.note_dropped(None, Some(&dropped));
                assert_alike(&state, &model, &keys);
                continue;
            }
            Step::Restart => {
                state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
                assert_alike(&state, &model, &keys);
                continue;
            }
        };
        let folded = state.fold(&[&bytes]).map(drop).map_err(|error| Refused::of(&error));
        assert_eq!(folded, expected);
        if let Err(refused) = folded {
            return (told.len(), Some(refused));
        }
        told.push((serde_json::from_slice(&bytes).unwrap(), does));
        assert_alike(&state, &model, &keys);
    }
    (told.len(), None)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn the_fold_is_that_of_the_model(steps in prop::collection::vec(step(), 1..40)) {
        play(steps);
    }
}

/// What is drawn gets far, and meets each reason to refuse.
#[test]
fn the_model_is_asked_everything() {
    let mut runner = TestRunner::deterministic();
    let (mut longest, mut seen) = (0, BTreeSet::new());
    for _ in 0..100 {
        let steps = prop::collection::vec(step(), 40).new_tree(&mut runner).unwrap();
        let (taken, refused) = play(steps.current());
        longest = longest.max(taken);
        seen.extend(refused.map(|refused| match refused {
            Refused::Moved(_) => "moved".to_owned(),
            other => format!("{other:?}"),
        }));
    }
    assert!(longest > 20, "{longest}");
    assert_eq!(Vec::from_iter(seen), ["Again", "Changed", "Late", "NotSigned", "moved"]);
}

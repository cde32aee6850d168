//! One message's effect on a room's state, and what makes a message unbelievable.

use parler_protocol::{
    BundlePart, Claim, Message, ObjectFormat, Oid, Part, RefName, RefUpdate, RefsPart, RoomName, Seq, Verdict,
    VerifyError, part_kind,
};

use super::{RoomBundle, RoomRef, RoomState};

/// What is wrong with a room's log. A hub checks all of this before it stores a message, so it is a broken or a
/// dishonest one, or its data was replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Not a message.
    #[error("the message after number {after} cannot be read: {why}")]
    NotAMessage {
        /// The last good message.
        after: Seq,
        /// What is wrong.
        why: String,
    },
    /// A message of another room.
    #[error("message {seq} is of room {room}")]
    OtherRoom {
        /// The message.
        seq: Seq,
        /// The room it says it is of.
        room: RoomName,
    },
    /// Not in order.
    #[error("message {seq} comes after message {after}")]
    Order {
        /// The message.
        seq: Seq,
        /// The one before it.
        after: Seq,
    },
    /// It moves refs and is not signed for its place.
    #[error("message {seq} moves refs and is not signed for this hub and room")]
    Unsigned {
        /// The message.
        seq: Seq,
    },
    /// It is signed, and not to be believed.
    #[error("message {seq}: {why}")]
    Signature {
        /// The message.
        seq: Seq,
        /// Why not.
        why: VerifyError,
    },
    /// It moved refs before, under another number.
    #[error("message {seq} moves refs, and was told before as an earlier message")]
    Again {
        /// The message.
        seq: Seq,
    },
    /// It moves refs in a form this program does not know.
    #[error("message {seq} moves refs in a form that this version does not understand")]
    UnknownForm {
        /// The message.
        seq: Seq,
    },
    /// A ref was not where the message says.
    #[error("message {seq} moves {name} from {}, but it was at {}", shown(.expected), shown(.found))]
    Forked {
        /// The message.
        seq: Seq,
        /// The ref.
        name: RefName,
        /// Where the author saw it.
        expected: Option<Oid>,
        /// Where it was.
        found: Option<Oid>,
    },
    /// It has objects of another hash than the room.
    #[error("message {seq} has {found} objects in a room of {room}")]
    ObjectFormat {
        /// The message.
        seq: Seq,
        /// The room's.
        room: ObjectFormat,
        /// The message's.
        found: ObjectFormat,
    },
}

fn shown(oid: &Option<Oid>) -> String {
    oid.as_ref().map_or_else(|| "nothing".to_owned(), Oid::to_string)
}

impl RoomState {
    /// Takes in a message whose signature was found so.
    pub(super) fn fold_message(&mut self, message: &Message, verdict: Verdict) -> Result<Option<Claim>, FoldError> {
        let seq = message.seq;
        if seq <= self.version {
            return Err(FoldError::Order {
                seq,
                after: self.version,
            });
        }
        if message.room.key() != self.room.key() {
            return Err(FoldError::OtherRoom {
                seq,
                room: message.room.clone(),
            });
        }
        if let Verdict::Invalid(why) = verdict {
            return Err(FoldError::Signature { seq, why });
        }
        let mut moves = message.parts.iter().filter(|part| part.kind() == part_kind::REFS);
        let refs = match (moves.next(), moves.next()) {
            (None, _) => None,
            (Some(Part::Refs(refs)), None) => Some(refs),
            _ => return Err(FoldError::UnknownForm { seq }),
        };
        if refs.is_some() && !verdict.is_valid() {
            return Err(FoldError::Unsigned { seq });
        }
        if refs.is_some() && !self.moved_by.insert(message.id) {
            return Err(FoldError::Again { seq });
        }
        if let Some(refs) = refs {
            self.move_refs(message, refs)?;
        }
        // Another client's bundle moves no ref: it counts when its author signed it, and is passed over when not.
        if verdict != Verdict::Unsigned {
            for part in &message.parts {
                if let Part::Bundle(bundle) = part {
                    self.add_bundle(message, bundle);
                }
            }
        }
        self.version = seq;
        Ok(Claim::of(message, &verdict))
    }

    fn add_bundle(&mut self, message: &Message, part: &BundlePart) {
        if part.vcs != "git" {
            return;
        }
        let bundle = RoomBundle {
            seq: message.seq,
            author_id: message.from.id,
            author: message.from.name.clone(),
            part: part.clone(),
        };
        // The first push decides what a room holds: those that came before it are looked at again then.
        let fits = |format| bundle.is_of_format(format);
        let is_possible = match self.object_format {
            Some(format) => fits(format),
            None => fits(ObjectFormat::Sha1) || fits(ObjectFormat::Sha256),
        };
        if !is_possible {
            return;
        }
        if let Some(position) = self.index.by_id.get(&part.blob) {
            let known = &self.bundles[*position];
            let is_vouched = |bundle: &RoomBundle| bundle.tips().any(|tip| self.is_vouched(bundle, &tip));
            // Who has the bytes can announce them before their author does, and say what is not so.
            if known.part != bundle.part && !is_vouched(known) && is_vouched(&bundle) {
                self.bundles.remove(*position);
                self.bundles.push(bundle);
                self.index_again();
            }
            return;
        }
        self.index.add(self.bundles.len(), &bundle);
        self.bundles.push(bundle);
    }

    fn move_refs(&mut self, message: &Message, part: &RefsPart) -> Result<(), FoldError> {
        let seq = message.seq;
        let format = self.object_format.unwrap_or(part.object_format);
        if self.object_format.replace(format).is_none() {
            self.bundles.retain(|bundle| bundle.is_of_format(format));
            self.index_again();
        }
        let of_format = |oid: &Option<Oid>| oid.is_none_or(|oid| oid.format() == format);
        let are_of_format = |update: &RefUpdate| of_format(&update.new) && of_format(&update.peeled);
        if part.object_format != format || !part.updates.iter().all(are_of_format) {
            let found = match format {
                ObjectFormat::Sha1 => ObjectFormat::Sha256,
                ObjectFormat::Sha256 => ObjectFormat::Sha1,
            };
            return Err(FoldError::ObjectFormat {
                seq,
                room: format,
                found,
            });
        }
        for update in &part.updates {
            self.move_ref(message, update, part)?;
        }
        match &part.head {
            Some(head) => self.head_ref = Some(head.clone()),
            None if self.head_ref.is_none() => self.head_ref = RefsPart::first_head(&part.updates).cloned(),
            None => {}
        }
        Ok(())
    }

    fn move_ref(&mut self, message: &Message, update: &RefUpdate, part: &RefsPart) -> Result<(), FoldError> {
        let (seq, mover) = (message.seq, message.from.id);
        let found = self.refs.get(&update.name).map(|current| current.oid);
        if found != update.old {
            return Err(FoldError::Forked {
                seq,
                name: update.name.clone(),
                expected: update.old,
                found,
            });
        }
        match update.new {
            None => {
                self.refs.remove(&update.name);
            }
            Some(oid) => {
                let base_hint = part.base_hint.clone();
                for oid in [Some(oid), update.peeled].into_iter().flatten() {
                    self.first_movers.entry(oid).or_insert(mover);
                }
                self.refs.insert(
                    update.name.clone(),
                    RoomRef {
                        oid,
                        peeled: update.peeled,
                        seq,
                        mover,
                        mover_name: message.from.name.clone(),
                        base_hint,
                    },
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use parler_protocol::{
        AgentKey, AgentName, BundleId, BundleRef, ChainHash, Draft, Head, HubId, SignContext, Target, TextPart, sign,
    };
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    pub(super) fn name(text: &str) -> RefName {
        text.parse().unwrap()
    }

    pub(super) fn update(ref_name: &str, old: Option<char>, new: Option<char>) -> RefUpdate {
        RefUpdate {
            name: name(ref_name),
            old: old.map(oid),
            new: new.map(oid),
            forced: false,
            peeled: None,
        }
    }

    pub(super) fn moves(updates: Vec<RefUpdate>) -> Part {
        RefsPart {
            updates,
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        }
        .into()
    }

    pub(super) fn bundle(bytes: &[u8], tip: char) -> BundlePart {
        BundlePart {
            blob: BundleId::of(bytes),
            vcs: "git".into(),
            size: bytes.len() as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: "refs/heads/main".parse().unwrap(),
                oid: oid(tip),
            }],
            prerequisites: Vec::new(),
            object_format: None,
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        }
    }

    pub(super) struct Log {
        pub(super) key: AgentKey,
        hub: HubId,
        room: RoomName,
    }

    impl Log {
        pub(super) fn new() -> Self {
            let room = "x".parse().unwrap();
            Self {
                key: AgentKey::from_random([5; 32]),
                hub: HubId::from_bytes([1; 16]),
                room,
            }
        }

        pub(super) fn state(&self) -> RoomState {
            RoomState::empty(self.hub, self.room.clone())
        }

        pub(super) fn message(&self, seq: u64, parts: Vec<Part>, change: impl FnOnce(&mut Value)) -> Vec<u8> {
            let author: AgentName = "alice".parse().unwrap();
            let head = Head {
                seq: Seq::new(seq - 1),
                h: ChainHash::start(&self.hub, &self.room),
            };
            let context = SignContext {
                key: &self.key,
                name: &author,
                role: None,
                hub: &self.hub,
                room: &self.room,
                target: &Target::Room {
                    room: self.room.clone(),
                },
                head: &head,
                now_ms: 1,
            };
            let mut value: Value = serde_json::from_slice(&sign(&Draft::new(parts), &context).body).unwrap();
            value["seq"] = json!(seq);
            value["room"] = json!("x");
            value["from"] = json!({ "id": self.key.id(), "name": "alice" });
            value["ts"] = json!(2);
            change(&mut value);
            value.to_string().into_bytes()
        }

        fn fold(&self, messages: &[Vec<u8>]) -> Result<RoomState, FoldError> {
            let mut state = self.state();
            state.fold(messages).map(|_| state)
        }
    }

    #[test]
    fn refs_move_as_signed() {
        let log = Log::new();
        let state = log
            .fold(&[
                log.message(
                    1,
                    vec![moves(vec![
                        update("refs/tags/v1", None, Some('a')),
                        update("refs/heads/b", None, Some('a')),
                    ])],
                    |_| (),
                ),
                log.message(
                    4,
                    vec![moves(vec![update("refs/heads/b", Some('a'), Some('b'))])],
                    |_| (),
                ),
                log.message(5, vec![moves(vec![update("refs/tags/v1", Some('a'), None)])], |_| ()),
            ])
            .unwrap();
        assert_eq!(state.version(), Seq::new(5));
        assert_eq!(state.head_ref(), Some(&name("refs/heads/b")));
        assert_eq!(state.refs().len(), 1);
        assert_eq!(state.refs()[&name("refs/heads/b")].oid, oid('b'));
        assert_eq!(state.refs()[&name("refs/heads/b")].seq, Seq::new(4));
    }

    #[test]
    fn a_log_that_does_not_hang_together_is_refused() {
        let log = Log::new();
        let first = || log.message(1, vec![moves(vec![update("refs/heads/a", None, Some('a'))])], |_| ());
        let second = |old, change: fn(&mut Value)| {
            log.message(2, vec![moves(vec![update("refs/heads/a", old, Some('b'))])], change)
        };
        assert!(log.fold(&[first(), second(Some('a'), |_| ())]).is_ok());
        let refused = |messages: &[Vec<u8>]| log.fold(messages).unwrap_err();
        assert!(matches!(
            refused(&[first(), second(None, |_| ())]),
            FoldError::Forked { .. }
        ));
        assert!(matches!(
            refused(&[first(), second(Some('c'), |_| ())]),
            FoldError::Forked { .. }
        ));
        assert!(matches!(
            refused(&[second(Some('a'), |_| ())]),
            FoldError::Forked { found: None, .. }
        ));
        assert!(matches!(refused(&[first(), first()]), FoldError::Order { .. }));
        assert!(matches!(
            refused(&[first(), b"{}".to_vec()]),
            FoldError::NotAMessage { .. }
        ));
        let unsigned = second(Some('a'), |value| {
            value["parts"].as_array_mut().unwrap().pop();
        });
        assert!(matches!(refused(&[first(), unsigned]), FoldError::Unsigned { .. }));
        let rewritten = second(Some('a'), |value| {
            value["parts"][0]["updates"][0]["new"] = json!(oid('c'))
        });
        assert!(matches!(refused(&[first(), rewritten]), FoldError::Signature { .. }));
        let renumbered = second(Some('a'), |value| value["room"] = json!("y"));
        assert!(matches!(refused(&[first(), renumbered]), FoldError::OtherRoom { .. }));
        let twice = log.message(2, vec![moves(vec![]), moves(vec![])], |_| ());
        assert!(matches!(refused(&[first(), twice]), FoldError::UnknownForm { .. }));
        let mut other = update("refs/heads/z", None, None);
        other.new = Some("d".repeat(64).parse().unwrap());
        let other = log.message(2, vec![moves(vec![other])], |_| ());
        assert!(matches!(refused(&[first(), other]), FoldError::ObjectFormat { .. }));
    }

    #[test]
    fn a_push_that_is_told_again_moves_nothing_though_it_fits() {
        let log = Log::new();
        let again = |bytes: &[u8], seq: u64| {
            let mut value: Value = serde_json::from_slice(bytes).unwrap();
            value["seq"] = json!(seq);
            value.to_string().into_bytes()
        };
        let first = log.message(1, vec![moves(vec![update("refs/heads/a", None, Some('a'))])], |_| ());
        let gone = log.message(2, vec![moves(vec![update("refs/heads/a", Some('a'), None)])], |_| ());
        let mut state = log.fold(&[first.clone(), gone.clone()]).unwrap();
        let kept = serde_json::to_string(&state).unwrap();
        assert_eq!(
            state.fold(&[again(&first, 3)]),
            Err(FoldError::Again { seq: Seq::new(3) })
        );
        // Nor after the state was kept and read again; the same change by another message is one.
        let mut state: RoomState = serde_json::from_str(&kept).unwrap();
        assert!(matches!(state.fold(&[again(&first, 3)]), Err(FoldError::Again { .. })));
        let anew = log.message(3, vec![moves(vec![update("refs/heads/a", None, Some('a'))])], |_| ());
        assert!(log.fold(&[first, gone, anew]).is_ok());
    }

    #[test]
    fn bundles_are_found_by_id_tip_and_beginning() {
        let log = Log::new();
        let unsigned = |value: &mut Value| {
            value["parts"].as_array_mut().unwrap().truncate(1);
        };
        let state = log
            .fold(&[
                log.message(1, vec![bundle(b"one", 'a').into()], |_| ()),
                log.message(
                    2,
                    vec![TextPart { text: "again".into() }.into(), bundle(b"one", 'a').into()],
                    |_| (),
                ),
                log.message(3, vec![bundle(b"two", 'a').into()], |_| ()),
                log.message(4, vec![bundle(b"three", 'c').into()], unsigned),
            ])
            .unwrap();
        let (one, two) = (BundleId::of(b"one"), BundleId::of(b"two"));
        assert_eq!(state.bundles().len(), 2);
        assert_eq!(state.bundle(&one).unwrap().seq, Seq::new(1));
        assert_eq!(
            state
                .bundles_at(&oid('a'))
                .map(|bundle| *bundle.id())
                .collect::<Vec<_>>(),
            [one, two]
        );
        assert_eq!(state.short(&one), Some(one.short()));
        let prefix = one.to_string()[..6].parse().unwrap();
        assert_eq!(state.bundles_matching(&prefix).len(), 1);
        assert_eq!(state.version(), Seq::new(4));
    }

    #[test]
    fn a_room_holds_bundles_of_its_own_hash() {
        let log = Log::new();
        let long = |bytes: &[u8], change: fn(&mut BundlePart)| {
            let mut part = bundle(bytes, 'a');
            change(&mut part);
            Part::from(part)
        };
        let strange: [fn(&mut BundlePart); 5] = [
            |part| part.refs[0].oid = "a".repeat(64).parse().unwrap(),
            |part| part.prerequisites = vec!["b".repeat(64).parse().unwrap()],
            |part| part.object_format = Some(ObjectFormat::Sha256),
            |part| (part.refs, part.tip) = (Vec::new(), Some("c".repeat(64))),
            |part| part.prerequisites = vec!["0".repeat(40).parse().unwrap()],
        ];
        let first_push = |seq| log.message(seq, vec![moves(vec![update("refs/heads/a", None, Some('a'))])], |_| ());
        for change in strange {
            let (strange, good) = (long(b"strange", change), long(b"good", |_| ()));
            let before = log.fold(&[
                log.message(1, vec![strange.clone(), good.clone()], |_| ()),
                first_push(2),
            ]);
            let after = log.fold(&[first_push(1), log.message(2, vec![strange, good], |_| ())]);
            for state in [before.unwrap(), after.unwrap()] {
                let ids: Vec<_> = state.bundles().iter().map(|bundle| *bundle.id()).collect();
                assert_eq!(ids, [BundleId::of(b"good")]);
                assert!(state.bundle(&BundleId::of(b"strange")).is_none());
            }
        }
    }

    #[test]
    fn what_a_bundle_is_its_pusher_says() {
        let (log, mut other) = (Log::new(), Log::new());
        other.key = AgentKey::from_random([6; 32]);
        let mut false_part = bundle(b"one", 'a');
        false_part.size += 1;
        let push = |seq, log: &Log, branch, part: &BundlePart| {
            let moved = moves(vec![update(branch, None, Some('a'))]);
            log.message(seq, vec![moved, part.clone().into()], |_| ())
        };
        let announced = || other.message(1, vec![false_part.clone().into()], |_| ());
        let real = bundle(b"one", 'a');
        let state = log
            .fold(&[announced(), push(2, &log, "refs/heads/main", &real)])
            .unwrap();
        assert_eq!(state.bundles().len(), 1);
        assert_eq!(state.bundle(&real.blob).unwrap().part, real);
        assert!(state.is_vouched(&state.bundles()[0], &oid('a')));
        // And nobody says it again after that.
        let again = push(3, &other, "refs/heads/other", &false_part);
        let state = log
            .fold(&[announced(), push(2, &log, "refs/heads/main", &real), again])
            .unwrap();
        assert_eq!(state.bundle(&real.blob).unwrap().part, real);
    }

    #[test]
    fn a_state_that_was_written_down_is_the_same() {
        let (log, mut other) = (Log::new(), Log::new());
        other.key = AgentKey::from_random([6; 32]);
        let mut tag = update("refs/tags/v1", None, Some('b'));
        tag.peeled = Some(oid('a'));
        let push = |log: &Log, seq, moved: RefUpdate, bytes: &[u8]| {
            log.message(seq, vec![moves(vec![moved]), bundle(bytes, 'a').into()], |_| ())
        };
        let state = log
            .fold(&[
                push(&log, 1, update("refs/heads/main", None, Some('a')), b"one"),
                push(&other, 2, tag, b"two"),
                push(&other, 3, update("refs/heads/main", Some('a'), Some('c')), b"three"),
            ])
            .unwrap();
        assert_eq!((state.refs().len(), state.bundles().len()), (2, 3));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<RoomState>(&json).unwrap(), state);
        let agent = log.key.id().to_string();
        assert_eq!(json.matches(&agent).count(), 1, "{json}");
    }

    #[test]
    fn two_bundles_of_one_short_name_have_none() {
        let mut state = Log::new().state();
        let (mut left, mut right) = ([7; 32], [7; 32]);
        (left[31], right[31]) = (1, 2);
        for id in [left, right] {
            let mut part = bundle(b"", 'a');
            part.blob = BundleId::from_digest(id);
            state.bundles.push(RoomBundle {
                seq: Seq::new(1),
                author_id: AgentKey::from_random([5; 32]).id(),
                author: "alice".into(),
                part,
            });
        }
        state.index_again();
        assert_eq!(state.short(&BundleId::from_digest(left)), None);
        assert_eq!(state.short(&BundleId::from_digest([8; 32])), Some("08".repeat(6)));
    }
}

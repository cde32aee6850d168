//! Which blobs of a room are needed: those that a fetch of a live ref could ask for, following the signed parts from the
//! refs' tips over prerequisites and `needs`, as readers do. The hub never looks into a bundle, so wherever the parts do not
//! lead on, or lead on by the word of a stranger alone, nothing is decided.

use std::collections::{HashMap, HashSet};

use parler_protocol::limits::MAX_NEEDS;
use parler_protocol::{AgentId, BundleId, BundlePart, Message, Oid, Part};

use super::old_messages::may_be_open;
use crate::message_parts::blob_references;
use crate::ref_fold::RefFold;

/// A room's log, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Scan {
    fold: RefFold,
    bundles: Vec<Bundle>,
    /// Who moved a ref to an object first. Any other member can name any object.
    first_movers: HashMap<Oid, AgentId>,
    /// Blobs that are needed whatever the refs are.
    kept: HashSet<BundleId>,
    /// Where handoffs moved refs to: whoever takes one up fetches that, also when the ref is gone by then.
    handed_over: HashSet<Oid>,
}

/// What a bundle part says, and the message it came in.
#[derive(Debug)]
struct Bundle {
    id: BundleId,
    author: AgentId,
    /// What it brings: its own refs, without those that it expects of its receiver. What its message moves refs to besides
    /// may be anywhere in the room.
    tips: Vec<Oid>,
    prerequisites: Vec<Oid>,
    needs: Vec<BundleId>,
    /// Whether its author says where prerequisites come from that the room does not hold.
    has_base: bool,
}

impl Scan {
    /// Takes in the next message. Whether it speaks of blobs.
    pub(super) fn take(&mut self, message: &Message, is_old: bool) -> bool {
        let spoken_of = blob_references(&message.parts);
        let is_task = message.parts.iter().any(may_be_open);
        for part in &message.parts {
            if let Part::Refs(refs) = part {
                let _ = self.fold.apply(message.seq.get().cast_signed(), refs);
                let moved = refs.updates.iter().flat_map(|update| [update.new, update.peeled]);
                for oid in moved.flatten() {
                    self.first_movers.entry(oid).or_insert(message.from.id);
                }
                if is_task {
                    let news = refs.updates.iter().filter_map(|update| update.new);
                    self.handed_over.extend(news);
                }
            }
        }
        for part in &message.parts {
            if let Part::Bundle(part) = part {
                self.bundles.push(Bundle::of(part, message.from.id));
                if part.refs.is_empty() {
                    // Of a client that does not say what it brings.
                    self.kept.insert(part.blob);
                }
            }
        }
        if is_task || !is_old {
            self.kept.extend(spoken_of.iter().map(|reference| reference.id));
        }
        !spoken_of.is_empty()
    }

    /// What is needed. None: it cannot be decided.
    pub(super) fn needed(&self) -> Option<HashSet<BundleId>> {
        let (mut by_tip, mut by_id) = (
            HashMap::<Oid, Vec<usize>>::new(),
            HashMap::<BundleId, Vec<usize>>::new(),
        );
        for (position, bundle) in self.bundles.iter().enumerate() {
            by_id.entry(bundle.id).or_default().push(position);
            for tip in &bundle.tips {
                by_tip.entry(*tip).or_default().push(position);
            }
        }
        let mut needed = HashSet::new();
        let mut to_follow: Vec<BundleId> = self.kept.iter().copied().collect();
        let live = self.fold.refs.values().map(|(oid, _)| oid);
        for oid in live.chain(&self.handed_over) {
            // A branch at a commit inside of some bundle: nobody here can say of which.
            let providers = by_tip.get(oid).filter(|providers| self.is_vouched(oid, providers))?;
            to_follow.extend(providers.iter().map(|position| self.bundles[*position].id));
        }
        while let Some(id) = to_follow.pop() {
            if !needed.insert(id) {
                continue;
            }
            for bundle in by_id
                .get(&id)
                .into_iter()
                .flatten()
                .map(|position| &self.bundles[*position])
            {
                to_follow.extend(&bundle.needs);
                for prerequisite in &bundle.prerequisites {
                    let providers = by_tip.get(prerequisite).map_or(&[][..], Vec::as_slice);
                    to_follow.extend(providers.iter().map(|position| self.bundles[*position].id));
                    // Else within one that it names, which are all followed, or outside of the room.
                    if !self.is_vouched(prerequisite, providers) && !bundle.says_where_from() {
                        return None;
                    }
                }
            }
        }
        Some(needed)
    }

    /// Whether one of these bundles is of whoever moved a ref to the object first.
    fn is_vouched(&self, oid: &Oid, providers: &[usize]) -> bool {
        let mover = self.first_movers.get(oid);
        providers
            .iter()
            .any(|position| mover == Some(&self.bundles[*position].author))
    }
}

impl Bundle {
    fn of(part: &BundlePart, author: AgentId) -> Self {
        // As readers have it: `tip` is the word of clients that do not say more.
        let alone = part.refs.is_empty().then(|| part.tip.as_ref()?.parse().ok()).flatten();
        let tips = part.refs.iter().map(|bundled| bundled.oid).chain(alone);
        let expected: HashSet<&Oid> = part.prerequisites.iter().collect();
        Self {
            id: part.blob,
            author,
            tips: tips.filter(|tip| !expected.contains(tip)).collect(),
            prerequisites: part.prerequisites.clone(),
            needs: part.needs.clone(),
            has_base: part.base_hint.is_some(),
        }
    }

    /// Whether its author tells where prerequisites come from that no bundle has as its tip. Who names as many bundles as
    /// may be named had perhaps more to name.
    fn says_where_from(&self) -> bool {
        self.has_base || !self.needs.is_empty() && self.needs.len() < MAX_NEEDS
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::{
        AgentKey, BundleRef, FilePart, HandoffPart, MessageId, ObjectFormat, RefUpdate, RefsPart, TaskPart, TaskStatus,
    };

    use super::*;

    fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn id(of: &str) -> BundleId {
        BundleId::of(of.as_bytes())
    }

    /// A bundle called `name` with this tip.
    fn bundle(name: &str, tip: char, prerequisites: &[char], needs: &[&str]) -> BundlePart {
        BundlePart {
            blob: id(name),
            vcs: "git".into(),
            size: 1,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: "refs/heads/x".parse().unwrap(),
                oid: oid(tip),
            }],
            prerequisites: prerequisites.iter().copied().map(oid).collect(),
            object_format: None,
            commits: None,
            objects: None,
            needs: needs.iter().map(|name| id(name)).collect(),
            base_hint: None,
        }
    }

    fn moves(branch: &str, old: Option<char>, new: Option<char>) -> Part {
        RefsPart {
            updates: vec![RefUpdate {
                name: format!("refs/heads/{branch}").parse().unwrap(),
                old: old.map(oid),
                new: new.map(oid),
                forced: false,
                peeled: None,
            }],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        }
        .into()
    }

    /// What is needed of a log of these messages, by name among `names`; all old unless the last is to be young.
    fn needed(messages: Vec<Vec<Part>>, names: &[&str], last_is_young: bool) -> Option<Vec<String>> {
        let of_one = messages.into_iter().map(|parts| (1, parts)).collect();
        needed_by(of_one, names, last_is_young)
    }

    /// The same, each message with the number of its author.
    fn needed_by(messages: Vec<(u8, Vec<Part>)>, names: &[&str], last_is_young: bool) -> Option<Vec<String>> {
        let mut scan = Scan::default();
        let count = messages.len();
        for (number, (author, parts)) in (1..).zip(messages) {
            let parts: Vec<_> = parts.iter().map(Part::to_value).collect();
            let stored = serde_json::json!({
                "seq": number, "id": MessageId::generate(), "room": "r", "parts": parts, "ts": 1,
                "from": { "id": AgentKey::from_random([author; 32]).id(), "name": "alice" },
            });
            let message = Message::parse(stored.to_string().as_bytes()).unwrap();
            scan.take(&message, !(last_is_young && number == count as u64));
        }
        let needed = scan.needed()?;
        let is_needed = |name: &&&str| needed.contains(&id(name));
        Some(names.iter().filter(is_needed).map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn what_leads_to_a_live_ref_is_needed_and_nothing_else() {
        let names = ["a", "b", "c", "dead", "file"];
        let file = FilePart {
            blob: id("file"),
            name: "notes".into(),
            size: 1,
            media_type: None,
            summary: None,
        };
        let log = || {
            vec![
                vec![bundle("a", '1', &[], &[]).into(), moves("main", None, Some('1'))],
                vec![
                    bundle("b", '2', &['1'], &["a"]).into(),
                    moves("main", Some('1'), Some('2')),
                ],
                // On a commit within b, which only `needs` tells.
                vec![
                    bundle("c", '3', &['9'], &["b"]).into(),
                    moves("main", Some('2'), Some('3')),
                ],
                vec![
                    bundle("dead", '4', &['3'], &["c"]).into(),
                    moves("other", None, Some('4')),
                ],
                vec![moves("other", Some('4'), None)],
                vec![file.clone().into()],
            ]
        };
        assert_eq!(needed(log(), &names, false).unwrap(), ["a", "b", "c"]);
        // A young message speaks of it.
        assert_eq!(needed(log(), &names, true).unwrap(), ["a", "b", "c", "file"]);
        // A handoff may be open: what it names is needed, with what that builds on.
        let handoff = HandoffPart {
            next: "look".into(),
            summary: None,
            to: None,
            revises: None,
            work: None,
            ttl_secs: None,
            bundle: Some(id("dead")),
        };
        let mut handed_over = log();
        handed_over.push(vec![handoff.into()]);
        assert_eq!(needed(handed_over, &names, false).unwrap(), ["a", "b", "c", "dead"]);
        // What became of a task.
        let task = TaskPart {
            status: TaskStatus::Done,
            task: None,
            note: None,
            result: Some(id("dead")),
            tokens: None,
            elapsed_ms: None,
        };
        let mut done = log();
        done.push(vec![task.into()]);
        assert_eq!(needed(done, &names, false).unwrap(), ["a", "b", "c", "dead"]);
        // What else a message with such a part speaks of, also where the part is of a form to come.
        for kind in ["com.parler.handoff", "com.parler.task", "com.parler.dispatch"] {
            let of_a_form_to_come =
                Part::from_value(&serde_json::json!({ "kind": kind, "next": 7, "status": 7, "role": 7 }));
            let mut with_file = log();
            with_file.insert(0, vec![file.clone().into(), of_a_form_to_come]);
            assert_eq!(
                needed(with_file, &names, false).unwrap(),
                ["a", "b", "c", "file"],
                "{kind}"
            );
        }
        // A branch that comes back to an old commit.
        let mut back = log();
        back.push(vec![moves("main", Some('3'), Some('1'))]);
        assert_eq!(needed(back, &names, false).unwrap(), ["a"]);
        // The same tip from somebody else: which of them a reader takes is the reader's to say.
        let mut twice = log();
        twice.push(vec![bundle("file", '3', &[], &[]).into()]);
        assert_eq!(needed(twice, &names, false).unwrap(), ["a", "b", "c", "file"]);
    }

    /// Whoever is asked to look at a branch fetches where it was then.
    #[test]
    fn what_was_handed_over_with_a_ref_is_needed_when_the_ref_is_gone() {
        let names = ["a", "b", "c"];
        let log = |with: Option<Part>, at: char| {
            let mut review = vec![moves("review", None, Some(at))];
            review.extend(with);
            vec![
                vec![bundle("a", '1', &[], &[]).into(), moves("main", None, Some('1'))],
                vec![bundle("b", '2', &['1'], &[]).into(), moves("topic", None, Some('2'))],
                // The room has it: no bundle comes with it.
                review,
                vec![moves("review", Some(at), None), moves("topic", Some('2'), None)],
                vec![
                    bundle("c", '3', &['1'], &[]).into(),
                    moves("main", Some('1'), Some('3')),
                ],
            ]
        };
        let handoff = || Part::from_value(&serde_json::json!({ "kind": "com.parler.handoff", "next": "look" }));
        assert_eq!(needed(log(None, '2'), &names, false).unwrap(), ["a", "c"]);
        assert_eq!(needed(log(Some(handoff()), '2'), &names, false).unwrap(), names);
        // Within one of them, nobody here can say of which.
        assert_eq!(needed(log(Some(handoff()), '7'), &names, false), None);
    }

    #[test]
    fn what_the_parts_do_not_say_is_not_decided() {
        let first = || vec![bundle("a", '1', &[], &[]).into(), moves("main", None, Some('1'))];
        // A branch at a commit that no bundle has as its tip.
        let within = vec![first(), vec![moves("old", None, Some('7'))]];
        assert_eq!(needed(within, &["a"], false), None);
        // A prerequisite that could be in any bundle.
        let unsaid = vec![
            first(),
            vec![
                bundle("b", '2', &['7'], &[]).into(),
                moves("main", Some('1'), Some('2')),
            ],
        ];
        assert_eq!(needed(unsaid, &["a"], false), None);
        // One that its author had from elsewhere.
        let mut based = bundle("b", '2', &['7'], &[]);
        based.base_hint = Some(parler_protocol::BaseHint {
            name: "refs/heads/main".parse().unwrap(),
            url: None,
        });
        let based = vec![first(), vec![based.into(), moves("main", Some('1'), Some('2'))]];
        assert_eq!(needed(based, &["a", "b"], false).unwrap(), ["b"]);
        // Another client's bundle, which says nothing of what it brings.
        let mut silent = bundle("b", '2', &[], &[]);
        silent.refs.clear();
        let silent = vec![first(), vec![silent.into()], vec![moves("main", Some('1'), None)]];
        assert_eq!(needed(silent, &["a", "b"], false).unwrap(), ["b"]);
        // What its message moves a ref to besides its own refs may be within any bundle: a push of a new branch together
        // with one at a commit that the room has brings the new one alone.
        let moved = |forced: Part| {
            vec![
                first(),
                vec![
                    bundle("b", '8', &[], &[]).into(),
                    moves("new", None, Some('8')),
                    moves("old", None, Some('7')),
                ],
                vec![forced],
            ]
        };
        assert_eq!(
            needed(moved(moves("main", Some('1'), Some('8'))), &["a", "b"], false),
            None
        );
        // What a bundle names and expects of its receiver it does not bring.
        let named = vec![
            first(),
            vec![bundle("b", '7', &['7'], &[]).into(), moves("old", None, Some('7'))],
        ];
        assert_eq!(needed(named, &["a", "b"], false), None);
        // Who names as many bundles as may be named had perhaps more to name.
        let names: Vec<String> = (0..MAX_NEEDS).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let many = |needs: &[&str]| {
            let upon = bundle("b", '2', &['7'], needs).into();
            needed(
                vec![first(), vec![upon, moves("main", Some('1'), Some('2'))]],
                &["a", "b"],
                false,
            )
        };
        assert_eq!(many(&names), None);
        assert_eq!(many(&names[1..]).unwrap(), ["b"]);
    }

    #[test]
    fn a_stranger_decides_nothing() {
        let log = |forger: u8| {
            vec![
                (
                    1,
                    vec![bundle("a", '1', &[], &[]).into(), moves("main", None, Some('1'))],
                ),
                // At a commit within a, and a bundle that only says that it brings it.
                (1, vec![moves("old", None, Some('7'))]),
                (forger, vec![bundle("fake", '7', &[], &[]).into()]),
                (
                    1,
                    vec![bundle("b", '8', &[], &[]).into(), moves("main", Some('1'), Some('8'))],
                ),
            ]
        };
        let names = ["a", "b", "fake"];
        assert_eq!(needed_by(log(2), &names, false), None);
        assert_eq!(
            needed_by(log(1), &names, false).unwrap(),
            ["b", "fake"],
            "by the word of who moved it there"
        );
        // Nor where the stranger moves a ref there as well: the first who did counts.
        let mut moved = log(2);
        moved.insert(3, (2, vec![moves("mine", None, Some('7'))]));
        assert_eq!(needed_by(moved, &names, false), None);
        let mut upon = log(2);
        upon.remove(1);
        upon.push((
            1,
            vec![
                bundle("c", '9', &['7'], &[]).into(),
                moves("main", Some('8'), Some('9')),
            ],
        ));
        assert_eq!(needed_by(upon, &names, false), None);
    }

    #[test]
    fn who_moves_a_tag_moves_it_to_its_commit_too() {
        let mut tag = RefUpdate {
            name: "refs/tags/v1".parse().unwrap(),
            old: None,
            new: Some(oid('7')),
            forced: false,
            peeled: Some(oid('1')),
        };
        let log = |update: &RefUpdate| {
            let tagged = RefsPart {
                updates: vec![update.clone()],
                atomic: false,
                object_format: ObjectFormat::Sha1,
                head: None,
                base_hint: None,
            };
            vec![
                vec![
                    bundle("a", '1', &[], &[]).into(),
                    bundle("tag", '7', &[], &[]).into(),
                    tagged.into(),
                ],
                // Upon the commit that the tag names, to which no ref was moved by itself.
                vec![bundle("b", '2', &['1'], &[]).into(), moves("main", None, Some('2'))],
            ]
        };
        let names = ["a", "b", "tag"];
        assert_eq!(needed(log(&tag), &names, false).unwrap(), names);
        tag.peeled = None;
        assert_eq!(needed(log(&tag), &names, false), None);
    }
}

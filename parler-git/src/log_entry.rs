//! A message as this program got it from a hub: the bytes, what they say, and whether they are to be believed. Read
//! once; its signature is verified when it first matters, because most of a long backlog is only counted.

use std::cell::OnceCell;

use parler_client::Identity;
use parler_protocol::{
    Claim, DroppedMessage, HandoffPart, Head, HubId, Message, MessageId, Part, ReadMessage, RoomName, Sender, Seq,
    Verdict, VerifyError, verify,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::names::Standing;
use crate::time::{end_of, is_over, now_ms};

/// What is said of a message whose content the hub gave up.
pub(crate) const NO_LONGER_KEPT: &str = "no longer kept by the hub";

/// One entry of a room's log.
pub(crate) struct LogEntry {
    /// Its number.
    pub(crate) seq: Seq,
    /// Exactly as the hub holds it.
    raw: Box<RawValue>,
    content: Content,
    /// How its author stands to the name it goes by if the signature is good, once that was looked at.
    standing: Standing,
    /// The command that accepts its author's key, where that is new under its name.
    pub(crate) accept: Option<String>,
    /// Whether its author's role is the name of somebody else, as far as that was looked at.
    pub(crate) is_role_anothers: bool,
    /// The handoffs and jobs that it answers, as far as they were found.
    pub(crate) answered: Vec<Answered>,
    /// Where it was said before, as far as that was looked at.
    pub(crate) said_before: Option<SaidBefore>,
    /// When it was read, milliseconds since 1970: what it says for a time is judged by that.
    pub(crate) read_at: i64,
    /// Whether this agent took up the handoff in it, as far as that was looked at: then it leads on when its time is over.
    pub(crate) is_taken: bool,
}

/// What is known of an earlier place of a message: a hub can tell one again, and its signature holds there, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaidBefore {
    /// It is the same as this earlier one.
    In(Seq),
    /// It may be the same as one that is not there to be compared.
    Perhaps,
}

/// A handoff or a job that a message answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The id that the answer names.
    pub(crate) id: MessageId,
    /// Its message.
    pub(crate) seq: Seq,
    /// Its author. Names are text from elsewhere.
    pub(crate) from: Sender,
    /// Whether it is a job of a service.
    pub(crate) is_job: bool,
}

enum Content {
    /// A message.
    Read(Box<ReadContent>),
    /// Nothing that this program can read, and why.
    Unreadable(String),
    /// What stands in place of a message that the hub no longer keeps.
    Dropped,
}

struct ReadContent {
    message: Message,
    hub: HubId,
    /// It says that it is of another room than the one it was read from.
    is_elsewhere: bool,
    verdict: OnceCell<Verdict>,
}

impl ReadContent {
    fn verdict(&self) -> &Verdict {
        self.verdict.get_or_init(|| match self.is_elsewhere {
            // A message of another room is signed as well as one of this room.
            true => Verdict::Invalid(VerifyError::OtherRoom),
            false => verify(&self.message, &self.hub),
        })
    }
}

impl LogEntry {
    /// Reads an entry of a room's log. `expected` is its number where it does not tell.
    pub(crate) fn read(raw: Box<RawValue>, hub: &HubId, room: &RoomName, expected: Seq) -> Self {
        match Message::parse(raw.get().as_bytes()) {
            Ok(message) => Self {
                seq: message.seq,
                raw,
                content: Content::Read(Box::new(ReadContent {
                    is_elsewhere: message.room.key() != room.key(),
                    message,
                    hub: *hub,
                    verdict: OnceCell::new(),
                })),
                standing: Standing::default(),
                accept: None,
                is_role_anothers: false,
                answered: Vec::new(),
                said_before: None,
                read_at: now_ms(),
                is_taken: false,
            },
            Err(error) => {
                let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                let seq = value.get("seq").and_then(Value::as_u64).map_or(expected, Seq::new);
                let content = match DroppedMessage::parse(raw.get().as_bytes()) {
                    Some(note) if note.room.key() == room.key() => Content::Dropped,
                    _ => Content::Unreadable(error.to_string()),
                };
                Self {
                    seq,
                    raw,
                    content,
                    standing: Standing::default(),
                    accept: None,
                    is_role_anothers: false,
                    answered: Vec::new(),
                    said_before: None,
                    read_at: now_ms(),
                    is_taken: false,
                }
            }
        }
    }

    /// Whether only a note of it is left.
    pub(crate) fn is_dropped(&self) -> bool {
        matches!(self.content, Content::Dropped)
    }

    /// The message and its mark, unless it is not to be believed at all.
    pub(crate) fn message(&self) -> Option<(&Message, &Verdict)> {
        match &self.content {
            Content::Read(read) => match read.verdict() {
                Verdict::Invalid(_) => None,
                verdict => Some((&read.message, verdict)),
            },
            Content::Unreadable(_) | Content::Dropped => None,
        }
    }

    /// What the message says, before any signature is checked: to tell what has to be looked at more closely.
    pub(crate) fn unverified(&self) -> Option<&Message> {
        match &self.content {
            Content::Read(read) => Some(&read.message),
            Content::Unreadable(_) | Content::Dropped => None,
        }
    }

    /// Whether this agent wrote it, and signed it.
    pub(crate) fn is_by(&self, me: &Identity) -> bool {
        self.unverified().is_some_and(|message| message.from.id == me.key.id())
            && self.message().is_some_and(|(_, verdict)| verdict.is_valid())
    }

    /// How its author stands to the name it goes by, once that was looked at.
    pub(crate) fn standing(&self) -> &Standing {
        match self.message() {
            Some((_, verdict)) if verdict.is_valid() => &self.standing,
            _ => &Standing::Unsigned,
        }
    }

    /// Notes how its author stands to the name it goes by, if the signature is good.
    pub(crate) fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Who it says it is from and why it is not to be believed, for one that is not.
    pub(crate) fn fold_reason(&self) -> Option<(Option<&str>, String)> {
        match &self.content {
            Content::Read(read) => match read.verdict() {
                Verdict::Invalid(error) => Some((Some(&read.message.from.name), reason(error))),
                _ => None,
            },
            Content::Unreadable(why) => Some((None, why.clone())),
            Content::Dropped => Some((None, NO_LONGER_KEPT.to_owned())),
        }
    }

    /// The handoff in it, if it is one that this agent should be led by: one that is made to it, and that it took up, or whose
    /// time was not over when it was read.
    pub(crate) fn handoff_to(&self, me: &Identity) -> Option<(&Message, &HandoffPart)> {
        self.made_to(me)
            .filter(|(message, handoff)| self.is_taken || !is_over(end_of(message, handoff.ttl_secs), self.read_at))
    }

    /// Whether the handoff in it is made to this agent, and its time was over when it was read.
    pub(crate) fn comes_too_late_for(&self, me: &Identity) -> bool {
        self.made_to(me).is_some() && self.handoff_to(me).is_none()
    }

    /// The handoff in it that is made to this agent: signed and bound to this room, by somebody else whose name it is, for this
    /// agent's name or role or for anybody, and as far as that was looked at not said before.
    fn made_to(&self, me: &Identity) -> Option<(&Message, &HandoffPart)> {
        let called = |who: &str| me.name.is_called(who) || me.role.as_ref().is_some_and(|role| role.is_called(who));
        let message = self.unverified().filter(|message| message.from.id != me.key.id())?;
        if self.said_before.is_some() {
            return None;
        }
        let handoff = message.parts.iter().find_map(|part| match part {
            Part::Handoff(handoff) if handoff.to.as_deref().is_none_or(called) => Some(handoff),
            _ => None,
        })?;
        let (_, verdict) = self.message()?;
        (verdict.is_valid() && self.standing().leads()).then_some((message, handoff))
    }

    /// Whether somebody else mentions this agent by its name or role, in a message that is signed or might be.
    pub(crate) fn mentions(&self, me: &Identity) -> bool {
        let called = |who: &String| me.name.is_called(who) || me.role.as_ref().is_some_and(|role| role.is_called(who));
        self.said_before.is_none()
            && self
                .unverified()
                .is_some_and(|message| message.from.id != me.key.id() && message.mentions.iter().any(called))
            && self.message().is_some()
    }

    /// The message as JSON with its mark: as stored, or without its parts where it is folded.
    pub(crate) fn to_json(&self) -> Value {
        let mut value: Value = serde_json::from_str(self.raw.get()).unwrap_or_default();
        if !value.is_object() {
            value = json!({ "seq": self.seq });
        }
        let (mark, reason) = match &self.content {
            Content::Read(read) => (mark(read.verdict()), self.fold_reason().map(|(_, reason)| reason)),
            Content::Unreadable(why) => ("unreadable", Some(why.clone())),
            Content::Dropped => ("dropped", Some(NO_LONGER_KEPT.to_owned())),
        };
        value["signature"] = json!(mark);
        if self.message().is_some() {
            value["sender"] = json!(self.standing().word());
        }
        match self.said_before {
            Some(SaidBefore::In(seq)) => value["saidBefore"] = json!({ "seq": seq }),
            Some(SaidBefore::Perhaps) => value["saidBefore"] = json!({ "seq": null }),
            None => {}
        }
        if let Some(reason) = reason {
            value["parts"] = json!([]);
            value["folded"] = json!(reason);
        }
        value
    }

    /// Exactly what the hub holds.
    pub(crate) fn raw_text(&self) -> &str {
        self.raw.get()
    }

    /// How many bytes it has.
    pub(crate) fn raw_len(&self) -> usize {
        self.raw.get().len()
    }
}

impl ReadMessage for &LogEntry {
    fn bytes(&self) -> &[u8] {
        self.raw.get().as_bytes()
    }

    fn says(&self) -> Option<Head> {
        self.unverified()?.parts.iter().find_map(|part| match part {
            Part::Seen(seen) => Some(Head {
                seq: seen.seq,
                h: seen.h,
            }),
            _ => None,
        })
    }

    fn claim(&self) -> Option<Claim> {
        let (message, verdict) = self.message()?;
        Claim::of(message, verdict)
    }
}

/// A verdict in `--json` output.
pub(crate) fn mark(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::ValidUnbound => "unbound",
        Verdict::Unsigned => "none",
        Verdict::Invalid(_) => "invalid",
    }
}

/// A verdict for people.
pub(crate) fn describe(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "signature valid",
        Verdict::ValidUnbound => "signature valid, not bound to this room",
        Verdict::Unsigned => "not signed",
        Verdict::Invalid(_) => "signature not to be believed",
    }
}

fn reason(error: &VerifyError) -> String {
    match error {
        VerifyError::Mismatch => "signature does not match".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use parler_protocol::{AgentKey, ChainHash, Draft, Head, SignContext, Target, sign};

    use super::*;

    pub(crate) const HUB: HubId = HubId::from_bytes([1; 16]);

    pub(crate) fn identity(seed: u8, name: &str, role: Option<&str>) -> Identity {
        Identity {
            key: Arc::new(AgentKey::from_random([seed; 32])),
            name: name.parse().unwrap(),
            role: role.map(|role| role.parse().unwrap()),
        }
    }

    /// The entry that a hub would hold of this draft, after `change` tampered with it.
    pub(crate) fn entry(from: &Identity, seq: u64, parts: Vec<Part>, change: impl FnOnce(&mut Value)) -> LogEntry {
        let room = "build".parse().unwrap();
        let signed = sign(
            &Draft::new(parts),
            &SignContext {
                key: &from.key,
                name: &from.name,
                role: from.role.as_ref(),
                hub: &HUB,
                room: &room,
                target: &Target::Room { room: room.clone() },
                head: &Head {
                    seq: Seq::new(seq - 1),
                    h: ChainHash::start(&HUB, &room),
                },
                now_ms: 1_796_000_000_000,
            },
        );
        let mut value: Value = serde_json::from_slice(&signed.body).unwrap();
        value["seq"] = json!(seq);
        value["room"] = json!(room);
        value["from"] = json!({ "id": from.key.id(), "name": from.name });
        if let Some(role) = &from.role {
            value["from"]["role"] = json!(role);
        }
        value["ts"] = json!(1_796_000_000_000_i64);
        change(&mut value);
        LogEntry::read(
            RawValue::from_string(value.to_string()).unwrap(),
            &HUB,
            &room,
            Seq::new(seq),
        )
    }

    pub(crate) fn handoff(to: Option<&str>) -> Part {
        HandoffPart {
            next: "review the diff and flag blockers before merge".into(),
            summary: Some("feature branch pushed, tests green".into()),
            to: to.map(str::to_owned),
            ..HandoffPart::default()
        }
        .into()
    }

    #[test]
    fn a_handoff_leads_whom_it_is_for_and_nobody_else() {
        let alice = identity(1, "alice", Some("planner"));
        let bob = identity(2, "Bob", Some("Reviewer"));
        let leads =
            |to: Option<&str>, me: &Identity| entry(&alice, 5, vec![handoff(to)], |_| ()).handoff_to(me).is_some();
        for to in [None, Some("bob"), Some(" BOB "), Some("reviewer")] {
            assert!(leads(to, &bob), "{to:?}");
        }
        for to in [Some("carol"), Some("bo"), Some("alice"), Some("")] {
            assert!(!leads(to, &bob), "{to:?}");
        }
        // Never its own author, whatever it is called.
        assert!(!leads(None, &alice));
        assert!(!leads(Some("planner"), &alice));
    }

    #[test]
    fn a_handoff_leads_until_its_time_is_over() {
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let ttl_secs = std::num::NonZeroU32::new(60);
        let handoff = HandoffPart {
            next: "look".into(),
            ttl_secs,
            ..HandoffPart::default()
        };
        let mut read = entry(&alice, 5, vec![handoff.into()], |_| ());
        for (seconds, leads) in [(-3600, true), (59, true), (60, false), (3600, false)] {
            read.read_at = 1_796_000_000_000 + seconds * 1000;
            assert_eq!(read.handoff_to(&bob).is_some(), leads, "{seconds}");
            assert_eq!(read.comes_too_late_for(&bob), !leads, "{seconds}");
            assert!(!read.comes_too_late_for(&alice));
        }
    }

    #[test]
    fn only_a_valid_signature_leads() {
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let tampered = entry(&alice, 5, vec![handoff(None)], |value| {
            value["parts"][0]["next"] = json!("merge")
        });
        assert!(tampered.handoff_to(&bob).is_none());
        assert_eq!(
            tampered.fold_reason(),
            Some((Some("alice"), "signature does not match".to_owned()))
        );
        let unsigned = entry(&alice, 5, vec![handoff(None)], |value| {
            value["parts"].as_array_mut().unwrap().truncate(1);
        });
        assert!(unsigned.handoff_to(&bob).is_none());
        assert!(unsigned.fold_reason().is_none());
    }

    #[test]
    fn a_folded_message_gives_no_parts_to_programs() {
        let alice = identity(1, "alice", None);
        let good = entry(&alice, 5, vec![handoff(None)], |_| ()).to_json();
        assert_eq!(good["signature"], "valid");
        assert_eq!(good["parts"].as_array().unwrap().len(), 3);
        let bad = entry(&alice, 5, vec![handoff(None)], |value| {
            value["from"]["name"] = json!("root")
        })
        .to_json();
        assert_eq!(bad["signature"], "invalid");
        assert_eq!(bad["parts"], json!([]));
        let elsewhere = entry(&alice, 5, vec![handoff(None)], |value| value["room"] = json!("other"));
        assert_eq!(elsewhere.to_json()["folded"], "signed for another room");
        let garbage = LogEntry::read(
            RawValue::from_string("[1]".into()).unwrap(),
            &HUB,
            &"build".parse().unwrap(),
            Seq::new(9),
        );
        assert_eq!(garbage.to_json()["seq"], 9);
        assert!(garbage.fold_reason().is_some());
    }
}

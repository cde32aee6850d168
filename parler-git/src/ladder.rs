//! How far a handoff has come: what the hub knows of its readers and what they say themselves, put together. Shows every
//! word that was said, also those that do not count, and decides nothing.

use parler_protocol::api::{Reader, Receipts, WakePath};
use parler_protocol::{AgentName, Seq, TaskStatus};
use serde_json::{Value, json};

use crate::handoffs::{Handoff, Ledger, Receipt};
use crate::output::{HEADER, WARNING, styled};
use crate::room_handoffs::addressee;
use crate::screen;
use crate::text::{self, Extent};
use crate::view::work_words;

/// Width of a label and its colon.
const LABEL_WIDTH: usize = 13;
/// Most readers that are named in one line.
const MAX_NAMED: usize = 10;

/// A step that somebody may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is in the log.
    Stored,
    /// Somebody whom it is for has read it.
    Acknowledged,
    /// Somebody whom it is for has all that it brings.
    Fetched,
    /// Somebody said so.
    Said(TaskStatus),
}

impl Step {
    /// Every word for one, in order.
    pub(crate) const WORDS: [(&'static str, Self); 10] = [
        ("stored", Self::Stored),
        ("acknowledged", Self::Acknowledged),
        ("fetched", Self::Fetched),
        ("accepted", Self::Said(TaskStatus::Accepted)),
        ("working", Self::Said(TaskStatus::Working)),
        ("awaiting", Self::Said(TaskStatus::Awaiting)),
        ("done", Self::Said(TaskStatus::Done)),
        ("failed", Self::Said(TaskStatus::Failed)),
        ("declined", Self::Said(TaskStatus::Declined)),
        ("cancelled", Self::Said(TaskStatus::Cancelled)),
    ];

    /// The step of this word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::WORDS
            .into_iter()
            .find(|(known, _)| *known == word)
            .map(|(_, step)| step)
    }
}

/// Whether a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The step was reached.
    Reached,
    /// It came to another end.
    Ended,
    /// Neither.
    Pending,
}

/// A handoff and what is known of it.
pub(crate) struct Ladder<'a> {
    pub(crate) handoff: &'a Handoff,
    pub(crate) ledger: &'a Ledger,
    /// What the hub knows; none where it does not say.
    pub(crate) facts: Option<&'a Receipts>,
}

impl<'a> Ladder<'a> {
    /// Those of the room's members that it is for.
    fn addressees(&self) -> impl Iterator<Item = &'a Reader> {
        let handoff = self.handoff;
        let readers = self.facts.map(|facts| facts.readers.as_slice()).unwrap_or_default();
        let is_for = |reader: &&Reader| handoff.is_for_member(&reader.id, &reader.name, reader.role.as_ref());
        readers.iter().filter(is_for)
    }

    /// Whether there is anything to fetch with it.
    pub(crate) fn brings_something(&self) -> bool {
        let readers = self.facts.map(|facts| facts.readers.as_slice()).unwrap_or_default();
        self.handoff.part.bundle.is_some() || readers.iter().any(|reader| reader.fetched.is_some())
    }

    /// How somebody who waits for this step stands.
    pub(crate) fn outcome(&self, step: Step) -> Outcome {
        use TaskStatus as Status;
        let said = self.handoff.holder().map(|receipt| receipt.part.status);
        let taken = matches!(
            said,
            Some(Status::Accepted | Status::Working | Status::Awaiting | Status::Done)
        );
        let reached = match step {
            Step::Stored => true,
            Step::Acknowledged => said.is_some() || self.addressees().any(|reader| reader.acknowledged),
            Step::Fetched => said == Some(Status::Done) || self.addressees().any(|reader| reader.fetched == Some(true)),
            // Whoever works has accepted; whoever is done has done both.
            Step::Said(Status::Accepted) => taken,
            Step::Said(Status::Working) => taken && said != Some(Status::Accepted),
            Step::Said(status) => said == Some(status),
        };
        if reached {
            Outcome::Reached
        } else if self.handoff.state().is_final() || self.handoff.superseded_by.is_some() {
            Outcome::Ended
        } else {
            Outcome::Pending
        }
    }

    /// The ladder for people. `room_option` is what a command line says the room with.
    pub(crate) fn render(&self, room_option: &str) -> String {
        let handoff = self.handoff;
        let from = text::name_and_role(&handoff.from.name, handoff.from.role.as_deref());
        let to = addressee(handoff);
        let before = format!("message {} · handoff to {} from ", handoff.seq, screen::third(&to));
        let state = format!(" · {}", handoff.state().word());
        let headline = screen::fit(&before, &from, &state);
        let mut out = format!("{}\n", styled(HEADER, &headline));
        let mut cut = false;
        out.push_str(&row(
            "next",
            &text::continued(Extent::Beginning.of(&handoff.part.next, &mut cut)),
        ));
        if cut {
            let command = format!("git parler show {}{room_option}", handoff.seq);
            out.push_str(&format!("{}{command}\n", label("more")));
        }
        if let Some(work) = &handoff.part.work {
            out.push_str(&row("work", &work_words(work)));
        }
        out.push_str(&row("stored", &text::local_time(handoff.ts)));
        if let Some(until) = handoff.until {
            out.push_str(&row("until", &text::local_time(until)));
        }
        if self.facts.is_some() {
            let named = |is: fn(&Reader) -> bool| -> Vec<String> {
                let those = self.addressees().filter(|reader| is(reader));
                those.map(|reader| text::name(reader.name.as_str())).collect()
            };
            out.push_str(&row(
                "acknowledged",
                &list(&named(|reader| reader.acknowledged), "not yet"),
            ));
            let at = |reader: &Reader| {
                let time = reader.fetched_at.map(text::local_time).unwrap_or_default();
                format!("{} {time}", text::name(reader.name.as_str()))
            };
            let fetched: Vec<_> = self
                .addressees()
                .filter(|reader| reader.fetched == Some(true))
                .map(at)
                .collect();
            if self.brings_something() {
                out.push_str(&row("fetched", &list(&fetched, "not yet")));
            }
        }
        for receipt in &handoff.receipts {
            out.push_str(&row(receipt.part.status.as_str(), &said(receipt)));
        }
        if handoff.is_contested() {
            out.push_str(&styled(WARNING, &row("contested", "they do not say the same")));
        }
        let earlier = self.ledger.earlier(handoff.seq);
        if let Some(later) = handoff.superseded_by {
            let newest = self.ledger.newest(handoff.seq);
            let last = if newest == later {
                String::new()
            } else {
                format!(", and in the end by message {newest}")
            };
            out.push_str(&row("revised", &format!("by message {later}{last}")));
        } else if !earlier.is_empty() {
            out.push_str(&row("revises", &numbers(&earlier)));
        } else if let Some(revised) = handoff.part.revises {
            out.push_str(&row("revises", &format!("message {revised}")));
        }
        out.push_str(&self.wake_rows());
        out
    }

    /// What would tell those it is for of a message, and when each was last there.
    fn wake_rows(&self) -> String {
        let Some(facts) = self.facts else {
            return row("wake", "not known: the hub does not say");
        };
        let mut out = String::new();
        let mut count = 0;
        for reader in self.addressees() {
            count += 1;
            if count <= MAX_NAMED {
                let name = text::name_and_role(reader.name.as_str(), reader.role.as_ref().map(AgentName::as_str));
                let seen = text::local_time(reader.last_seen);
                out.push_str(&row(
                    "wake",
                    &format!("{name}: {} · seen {seen}", wake_words(reader.wake, reader.acknowledged)),
                ));
            }
        }
        if count > MAX_NAMED {
            out.push_str(&row("wake", &format!("and {} more", count - MAX_NAMED)));
        }
        if count == 0 {
            let room = &facts.room;
            let who = addressee(self.handoff);
            let nobody = match self.handoff.part.to {
                Some(_) if self.handoff.names_its_author() => {
                    format!("none: nobody in '{room}' but its author has the name or role {who}")
                }
                Some(_) => format!("none: nobody in '{room}' has the name or role {who} by now"),
                None => format!("none: nobody else is in '{room}' by now"),
            };
            out.push_str(&row("wake", &nobody));
        }
        out
    }

    /// The ladder for programs.
    pub(crate) fn to_json(&self) -> Value {
        let handoff = self.handoff;
        let mut value = summary_json(handoff);
        let facts = self.facts.map(|facts| {
            let reader = |reader: &Reader| {
                let is_for = handoff.is_for_member(&reader.id, &reader.name, reader.role.as_ref());
                let mut value = json!(reader);
                value["addressed"] = json!(is_for);
                value
            };
            facts.readers.iter().map(reader).collect::<Vec<_>>()
        });
        value["readers"] = json!(facts);
        value["receipts"] = handoff.receipts.iter().map(receipt_json).collect();
        value["contested"] = json!(handoff.is_contested());
        value["supersedes"] = json!(self.ledger.earlier(handoff.seq));
        value["supersededBy"] = json!(handoff.superseded_by);
        value["newest"] = json!(self.ledger.newest(handoff.seq));
        value
    }
}

/// A handoff and its state for programs, without those it is for.
pub(crate) fn summary_json(handoff: &Handoff) -> Value {
    let from = |from: &parler_protocol::Sender| json!({ "id": from.id, "name": from.name, "role": from.role });
    let part = &handoff.part;
    json!({
        "seq": handoff.seq,
        "id": handoff.id,
        "from": from(&handoff.from),
        "to": part.to,
        "next": part.next,
        "summary": part.summary,
        "bundle": part.bundle,
        "work": part.work,
        "revises": part.revises,
        "storedAt": handoff.ts,
        "expiresAt": handoff.until,
        "state": handoff.state().word(),
        "by": handoff.holder().map(|held| from(&held.from)),
    })
}

/// What was said of it, for programs.
pub(crate) fn receipt_json(receipt: &Receipt) -> Value {
    json!({
        "seq": receipt.seq,
        "id": receipt.id,
        "from": { "id": receipt.from.id, "name": receipt.from.name, "role": receipt.from.role },
        "status": receipt.part.status,
        "note": receipt.part.note,
        "result": receipt.part.result,
        "at": receipt.ts,
        "counts": receipt.counts,
    })
}

/// `bob (reviewer) 2026-11-30 05:00:01 · message 43 · result 7f3a0c9e21d4: why`
pub(crate) fn said(receipt: &Receipt) -> String {
    let who = text::name_and_role(&receipt.from.name, receipt.from.role.as_deref());
    let mut words = format!("{who} {} · message {}", text::local_time(receipt.ts), receipt.seq);
    if let Some(result) = &receipt.part.result {
        words.push_str(&format!(" · result {}", result.short()));
    }
    if !receipt.counts {
        words.push_str(" · does not count: not for them to say");
    }
    if let Some(note) = &receipt.part.note {
        let mut cut = false;
        words.push_str(&format!(": {}", text::continued(Extent::Beginning.of(note, &mut cut))));
        if cut {
            words.push_str(" ..");
        }
    }
    words
}

/// What wakes somebody who has read this, or has not, in words.
pub(crate) const fn wake_words(wake: WakePath, acknowledged: bool) -> &'static str {
    match wake {
        WakePath::Stream => "watching now (recv --watch)",
        WakePath::Session => "would be woken: a hook waits beside its session",
        WakePath::Turn => "not now: its coding agent's next turn begins with it",
        WakePath::None if acknowledged => "none: has read it, and will see what comes next at its next recv",
        WakePath::None => "none: will see it at its next recv",
    }
}

/// A line with a label.
pub(crate) fn row(name: &str, value: &str) -> String {
    screen::labelled(&label(name), value)
}

/// A label, as wide as all.
pub(crate) fn label(name: &str) -> String {
    format!("  {:<LABEL_WIDTH$} ", format!("{name}:"))
}

fn list(names: &[String], none: &str) -> String {
    match names.len() {
        0 => none.to_owned(),
        count if count > MAX_NAMED => format!("{} and {} more", names[..MAX_NAMED].join(", "), count - MAX_NAMED),
        _ => names.join(", "),
    }
}

fn numbers(seqs: &[Seq]) -> String {
    let numbers: Vec<_> = seqs.iter().map(Seq::to_string).collect();
    let noun = if seqs.len() == 1 { "message" } else { "messages" };
    format!("{noun} {}", list(&numbers, ""))
}

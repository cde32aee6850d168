//! How a job of a service stands: what its room's log and the hub's queue tell of it, put together for whoever asked for
//! it or serves. Shows every word that was said of it, and decides nothing.

use parler_protocol::api::{JobState, JobSummary, Party};
use parler_protocol::{DispatchPart, Message, MessageId, Part, RefName, ServiceName, TaskStatus};
use serde_json::{Value, json};

use crate::bundles::BundleView;
use crate::handoffs::Receipt;
use crate::ladder::{Outcome, receipt_json, row, said};
use crate::log_entry::LogEntry;
use crate::output::{HEADER, WARNING, styled};
use crate::screen;
use crate::text::{self, Extent};

/// A step that somebody may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobStep {
    /// The hub has it.
    Stored,
    /// Somebody works on it.
    Claimed,
    /// Whoever has it said so.
    Said(TaskStatus),
    /// It ended so.
    Ended(JobState),
}

impl JobStep {
    /// Every word for one, in order.
    pub(crate) const WORDS: [(&'static str, Self); 9] = [
        ("stored", Self::Stored),
        ("claimed", Self::Claimed),
        ("accepted", Self::Said(TaskStatus::Accepted)),
        ("working", Self::Said(TaskStatus::Working)),
        ("awaiting", Self::Said(TaskStatus::Awaiting)),
        ("done", Self::Ended(JobState::Done)),
        ("failed", Self::Ended(JobState::Failed)),
        ("cancelled", Self::Ended(JobState::Cancelled)),
        ("dead", Self::Ended(JobState::Dead)),
    ];

    /// The step of this word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.into_iter();
        words.find(|(known, _)| *known == word).map(|(_, step)| step)
    }
}

/// A job and what is known of it.
pub(crate) struct Job {
    pub(crate) service: ServiceName,
    /// As the hub has it.
    pub(crate) summary: JobSummary,
    /// Its message, once it was read; what is not to be believed has none.
    message: Option<Message>,
    /// What was said of it, in the log's order.
    receipts: Vec<Receipt>,
    /// The message in which it ended, and whether that brought a bundle and a file.
    result: Option<(parler_protocol::Seq, bool, bool)>,
}

impl Job {
    /// What the hub knows, before anything of the log is read.
    pub(crate) fn of(service: &ServiceName, summary: JobSummary) -> Self {
        Self {
            service: service.clone(),
            summary,
            message: None,
            receipts: Vec::new(),
            result: None,
        }
    }

    /// Folds the next entry of the log. Only what is signed for the room counts.
    pub(crate) fn add(&mut self, entry: &LogEntry) {
        let is_valid = || entry.message().filter(|(_, verdict)| verdict.is_valid());
        if entry.seq == self.summary.seq {
            self.message = is_valid().map(|(message, _)| message.clone());
            return;
        }
        let Some(unverified) = entry.unverified() else { return };
        if !unverified
            .parts
            .iter()
            .any(|part| self.is_about(part, unverified.reply_to))
        {
            return;
        }
        let Some((message, _)) = is_valid() else { return };
        // One that the hub tells again says nothing new.
        let is_same = |known: &Receipt| known.id == message.id && known.from.id == message.from.id;
        if self.receipts.iter().any(is_same) {
            return;
        }
        let brings = |is: fn(&Part) -> bool| message.parts.iter().any(is);
        for part in &message.parts {
            let Part::Task(part) = part else { continue };
            if part.about(message.reply_to) != Some(self.summary.id) {
                continue;
            }
            if matches!(part.status, TaskStatus::Done | TaskStatus::Failed) {
                let (bundle, file) = (
                    brings(|part| matches!(part, Part::Bundle(_))),
                    brings(|part| matches!(part, Part::File(_))),
                );
                self.result = Some((message.seq, bundle, file));
            }
            self.receipts.push(Receipt {
                seq: message.seq,
                id: message.id,
                from: message.from.clone(),
                ts: message.ts,
                part: part.clone(),
                counts: true,
            });
        }
    }

    fn is_about(&self, part: &Part, reply_to: Option<MessageId>) -> bool {
        matches!(part, Part::Task(part) if part.about(reply_to) == Some(self.summary.id))
    }

    /// Whether the log tells an end that the hub's answer does not have: that one is older.
    pub(crate) fn is_ahead(&self) -> bool {
        let end = self.receipts.last().map(|receipt| receipt.part.status);
        let is_end = matches!(end, Some(TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled));
        is_end && self.summary.state.is_open()
    }

    /// What whoever has it said last.
    fn said(&self) -> Option<TaskStatus> {
        let holder = self.summary.claimed_by.as_ref()?;
        let of_holder = self.receipts.iter().rev().find(|receipt| {
            receipt.from.id == holder.id || is_token(holder) && receipt.from.name == holder.name.as_str()
        });
        of_holder.map(|receipt| receipt.part.status)
    }

    /// How it stands, in a word.
    pub(crate) fn state(&self) -> &'static str {
        match (self.summary.state, self.said()) {
            (JobState::Claimed, Some(said @ (TaskStatus::Accepted | TaskStatus::Working | TaskStatus::Awaiting))) => {
                said.as_str()
            }
            (state, _) => state.as_str(),
        }
    }

    /// How somebody who waits for this step stands.
    pub(crate) fn outcome(&self, step: JobStep) -> Outcome {
        let state = self.summary.state;
        let said = self.said().filter(|_| state == JobState::Claimed);
        let reached = match step {
            JobStep::Stored => true,
            JobStep::Claimed => matches!(state, JobState::Claimed | JobState::Done),
            JobStep::Ended(end) => state == end,
            // Whoever is done has done all of it.
            JobStep::Said(_) if state == JobState::Done => true,
            JobStep::Said(TaskStatus::Accepted) => said.is_some(),
            JobStep::Said(TaskStatus::Working) => matches!(said, Some(TaskStatus::Working | TaskStatus::Awaiting)),
            JobStep::Said(status) => said == Some(status),
        };
        if reached {
            Outcome::Reached
        } else if state.is_open() {
            Outcome::Pending
        } else {
            Outcome::Ended
        }
    }

    fn parts(&self) -> &[Part] {
        self.message
            .as_ref()
            .map(|message| message.parts.as_slice())
            .unwrap_or_default()
    }

    fn dispatch(&self) -> Option<&DispatchPart> {
        self.parts().iter().find_map(|part| match part {
            Part::Dispatch(part) => Some(part),
            _ => None,
        })
    }

    /// The ref that it is about, as its requester calls it.
    fn requested(&self) -> Option<RefName> {
        let requested = self.parts().iter().find_map(|part| match part {
            Part::Refs(part) => part.requested(),
            _ => None,
        });
        requested.map(|(name, _)| name)
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts().iter().filter_map(|part| match part {
            Part::Text(part) => Some(part.text.as_str()),
            _ => None,
        })
    }

    /// The job for people.
    pub(crate) fn render(&self) -> String {
        let (seq, service) = (self.summary.seq, &self.service);
        let before = format!("job {seq} for service {service} from ");
        let from = text::name(self.summary.requester.name.as_str());
        let headline = screen::fit(&before, &from, &format!(" · {}", self.state()));
        let mut out = format!("{}\n", styled(HEADER, &headline));
        let mut cut = false;
        for said in self.texts() {
            out.push_str(&row("text", &text::continued(Extent::Beginning.of(said, &mut cut))));
        }
        if cut {
            out.push_str(&row("more", &format!("git parler show {seq} --service {service}")));
        }
        if let Some(name) = self.requested() {
            out.push_str(&row("ref", &text::name(name.as_str())));
        }
        for part in self.parts() {
            match part {
                Part::Bundle(part) => {
                    let view = BundleView::of(part, None);
                    let subject = view
                        .subject
                        .as_deref()
                        .map(|subject| format!(" · {}", text::one_line(subject)));
                    let words = format!(
                        "{} · {}{}",
                        view.id.short(),
                        text::size(view.size),
                        subject.unwrap_or_default()
                    );
                    out.push_str(&row("bundle", &words));
                }
                Part::File(part) => {
                    let words = format!("{} · {}", text::name(&part.name), text::size(part.size));
                    out.push_str(&row("file", &words));
                }
                _ => {}
            }
        }
        if let Some(words) = self.dispatch().and_then(cause_words) {
            out.push_str(&row("cause", &words));
        }
        if let Some(message) = &self.message {
            out.push_str(&row("stored", &text::local_time(message.ts)));
        } else {
            out.push_str(&styled(
                WARNING,
                &row("message", "not to be believed: git parler show tells why"),
            ));
        }
        if let (JobState::Claimed, Some(holder), Some(until)) =
            (self.summary.state, &self.summary.claimed_by, self.summary.lease_until)
        {
            let until = text::local_time(until);
            out.push_str(&row(
                "claimed",
                &format!("by {}, until {until} unless renewed", text::name(holder.name.as_str())),
            ));
        }
        if self.summary.attempts > 0 {
            let lost = text::count(u64::from(self.summary.attempts), "worker");
            out.push_str(&row("lost", &format!("{lost} took it and said nothing more")));
        }
        if self.summary.state == JobState::Dead {
            let again = format!("not offered any more; whoever serves: git parler serve {service} --retry {seq}");
            out.push_str(&styled(WARNING, &row("dead", &again)));
        }
        for receipt in &self.receipts {
            out.push_str(&row(receipt.part.status.as_str(), &said(receipt)));
        }
        if let Some((result, brings_bundle, brings_file)) = self.result {
            for (is_there, label, verb) in [(brings_bundle, "apply", "apply"), (brings_file, "output", "fetch")] {
                if is_there {
                    out.push_str(&row(label, &format!("git parler {verb} {result} --service {service}")));
                }
            }
        }
        out
    }

    /// The job for programs.
    pub(crate) fn to_json(&self) -> Value {
        let mut value = summary_json(&self.service, &self.summary);
        let bundle = self.parts().iter().find_map(|part| match part {
            Part::Bundle(part) => Some(part.blob),
            _ => None,
        });
        let dispatch = self.dispatch();
        value["state"] = json!(self.state());
        value["storedAt"] = json!(self.message.as_ref().map(|message| message.ts));
        value["texts"] = json!(self.texts().collect::<Vec<_>>());
        value["ref"] = json!(self.requested());
        value["bundle"] = json!(bundle);
        value["causedBy"] = json!(dispatch.and_then(|part| part.caused_by.as_ref()));
        value["chain"] = json!(dispatch.map(|part| part.chain.as_slice()).unwrap_or_default());
        value["receipts"] = self.receipts.iter().map(receipt_json).collect();
        value["result"] = json!(self.result.map(|(seq, _, _)| seq));
        value
    }
}

/// A job of a list, for programs.
pub(crate) fn summary_json(service: &ServiceName, summary: &JobSummary) -> Value {
    let mut value = json!({
        "service": service, "seq": summary.seq, "id": summary.id, "requester": summary.requester,
        "state": summary.state, "attempts": summary.attempts,
    });
    value["claimedBy"] = json!(summary.claimed_by);
    value["leaseUntil"] = json!(summary.lease_until);
    value
}

/// What a job is for, where it is for another one: `job 4 in svc.test · build > test`.
pub(crate) fn cause_words(part: &DispatchPart) -> Option<String> {
    let cause = part.caused_by.as_ref()?;
    let chain: Vec<_> = part.chain.iter().map(ServiceName::as_str).collect();
    Some(format!("job {} in {} · {}", cause.seq, cause.room, chain.join(" > ")))
}

/// What a token posts is signed by a key of its run, not by the account that the hub names.
fn is_token(party: &Party) -> bool {
    party.name.as_str().starts_with(parler_protocol::TOKEN_SENDER_PREFIX)
}

#[cfg(test)]
mod tests {
    use parler_protocol::{AgentKey, Seq, TextPart};

    use super::*;
    use crate::log_entry::tests::{entry, identity};

    /// A job of alice, message 1, whose worker is bob, and what bob said of it, from message 2 on.
    fn job(state: JobState, attempts: u32, said: &[TaskStatus]) -> Job {
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let dispatch = DispatchPart {
            role: "review".into(),
            ..DispatchPart::default()
        };
        let text = TextPart { text: "look".into() };
        let asked = entry(&alice, 1, vec![dispatch.into(), text.into()], |_| ());
        let (message, _) = asked.message().unwrap();
        let party = |name: &str, seed| Party {
            id: AgentKey::from_random([seed; 32]).id(),
            name: name.parse().unwrap(),
        };
        let mut job = Job::of(
            &"review".parse().unwrap(),
            JobSummary {
                seq: Seq::new(1),
                id: message.id,
                requester: party("alice", 1),
                state,
                attempts,
                claimed_by: (state != JobState::Waiting).then(|| party("bob", 2)),
                lease_until: (state == JobState::Claimed).then_some(1_796_000_000_000),
            },
        );
        job.add(&asked);
        for (number, status) in (2..).zip(said) {
            let part = |task: String| parler_protocol::TaskPart {
                status: *status,
                task: Some(task),
                note: None,
                result: None,
                tokens: None,
                elapsed_ms: None,
            };
            job.add(&entry(&bob, number, vec![part(message.id.to_string()).into()], |_| ()));
            let other = part(parler_protocol::MessageId::generate().to_string());
            job.add(&entry(&bob, number, vec![other.into()], |_| ()));
        }
        assert_eq!(job.receipts.len(), said.len());
        job
    }

    #[test]
    fn every_step_is_reached_in_its_turn_or_not_at_all() {
        use JobState::{Cancelled, Claimed, Dead, Done, Failed, Waiting};
        use Outcome::{Ended, Pending, Reached};
        let accepted = &[TaskStatus::Accepted][..];
        let working = &[TaskStatus::Accepted, TaskStatus::Working][..];
        for (state, said, word, outcomes) in [
            (Waiting, &[][..], "waiting", [Pending; 5]),
            // Of the worker that had it before.
            (Waiting, working, "waiting", [Pending; 5]),
            (Claimed, &[], "claimed", [Reached, Pending, Pending, Pending, Pending]),
            (
                Claimed,
                accepted,
                "accepted",
                [Reached, Reached, Pending, Pending, Pending],
            ),
            (
                Claimed,
                working,
                "working",
                [Reached, Reached, Reached, Pending, Pending],
            ),
            (Done, &[], "done", [Reached, Reached, Reached, Reached, Ended]),
            (Failed, working, "failed", [Ended; 5]),
            (Cancelled, working, "cancelled", [Ended; 5]),
            (Dead, working, "dead", [Ended, Ended, Ended, Ended, Reached]),
        ] {
            let job = job(state, 0, said);
            assert_eq!(job.state(), word);
            let steps = ["claimed", "accepted", "working", "done", "dead"];
            let found = steps.map(|step| job.outcome(JobStep::of(step).unwrap()));
            assert_eq!(found, outcomes, "{state} {said:?}");
            assert_eq!(job.outcome(JobStep::Stored), Reached);
        }
        let ended = |state| job(state, 0, &[TaskStatus::Done]).is_ahead();
        assert!(ended(Claimed) && !ended(Done));
    }

    #[test]
    fn a_job_that_nobody_survived_says_what_helps() {
        let shown = |job: &Job| anstream::adapter::strip_str(&job.render()).to_string();
        let dead = shown(&job(JobState::Dead, 3, &[TaskStatus::Accepted]));
        for line in [
            "job 1 for service review from alice · dead\n",
            "3 workers took it and said nothing more\n",
            "git parler serve review --retry 1\n",
        ] {
            assert!(dead.contains(line), "{line}: {dead}");
        }
        let waiting = shown(&job(JobState::Waiting, 1, &[]));
        assert!(
            waiting.contains("1 worker took it") && !waiting.contains("--retry"),
            "{waiting}"
        );
    }
}

//! How one commit stands, folded from the messages of a room in their order: the newest status of each repository and context,
//! as far as it is to be believed. Asks nobody and shows nothing. What is not to be believed is kept beside, and never counts.

use std::collections::HashSet;

use parler_protocol::limits::MAX_CLOCK_SKEW;
use parler_protocol::{CommitStatus, Message, MessageId, Oid, Part, ReviewPart, Sender, Seq, StatusContext};

use crate::log_entry::{LogEntry, describe};
use crate::names::Standing;
use crate::text;
use crate::time::{end_of, is_over};

/// Most words that do not count of which the newest are kept, to be told.
const MOST_IGNORED: usize = 20;
/// How far ahead of this machine's clock something may have been said that holds for a time.
const MAX_CLOCK_SKEW_MS: i64 = MAX_CLOCK_SKEW.as_millis() as i64;

/// What somebody said of the commit, and is believed.
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    /// The message that says it.
    pub(crate) seq: Seq,
    pub(crate) id: MessageId,
    /// Who. Names are text from elsewhere.
    pub(crate) from: Sender,
    /// When the hub stored it, milliseconds since 1970.
    pub(crate) ts: i64,
    /// How its author's key stands to that name.
    pub(crate) standing: Standing,
    pub(crate) part: ReviewPart,
    /// Until when it counts, milliseconds since 1970; none: without end.
    pub(crate) until: Option<i64>,
}

impl Stated {
    /// Whether it counted for a time that is over by now.
    pub(crate) fn has_expired(&self, now: i64) -> bool {
        is_over(self.until, now)
    }
}

/// What somebody said of it that does not count.
#[derive(Debug, Clone)]
pub(crate) struct Ignored {
    pub(crate) seq: Seq,
    /// Who it says it is from.
    pub(crate) from: String,
    pub(crate) why: String,
}

/// How a commit stands, all in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All that is asked for is good.
    Good,
    /// Something of it is bad.
    Bad,
    /// Nothing is bad, and something is not known yet.
    Pending,
    /// Nothing is bad, and of something nobody has said anything.
    Missing,
    /// Nothing is bad or missing, and what was said of something counted for a time that is over.
    Expired,
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Good => "success",
            Self::Bad => "failure",
            Self::Pending => "pending",
            Self::Missing => "missing",
            Self::Expired => "expired",
        }
    }
}

/// The statuses of one commit.
#[derive(Debug)]
pub(crate) struct Statuses {
    commit: Oid,
    /// By context, and of one context in the log's order.
    newest: Vec<Stated>,
    ignored: Vec<Ignored>,
    /// What was said for a time by clocks that are ahead of this machine's, and of which nothing newer was said: how that
    /// stands nobody here can tell.
    ahead: Vec<ReviewPart>,
    folded: HashSet<MessageId>,
}

impl Statuses {
    pub(crate) fn of(commit: Oid) -> Self {
        Self {
            commit,
            newest: Vec::new(),
            ignored: Vec::new(),
            ahead: Vec::new(),
            folded: HashSet::new(),
        }
    }

    /// Folds the next entry, whose author's standing is known.
    pub(crate) fn add(&mut self, entry: &LogEntry) {
        let Some(unverified) = entry.unverified().filter(|message| self.is_about(message)) else {
            return;
        };
        let believed = match entry.message() {
            None => Err(entry.fold_reason().map_or_else(String::new, |(_, why)| why)),
            Some((_, verdict)) if !verdict.is_valid() => Err(describe(verdict).to_owned()),
            // The word of somebody who took the name, as far as anybody here knows.
            Some(_) if !entry.standing().leads() => Err("new key under a known name".to_owned()),
            Some((message, _)) if entry.said_before.is_some() || !self.folded.insert(message.id) => {
                Err("said again by the hub".to_owned())
            }
            Some((message, _)) => Ok(message),
        };
        let message = match believed {
            Ok(message) => message,
            Err(why) => return self.ignore(entry.seq, unverified, why),
        };
        for part in &message.parts {
            if let Part::Review(part) = part
                && part.commit == self.commit
            {
                let until = end_of(message, part.ttl_secs);
                // Nobody here can tell when that will be over. What was said before it is news no longer, all the same.
                if until.is_some() && message.said_at() > entry.read_at.saturating_add(MAX_CLOCK_SKEW_MS) {
                    let why = "said at a time that this machine's clock has not come to".to_owned();
                    self.make_way(part);
                    self.ahead.push(part.clone());
                    self.ignore(entry.seq, message, why);
                    continue;
                }
                self.make_way(part);
                self.state(Stated {
                    seq: message.seq,
                    id: message.id,
                    from: message.from.clone(),
                    ts: message.ts,
                    standing: entry.standing().clone(),
                    part: part.clone(),
                    until,
                });
            }
        }
    }

    fn ignore(&mut self, seq: Seq, message: &Message, why: String) {
        let from = message.from.name.clone();
        self.ignored.push(Ignored { seq, from, why });
        if self.ignored.len() > MOST_IGNORED {
            self.ignored.remove(0);
        }
    }

    fn is_about(&self, message: &Message) -> bool {
        let is_about = |part: &Part| matches!(part, Part::Review(part) if part.commit == self.commit);
        message.parts.iter().any(is_about)
    }

    /// The newest of a repository and context takes the place of the one before. One that names no repository is about all.
    fn make_way(&mut self, part: &ReviewPart) {
        let gives_way = |earlier: &ReviewPart| {
            let (one, other) = (&earlier.repository, &part.repository);
            earlier.context == part.context && (one == other || one.is_none() || other.is_none())
        };
        self.newest.retain(|earlier| !gives_way(&earlier.part));
        self.ahead.retain(|earlier| !gives_way(earlier));
    }

    fn state(&mut self, stated: Stated) {
        let at = self
            .newest
            .partition_point(|other| other.part.context <= stated.part.context);
        self.newest.insert(at, stated);
    }

    /// The newest of these contexts, or of all where none is named; also what counted for a time that is over.
    pub(crate) fn counting<'s>(&'s self, required: &'s [StatusContext]) -> impl Iterator<Item = &'s Stated> + Clone {
        let is_meant = move |stated: &&Stated| required.is_empty() || required.contains(&stated.part.context);
        self.newest.iter().filter(is_meant)
    }

    /// The contexts among these of which nobody has said anything.
    pub(crate) fn missing<'s>(&self, required: &'s [StatusContext]) -> Vec<&'s StatusContext> {
        let is_there = |context: &&StatusContext| self.newest.iter().any(|stated| stated.part.context == **context);
        required.iter().filter(|context| !is_there(context)).collect()
    }

    /// How the commit stands by these contexts, or by all where none is named, at this moment (milliseconds since 1970).
    pub(crate) fn verdict(&self, required: &[StatusContext], now: i64) -> Verdict {
        let (expired, current): (Vec<_>, Vec<_>) = self.counting(required).partition(|stated| stated.has_expired(now));
        let mut statuses = current.iter().map(|stated| stated.part.status);
        let is_meant = |part: &ReviewPart| required.is_empty() || required.contains(&part.context);
        let is_missing =
            self.newest.is_empty() || !self.missing(required).is_empty() || self.ahead.iter().any(is_meant);
        if statuses.clone().any(CommitStatus::is_bad) {
            Verdict::Bad
        } else if is_missing {
            Verdict::Missing
        } else if !expired.is_empty() {
            Verdict::Expired
        } else if statuses.any(|status| status == CommitStatus::Pending) {
            Verdict::Pending
        } else {
            Verdict::Good
        }
    }

    /// What does not count, in the log's order: the newest of it.
    pub(crate) fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }
}

/// `test: failure in message 7`, for each of these.
pub(crate) fn words_of<'s>(stated: impl Iterator<Item = &'s Stated>) -> String {
    let words = stated.map(|stated| {
        let context = text::name(stated.part.context.as_str());
        format!("{context}: {} in message {}", stated.part.status.as_str(), stated.seq)
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log_entry::tests::{entry, identity};

    /// When all of it was said.
    const NOW: i64 = 1_796_000_000_000;

    fn commit(digit: &str) -> Oid {
        digit.repeat(40).parse().unwrap()
    }

    fn review(digit: &str, context: &str, status: CommitStatus, repository: Option<&str>) -> Part {
        ReviewPart {
            commit: commit(digit),
            context: context.parse().unwrap(),
            status,
            repository: repository.map(|id| id.parse().unwrap()),
            summary: None,
            url: None,
            findings: Vec::new(),
            omitted: 0,
            ttl_secs: None,
        }
        .into()
    }

    fn said(parts: &[(&str, CommitStatus, Option<&str>)]) -> Statuses {
        let alice = identity(1, "alice", None);
        let mut statuses = Statuses::of(commit("a"));
        for (index, (context, status, repository)) in parts.iter().enumerate() {
            let part = review("a", context, *status, *repository);
            statuses.add(&entry(&alice, index as u64 + 1, vec![part], |_| ()));
        }
        statuses
    }

    fn required(contexts: &[&str]) -> Vec<StatusContext> {
        contexts.iter().map(|context| context.parse().unwrap()).collect()
    }

    use CommitStatus::{Error, Failure, Neutral, Pending, Success};

    #[test]
    fn the_newest_of_a_repository_and_context_counts() {
        let (shop, fork) = (Some("git.example/shop"), Some("git.example/fork"));
        for (words, verdict) in [
            (&[][..], Verdict::Missing),
            (&[("test", Pending, shop)], Verdict::Pending),
            (&[("test", Pending, shop), ("test", Success, shop)], Verdict::Good),
            (&[("test", Failure, shop), ("test", Success, shop)], Verdict::Good),
            (&[("test", Success, shop), ("test", Error, shop)], Verdict::Bad),
            (&[("test", Failure, shop), ("lint", Success, shop)], Verdict::Bad),
            (&[("test", Neutral, shop), ("lint", Success, None)], Verdict::Good),
            (&[("test", Failure, shop), ("test", Success, fork)], Verdict::Bad),
            (&[("test", Failure, shop), ("test", Success, None)], Verdict::Good),
            (&[("test", Failure, None), ("test", Success, fork)], Verdict::Good),
            (&[("test", Failure, shop), ("Test", Success, shop)], Verdict::Bad),
            (&[("test", Failure, shop), ("lint", Pending, shop)], Verdict::Bad),
        ] {
            assert_eq!(said(words).verdict(&[], NOW), verdict, "{words:?}");
        }
    }

    #[test]
    fn what_is_required_has_to_be_there_and_nothing_else_matters() {
        let statuses = said(&[
            ("lint", Success, None),
            ("test", Pending, None),
            ("docs", Failure, None),
        ]);
        for (contexts, verdict, missing) in [
            (&["lint"][..], Verdict::Good, &[][..]),
            (&["lint", "test"], Verdict::Pending, &[]),
            (&["lint", "build"], Verdict::Missing, &["build"]),
            (&["build", "docs"], Verdict::Bad, &["build"]),
        ] {
            let contexts = required(contexts);
            assert_eq!(statuses.verdict(&contexts, NOW), verdict, "{contexts:?}");
            let left: Vec<_> = statuses
                .missing(&contexts)
                .into_iter()
                .map(StatusContext::as_str)
                .collect();
            assert_eq!(left, missing);
        }
        let shown: Vec<_> = statuses
            .counting(&[])
            .map(|stated| stated.part.context.as_str())
            .collect();
        assert_eq!(shown, ["docs", "lint", "test"]);
    }

    #[test]
    fn what_was_said_for_a_time_counts_no_longer_once_that_is_over_and_nothing_takes_its_place() {
        const MINUTE: i64 = 60_000;
        let alice = identity(1, "alice", None);
        let for_a_minute = |context: &str, status: CommitStatus| -> Part {
            let Part::Review(part) = review("a", context, status, None) else {
                unreachable!()
            };
            ReviewPart {
                ttl_secs: std::num::NonZeroU32::new(60),
                ..part
            }
            .into()
        };
        let fold = |words: &[(&str, CommitStatus, bool)]| {
            let mut statuses = Statuses::of(commit("a"));
            for (index, (context, status, is_short)) in words.iter().enumerate() {
                let part = match is_short {
                    true => for_a_minute(context, *status),
                    false => review("a", context, *status, None),
                };
                let mut entry = entry(&alice, index as u64 + 1, vec![part], |_| ());
                entry.read_at = NOW;
                statuses.add(&entry);
            }
            statuses
        };
        for (words, before, after) in [
            (&[("test", Success, true)][..], Verdict::Good, Verdict::Expired),
            (&[("test", Pending, true)], Verdict::Pending, Verdict::Expired),
            (&[("test", Failure, true)], Verdict::Bad, Verdict::Expired),
            // What was said before it does not come back.
            (
                &[("test", Success, false), ("test", Pending, true)],
                Verdict::Pending,
                Verdict::Expired,
            ),
            (
                &[("test", Success, true), ("test", Success, false)],
                Verdict::Good,
                Verdict::Good,
            ),
            (
                &[("test", Success, true), ("lint", Success, false)],
                Verdict::Good,
                Verdict::Expired,
            ),
            (
                &[("test", Success, true), ("lint", Failure, false)],
                Verdict::Bad,
                Verdict::Bad,
            ),
        ] {
            let statuses = fold(words);
            for (now, verdict) in [(NOW + MINUTE - 1, before), (NOW + MINUTE, after)] {
                assert_eq!(statuses.verdict(&[], now), verdict, "{words:?}");
            }
        }
        let statuses = fold(&[("test", Success, true)]);
        let wanted = required(&["lint", "test"]);
        assert_eq!(statuses.verdict(&wanted, NOW + MINUTE), Verdict::Missing);

        // Said in a future that is further away than clocks may be apart.
        for (behind, counts) in [(MINUTE, true), (MINUTE + 1, false)] {
            let mut statuses = fold(&[("lint", Success, false), ("test", Failure, false)]);
            let mut entry = entry(&alice, 2, vec![for_a_minute("test", Success)], |_| ());
            entry.read_at = NOW - behind;
            statuses.add(&entry);
            let verdict = if counts { Verdict::Good } else { Verdict::Missing };
            assert_eq!(statuses.verdict(&[], NOW - behind), verdict);
            assert_eq!(statuses.ignored().is_empty(), counts);
            assert_eq!(statuses.verdict(&required(&["lint"]), NOW - behind), Verdict::Good);
        }
    }

    #[test]
    fn what_is_not_to_be_believed_is_told_and_does_not_count() {
        let (alice, mallory) = (identity(1, "alice", None), identity(2, "mallory", None));
        let mut statuses = Statuses::of(commit("a"));
        let failure = || vec![review("a", "test", Failure, None)];
        let success = || vec![review("a", "test", Success, None)];
        let first = entry(&alice, 1, success(), |_| ());
        statuses.add(&first);
        statuses.add(&entry(&alice, 2, failure(), |_| ()));
        // The earlier word, told again.
        statuses.add(&first);
        statuses.add(&entry(&mallory, 3, success(), |value| {
            value["from"]["name"] = json!("alice")
        }));
        statuses.add(&entry(&mallory, 4, failure(), |value| {
            value["parts"][0]["status"] = json!("success")
        }));
        statuses.add(&entry(&mallory, 5, success(), |value| {
            value["parts"].as_array_mut().unwrap().truncate(1);
        }));
        let mut unknown = entry(&mallory, 6, success(), |_| ());
        unknown.set_standing(Standing::NewKey { of: "alice".into() });
        statuses.add(&unknown);
        // About another commit.
        statuses.add(&entry(&mallory, 7, vec![review("b", "test", Success, None)], |_| ()));
        assert_eq!(statuses.verdict(&[], NOW), Verdict::Bad);
        let ignored: Vec<_> = statuses
            .ignored()
            .iter()
            .map(|ignored| (ignored.seq.get(), ignored.why.as_str()))
            .collect();
        assert_eq!(
            ignored,
            [
                (1, "said again by the hub"),
                (3, "signed with another name"),
                (4, "signature does not match"),
                (5, "not signed"),
                (6, "new key under a known name"),
            ]
        );
        assert_eq!(words_of(statuses.counting(&[])), "test: failure in message 2");
    }
}

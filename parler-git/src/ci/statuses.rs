//! How one commit stands, folded from the messages of a room in their order: the newest status of each repository and context,
//! as far as it is to be believed. Asks nobody and shows nothing. What is not to be believed is kept beside, and never counts.

use std::collections::HashSet;

use parler_protocol::{CommitStatus, Message, MessageId, Oid, Part, ReviewPart, Sender, Seq, StatusContext};

use crate::log_entry::{LogEntry, describe};
use crate::names::Standing;
use crate::text;

/// Most words that do not count of which the newest are kept, to be told.
const MOST_IGNORED: usize = 20;

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
}

impl Verdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Good => "success",
            Self::Bad => "failure",
            Self::Pending => "pending",
            Self::Missing => "missing",
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
    folded: HashSet<MessageId>,
}

impl Statuses {
    pub(crate) fn of(commit: Oid) -> Self {
        Self {
            commit,
            newest: Vec::new(),
            ignored: Vec::new(),
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
            Err(why) => {
                let from = unverified.from.name.clone();
                self.ignored.push(Ignored {
                    seq: entry.seq,
                    from,
                    why,
                });
                if self.ignored.len() > MOST_IGNORED {
                    self.ignored.remove(0);
                }
                return;
            }
        };
        for part in &message.parts {
            if let Part::Review(part) = part
                && part.commit == self.commit
            {
                self.state(Stated {
                    seq: message.seq,
                    id: message.id,
                    from: message.from.clone(),
                    ts: message.ts,
                    standing: entry.standing().clone(),
                    part: part.clone(),
                });
            }
        }
    }

    fn is_about(&self, message: &Message) -> bool {
        let is_about = |part: &Part| matches!(part, Part::Review(part) if part.commit == self.commit);
        message.parts.iter().any(is_about)
    }

    /// The newest of a repository and context takes the place of the one before. One that names no repository is about all.
    fn state(&mut self, stated: Stated) {
        let gives_way = |earlier: &Stated| {
            let (one, other) = (&earlier.part.repository, &stated.part.repository);
            earlier.part.context == stated.part.context && (one == other || one.is_none() || other.is_none())
        };
        self.newest.retain(|earlier| !gives_way(earlier));
        let at = self
            .newest
            .partition_point(|other| other.part.context <= stated.part.context);
        self.newest.insert(at, stated);
    }

    /// What counts of these contexts, or of all where none is named.
    pub(crate) fn counting<'s>(&'s self, required: &'s [StatusContext]) -> impl Iterator<Item = &'s Stated> + Clone {
        let is_meant = move |stated: &&Stated| required.is_empty() || required.contains(&stated.part.context);
        self.newest.iter().filter(is_meant)
    }

    /// The contexts among these of which nobody has said anything.
    pub(crate) fn missing<'s>(&self, required: &'s [StatusContext]) -> Vec<&'s StatusContext> {
        let is_there = |context: &&StatusContext| self.newest.iter().any(|stated| stated.part.context == **context);
        required.iter().filter(|context| !is_there(context)).collect()
    }

    /// How the commit stands by these contexts, or by all where none is named.
    pub(crate) fn verdict(&self, required: &[StatusContext]) -> Verdict {
        let mut statuses = self.counting(required).map(|stated| stated.part.status);
        let is_missing = self.newest.is_empty() || !self.missing(required).is_empty();
        if statuses.clone().any(CommitStatus::is_bad) {
            Verdict::Bad
        } else if is_missing {
            Verdict::Missing
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

/// `test: failure in message 7`, for those that are bad.
pub(crate) fn bad_words<'s>(counting: impl Iterator<Item = &'s Stated>) -> String {
    let bad = counting.filter(|stated| stated.part.status.is_bad());
    let words = bad.map(|stated| {
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
            assert_eq!(said(words).verdict(&[]), verdict, "{words:?}");
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
            assert_eq!(statuses.verdict(&contexts), verdict, "{contexts:?}");
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
        assert_eq!(statuses.verdict(&[]), Verdict::Bad);
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
        assert_eq!(bad_words(statuses.counting(&[])), "test: failure in message 2");
    }
}

//! A message of the log as people read it. Shows what is there, marks what its signature says, and folds what is not
//! to be believed to one line.

use std::num::NonZeroU32;

use git_remote_parler::repository::Repository;
use parler_protocol::{AgentId, Message, Part, RefUpdate, TaskPart, Verdict, Work};

use crate::bundles::BundleView;
use crate::job::cause_words;
use crate::log_entry::{Answered, LogEntry, NO_LONGER_KEPT, SaidBefore, describe};
use crate::names::Standing;
use crate::output::{HEADER, WARNING, styled};
use crate::text::{self, Extent};
use crate::{review_view, screen};

/// How much of an object id is shown.
pub(crate) const SHORT_OID_DIGITS: usize = 10;
/// How much of a key is shown.
const SHORT_KEY_CHARS: usize = 12;
/// Most ref changes of one message that are shown.
const MAX_SHOWN_REFS: usize = 20;

/// A line of ours with a label: `  next:    ...`. Longer than the screen is wide it goes on as a text does.
pub(crate) fn field(label: &str, value: &str) -> String {
    screen::labelled(&format!("  {:<8} ", format!("{label}:")), value)
}

/// As [`field`], for what people copy, such as a command: never wrapped.
pub(crate) fn verbatim(label: &str, value: &str) -> String {
    format!("  {:<8} {value}\n", format!("{label}:"))
}

/// The line that names the command for what was cut.
pub(crate) fn more(message: &Message) -> String {
    let command = format!("git parler show {} --room {}", message.seq, message.room);
    verbatim("more", &command)
}

/// An entry's lines.
pub(crate) fn render(entry: &LogEntry, repository: Option<&Repository>, extent: Extent) -> String {
    match entry.message() {
        Some((message, verdict)) => render_message(message, verdict, entry, repository, extent),
        None if entry.is_dropped() => format!("message {}: {NO_LONGER_KEPT}\n", entry.seq),
        None => {
            let (from, reason) = entry.fold_reason().unwrap_or_default();
            let from = from
                .map(|name| format!(" from {}", text::name(name)))
                .unwrap_or_default();
            let reason = format!(" folded: {}", text::one_line(&reason));
            let line = screen::fit(&format!("message {}", entry.seq), &from, &reason);
            format!("{}\n", styled(WARNING, &line))
        }
    }
}

fn render_message(
    message: &Message,
    verdict: &Verdict,
    entry: &LogEntry,
    repository: Option<&Repository>,
    extent: Extent,
) -> String {
    let from = text::name_and_role(&message.from.name, message.from.role.as_deref());
    let marks = format!(" · {} · {}", text::local_time(message.ts), describe(verdict));
    let header = screen::fit(&format!("message {} from ", message.seq), &from, &marks);
    let mut out = format!("{}\n", styled(HEADER, &header));
    if let Standing::NewKey { of } = entry.standing() {
        out.push_str(&new_key(message, of, entry.accept.as_deref()));
    }
    if let Some(before) = entry.said_before {
        out.push_str(&styled(WARNING, &field("warning", &said_before(before))));
    }
    let mut cut = false;
    let when = When::Said(message, entry.read_at);
    out.push_str(&render_parts(
        &message.parts,
        &entry.answered,
        repository,
        when,
        extent,
        &mut cut,
    ));
    if cut {
        out.push_str(&more(message));
    }
    out
}

/// When a message was said, and when it is looked at: what it says may hold for a time.
#[derive(Clone, Copy)]
pub(crate) enum When<'m> {
    /// This message, read at this moment (milliseconds since 1970).
    Said(&'m Message, i64),
    /// It has not been said yet.
    NotYet,
}

impl When<'_> {
    /// The end of what holds for so many seconds, in words.
    fn end(self, ttl_secs: Option<NonZeroU32>) -> Option<String> {
        let ttl_secs = ttl_secs?;
        Some(match self {
            Self::Said(message, now) => text::end(message.until(ttl_secs), now),
            Self::NotYet => format!("for {}", text::span(ttl_secs)),
        })
    }
}

/// The lines of parts that were not sent yet.
pub(crate) fn own_parts(parts: &[Part], extent: Extent) -> String {
    let mut cut = false;
    let lines = render_parts(parts, &[], None, When::NotYet, extent, &mut cut);
    format!("{lines}{}", if cut { field("more", "..") } else { String::new() })
}

/// The lines of parts; `answered` are the handoffs that they may answer. Remembers in `cut` that a text is not shown to its
/// end.
pub(crate) fn render_parts<'p>(
    parts: impl IntoIterator<Item = &'p Part>,
    answered: &[Answered],
    repository: Option<&Repository>,
    when: When<'_>,
    extent: Extent,
    cut: &mut bool,
) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Text(part) => out.push_str(&text::quoted(extent.of(&part.text, cut))),
            Part::Handoff(part) => {
                let to = part.to.as_deref().map_or_else(|| "anybody".to_owned(), text::name);
                let end = when
                    .end(part.ttl_secs)
                    .map(|end| format!(" · {end}"))
                    .unwrap_or_default();
                out.push_str(&field("handoff", &format!("to {to}{end}")));
                out.push_str(&field("next", &text::continued(extent.of(&part.next, cut))));
                if let Some(summary) = &part.summary {
                    out.push_str(&field("summary", &text::continued(extent.of(summary, cut))));
                }
                if let Some(bundle) = &part.bundle {
                    out.push_str(&field("about", &format!("bundle {}", bundle.short())));
                }
                if let Some(work) = &part.work {
                    out.push_str(&field("work", &work_words(work)));
                }
                if let Some(revised) = part.revises {
                    out.push_str(&field("revises", &format!("message {revised}")));
                }
            }
            Part::Bundle(part) => {
                let view = BundleView::of(part, repository);
                out.push_str(&field(
                    "bundle",
                    &format!("{} · {}", view.line(), text::size(view.size)),
                ));
                if let Some(subject) = &view.subject {
                    out.push_str(&field("subject", &text::one_line(subject)));
                }
            }
            Part::Refs(part) => {
                // By itself: the first push chooses one, too, and that is no news.
                if let Some(head) = part.head.as_ref().filter(|_| part.updates.is_empty()) {
                    out.push_str(&field("head", &text::name(head.as_str())));
                }
                for update in part.updates.iter().take(MAX_SHOWN_REFS) {
                    out.push_str(&field("ref", &ref_change(update)));
                }
                if part.updates.len() > MAX_SHOWN_REFS {
                    out.push_str(&field(
                        "ref",
                        &format!("and {} more", part.updates.len() - MAX_SHOWN_REFS),
                    ));
                }
            }
            Part::File(part) => {
                let line = format!(
                    "{} · {} · {}",
                    text::name(&part.name),
                    text::size(part.size),
                    part.blob.short()
                );
                out.push_str(&field("file", &line));
            }
            Part::Task(part) => {
                let note = part
                    .note
                    .as_deref()
                    .map(|note| format!(" · {}", text::continued(extent.of(note, cut))))
                    .unwrap_or_default();
                let result = part.result.as_ref().map(|id| format!(" · result {}", id.short()));
                let of = answered.iter().find(|answered| is_answered(part, answered));
                let of = of.map(|of| {
                    let whose = text::name_and_role(&of.from.name, of.from.role.as_deref());
                    let what = if of.is_job { "job" } else { "handoff" };
                    format!(" · {what} {} from {whose}", of.seq)
                });
                let (of, result) = (of.unwrap_or_default(), result.unwrap_or_default());
                let words = format!("{}{of}{result}{note}", part.status.as_str());
                out.push_str(&field("task", &words));
            }
            Part::Review(part) => {
                let end = when.end(part.ttl_secs);
                out.push_str(&review_view::render(part, end.as_deref(), extent, cut));
            }
            Part::Dispatch(part) => {
                out.push_str(&field("job", &format!("for service {}", text::name(&part.role))));
                if let Some(words) = cause_words(part) {
                    out.push_str(&field("cause", &words));
                }
            }
            Part::Seen(_) | Part::Sig(_) => {}
            other => out.push_str(&field("part", &text::name(other.kind()))),
        }
    }
    out
}

fn is_answered(part: &TaskPart, answered: &Answered) -> bool {
    let id = part.task.as_ref().and_then(|id| id.parse().ok());
    id == Some(answered.id)
}

/// What to know of a message under another's name, before what it says.
fn new_key(message: &Message, of: &str, accept: Option<&str>) -> String {
    let line = format!("new key for {}: {}", text::name(of), short_key(&message.from.id));
    let accept = accept.map(|command| verbatim("accept", command)).unwrap_or_default();
    format!("{}{accept}", styled(WARNING, &field("warning", &line)))
}

/// What to know of a message that was said before.
fn said_before(before: SaidBefore) -> String {
    match before {
        SaidBefore::In(seq) => format!("said again by the hub: the same as message {seq}"),
        SaidBefore::Perhaps => {
            "perhaps said before: what there was between its author's last look at the log and it is not there to compare"
                .to_owned()
        }
    }
}

/// The beginning of a key, as it is shown.
pub(crate) fn short_key(key: &AgentId) -> String {
    key.to_string().chars().take(SHORT_KEY_CHARS).collect()
}

/// What a handoff brings, as its author's program counted it:
/// `3 commits, 12 files, +340 -25 on origin/main; sender's tree had uncommitted changes`.
pub(crate) fn work_words(work: &Work) -> String {
    let (commits, files) = (text::count(work.commits, "commit"), text::count(work.files, "file"));
    let base = work.base.as_deref().map(|base| format!(" on {}", text::name(base)));
    let dirty = match work.dirty {
        Some(true) => "; sender's tree had uncommitted changes",
        _ => "",
    };
    format!(
        "{commits}, {files}, +{} -{}{}{dirty}",
        work.insertions,
        work.deletions,
        base.unwrap_or_default()
    )
}

/// One moved ref: `refs/heads/feature 1a2b..3c4d`.
pub(crate) fn ref_change(update: &RefUpdate) -> String {
    let short = |oid: &parler_protocol::Oid| oid.to_string()[..SHORT_OID_DIGITS].to_owned();
    let name = text::name(update.name.as_str());
    match (&update.old, &update.new) {
        (None, Some(new)) => format!("{name} new {}", short(new)),
        (Some(old), Some(new)) if update.forced => format!("{name} forced {}..{}", short(old), short(new)),
        (Some(old), Some(new)) => format!("{name} {}..{}", short(old), short(new)),
        (Some(old), None) => format!("{name} deleted, was {}", short(old)),
        (None, None) => format!("{name} unchanged"),
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::{FilePart, ObjectFormat, RefsPart, TaskStatus, TextPart};
    use serde_json::json;

    use super::*;
    use crate::bundles::tests::part;
    use crate::log_entry::tests::{entry, handoff, identity};

    /// What is shown, without colour and without the time, which is local.
    fn shown(entry: &LogEntry) -> String {
        let text = anstream::adapter::strip_str(&render(entry, None, Extent::Beginning)).to_string();
        let time = text::local_time(1_796_000_000_000);
        text.replace(&time, "TIME")
    }

    #[test]
    fn every_part_has_its_lines() {
        let alice = identity(1, "alice", Some("planner"));
        let refs = RefsPart {
            updates: vec![RefUpdate {
                name: "refs/heads/feature".parse().unwrap(),
                old: None,
                new: Some("a".repeat(40).parse().unwrap()),
                forced: false,
                peeled: None,
            }],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let file = FilePart {
            blob: part().blob,
            name: "../x".into(),
            size: 3,
            media_type: None,
            summary: None,
        };
        let parts = vec![
            TextPart {
                text: "one\ntwo".into(),
            }
            .into(),
            handoff(Some("bob")),
            part().into(),
            refs.into(),
            file.into(),
            TaskPart {
                status: TaskStatus::Done,
                task: None,
                note: Some("one\nHANDOFF TO YOU".into()),
                result: Some(part().blob),
                tokens: None,
                elapsed_ms: None,
            }
            .into(),
            Part::Other(json!({ "kind": "org.example.x\u{202e}" })),
        ];
        let id = part().blob.short();
        let expected = format!(
            "\
message 7 from alice (planner) · TIME · signature valid
│ one
│ two
  handoff: to bob
  next:    review the diff and flag blockers before merge
  summary: feature branch pushed, tests green
  bundle:  {id} · 3 commits · refs/heads/feature · base origin/main · 4.1 KiB
  ref:     refs/heads/feature new aaaaaaaaaa
  file:    ../x · 3 B · {id}
  task:    done · result {id} · one
│ HANDOFF TO YOU
  part:    \"org.example.x\\u{{202e}}\"
"
        );
        assert_eq!(shown(&entry(&alice, 7, parts, |_| ())), expected);
    }

    #[test]
    fn counted_work_is_one_line() {
        let work = |base: Option<&str>, dirty| Work {
            commits: 3,
            files: 12,
            insertions: 340,
            deletions: 25,
            base: base.map(str::to_owned),
            dirty,
        };
        for (base, dirty, words) in [
            (None, None, "3 commits, 12 files, +340 -25"),
            (
                Some("origin/main"),
                Some(false),
                "3 commits, 12 files, +340 -25 on origin/main",
            ),
            (
                Some("a\n b\u{202e}"),
                Some(true),
                "3 commits, 12 files, +340 -25 on \"a\\u{a} b\\u{202e}\"; sender's tree had uncommitted changes",
            ),
        ] {
            assert_eq!(work_words(&work(base, dirty)), words);
        }
    }

    #[test]
    fn what_is_not_to_be_believed_is_one_line() {
        let alice = identity(1, "alice", None);
        let text = || vec![TextPart { text: "pay".into() }.into()];
        let bad = entry(&alice, 7, text(), |value| {
            value["parts"][0]["text"] = json!("do not pay")
        });
        assert_eq!(shown(&bad), "message 7 from alice folded: signature does not match\n");
        let moved = entry(&alice, 7, text(), |value| {
            value["from"]["name"] = json!("bob\nmessage 8")
        });
        assert_eq!(
            shown(&moved),
            "message 7 from \"bob\\u{a}message 8\" folded: signed with another name\n"
        );
    }

    #[test]
    fn every_mark_is_told_apart() {
        let alice = identity(1, "alice", None);
        let unsigned = entry(&alice, 7, vec![], |value| value["parts"] = json!([]));
        assert_eq!(shown(&unsigned), "message 7 from alice · TIME · not signed\n");
    }
}

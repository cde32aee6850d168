//! `git parler status --commit`: how a commit stands by what was said of it in a room, and the wait until that is known. The exit
//! code is the answer. Acknowledges nothing.

use std::time::{Duration, Instant};

use parler_client::Client;
use parler_protocol::limits::{MAX_PAGE_MESSAGES, MAX_WAIT};
use parler_protocol::{HubId, Oid, RoomName, Seq, StatusContext};
use serde_json::{Value, json};

use super::LONGEST;
use crate::ci::statuses::{Stated, Statuses, Verdict, words_of};
use crate::cli::Status;
use crate::commands::ci::named_commit;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::{Output, WARNING, styled};
use crate::review_view::{counted, word};
use crate::room_log::{read_page, wait_for_more};
use crate::time::{now_ms, parse_ttl};
use crate::view::{SHORT_OID_DIGITS, field};
use crate::{screen, text};

pub(super) fn run(context: &Context, args: &Status, revision: &str, output: &mut Output) -> Result<()> {
    if args.what.is_some() {
        return Err(Error::usage("--commit is about a commit, and N about a handoff").then("leave one of them out"));
    }
    if args.timeout.is_some() {
        return Err(Error::usage("--timeout is for a handoff or a job").then("--wait TIME"));
    }
    let wait = args
        .wait
        .as_deref()
        .map(|text| parse_ttl("--wait", text, LONGEST))
        .transpose()?;
    let required = args.require.iter().map(|context| {
        let context = context.trim().parse::<StatusContext>();
        context.map_err(|error| Error::usage(format_args!("--require: {error}")))
    });
    let required: Vec<_> = required.collect::<Result<_>>()?;
    let commit = named_commit(context.repository_if_any(), revision)?;
    let deadline = wait.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let room = context.room()?;
    let client = context.client()?;
    let mut statuses = Statuses::of(commit);
    let mut log = Log::begin(context, &client, room)?;
    loop {
        log.read_on(&mut statuses)?;
        output.warn(&context.trust().warnings());
        let now = now_ms();
        let verdict = statuses.verdict(&required, now);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_known = matches!(verdict, Verdict::Good | Verdict::Bad);
        let Some(left) = left.filter(|left| !is_known && !left.is_zero()) else {
            let found = Found {
                commit,
                required: &required,
                statuses: &statuses,
                verdict,
                now,
            };
            return found.tell(&log.room, wait.is_some(), output);
        };
        // The hub answers when the log has grown.
        wait_for_more(&client, &log.room, log.at, left.min(MAX_WAIT))?;
    }
}

/// What was said of a commit in the room, as far as it counts.
///
/// # Errors
/// As every reading of a room.
pub(crate) fn statuses(context: &Context, client: &Client, room: RoomName, commit: Oid) -> Result<Statuses> {
    let mut statuses = Statuses::of(commit);
    Log::begin(context, client, room)?.read_on(&mut statuses)?;
    Ok(statuses)
}

/// How far the room was read.
struct Log<'a> {
    context: &'a Context,
    client: &'a Client,
    hub: HubId,
    room: RoomName,
    at: Seq,
}

impl<'a> Log<'a> {
    fn begin(context: &'a Context, client: &'a Client, room: RoomName) -> Result<Self> {
        Ok(Self {
            context,
            client,
            hub: client.hub_id()?,
            room,
            at: Seq::ZERO,
        })
    }

    /// All that there is: what was said of a commit may be anywhere in the log.
    fn read_on(&mut self, statuses: &mut Statuses) -> Result<()> {
        let (trust, me) = (self.context.trust(), self.client.identity());
        loop {
            let mut page = read_page(self.client, &self.hub, &self.room, Some(self.at), MAX_PAGE_MESSAGES)?;
            self.room = page.room;
            trust.read_on(&self.hub, &self.room, me, self.at, &mut page.entries);
            page.entries.iter().for_each(|entry| statuses.add(entry));
            match page.entries.last() {
                Some(last) => self.at = last.seq,
                None => return Ok(()),
            }
            if self.at >= page.head.seq {
                return Ok(());
            }
        }
    }
}

/// What was found.
struct Found<'a> {
    commit: Oid,
    required: &'a [StatusContext],
    statuses: &'a Statuses,
    verdict: Verdict,
    /// When, milliseconds since 1970.
    now: i64,
}

impl Found<'_> {
    /// Shows it, and fails where it is no good news.
    fn tell(&self, room: &RoomName, has_waited: bool, output: &mut Output) -> Result<()> {
        let is_json = output.is_json();
        match is_json {
            true => output.json(&self.to_json(room))?,
            false => output.text(&self.render(room))?,
        }
        let short = &self.commit.to_string()[..SHORT_OID_DIGITS];
        let missing: Vec<_> = self.statuses.missing(self.required);
        let named: Vec<_> = missing.iter().map(|context| text::name(context.as_str())).collect();
        let (still, nobody) = match has_waited {
            true => (" still", "still nobody"),
            false => ("", "nobody"),
        };
        let error = match self.verdict {
            Verdict::Good => return Ok(()),
            Verdict::Bad => {
                let counting = self.statuses.counting(self.required);
                let mut bad = counting.filter(|stated| stated.part.status.is_bad() && !stated.has_expired(self.now));
                let words = words_of(bad.clone());
                let seq = bad.next().map(|stated| stated.seq).unwrap_or_default();
                let what = format!("commit {short} has failed: {words}");
                Error::new(ErrorKind::Negative, what).then(format!("git parler show {seq}"))
            }
            Verdict::Pending => Error::new(ErrorKind::NotFound, format_args!("commit {short} is{still} pending")),
            Verdict::Expired => {
                let counting = self.statuses.counting(self.required);
                let expired = words_of(counting.filter(|stated| stated.has_expired(self.now)));
                let what = format!("what was said of commit {short} has expired: {expired}");
                Error::new(ErrorKind::NotFound, what)
            }
            Verdict::Missing if named.is_empty() => {
                let what = format!("{nobody} has said how commit {short} stands in '{room}'");
                Error::new(ErrorKind::NotFound, what)
            }
            Verdict::Missing => {
                let what = format!("{nobody} has said of commit {short}: {}", named.join(", "));
                Error::new(ErrorKind::NotFound, what)
            }
        };
        Err(if is_json { error.told() } else { error })
    }

    fn render(&self, room: &RoomName) -> String {
        let commit = self.commit.to_string();
        let mut out = format!(
            "commit {} in '{room}' · {}\n",
            &commit[..SHORT_OID_DIGITS],
            self.verdict.word()
        );
        let counting = self.statuses.counting(self.required);
        out.extend(counting.map(|stated| line(stated, self.now)));
        for context in self.statuses.missing(self.required) {
            out.push_str(&field("missing", &text::name(context.as_str())));
        }
        for ignored in self.statuses.ignored() {
            let from = text::name(&ignored.from);
            let before = format!("message {} from ", ignored.seq);
            let why = format!(" does not count: {}", text::one_line(&ignored.why));
            let line = screen::fit(&before, &from, &why);
            out.push_str(&styled(WARNING, &field("warning", &line)));
        }
        out
    }

    fn to_json(&self, room: &RoomName) -> Value {
        let counting = self.statuses.counting(self.required);
        let statuses: Vec<_> = counting.map(|stated| stated_json(stated, self.now)).collect();
        let ignored = self.statuses.ignored().iter();
        let ignored: Vec<_> = ignored
            .map(|ignored| json!({ "seq": ignored.seq, "from": ignored.from, "why": ignored.why }))
            .collect();
        json!({
            "room": room, "commit": self.commit, "state": self.verdict.word(), "required": self.required,
            "missing": self.statuses.missing(self.required), "statuses": statuses, "ignored": ignored,
        })
    }
}

/// One status, in one line: `failure: test · ci/nightly · message 7 · signature valid · 2 errors`. One whose time is over is
/// called that, and then what it was.
fn line(stated: &Stated, now: i64) -> String {
    let (part, from) = (&stated.part, &stated.from);
    let found = counted(part);
    let repository = part.repository.as_ref();
    let has_expired = stated.has_expired(now);
    let more = [
        Some(format!("message {}", stated.seq)),
        // Others do not count.
        Some("signature valid".to_owned()),
        Some(text::local_time(stated.ts)),
        repository.map(|id| text::name(id.as_str())),
        (!found.is_empty()).then_some(found),
        stated.until.map(|until| match has_expired {
            true => format!("{} until {}", part.status.as_str(), text::local_time(until)),
            false => format!("until {}", text::local_time(until)),
        }),
    ];
    let more: Vec<_> = more.into_iter().flatten().collect();
    let before = match has_expired {
        true => format!("  {} ", padded(Verdict::Expired.word(), Verdict::Expired.word())),
        false => format!("  {} ", padded(&word(part.status), part.status.as_str())),
    };
    let context = text::name(part.context.as_str());
    let who = text::name_and_role(&from.name, from.role.as_deref());
    let after = format!(" · {} · {}\n", screen::sixth(&who), more.join(" · "));
    screen::fit(&before, &context, &after)
}

/// A word with its colon, as wide as a label; `shown` may have colour.
fn padded(shown: &str, word: &str) -> String {
    const LABEL: usize = 8;
    let blanks = LABEL.saturating_sub(word.len() + 1);
    format!("{shown}:{}", " ".repeat(blanks))
}

fn stated_json(stated: &Stated, now: i64) -> Value {
    let (part, from) = (&stated.part, &stated.from);
    json!({
        "context": part.context, "status": part.status, "repository": part.repository, "summary": part.summary,
        "url": part.url, "findings": part.findings, "omitted": part.omitted, "seq": stated.seq, "id": stated.id,
        "from": { "id": from.id, "name": from.name, "role": from.role }, "at": stated.ts, "signature": "valid", "sender": stated.standing.word(),
        "expiresAt": stated.until, "expired": stated.has_expired(now),
    })
}

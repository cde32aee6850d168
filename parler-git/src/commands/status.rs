//! `git parler status`: how far a handoff has come, by the facts that the hub knows and by what its receivers sign; waits
//! for a step where that is asked for. Without a name, the open handoffs of the room; in that of a service, jobs; with a
//! commit, how that stands.
//! Acknowledges nothing.

use std::time::{Duration, Instant};

use parler_client::{Client, ClientError};
use parler_protocol::api::Receipts;
use parler_protocol::limits::{MAX_PAGE_MESSAGES, MAX_WAIT};
use parler_protocol::{ErrorCode, Seq, ServiceName};
use serde_json::json;

use crate::cli::Status;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::handoffs::Handoff;
use crate::job::{Job, JobStep};
use crate::ladder::{Ladder, Outcome, Step, label, summary_json};
use crate::naming::Reference;
use crate::output::{HEADER, Output, styled};
use crate::room_handoffs::{RoomHandoffs, addressee, find_handoff};
use crate::room_log::wait_for_more;
use crate::screen;
use crate::text::{self, Extent};
use crate::time::{left_until, now_ms, parse_ttl};

mod commit;
pub(super) mod jobs;

pub(super) use commit::statuses;

/// How far before a handoff those are looked for that it revises: a page.
const EARLIER_MESSAGES: u32 = MAX_PAGE_MESSAGES;
/// Longest `--timeout`.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) fn run(context: &Context, args: &Status, output: &mut Output) -> Result<()> {
    output.require_open()?;
    if let Some(revision) = &args.commit {
        return commit::run(context, args, revision, output);
    }
    if !args.require.is_empty() {
        return Err(Error::usage("--require is for the statuses of a commit").then("add --commit REV"));
    }
    let timeout = args
        .timeout
        .as_deref()
        .map(|text| parse_ttl("--timeout", text, LONGEST))
        .transpose()?;
    let is_known = |word: &str| Step::of(word).is_some() || JobStep::of(word).is_some();
    if let Some(word) = args.wait.as_deref().filter(|word| !is_known(word)) {
        parse_step(word)?;
    }
    let Some(what) = &args.what else {
        if args.wait.is_some() {
            return Err(Error::usage("--wait is for one handoff or job").then("git parler status N --wait STATE"));
        }
        return match context.room_if_any()?.as_ref().and_then(ServiceName::of_room) {
            Some(service) => jobs::list(context, &service, output),
            None => list_open(context, output),
        };
    };
    if args.wait.is_none() && timeout.is_some() {
        return Err(Error::usage("--timeout is for --wait, which is not there").then("add --wait STATE"));
    }
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let reference = Reference::require(what)?;
    let client = context.client()?;
    if let Some(service) = ServiceName::of_room(&context.room()?)
        && let Some((summary, _)) = jobs::find(context, &client, &service, &reference)?
    {
        let job = Job::of(&service, summary);
        return jobs::show(context, &client, job, args, deadline, output);
    }
    let step = args.wait.as_deref().map(parse_step).transpose()?;
    let (mut handoffs, seq) = find_handoff(context, &client, &reference, EARLIER_MESSAGES)?;
    let mut facts = ask(&client, &handoffs, seq, None, Duration::ZERO)?;
    // What was told says how far the log reached: read behind that, so that nothing falls between the two.
    handoffs.read_on()?;
    output.warn(&context.trust().warnings());
    loop {
        if let Some(facts) = &facts {
            let members = facts.readers.iter().map(|reader| (&reader.id, &reader.name));
            handoffs.ledger.meet(members);
        }
        let now = now_ms();
        handoffs.ledger.set_time(now);
        let ladder = Ladder {
            handoff: handoffs.get(seq)?,
            ledger: &handoffs.ledger,
            facts: facts.as_ref(),
        };
        let outcome = step.map_or(Outcome::Reached, |step| ladder.outcome(step));
        if outcome == Outcome::Pending && step == Some(Step::Fetched) && facts.is_some() && !ladder.brings_something() {
            return Err(Error::usage(format_args!("message {seq} brings nothing to fetch"))
                .then(format!("git parler status {seq} --wait acknowledged")));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if outcome != Outcome::Pending || left.is_some_and(|left| left.is_zero()) {
            return tell(context, &ladder, &handoffs, args, outcome, output);
        }
        // No message tells that a time is over.
        let until_over = ladder.handoff.until.filter(|until| *until > now).map(left_until);
        let wait = [left, until_over].into_iter().flatten().fold(MAX_WAIT, Duration::min);
        let known = facts.as_ref().map(|facts| facts.version.clone());
        match known {
            Some(known) => facts = ask(&client, &handoffs, seq, Some(&known), wait)?,
            None => wait_for_more(&client, &handoffs.room, handoffs.at(), wait)?,
        }
        handoffs.read_on()?;
        output.warn(&context.trust().warnings());
    }
}

fn parse_step(word: &str) -> Result<Step> {
    Step::of(word).ok_or_else(|| {
        let words: Vec<_> = Step::WORDS.iter().map(|(word, _)| *word).collect();
        Error::usage(format_args!(
            "--wait '{word}' is no state: there are {}",
            words.join(", ")
        ))
    })
}

/// What the hub knows of the message's readers. None where it does not say: an older hub, or one that is asked by a token.
fn ask(
    client: &Client,
    handoffs: &RoomHandoffs<'_>,
    seq: Seq,
    since: Option<&str>,
    wait: Duration,
) -> Result<Option<Receipts>> {
    if client.token().is_some() {
        return Ok(None);
    }
    match client.receipts(&handoffs.room, seq, since, wait) {
        Ok(receipts) => Ok(Some(receipts)),
        // The message was read a moment ago: it is the call that is not there, or the room that was left. Reading on tells.
        Err(ClientError::Problem(problem)) if problem.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Shows the ladder, and fails where the wait was for something else.
fn tell(
    context: &Context,
    ladder: &Ladder<'_>,
    handoffs: &RoomHandoffs<'_>,
    args: &Status,
    outcome: Outcome,
    output: &mut Output,
) -> Result<()> {
    let seq = ladder.handoff.seq;
    if output.is_json() {
        let mut value = ladder.to_json();
        value["room"] = json!(handoffs.room);
        value["wait"] = json!(args.wait);
        value["reached"] = json!(args.wait.as_ref().map(|_| outcome == Outcome::Reached));
        output.json(&value)?;
    } else {
        output.text(&ladder.render(&context.room_option()))?;
    }
    let wanted = args.wait.as_deref().unwrap_or_default();
    let error = match outcome {
        Outcome::Reached => return Ok(()),
        Outcome::Ended => {
            let state = ladder.handoff.state().word();
            match ladder.handoff.superseded_by {
                Some(_) => {
                    let newest = handoffs.ledger.newest(seq);
                    let what = format!("message {seq} was revised before it was {wanted}");
                    Error::new(ErrorKind::Negative, what).then(format!("git parler status {newest}"))
                }
                None => Error::new(
                    ErrorKind::Negative,
                    format_args!("message {seq} is {state}, not {wanted}"),
                ),
            }
        }
        Outcome::Pending => Error::new(ErrorKind::NotFound, format_args!("message {seq} is not {wanted} yet")),
    };
    Err(if output.is_json() { error.told() } else { error })
}

/// The handoffs of the room of which something is expected: of this agent, and of others for it.
fn list_open(context: &Context, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    let client = context.client()?;
    let handoffs = RoomHandoffs::read(context, &client, &room, Seq::ZERO)?;
    output.warn(&context.trust().warnings());
    let me = client.identity();
    let open: Vec<&Handoff> = handoffs.ledger.open().rev().collect();
    let to_me: Vec<_> = open
        .iter()
        .copied()
        .filter(|handoff| handoff.leads && handoff.is_for(me))
        .collect();
    let from_me: Vec<_> = open.iter().copied().filter(|handoff| handoff.is_by(me)).collect();
    if output.is_json() {
        let all = |handoffs: &[&Handoff]| handoffs.iter().map(|handoff| summary_json(handoff)).collect::<Vec<_>>();
        return output.json(&json!({
            "room": handoffs.room, "toMe": all(&to_me), "fromMe": all(&from_me),
            "others": open.len() - to_me.len() - from_me.len(),
        }));
    }
    if open.is_empty() {
        output.remark(&format!("no handoff is open in '{}'", handoffs.room));
        return Ok(());
    }
    for (title, list) in [("to you", &to_me), ("from you", &from_me)] {
        if list.is_empty() {
            continue;
        }
        output.line(&styled(HEADER, title))?;
        for handoff in list {
            output.text(&line(handoff))?;
        }
    }
    let others = open.len() - to_me.len() - from_me.len();
    if others > 0 {
        output.line(&format!(
            "{} between others",
            text::count(others as u64, "open handoff")
        ))?;
    }
    Ok(())
}

/// An open handoff, in two lines.
fn line(handoff: &Handoff) -> String {
    let from = text::name_and_role(&handoff.from.name, handoff.from.role.as_deref());
    let by = handoff
        .holder()
        .map(|held| format!(" by {}", screen::sixth(&text::name(&held.from.name))))
        .unwrap_or_default();
    let mut cut = false;
    let next = handoff.part.next.lines().next().unwrap_or_default();
    let next = Extent::Beginning.of(next, &mut cut);
    let before = format!("  message {} from {} to ", handoff.seq, screen::sixth(&from));
    let after = format!(" · {} · {}{by}\n", text::local_time(handoff.ts), handoff.state().word());
    let next = screen::fit(&label("  next"), &text::one_line(next), "\n");
    screen::fit(&before, &addressee(handoff), &after) + &next
}

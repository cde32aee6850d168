//! `git parler ci annotate`: what was said of a commit, in one message or in all that count, in a form in which a CI system shows it. Acknowledges nothing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use parler_protocol::{Message, Part, ReviewPart, Seq};
use serde_json::json;

use super::named_commit;
use crate::ci::annotations::AnnotationFormat;
use crate::ci::statuses::words_of;
use crate::cli::{AnnotationWord, CiAnnotate};
use crate::commands::status::statuses;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::Reference;
use crate::new_file::NewFile;
use crate::output::Output;
use crate::room_log::read_message;
use crate::text;
use crate::time::now_ms;

/// Where GitHub says that a step's summary goes.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

impl From<AnnotationWord> for AnnotationFormat {
    fn from(word: AnnotationWord) -> Self {
        match word {
            AnnotationWord::Github => Self::Github,
            AnnotationWord::Gitlab => Self::Gitlab,
            AnnotationWord::Junit => Self::Junit,
            AnnotationWord::Sarif => Self::Sarif,
        }
    }
}

pub(super) fn run(context: &Context, args: &CiAnnotate, output: &mut Output) -> Result<()> {
    let number = |named: &String| {
        let number = Reference::require(named)?.number;
        number.ok_or_else(|| Error::usage(format_args!("'{named}' is not the number of a message").to_string()))
    };
    let seq = args.message.as_ref().map(number).transpose()?;
    let reviews = match seq {
        Some(seq) => of_message(context, seq, output)?,
        None => of_commit(context, args.commit.as_deref().unwrap_or("HEAD"), output)?,
    };
    let format = AnnotationFormat::from(args.format);
    let written = write(format, &reviews)?;
    let file = args
        .output
        .as_ref()
        .map(|file| context.environment.directory.join(file));
    if let Some(file) = &file {
        let mut new = NewFile::begin(file.clone(), true)?;
        let put = new.write_all(written.text.as_bytes());
        put.map_err(|error| Error::io(format_args!("write {}", file.display()), &error))?;
        new.finish()?;
    }
    let summary = match format {
        AnnotationFormat::Github => add_to_summary(context, &reviews)?,
        _ => None,
    };
    if let Some(left_out) = summary.filter(|left_out| *left_out > 0) {
        let count = text::count(left_out, "finding");
        output.remark(&format!("{count} left out of the step's summary"));
    }
    if written.left_out > 0 {
        let count = text::count(written.left_out, "finding");
        let show = seq.map(|seq| format!(": git parler show {seq}")).unwrap_or_default();
        output.remark(&format!("{count} left out{show}"));
    }
    let found: usize = reviews.iter().map(|review| review.findings.len()).sum();
    if output.is_json() {
        return output.json(&json!({
            "room": context.room()?, "seq": seq, "format": args.format.as_str(), "file": file, "findings": found,
            "leftOut": written.left_out, "summary": summary.is_some(), "text": file.is_none().then_some(&written.text),
        }));
    }
    match file {
        Some(file) => output.line(&format!(
            "{} in {}",
            text::count(found as u64, "finding"),
            file.display()
        )),
        None => {
            let mut out = output.bytes()?;
            out.write_all(written.text.as_bytes())
                .map_err(|error| Error::output(&error))
        }
    }
}

/// What a message says of commits: only of one that is its sender's.
fn of_message(context: &Context, seq: Seq, output: &mut Output) -> Result<Vec<ReviewPart>> {
    let room = context.room()?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    let entry = read_message(&client, &hub, &room, seq)?;
    let not_found = |what: std::fmt::Arguments<'_>| Error::new(ErrorKind::NotFound, what).then("git parler log");
    let entry = entry.ok_or_else(|| not_found(format_args!("no message {seq} in room '{room}'")))?;
    output.warn(&context.trust().warnings());
    let signed = entry.message().filter(|(_, verdict)| verdict.is_valid());
    let Some((message, _)) = signed else {
        let what = format_args!("message {seq} is not to be believed");
        return Err(Error::new(ErrorKind::Refused, what).then(format!("git parler show {seq}")));
    };
    let reviews = reviews_of(message);
    if reviews.is_empty() {
        return Err(not_found(format_args!("message {seq} says nothing of a commit")));
    }
    Ok(reviews)
}

/// What was said of a commit, the newest of each repository and context.
fn of_commit(context: &Context, revision: &str, output: &mut Output) -> Result<Vec<ReviewPart>> {
    let commit = named_commit(context.repository_if_any(), revision)?;
    let room = context.room()?;
    let client = context.client()?;
    let statuses = statuses(context, &client, room.clone(), commit)?;
    output.warn(&context.trust().warnings());
    let now = now_ms();
    let (expired, current): (Vec<_>, Vec<_>) = statuses.counting(&[]).partition(|stated| stated.has_expired(now));
    let expired = words_of(expired.into_iter());
    if current.is_empty() {
        let what = match expired.is_empty() {
            true => format!("nobody has said how commit {commit} stands in '{room}'"),
            false => format!("what was said of commit {commit} in '{room}' has expired: {expired}"),
        };
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    if !expired.is_empty() {
        output.remark(&format!("left out, because it has expired: {expired}"));
    }
    Ok(current.into_iter().map(|stated| stated.part.clone()).collect())
}

fn reviews_of(message: &Message) -> Vec<ReviewPart> {
    let review = |part: &Part| match part {
        Part::Review(review) => Some(review.clone()),
        _ => None,
    };
    message.parts.iter().filter_map(review).collect()
}

fn write(format: AnnotationFormat, reviews: &[ReviewPart]) -> Result<crate::ci::annotations::Written> {
    format.write(reviews).map_err(Error::fatal)
}

/// Adds a page to the summary of the step that this process is of, if it is one. How many findings it has no room for; none where
/// there is no summary.
fn add_to_summary(context: &Context, reviews: &[ReviewPart]) -> Result<Option<u64>> {
    let Some(file) = context.environment.filled(STEP_SUMMARY) else {
        return Ok(None);
    };
    let page = write(AnnotationFormat::GithubSummary, reviews)?;
    let opened = OpenOptions::new().append(true).create(true).open(Path::new(&file));
    let added = opened.and_then(|mut summary| summary.write_all(page.text.as_bytes()));
    added.map_err(|error| Error::io(format_args!("write {}", Path::new(&file).display()), &error))?;
    Ok(Some(page.left_out))
}

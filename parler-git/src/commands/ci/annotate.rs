//! `git parler ci annotate`: what a message says of a commit, in a form in which a CI system shows it. Acknowledges nothing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use parler_protocol::{Message, Part, ReviewPart, Seq};
use serde_json::json;

use crate::ci::annotations::AnnotationFormat;
use crate::cli::{AnnotationWord, CiAnnotate};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::Reference;
use crate::new_file::NewFile;
use crate::output::Output;
use crate::room_log::read_message;
use crate::text;

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
    let seq = Reference::require(&args.message)?.number.ok_or_else(|| {
        let what = format_args!("'{}' is not the number of a message", args.message).to_string();
        Error::usage(what)
    })?;
    let reviews = reviews(context, seq, output)?;
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
        _ => false,
    };
    if written.left_out > 0 {
        let count = text::count(written.left_out, "finding");
        output.remark(&format!("{count} left out: git parler show {seq}"));
    }
    let found: usize = reviews.iter().map(|review| review.findings.len()).sum();
    if output.is_json() {
        return output.json(&json!({
            "room": context.room()?, "seq": seq, "format": args.format.as_str(), "file": file, "findings": found,
            "leftOut": written.left_out, "summary": summary, "text": file.is_none().then_some(&written.text),
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
fn reviews(context: &Context, seq: Seq, output: &mut Output) -> Result<Vec<ReviewPart>> {
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
    let reviews = of_message(message);
    if reviews.is_empty() {
        return Err(not_found(format_args!("message {seq} says nothing of a commit")));
    }
    Ok(reviews)
}

fn of_message(message: &Message) -> Vec<ReviewPart> {
    let review = |part: &Part| match part {
        Part::Review(review) => Some(review.clone()),
        _ => None,
    };
    message.parts.iter().filter_map(review).collect()
}

fn write(format: AnnotationFormat, reviews: &[ReviewPart]) -> Result<crate::ci::annotations::Written> {
    format.write(reviews).map_err(Error::fatal)
}

/// Adds a page to the summary of the step that this process is of, if it is one.
fn add_to_summary(context: &Context, reviews: &[ReviewPart]) -> Result<bool> {
    let Some(file) = context.environment.filled(STEP_SUMMARY) else {
        return Ok(false);
    };
    let page = write(AnnotationFormat::GithubSummary, reviews)?;
    let opened = OpenOptions::new().append(true).create(true).open(Path::new(&file));
    let added = opened.and_then(|mut summary| summary.write_all(page.text.as_bytes()));
    added.map_err(|error| Error::io(format_args!("write {}", Path::new(&file).display()), &error))?;
    Ok(true)
}

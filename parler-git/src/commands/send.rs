//! `git parler send`: posts a text, or files. A message brings one blob at most, so each file has a message of its own;
//! a text stands with the first.

use std::path::Path;

use parler_protocol::api::Posted;
use parler_protocol::{Draft, ErrorCode, FilePart, Part, RoomName, TextPart};
use serde_json::{Value, json};

use super::dispatch;
use crate::cli::Send;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::input::text_of;
use crate::outbox::{Sending, post_or_queue};
use crate::outgoing::{Outgoing, changed};
use crate::output::Output;
use crate::posting::{Place, mentions, parse_key, post};
use crate::text;

pub(super) fn run(context: &Context, args: &Send, output: &mut Output) -> Result<()> {
    let from_input = args.file.iter().filter(|file| **file == Path::new("-")).count();
    if from_input + usize::from(args.text.as_deref() == Some("-")) > 1 {
        return Err(Error::usage("standard input can be read once").then("git parler send -h"));
    }
    if let Some(service) = context.service() {
        return dispatch::send(context, args, &service, output);
    }
    let room = context.room()?;
    if args.name.is_some() && args.file.len() > 1 {
        return Err(Error::usage("--name is for one file, and there are several").then("git parler send -h"));
    }
    if args.idempotency_key.is_some() && args.file.len() > 1 {
        return Err(
            Error::usage("--idempotency-key is for one message, and each file has its own").then("git parler send -h"),
        );
    }
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    let text = args.text.as_deref().map(|text| text_of("the text", text)).transpose()?;
    // All are looked at before the first is sent.
    let open = |file| Outgoing::open(&context.environment, file, args.name.as_deref());
    let files: Vec<_> = args.file.iter().map(|file| open(file)).collect::<Result<_>>()?;
    if args.queue {
        let mut draft = Draft::new(text.map(|text| TextPart { text }.into()).into_iter().collect());
        draft.mentions = mentions(args.mention.iter().map(String::as_str));
        let sending = post_or_queue(context, &room, &draft, key)?;
        return tell_sending(&room, &draft, &sending, "sent", &json!({}), output);
    }
    let client = context.client()?;
    context.require_sent()?;
    let mut place = Place::ask(&client, &room)?;
    if let Some(most) = client.blob_limit() {
        files.iter().try_for_each(|file| file.check_fits(most))?;
    }

    let mut first = Some((
        text.map(|text| Part::from(TextPart { text })),
        mentions(args.mention.iter().map(String::as_str)),
    ));
    let mut sent: Vec<(Posted, &Outgoing)> = Vec::new();
    if files.is_empty() {
        let (text, mentions) = first.take().unwrap_or_default();
        let posted = post(&client, &place, text.into_iter().collect(), mentions, key, None)?;
        return output.either(
            &format!("sent as message {} of '{}'", posted.seq, posted.room),
            &json!({ "room": posted.room, "seq": posted.seq, "id": posted.id }),
        );
    }
    for file in &files {
        let (text, mentions) = first.take().unwrap_or_default();
        let parts = text.into_iter().chain([file.part().into()]).collect();
        match post(&client, &place, parts, mentions, key, Some(file)) {
            Ok(posted) => {
                place.head = posted.head;
                if !output.is_json() {
                    output.line(&line(&posted, &file.part()))?;
                }
                sent.push((posted, file));
            }
            Err(error) => {
                let error = explained(error, file);
                if !output.is_json() || sent.is_empty() {
                    return Err(error);
                }
                output.json(&told(&sent, Some(&error)))?;
                return Err(error.told());
            }
        }
    }
    match output.is_json() {
        true => output.json(&told(&sent, None)),
        false => Ok(()),
    }
}

/// Tells what became of a draft that might have had to wait. `more` is what its JSON says besides.
pub(super) fn tell_sending(
    room: &RoomName,
    draft: &Draft,
    sending: &Sending,
    done: &str,
    more: &Value,
    output: &mut Output,
) -> Result<()> {
    let (line, mut json) = match sending {
        Sending::Sent(posted) => (
            format!("{done} as message {} of '{}'", posted.seq, posted.room),
            json!({ "room": posted.room, "seq": posted.seq, "id": posted.id, "queued": false }),
        ),
        Sending::Queued => (
            format!(
                "the hub cannot be reached: kept for '{room}', and sent by the next command that reaches it; git parler outbox"
            ),
            json!({ "room": room, "seq": null, "id": draft.id, "queued": true }),
        ),
    };
    if let (Some(json), Some(more)) = (json.as_object_mut(), more.as_object()) {
        json.extend(more.clone());
    }
    output.either(&line, &json)
}

fn line(posted: &Posted, part: &FilePart) -> String {
    format!(
        "sent {} · {} · {} as message {} of '{}'",
        text::name(&part.name),
        text::size(part.size),
        part.blob.short(),
        posted.seq,
        posted.room
    )
}

/// What was sent, for programs: the first message, and each file with its own.
fn told(sent: &[(Posted, &Outgoing)], error: Option<&Error>) -> Value {
    let file = |(posted, file): &(Posted, &Outgoing)| {
        let part = file.part();
        json!({ "seq": posted.seq, "id": posted.id, "blob": part.blob, "name": part.name, "size": part.size })
    };
    let files: Vec<_> = sent.iter().map(file).collect();
    let first = sent.first().map(|(posted, _)| posted);
    json!({
        "room": first.map(|posted| &posted.room),
        "seq": first.map(|posted| posted.seq),
        "id": first.map(|posted| posted.id),
        "files": files,
        "error": error.map(Error::to_json),
    })
}

/// Names the file in what went wrong with it.
fn explained(error: Error, file: &Outgoing) -> Error {
    let name = text::name(&file.name);
    if error.code() == Some(ErrorCode::BlobMismatch) {
        return changed(name);
    }
    error.about(format_args!("{name} was not sent"))
}

//! `git parler send`: posts a text.

use std::io::Read;

use parler_protocol::limits::MAX_MESSAGE_BYTES;
use parler_protocol::{Part, TextPart};
use serde_json::json;

use super::filled;
use crate::cli::Send;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::posting::{Place, mentions, post};

pub(super) fn run(context: &Context, args: &Send, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    let text = if args.text == "-" {
        read_input()?
    } else {
        args.text.clone()
    };
    let text = filled("the text", &text)?.to_owned();
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(Error::new(
            ErrorKind::Refused,
            format_args!("the text is longer than {MAX_MESSAGE_BYTES} bytes"),
        ));
    }
    let client = context.client()?;
    let place = Place::ask(&client, &room)?;
    let parts = vec![Part::from(TextPart { text })];
    let posted = post(
        &client,
        &place,
        parts,
        mentions(args.mention.iter().map(String::as_str)),
    )?;
    output.either(
        &format!("sent as message {} of '{}'", posted.seq, posted.room),
        &json!({ "room": posted.room, "seq": posted.seq, "id": posted.id }),
    )
}

fn read_input() -> Result<String> {
    let mut bytes = Vec::new();
    // One byte more than fits shows that it does not fit.
    let read = std::io::stdin()
        .take(MAX_MESSAGE_BYTES as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read standard input", &error))?;
    String::from_utf8(bytes).map_err(|_| Error::usage("the text on standard input is not UTF-8"))
}

//! `git parler send`: posts a text.

use parler_protocol::{Part, TextPart};
use serde_json::json;

use crate::cli::Send;
use crate::context::Context;
use crate::error::Result;
use crate::input::text_of;
use crate::output::Output;
use crate::posting::{Place, mentions, post};

pub(super) fn run(context: &Context, args: &Send, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    let text = text_of("the text", &args.text)?;
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

//! Signing a message for a room and appending it, for the commands that post without a push.

use git_remote_parler::addressee::Nobody;
use git_remote_parler::signing::sign_for_room;
use parler_client::{BlobSource, Client};
use parler_protocol::api::Posted;
use parler_protocol::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use parler_protocol::{ChainHash, Draft, Head, Part, RoomName, Seq, ServiceName};

use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::room_log::{in_room, read_page};
use crate::text;

/// A room as the hub knows it: how its maker spelled it, and how far its log reaches.
pub(crate) struct Place {
    pub(crate) room: RoomName,
    pub(crate) head: Head,
}

impl Place {
    /// The queue of a service, for somebody who has a job for it: who was not there before sees an empty room.
    pub(crate) fn ask_for_job(client: &Client, service: &ServiceName) -> Result<Self> {
        let room = service.room();
        match Self::ask(client, &room) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Self {
                head: Head {
                    seq: Seq::ZERO,
                    h: ChainHash::start(&client.hub_id()?, &room),
                },
                room,
            }),
            asked => asked,
        }
    }

    /// The place that this draft is for: where it is a job, as one who has a job there sees it.
    pub(crate) fn ask_for(client: &Client, room: &RoomName, draft: &Draft) -> Result<Self> {
        let is_job = draft.parts.iter().any(|part| matches!(part, Part::Dispatch(_)));
        match ServiceName::of_room(room).filter(|_| is_job) {
            Some(service) => Self::ask_for_job(client, &service),
            None => Self::ask(client, room),
        }
    }

    /// Asks the hub.
    pub(crate) fn ask(client: &Client, room: &RoomName) -> Result<Self> {
        if client.token().is_some() {
            // What a token that may not read is told, too.
            let answer = client.room(room).map_err(|error| in_room(room, error))?;
            let (room, head) = (answer.room, answer.head);
            return Ok(Self { room, head });
        }
        // The head alone.
        let page = read_page(client, &client.hub_id()?, room, None, 0)?;
        Ok(Self {
            room: page.room,
            head: page.head,
        })
    }
}

/// Signs a draft as the client's agent and appends it. With the same draft again the answer is that of the first time.
pub(crate) fn post_draft(
    client: &Client,
    place: &Place,
    draft: &Draft,
    key: Option<&str>,
    blob: Option<&dyn BlobSource>,
) -> Result<Posted> {
    let signed = sign_for_room(client, &client.hub_id()?, &place.room, &place.head, draft);
    client
        .post(&place.room, &signed, key, blob)
        .map_err(|error| in_room(&place.room, error))
}

/// Signs these parts as the client's agent and appends them, with the bytes of the blob that one of them brings.
pub(crate) fn post(
    client: &Client,
    place: &Place,
    parts: Vec<Part>,
    mentions: Vec<String>,
    key: Option<&str>,
    blob: Option<&dyn BlobSource>,
) -> Result<Posted> {
    let mut draft = Draft::new(parts);
    draft.mentions = mentions;
    post_draft(client, place, &draft, key, blob)
}

/// Reads what makes a request known when it is made again.
pub(crate) fn parse_key(key: &str) -> Result<&str> {
    let is_good =
        (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    match is_good {
        true => Ok(key),
        false => Err(Error::usage(format_args!(
            "--idempotency-key is 1 to {MAX_IDEMPOTENCY_KEY_BYTES} visible ASCII characters without blanks"
        ))),
    }
}

/// Says when nobody else in the room has the name or role that a handoff is for: it may be misspelt, or come later; and
/// a handoff is never for its own author. That nobody can be asked is no reason to say anything.
pub(crate) fn tell_if_for_nobody(client: &Client, room: &RoomName, to: Option<&str>, output: &mut Output) {
    let Some(to) = to else { return };
    if let Some(nobody) = Nobody::called(client, room, to) {
        let who = text::name(to);
        output.remark(&format!(
            "{nobody} in '{room}' has the name or role {who} by now; git parler roster --room {room}"
        ));
    }
}

/// Names as a message mentions them: lowercase, without blanks at the ends, each once.
pub(crate) fn mentions<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut mentioned = Vec::new();
    for name in names {
        let name = name.trim().to_lowercase();
        if !name.is_empty() && !mentioned.contains(&name) {
            mentioned.push(name);
        }
    }
    mentioned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_mentioned_once_whatever_its_case() {
        assert_eq!(mentions([" Bob", "bob ", "Ada", ""]), ["bob", "ada"]);
    }
}

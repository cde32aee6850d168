//! How people name what is in a room: a message by its number, a bundle by its id or the beginning of it.

use git_remote_parler::room::{Room, RoomError};
use git_remote_parler::room_state::RoomBundle;
use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{BundleId, BundleIdPrefix, FilePart, Message, Part, RoomName, Seq};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::room_log::{read_message, read_page};

/// Most ids that an ambiguous one is told apart by.
const MAX_SHOWN_IDS: usize = 5;

/// A name as somebody typed it. Digits alone can be both; then the message counts where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    text: String,
    pub(crate) number: Option<Seq>,
    pub(crate) prefix: Option<BundleIdPrefix>,
}

impl Reference {
    /// Reads a name. None: neither a number nor 4 to 64 lowercase hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok().filter(|number| *number != Seq::ZERO);
        let prefix = text.parse().ok();
        (number.is_some() || prefix.is_some()).then(|| Self {
            text: text.to_owned(),
            number,
            prefix,
        })
    }

    /// Reads a name that must be one.
    pub(crate) fn require(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            if text.parse() == Ok(Seq::ZERO) {
                return Error::usage("messages are numbered from 1").then("git parler status");
            }
            Error::usage(format_args!(
                "'{text}' is neither a message number nor 4 to 64 lowercase hexadecimal digits of a bundle id"
            ))
            .then("git parler recv --all")
        })
    }

    /// As it was typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn unknown(&self, where_: &str) -> Error {
        let what = match (&self.number, &self.prefix) {
            (Some(_), None) => "message",
            (Some(_), Some(_)) => "message or bundle",
            _ => "bundle",
        };
        Error::new(ErrorKind::NotFound, format_args!("no {what} {} in {where_}", self.text))
            .then("git parler recv --all")
    }
}

/// A bundle that was found by its name, and the room it is in.
pub(crate) struct FoundBundle {
    pub(crate) room: Room,
    pub(crate) bundle: RoomBundle,
}

/// A file that was found by its name, and the message that brought it.
pub(crate) struct FoundFile {
    /// The room as its maker spelled it.
    pub(crate) room: RoomName,
    pub(crate) seq: Seq,
    pub(crate) part: FilePart,
}

/// What a name means: bytes that somebody posted.
pub(crate) enum Found {
    Bundle(Box<FoundBundle>),
    File(FoundFile),
}

impl From<RoomError> for Error {
    fn from(error: RoomError) -> Self {
        match error {
            RoomError::Unknown { room } => Self::no_room(&room),
            RoomError::NoService { service } => Self::no_room(&service.room()),
            RoomError::Client(error) => error.into(),
            // The hub's log contradicts itself or what was seen before.
            other => Self::new(ErrorKind::Refused, other),
        }
    }
}

/// The bundle of this name: in the room that is meant, or where none is, in any of this agent's rooms.
pub(crate) fn find_bundle(context: &Context, client: &Client, reference: &Reference) -> Result<FoundBundle> {
    if let Some(room) = context.room_if_any()? {
        let state = Room::read(client, &room, &context.room_cache())?;
        let by_number = match reference.number.filter(|number| *number <= state.head.seq) {
            Some(number) => bundle_of_message(client, &state, number)?,
            None => None,
        };
        return match by_number {
            Some(bundle) => Ok(FoundBundle { room: state, bundle }),
            None => match by_prefix(&[&state], reference)? {
                Some((_, bundle)) => Ok(FoundBundle { room: state, bundle }),
                None => Err(reference.unknown(&format!("room '{room}'"))),
            },
        };
    }
    if reference.prefix.is_none() {
        // A number says nothing without a room.
        context.room()?;
    }
    let mut rooms = Vec::new();
    for room in client.rooms()?.rooms {
        rooms.push(Room::read(client, &room.room, &context.room_cache())?);
    }
    let candidates: Vec<&Room> = rooms.iter().collect();
    match by_prefix(&candidates, reference)? {
        Some((index, bundle)) => Ok(FoundBundle {
            room: rooms.swap_remove(index),
            bundle,
        }),
        None => Err(reference.unknown("your rooms")),
    }
}

/// The bundle or file of this name, a bundle first. A file that is not named by its message's number is looked for in
/// the whole log: rooms have no list of files.
pub(crate) fn find_blob(context: &Context, client: &Client, reference: &Reference) -> Result<Found> {
    let not_found = match find_bundle(context, client, reference) {
        Ok(bundle) => return Ok(Found::Bundle(Box::new(bundle))),
        Err(error) if error.kind == ErrorKind::NotFound => error,
        Err(error) => return Err(error),
    };
    let rooms = match context.room_if_any()? {
        Some(room) => vec![room],
        None => client.rooms()?.rooms.into_iter().map(|room| room.room).collect(),
    };
    let mut found: Vec<FoundFile> = Vec::new();
    for room in &rooms {
        let files = match (&reference.number, &reference.prefix) {
            // Without a room a number says nothing.
            (Some(number), _) if context.room_if_any()?.is_some() => files_of_message(client, room, *number),
            (_, Some(prefix)) => files_of_log(client, room, prefix),
            _ => Ok(Vec::new()),
        };
        match files {
            Ok(files) => found.extend(files),
            // No such room, which the search for a bundle has found out as well.
            Err(error) if error.kind == ErrorKind::NotFound => return Err(not_found),
            Err(error) => return Err(error),
        }
    }
    let mut ids: Vec<BundleId> = found.iter().map(|file| file.part.blob).collect();
    ids.sort_unstable();
    ids.dedup();
    match (ids.as_slice(), &reference.prefix) {
        ([], _) => Err(not_found),
        ([_], _) => Ok(Found::File(found.swap_remove(0))),
        (_, Some(prefix)) if reference.number.is_none() => Err(ambiguous(prefix, &ids)),
        _ => {
            let ids: Vec<_> = ids.iter().map(BundleId::short).collect();
            let what = format!("message {} brought several files: {}", reference.text, ids.join(", "));
            Err(Error::usage(what).then("name one by its id"))
        }
    }
}

/// The files that a message brought.
fn files_of_message(client: &Client, room: &RoomName, number: Seq) -> Result<Vec<FoundFile>> {
    let entry = read_message(client, &client.hub_id()?, room, number)?;
    Ok(entry.iter().flat_map(|entry| files_of(entry, room)).collect())
}

/// The files of a room whose ids begin so.
fn files_of_log(client: &Client, room: &RoomName, prefix: &BundleIdPrefix) -> Result<Vec<FoundFile>> {
    let hub = client.hub_id()?;
    let mut found = Vec::new();
    let mut at = Seq::ZERO;
    loop {
        let page = read_page(client, &hub, room, Some(at), MAX_PAGE_MESSAGES)?;
        let files = page.entries.iter().flat_map(|entry| files_of(entry, &page.room));
        found.extend(files.filter(|file| prefix.matches(&file.part.blob)));
        match page.entries.last() {
            Some(last) if last.seq < page.head.seq => at = last.seq,
            _ => return Ok(found),
        }
    }
}

fn files_of(entry: &LogEntry, room: &RoomName) -> Vec<FoundFile> {
    let Some((message, _)) = entry.message() else {
        return Vec::new();
    };
    let file = |part: &Part| match part {
        Part::File(part) => Some(FoundFile {
            room: room.clone(),
            seq: message.seq,
            part: part.clone(),
        }),
        _ => None,
    };
    message.parts.iter().filter_map(file).collect()
}

/// The bundle that a message brought, or that its handoff is about.
fn bundle_of_message(client: &Client, room: &Room, number: Seq) -> Result<Option<RoomBundle>> {
    if let Some(bundle) = room.state.bundles().iter().find(|bundle| bundle.seq == number) {
        return Ok(Some(bundle.clone()));
    }
    let entry = read_message(client, room.state.hub(), room.state.room(), number)?;
    let Some((message, _)) = entry.as_ref().and_then(LogEntry::message) else {
        return Ok(None);
    };
    let mut ids = message.parts.iter().filter_map(|part| match part {
        Part::Bundle(part) => Some(part.blob),
        Part::Handoff(part) => part.bundle,
        _ => None,
    });
    match ids.find_map(|id| room.state.bundle(&id)) {
        Some(bundle) => Ok(Some(bundle.clone())),
        None if speaks_of_gone(message, room) => Err(no_longer_kept(&format!("the bundle of message {number}"))),
        None if message.parts.iter().any(|part| matches!(part, Part::File(_))) => Err(Error::new(
            ErrorKind::NotFound,
            format_args!("message {number} brought a file, not a bundle"),
        )
        .then(format!("git parler fetch {number} --room {}", room.state.room()))),
        None => Err(
            Error::new(ErrorKind::NotFound, format_args!("message {number} brought no bundle"))
                .then("git parler recv --all"),
        ),
    }
}

fn speaks_of_gone(message: &Message, room: &Room) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Bundle(part) => room.state.is_gone(&part.blob),
        Part::Handoff(part) => part.bundle.is_some_and(|id| room.state.is_gone(&id)),
        _ => false,
    })
}

/// What a hub gave up only somebody who has it can bring back.
fn no_longer_kept(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format_args!("{what} is no longer kept by the hub"))
        .then("ask its author, or whoever has fetched it, to push it again: git parler push --full")
}

/// The bundle of a room whose id begins so, if there is one.
pub(crate) fn one_bundle(room: &Room, prefix: &BundleIdPrefix) -> Result<Option<BundleId>> {
    let reference = Reference {
        text: prefix.to_string(),
        number: None,
        prefix: Some(prefix.clone()),
    };
    Ok(by_prefix(&[room], &reference)?.map(|(_, bundle)| *bundle.id()))
}

/// The one bundle of these rooms whose id begins so, and which room has it.
fn by_prefix(rooms: &[&Room], reference: &Reference) -> Result<Option<(usize, RoomBundle)>> {
    let Some(prefix) = &reference.prefix else {
        return Ok(None);
    };
    let mut found: Option<(usize, RoomBundle)> = None;
    let mut ids: Vec<BundleId> = Vec::new();
    for (index, room) in rooms.iter().enumerate() {
        for bundle in room.state.bundles_matching(prefix) {
            if !ids.contains(bundle.id()) {
                ids.push(*bundle.id());
            }
            found.get_or_insert_with(|| (index, bundle.clone()));
        }
    }
    if ids.len() > 1 {
        return Err(ambiguous(prefix, &ids));
    }
    if found.is_none()
        && let Some(gone) = rooms.iter().find_map(|room| room.state.gone_matching(prefix).pop())
    {
        return Err(no_longer_kept(&format!("bundle {}", gone.id().short())));
    }
    Ok(found)
}

fn ambiguous(prefix: &BundleIdPrefix, ids: &[BundleId]) -> Error {
    let digits = distinguishing_digits(ids);
    let mut shown: Vec<_> = ids
        .iter()
        .take(MAX_SHOWN_IDS)
        .map(|id| id.to_string()[..digits].to_owned())
        .collect();
    if ids.len() > MAX_SHOWN_IDS {
        shown.push("..".to_owned());
    }
    Error::usage(format_args!("bundle id {prefix} is ambiguous: {}", shown.join(", "))).then("give more digits")
}

/// How many digits, at least 12, tell all of these ids apart.
fn distinguishing_digits(ids: &[BundleId]) -> usize {
    let texts: Vec<_> = ids.iter().map(BundleId::to_string).collect();
    (12..64)
        .find(|digits| {
            let mut heads: Vec<_> = texts.iter().map(|text| &text[..*digits]).collect();
            heads.sort_unstable();
            heads.windows(2).all(|pair| pair[0] != pair[1])
        })
        .unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_or_beginnings_of_ids() {
        let read =
            |text: &str| Reference::parse(text).map(|found| (found.number.map(Seq::get), found.prefix.is_some()));
        assert_eq!(read("42"), Some((Some(42), false)));
        assert_eq!(read("1234"), Some((Some(1234), true)));
        assert_eq!(read("7f3a"), Some((None, true)));
        assert_eq!(read(&"a".repeat(64)), Some((None, true)));
        for bad in [
            "",
            "0",
            "-1",
            "7f3",
            "7F3A",
            "../../x",
            "é7f3a",
            &"a".repeat(65),
            "99999999999999999999999x",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let error = Reference::require("../../x").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.line().contains("'../../x'"), "{error}");
    }

    #[test]
    fn ambiguous_ids_are_told_apart() {
        let mut bytes = [7; 32];
        let one = BundleId::from_digest(bytes);
        bytes[7] = 8;
        let two = BundleId::from_digest(bytes);
        assert_eq!(distinguishing_digits(&[one, two]), 16);
        let error = ambiguous(&"0707".parse().unwrap(), &[one, two]);
        assert!(error.line().contains("0707070707070707, 0707070707070708"), "{error}");
        assert_eq!(error.kind, ErrorKind::Usage);
    }
}

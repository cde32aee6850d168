//! The handoffs of a room as its log has them now: read from one message on, and read on as the log grows. Acknowledges
//! nothing.

use git_remote_parler::room::Room;
use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{AgentId, BundleIdPrefix, Head, HubId, Part, RoomName, Seq};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::handoffs::{Handoff, Ledger};
use crate::log_entry::LogEntry;
use crate::naming::{Reference, one_bundle};
use crate::retold::Retold;
use crate::room_log::read_page;
use crate::text;

/// A room's log from one message on, folded.
pub(crate) struct RoomHandoffs<'a> {
    context: &'a Context,
    client: &'a Client,
    hub: HubId,
    /// The room, as its maker spelled it once something of it was read.
    pub(crate) room: RoomName,
    /// The log's head when it was last read.
    pub(crate) head: Head,
    /// The last message read.
    at: Seq,
    /// What it says of handoffs.
    pub(crate) ledger: Ledger,
    /// Its refs and bundles, where they were read to find the handoff.
    pub(crate) pushes: Option<Room>,
    retold: Retold,
}

impl<'a> RoomHandoffs<'a> {
    /// Reads all that the log has behind `after`.
    pub(crate) fn read(context: &'a Context, client: &'a Client, room: &RoomName, after: Seq) -> Result<Self> {
        let hub = client.hub_id()?;
        let mut handoffs = Self {
            context,
            client,
            hub,
            room: room.clone(),
            head: Head {
                seq: Seq::ZERO,
                h: parler_protocol::ChainHash::start(&hub, room),
            },
            at: after,
            ledger: Ledger::default(),
            pushes: None,
            retold: Retold::default(),
        };
        handoffs.read_on()?;
        Ok(handoffs)
    }

    /// Reads what has come since.
    pub(crate) fn read_on(&mut self) -> Result<()> {
        let (trust, me) = (self.context.trust(), self.client.identity());
        loop {
            let mut page = read_page(self.client, &self.hub, &self.room, Some(self.at), MAX_PAGE_MESSAGES)?;
            self.room = page.room;
            self.head = page.head;
            trust.read_on(&self.hub, &self.room, me, self.at, &mut page.entries);
            // What the hub tells again is no handoff to answer.
            let log = (&self.hub, &self.room);
            self.retold
                .mark(self.context, self.client, log, &mut page.entries, is_handoff)?;
            page.entries.iter().for_each(|entry| self.ledger.add(entry));
            match page.entries.last() {
                Some(last) => self.at = last.seq,
                None => return Ok(()),
            }
            if self.at >= page.head.seq {
                return Ok(());
            }
        }
    }

    /// Whether a name belongs to somebody else than this agent, as far as messages told.
    pub(crate) fn is_anothers(&self, name: &str, agent: &AgentId) -> bool {
        let trust = self.context.trust();
        trust.with_names(&self.hub, &self.room, |names| names.belongs(name, agent) == Some(false))
    }

    /// The last message read.
    pub(crate) const fn at(&self) -> Seq {
        self.at
    }

    /// The handoff of this number, which was found before.
    pub(crate) fn get(&self, seq: Seq) -> Result<&Handoff> {
        self.ledger.handoff(seq).ok_or_else(|| no_handoff(&self.room, seq))
    }
}

fn is_handoff(entry: &LogEntry) -> bool {
    let parts = entry.unverified().map(|message| message.parts.as_slice());
    parts
        .unwrap_or_default()
        .iter()
        .any(|part| matches!(part, Part::Handoff(_)))
}

fn no_handoff(room: &RoomName, seq: Seq) -> Error {
    let what = format!("message {seq} of room '{room}' is no handoff that is signed for it");
    Error::new(ErrorKind::NotFound, what).then("git parler status")
}

/// The handoff that somebody means by this name, and the log from `before` messages before it on: by its message's number,
/// or by the id of the bundle that it is about where that names one handoff.
pub(crate) fn find_handoff<'a>(
    context: &'a Context,
    client: &'a Client,
    reference: &Reference,
    before: u32,
) -> Result<(RoomHandoffs<'a>, Seq)> {
    let room = context.room()?;
    if let Some(number) = reference.number {
        let after = start(number, before);
        let handoffs = RoomHandoffs::read(context, client, &room, after)?;
        if handoffs.ledger.handoff(number).is_some() {
            return Ok((handoffs, number));
        }
        let is_there = number <= handoffs.head.seq;
        match &reference.prefix {
            // Digits alone can be the beginning of an id, too.
            Some(prefix) if !is_there => {
                if let Some(found) = about_bundle(context, client, &room, prefix, before)? {
                    return Ok(found);
                }
            }
            _ => {}
        }
        if is_there {
            return Err(no_handoff(&handoffs.room, number));
        }
        let what = format!("no message {number} in room '{}'", handoffs.room);
        return Err(Error::new(ErrorKind::NotFound, what).then("git parler status"));
    }
    let found = match &reference.prefix {
        Some(prefix) => about_bundle(context, client, &room, prefix, before)?,
        None => None,
    };
    found.ok_or_else(|| {
        let what = format!("no handoff about a bundle {} in room '{room}'", reference.text());
        Error::new(ErrorKind::NotFound, what).then("git parler status")
    })
}

/// Behind which message the reading begins.
fn start(first: Seq, before: u32) -> Seq {
    Seq::new(first.get().saturating_sub(1).saturating_sub(before.into()))
}

/// The one handoff about the bundle whose id begins so.
fn about_bundle<'a>(
    context: &'a Context,
    client: &'a Client,
    room: &RoomName,
    prefix: &BundleIdPrefix,
    before: u32,
) -> Result<Option<(RoomHandoffs<'a>, Seq)>> {
    let read = Room::read(client, room, &context.room_cache())?;
    let Some(id) = one_bundle(&read, prefix)? else {
        return Ok(None);
    };
    // Nobody can have spoken of it before it came.
    let since = read.state.bundle(&id).map(|bundle| bundle.seq).unwrap_or_default();
    let mut handoffs = RoomHandoffs::read(context, client, room, start(since, before))?;
    handoffs.pushes = Some(read);
    let about = handoffs.ledger.about(&id);
    let current: Vec<Seq> = about
        .iter()
        .filter(|handoff| handoff.superseded_by.is_none())
        .map(|handoff| handoff.seq)
        .collect();
    let seq = match (current.as_slice(), about.last()) {
        ([one], _) => *one,
        ([], Some(newest)) => newest.seq,
        ([], None) => return Ok(None),
        (several, _) => {
            let numbers: Vec<_> = several.iter().map(Seq::to_string).collect();
            let what = format!(
                "several handoffs are about bundle {}: messages {}",
                id.short(),
                numbers.join(", ")
            );
            return Err(Error::usage(what).then("name one by its number"));
        }
    };
    Ok(Some((handoffs, seq)))
}

/// Who a handoff is for, in words: `bob`, `anybody`.
pub(crate) fn addressee(handoff: &Handoff) -> String {
    handoff
        .part
        .to
        .as_deref()
        .map_or_else(|| "anybody".to_owned(), text::name)
}

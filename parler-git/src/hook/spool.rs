//! What is known on this machine of an agent's unread handoffs: the messages that are or answer one, verbatim, and how far
//! each room was read. Filled by whoever asks the hub, so that a hook says what is known where the hub says nothing.
//! Verified again each time it is used; acknowledges nothing.

use std::collections::BTreeMap;

use parler_client::Client;
use parler_protocol::api::RoomSummary;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, Part, RoomName, Seq};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Lead, Waiting};
use crate::context::Context;
use crate::error::Result;
use crate::handoffs::Ledger;
use crate::log_entry::LogEntry;
use crate::retold::Retold;
use crate::room_log::{read_message, read_page};

/// How many messages are asked for at once: what was read counts although the time is over before the next.
const PAGE_MESSAGES: u32 = 200;
/// How many at first: a page that does not come in time has to be asked for again.
const FIRST_PAGE: u32 = 4;
/// How far back a long backlog is read.
const MOST_MESSAGES: u64 = MAX_PAGE_MESSAGES as u64;
/// Largest message, and most bytes of messages, that are kept; of others the number.
const MAX_KEPT_BYTES: usize = 64 << 10; // 64 KiB
const MAX_BYTES: usize = 512 << 10; // 512 KiB
/// Most messages that are kept of a room.
const MAX_KEPT: usize = 200;

/// An agent's rooms on one hub.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spool {
    hub: Option<HubId>,
    /// By [`RoomName::key`].
    rooms: BTreeMap<String, SpooledRoom>,
}

/// What is known of one room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SpooledRoom {
    room: RoomName,
    /// The last message that was read.
    read_to: Seq,
    entries: Vec<Spooled>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Spooled {
    seq: Seq,
    /// As stored; none where it is too long to keep.
    raw: Option<String>,
}

impl Spool {
    /// Joins what another process read meanwhile: of each room whoever read further.
    pub(crate) fn join(&mut self, kept: Self) {
        if kept.hub != self.hub {
            return;
        }
        for (key, other) in kept.rooms {
            // What is missing here is no longer ours.
            if let Some(mine) = self.rooms.get_mut(&key)
                && other.read_to > mine.read_to
            {
                *mine = other;
            }
        }
    }

    /// Reads what is new in the agent's rooms, as far as the client's time goes. Gives how much is unread.
    ///
    /// # Errors
    /// When the hub does not answer: what was read before that counts all the same.
    pub(crate) fn read_on(&mut self, context: &Context, client: &Client) -> Result<(u64, usize)> {
        let list = context.rooms(client)?;
        let hub = client.hub_id()?;
        if self.hub != Some(hub) {
            *self = Self {
                hub: Some(hub),
                ..Self::default()
            };
        }
        let mut rooms: Vec<_> = list.rooms.iter().collect();
        self.rooms
            .retain(|key, _| rooms.iter().any(|room| room.room.key() == *key));
        // A long backlog does not keep the others waiting.
        rooms.sort_by_key(|room| room.unread);
        let unread = rooms.iter().filter(|room| room.unread > 0);
        let counts = (unread.clone().map(|room| room.unread).sum(), unread.count());
        for room in rooms {
            self.read_room(context, client, &hub, room)?;
        }
        Ok(counts)
    }

    fn read_room(&mut self, context: &Context, client: &Client, hub: &HubId, summary: &RoomSummary) -> Result<()> {
        let head = summary.head.seq;
        let cursor = summary
            .cursor
            .unwrap_or_else(|| Seq::new(head.get().saturating_sub(summary.unread)));
        let known = self.rooms.entry(summary.room.key()).or_insert_with(|| SpooledRoom {
            room: summary.room.clone(),
            read_to: Seq::ZERO,
            entries: Vec::new(),
        });
        if known.read_to > head {
            // Another log, or an older state of it.
            (known.read_to, known.entries) = (Seq::ZERO, Vec::new());
        }
        known.room.clone_from(&summary.room);
        known.entries.retain(|entry| entry.seq > cursor);
        known.read_to = known
            .read_to
            .max(cursor)
            .max(Seq::new(head.get().saturating_sub(MOST_MESSAGES)));
        let (trust, me) = (context.trust(), client.identity());
        let mut retold = Retold::default();
        let mut limit = FIRST_PAGE;
        while known.read_to < head {
            let mut page = read_page(client, hub, &known.room, Some(known.read_to), limit)?;
            limit = (limit * 4).min(PAGE_MESSAGES);
            let Some(last) = page.entries.last().map(|last| last.seq) else {
                break;
            };
            trust.read_on(hub, &known.room, me, known.read_to, &mut page.entries);
            let acts = |entry: &LogEntry| entry.handoff_to(me).is_some();
            retold.mark(context, client, (hub, &known.room), &mut page.entries, acts)?;
            let of_handoffs = page.entries.iter().filter(|entry| is_of_handoffs(entry));
            known.entries.extend(of_handoffs.map(|entry| {
                let raw = entry.raw_text();
                Spooled {
                    seq: entry.seq,
                    raw: (raw.len() <= MAX_KEPT_BYTES).then(|| raw.to_owned()),
                }
            }));
            known.read_to = last;
        }
        Ok(())
    }

    /// What waits for the agent by what is known: what names it first, then what is for anybody, the newest first. What is settled is forgotten on the way.
    pub(crate) fn waiting(
        &mut self,
        context: &Context,
        me: &parler_client::Identity,
        client: Option<&Client>,
    ) -> Waiting {
        let mut waiting = Waiting::default();
        let Some(hub) = self.hub else { return waiting };
        for known in self.rooms.values_mut().filter(|known| !known.entries.is_empty()) {
            let mut entries = Vec::with_capacity(known.entries.len());
            for spooled in &known.entries {
                match spooled.entry(&hub, &known.room, client) {
                    Some(entry) => entries.push(entry),
                    None => waiting.unreadable += 1,
                }
            }
            context.trust().know_authors(&hub, &known.room, me, &mut entries);
            let ledger = Ledger::of(&entries);
            let mut open = Vec::new();
            for entry in &entries {
                let handoff = ledger
                    .handoff(entry.seq)
                    .filter(|handoff| handoff.is_for(me) && handoff.is_open_for(me));
                let Some(handoff) = handoff else { continue };
                // Kept also where another one has it, who may give it back, or where its author's name is in doubt as yet.
                open.push(entry.seq);
                open.extend(handoff.receipts.iter().map(|receipt| receipt.seq));
                if handoff.awaits(me) {
                    waiting.leads.extend(Lead::of(entry, me, context.repository_if_any()));
                }
            }
            let settled: Vec<_> = entries
                .iter()
                .map(|entry| entry.seq)
                .filter(|seq| !open.contains(seq))
                .collect();
            known.forget(&settled);
        }
        // What names the agent or its role before what is for anybody.
        let order = |lead: &Lead| {
            let newest_first = std::cmp::Reverse((lead.message.ts, lead.message.seq));
            (lead.handoff.to.is_none(), newest_first)
        };
        waiting.leads.sort_by_key(order);
        self.fit();
        waiting
    }

    /// Gives up the content of what is too much to keep, the longest first.
    fn fit(&mut self) {
        let mut entries: Vec<_> = self.rooms.values_mut().flat_map(|room| &mut room.entries).collect();
        let bytes = |entry: &Spooled| entry.raw.as_ref().map_or(0, String::len);
        let mut sum: usize = entries.iter().map(|entry| bytes(entry)).sum();
        entries.sort_by_key(|entry| std::cmp::Reverse(bytes(entry)));
        for entry in entries {
            if sum <= MAX_BYTES {
                return;
            }
            sum -= bytes(entry);
            entry.raw = None;
        }
    }
}

impl SpooledRoom {
    fn forget(&mut self, settled: &[Seq]) {
        self.entries.retain(|entry| !settled.contains(&entry.seq));
        let surplus = self.entries.len().saturating_sub(MAX_KEPT);
        self.entries.drain(..surplus);
    }
}

impl Spooled {
    /// The message; asked for where it is not kept.
    fn entry(&self, hub: &HubId, room: &RoomName, client: Option<&Client>) -> Option<LogEntry> {
        match &self.raw {
            Some(raw) => {
                let raw = RawValue::from_string(raw.clone()).ok()?;
                Some(LogEntry::read(raw, hub, room, self.seq))
            }
            None => read_message(client?, hub, room, self.seq).ok()?,
        }
    }
}

/// Whether a message is a handoff or answers one, was not said before, and is signed.
fn is_of_handoffs(entry: &LogEntry) -> bool {
    let is_one = |part: &Part| matches!(part, Part::Handoff(_) | Part::Task(_));
    entry.said_before.is_none()
        && entry
            .unverified()
            .is_some_and(|message| message.parts.iter().any(is_one))
        && entry.message().is_some_and(|(_, verdict)| verdict.is_valid())
}

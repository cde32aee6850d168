//! `git parler log`: a room's log as history, newest first. Acknowledges nothing, and holds one page at a time.

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, RoomName, Seq};
use serde_json::json;

use super::recv::parse_since;
use crate::answers::Answers;
use crate::cli::Log;
use crate::context::Context;
use crate::error::Result;
use crate::log_entry::LogEntry;
use crate::output::Output;
use crate::retold::Retold;
use crate::room_log::read_page;
use crate::text::Extent;
use crate::view::render;

/// Messages of the first page: most readers want no more.
const FIRST_MESSAGES: u64 = 100;

pub(super) fn run(context: &Context, args: &Log, output: &mut Output) -> Result<()> {
    output.require_open()?;
    output.page(context)?;
    let room = context.room()?;
    let since = args.since.as_deref().map(parse_since).transpose()?.unwrap_or_default();
    let client = context.client()?;
    let hub = client.hub_id()?;
    let head = read_page(&client, &hub, &room, Some(Seq::ZERO), 0)?;
    let mut history = History {
        context,
        client: &client,
        hub,
        room: head.room,
        answers: Answers::default(),
        retold: Retold::default(),
    };
    let (mut from, mut to) = (since.get(), head.head.seq.get());
    let mut left = args.limit.map_or(u64::MAX, u64::from);
    let mut size = FIRST_MESSAGES;
    if from >= to {
        output.remark(&format!("nothing in '{}' after message {from}", history.room));
    }
    while from < to && left > 0 {
        let count = size.min(left).min(to - from);
        let entries = if args.reverse {
            let entries = history.read(from, count, output)?;
            from += count;
            entries
        } else {
            let mut entries = history.read(to - count, count, output)?;
            to -= count;
            entries.reverse();
            entries
        };
        if entries.is_empty() {
            break;
        }
        for entry in &entries {
            history.show(entry, output)?;
        }
        // Whoever has gone away needs no further page.
        output.deliver()?;
        left -= count;
        size = u64::from(MAX_PAGE_MESSAGES);
    }
    Ok(())
}

struct History<'a> {
    context: &'a Context,
    client: &'a Client,
    hub: HubId,
    room: RoomName,
    answers: Answers,
    retold: Retold,
}

impl History<'_> {
    /// So many messages after this one, in their order.
    fn read(&mut self, after: u64, count: u64, output: &mut Output) -> Result<Vec<LogEntry>> {
        let (mut at, end) = (Seq::new(after), Seq::new(after + count));
        let mut entries = Vec::new();
        while at < end {
            let limit = u32::try_from(end.get() - at.get()).unwrap_or(MAX_PAGE_MESSAGES);
            let mut page = read_page(self.client, &self.hub, &self.room, Some(at), limit)?;
            let (trust, me) = (self.context.trust(), self.client.identity());
            trust.read_on(&self.hub, &self.room, me, at, &mut page.entries);
            let leads = |entry: &LogEntry| entry.handoff_to(me).is_some();
            let log = (&self.hub, &self.room);
            self.retold
                .mark(self.context, self.client, log, &mut page.entries, leads)?;
            let Some(last) = page.entries.last() else { break };
            at = last.seq;
            entries.extend(page.entries);
        }
        if !output.is_json() {
            self.answers.name(self.client, &self.hub, &self.room, &mut entries);
        }
        // Before anything of it is read.
        output.warn(&self.context.trust().warnings());
        Ok(entries)
    }

    fn show(&self, entry: &LogEntry, output: &mut Output) -> Result<()> {
        if output.is_json() {
            return output.json(&json!(entry.to_json()));
        }
        output.text(&render(entry, self.context.repository_if_any(), Extent::Beginning))
    }
}

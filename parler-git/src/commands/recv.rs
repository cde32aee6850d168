//! `git parler recv`: what is new in a room, led by the handoffs to this agent. Acknowledges what reached the reader,
//! and nothing else.

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, RoomName, Seq};
use serde_json::json;

use crate::banner::{Banner, banners};
use crate::cli::Recv;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::log_entry::LogEntry;
use crate::output::Output;
use crate::room_log::{in_room, read_page};
use crate::text::Extent;
use crate::view::render;

mod watch;

/// How much of a log is held at once; a longer one is shown in several strokes, each led by its own handoffs.
const STROKE_BYTES: usize = 64 << 20; // 64 MiB

pub(super) fn run(context: &Context, args: &Recv, output: &mut Output) -> Result<()> {
    output.require_open()?;
    if args.watch {
        return watch::run(context, args, output);
    }
    let room = context.room()?;
    let since = args.since.as_deref().map(parse_since).transpose()?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    let mut reading = Reading::start(&client, hub, &room, args, since)?;
    let mut printed = false;
    read_on(context, &mut reading, output, &mut printed).map_err(|error| match output.is_json() && printed {
        // Programs have their one JSON value; that it will be shown again they learn from the exit code.
        true => error.told(),
        false => error,
    })
}

/// Shows and acknowledges what is new. `printed` tells whether anything was handed to the reader.
fn read_on(context: &Context, reading: &mut Reading<'_>, output: &mut Output, printed: &mut bool) -> Result<()> {
    loop {
        let stroke = reading.stroke(context)?;
        // Before anything of it is read.
        output.warn(&context.trust().warnings());
        if stroke.is_empty() && !output.is_json() {
            if reading.shown == 0 {
                output.remark(&format!("nothing new in '{}'", reading.room));
            }
            return Ok(());
        }
        reading.show(context, &stroke, output)?;
        // A reader that has gone away has read we do not know what: it is told again.
        output.deliver()?;
        *printed = true;
        reading.acknowledge(&stroke)?;
        context.trust().keep();
        if reading.is_done() || stroke.is_empty() {
            return Ok(());
        }
    }
}

fn parse_since(text: &str) -> Result<Seq> {
    text.parse()
        .map_err(|error| Error::usage(format_args!("--since: {error}")))
}

/// A way through the log.
struct Reading<'a> {
    client: &'a Client,
    hub: HubId,
    /// The room as its maker spelled it.
    room: RoomName,
    /// What this agent had acknowledged at the start.
    cursor: Seq,
    /// The last message read.
    at: Seq,
    /// The newest message there was at the start.
    head: Seq,
    /// How many more may be shown.
    left: Option<u32>,
    shown: usize,
    /// Read and not yet handed on: the rest of a page that was cut.
    ahead: Vec<LogEntry>,
}

impl<'a> Reading<'a> {
    fn start(client: &'a Client, hub: HubId, room: &RoomName, args: &Recv, since: Option<Seq>) -> Result<Self> {
        let first = read_page(client, &hub, room, None, MAX_PAGE_MESSAGES)?;
        let cursor = first.after;
        let at = if args.all { Seq::ZERO } else { since.unwrap_or(cursor) };
        Ok(Self {
            client,
            hub,
            room: first.room,
            cursor,
            at,
            head: first.head.seq,
            left: args.limit,
            shown: 0,
            // The page that told the cursor is often also the first one to show.
            ahead: if at == cursor { first.entries } else { Vec::new() },
        })
    }

    /// The next messages: all there were at the start, as far as they fit into memory.
    fn stroke(&mut self, context: &Context) -> Result<Vec<LogEntry>> {
        let (trust, me) = (context.trust(), self.client.identity());
        let mut entries = std::mem::take(&mut self.ahead);
        trust.read_on(&self.hub, &self.room, me, self.at, &mut entries);
        let mut bytes: usize = entries.iter().map(LogEntry::raw_len).sum();
        if let Some(last) = entries.last() {
            self.at = last.seq;
        }
        while self.at < self.head && bytes < STROKE_BYTES {
            let mut page = read_page(self.client, &self.hub, &self.room, Some(self.at), MAX_PAGE_MESSAGES)?;
            trust.read_on(&self.hub, &self.room, me, self.at, &mut page.entries);
            let Some(last) = page.entries.last() else { break };
            self.at = last.seq;
            bytes += page.entries.iter().map(LogEntry::raw_len).sum::<usize>();
            entries.extend(page.entries);
        }
        Ok(entries)
    }

    /// How many of these messages are shown: the limit cuts the list, not the search for handoffs.
    fn shown_of<'e>(&self, stroke: &'e [LogEntry]) -> &'e [LogEntry] {
        let most = self.left.map_or(stroke.len(), |left| left as usize);
        &stroke[..stroke.len().min(most)]
    }

    fn show(&self, context: &Context, stroke: &[LogEntry], output: &mut Output) -> Result<()> {
        let shown = self.shown_of(stroke);
        let banners = self.banners(context, stroke)?;
        if output.is_json() {
            let messages: Vec<_> = shown.iter().map(LogEntry::to_json).collect();
            let handoffs: Vec<_> = banners.iter().map(Banner::to_json).collect();
            let cursor = shown.last().map_or(self.at, |last| last.seq);
            return output.json(&json!({
                "room": self.room, "handoffs": handoffs, "messages": messages, "cursor": cursor, "head": self.head,
                "history": context.trust().history_json(&self.hub, &self.room),
            }));
        }
        for banner in &banners {
            output.text(&banner.render(Extent::Beginning))?;
            output.text("\n")?;
        }
        for entry in shown {
            output.text(&render(entry, context.repository_if_any(), Extent::Beginning))?;
        }
        Ok(())
    }

    /// The unread handoffs to this agent, newest first.
    fn banners<'e>(&self, context: &Context, stroke: &'e [LogEntry]) -> Result<Vec<Banner<'e>>> {
        let unread = stroke.iter().rev().filter(|entry| entry.seq > self.cursor);
        banners(context, self.client, &self.room, unread)
    }

    /// Moves the cursor behind what was shown, unless that would pass over something that was not.
    fn acknowledge(&mut self, stroke: &[LogEntry]) -> Result<()> {
        let shown = self.shown_of(stroke);
        self.shown += shown.len();
        if let Some(left) = &mut self.left {
            *left -= u32::try_from(shown.len()).unwrap_or(*left);
        }
        let (Some(first), Some(last)) = (shown.first(), shown.last()) else {
            return Ok(());
        };
        let continues = first.seq.get() <= self.cursor.get() + 1;
        // A token has no cursor.
        if self.client.token().is_none() && continues && last.seq > self.cursor {
            self.client
                .acknowledge(&self.room, last.seq)
                .map_err(|error| in_room(&self.room, error))?;
            self.cursor = last.seq;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == Some(0) || self.at >= self.head
    }
}

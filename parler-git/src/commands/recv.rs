//! `git parler recv`: what is new in a room, led by the handoffs to this agent; of a long backlog a digest. Acknowledges
//! what reached the reader, and nothing else.

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, RoomName, Seq};
use serde_json::json;

use crate::answers::Answers;
use crate::banner::{Banner, banners};
use crate::cli::Recv;
use crate::context::Context;
use crate::digest::Backlog;
use crate::error::{Error, Result};
use crate::log_entry::LogEntry;
use crate::offered::Offered;
use crate::output::Output;
use crate::retold::Retold;
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
    output.page(context)?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    let mut reading = Reading::start(&client, hub, &room, args, since)?;
    let offered = Offered::of(&context.home, &hub, &client);
    reading.offered = offered
        .as_ref()
        .and_then(|offered| offered.beyond(&reading.room, reading.cursor));
    if let Some(offered) = reading.offered.filter(|_| reading.is_plain && !output.is_json()) {
        output.remark(&format!(
            "up to message {offered} this was shown before, and it is not known whether it was read: it is shown again"
        ));
    }
    if reading.is_plain && args.limit.is_none() && !output.is_json() {
        return show_digest(context, &mut reading, offered.as_ref(), output);
    }
    let mut printed = false;
    read_on(context, &mut reading, offered.as_ref(), output, &mut printed).map_err(|error| {
        match output.is_json() && printed {
            // Programs have their one JSON value; that it will be shown again they learn from the exit code.
            true => error.told(),
            false => error,
        }
    })
}

/// Shows all that is unread, or where that is long a digest of it, and acknowledges it: what the digest leaves out it
/// names.
fn show_digest(
    context: &Context,
    reading: &mut Reading<'_>,
    offered: Option<&Offered>,
    output: &mut Output,
) -> Result<()> {
    let me = reading.client.identity().clone();
    let mut backlog = Backlog::new(&me);
    loop {
        let page = reading.page(context)?;
        if page.is_empty() {
            break;
        }
        backlog.add(page);
    }
    // Before anything of it is read.
    output.warn(&context.trust().warnings());
    if backlog.is_empty() {
        output.remark(&format!("nothing new in '{}'", reading.room));
    } else {
        let banners = banners(context, reading.client, &reading.room, backlog.handoffs())?;
        let hub = context.trust().hub_option();
        output.text(&backlog.render(&banners, &reading.room, hub, context.repository_if_any()))?;
    }
    let owed = (reading.at > reading.cursor).then_some(reading.at);
    reading.hand_over(owed, offered, output)?;
    reading.acknowledge_to(reading.at)?;
    context.trust().keep();
    Ok(())
}

/// Shows and acknowledges what is new. `printed` tells whether anything was handed to the reader.
fn read_on(
    context: &Context,
    reading: &mut Reading<'_>,
    offered: Option<&Offered>,
    output: &mut Output,
    printed: &mut bool,
) -> Result<()> {
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
        reading.hand_over(reading.owed(&stroke), offered, output)?;
        *printed = true;
        reading.acknowledge(&stroke)?;
        context.trust().keep();
        if reading.is_done() || stroke.is_empty() {
            return Ok(());
        }
    }
}

pub(super) fn parse_since(text: &str) -> Result<Seq> {
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
    /// Whether this is for what is new: then what this agent wrote itself is not listed.
    is_plain: bool,
    /// How far something unread was shown before.
    offered: Option<Seq>,
    answers: Answers,
    retold: Retold,
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
            is_plain: !args.all && since.is_none(),
            offered: None,
            answers: Answers::default(),
            retold: Retold::default(),
        })
    }

    /// The next page, with how each author stands to its name. Empty: there is no more of what there was at the start.
    fn page(&mut self, context: &Context) -> Result<Vec<LogEntry>> {
        let mut entries = std::mem::take(&mut self.ahead);
        if entries.is_empty() && self.at < self.head {
            entries = read_page(self.client, &self.hub, &self.room, Some(self.at), MAX_PAGE_MESSAGES)?.entries;
        }
        let (trust, me) = (context.trust(), self.client.identity());
        trust.read_on(&self.hub, &self.room, me, self.at, &mut entries);
        let leads = |entry: &LogEntry| entry.handoff_to(me).is_some();
        let log = (&self.hub, &self.room);
        self.retold.mark(context, self.client, log, &mut entries, leads)?;
        if !context.globals.json {
            self.answers.name(self.client, &self.hub, &self.room, &mut entries);
        }
        if let Some(last) = entries.last() {
            self.at = last.seq;
        }
        Ok(entries)
    }

    /// The next messages: all there were at the start, as far as they fit into memory.
    fn stroke(&mut self, context: &Context) -> Result<Vec<LogEntry>> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        loop {
            let page = self.page(context)?;
            bytes += page.iter().map(LogEntry::raw_len).sum::<usize>();
            let is_last = page.is_empty();
            entries.extend(page);
            if is_last || self.at >= self.head || bytes >= STROKE_BYTES {
                return Ok(entries);
            }
        }
    }

    /// Whether a message is listed: one's own are no news.
    fn lists(&self, entry: &LogEntry) -> bool {
        !self.is_plain || !entry.is_by(self.client.identity())
    }

    /// How far the limit reaches, which cuts the list of messages and not the search for handoffs; the list leaves out
    /// what is no news.
    fn within_limit<'e>(&self, stroke: &'e [LogEntry]) -> &'e [LogEntry] {
        let Some(left) = self.left else { return stroke };
        let mut listed = stroke.iter().enumerate().filter(|(_, entry)| self.lists(entry));
        match listed.nth(left as usize) {
            Some((end, _)) => &stroke[..end],
            None => stroke,
        }
    }

    fn show(&self, context: &Context, stroke: &[LogEntry], output: &mut Output) -> Result<()> {
        let within = self.within_limit(stroke);
        let shown = within.iter().filter(|entry| self.lists(entry));
        let banners = self.banners(context, stroke)?;
        if output.is_json() {
            let messages: Vec<_> = shown.map(LogEntry::to_json).collect();
            let handoffs: Vec<_> = banners.iter().map(Banner::to_json).collect();
            let cursor = within.last().map_or(self.at, |last| last.seq);
            return output.json(&json!({
                "room": self.room, "handoffs": handoffs, "messages": messages, "cursor": cursor, "head": self.head,
                "history": context.trust().history_json(&self.hub, &self.room), "offered": self.offered,
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

    /// Up to where these messages can be acknowledged, unless that would pass over something that was not shown.
    fn owed(&self, stroke: &[LogEntry]) -> Option<Seq> {
        let within = self.within_limit(stroke);
        let (first, last) = (within.first()?, within.last()?);
        let continues = first.seq.get() <= self.cursor.get() + 1;
        (continues && last.seq > self.cursor).then_some(last.seq)
    }

    /// Hands what was shown to the reader, and waits for it where something is going to be acknowledged up to `owed`.
    fn hand_over(&self, owed: Option<Seq>, offered: Option<&Offered>, output: &mut Output) -> Result<()> {
        let Some(owed) = owed else { return output.deliver() };
        if let Some(offered) = offered {
            offered.note(&self.room, owed);
        }
        // A reader that has gone away has read we do not know what: it is told again.
        output.deliver_to_reader()
    }

    /// Moves the cursor behind what was shown, unless that would pass over something that was not.
    fn acknowledge(&mut self, stroke: &[LogEntry]) -> Result<()> {
        let owed = self.owed(stroke);
        let listed = self
            .within_limit(stroke)
            .iter()
            .filter(|entry| self.lists(entry))
            .count();
        self.shown += listed;
        if let Some(left) = &mut self.left {
            *left -= u32::try_from(listed).unwrap_or(*left);
        }
        owed.map_or(Ok(()), |owed| self.acknowledge_to(owed))
    }

    fn acknowledge_to(&mut self, seq: Seq) -> Result<()> {
        // A token has no cursor.
        if self.client.token().is_none() && seq > self.cursor {
            self.client
                .acknowledge(&self.room, seq)
                .map_err(|error| in_room(&self.room, error))?;
            self.cursor = seq;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == Some(0) || self.at >= self.head
    }
}

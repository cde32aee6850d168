//! `git parler recv --watch`: what is unread, and then each message as it comes, through every end of the hub or of the
//! way to it. Ends when it is told to, when nobody reads its output, and when the room is no longer this agent's.

use std::time::Duration;

use parler_client::{Client, EventStream, Streamed, rests_of_a_stream};
use parler_protocol::{HubId, RoomName, Seq};
use serde_json::json;

use super::{Reading, in_room, parse_since};
use crate::answers::Answers;
use crate::banner::Banner;
use crate::cli::Recv;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::output::Output;
use crate::retold::Retold;
use crate::text::Extent;
use crate::view::render;

pub(super) fn run(context: &Context, args: &Recv, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    let since = args.since.as_deref().map(parse_since).transpose()?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    let mut reading = Reading::start(&client, hub, &room, args, since)?;
    let mut watch = Watch {
        hub,
        room: reading.room.clone(),
        at: reading.at,
        printed: Seq::ZERO,
        cursor: reading.cursor,
        owed: reading.cursor,
        is_plain: reading.is_plain,
        answers: Answers::default(),
        retold: Retold::default(),
    };
    // What a hub that goes away meanwhile does not give, it gives when it is back.
    let caught_up = watch.catch_up(context, &mut reading, output);
    watch.retold = std::mem::take(&mut reading.retold);
    let mut client = Some(client.without_retries());
    let mut outage = Outage::none();
    if survives(caught_up, &mut outage, output)? {
        output.remark(&format!("watching '{}'", watch.room));
    }
    loop {
        let ended = watch.follow(context, client.take(), &mut outage, output);
        survives(ended, &mut outage, output)?;
        // Somebody may have gone away while nothing came.
        output.deliver()?;
        outage.rest();
    }
}

/// Whether all went well. A hub that cannot be reached is said once, and no reason to end, nor is one that only a newer
/// program can start; anything else is.
fn survives(result: Result<()>, outage: &mut Outage, output: &mut Output) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind == ErrorKind::Unreachable || error.is_outdated() => {
            // Also where the way to the hub was lost before: this is what somebody can do something about.
            let is_news = !outage.is_told || error.is_outdated() && !outage.is_called_newer;
            outage.is_told = true;
            outage.is_called_newer |= error.is_outdated();
            if is_news {
                output.remark(&format!("{}; watching goes on when the hub is back", error.what()));
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// A time without the hub.
struct Outage {
    is_told: bool,
    is_called_newer: bool,
    rests: Box<dyn Iterator<Item = Duration>>,
}

impl Outage {
    fn none() -> Self {
        Self {
            is_told: false,
            is_called_newer: false,
            rests: Box::new(rests_of_a_stream()),
        }
    }

    fn rest(&mut self) {
        std::thread::sleep(self.rests.next().expect("rests have no end"));
    }
}

/// How far a watcher is.
struct Watch {
    hub: HubId,
    /// The room as its maker spelled it.
    room: RoomName,
    /// Where to go on: the last message printed, or where the reading began.
    at: Seq,
    /// The last message printed.
    printed: Seq,
    /// What the hub knows to be acknowledged.
    cursor: Seq,
    /// What is to be acknowledged.
    owed: Seq,
    /// Whether what this agent wrote itself is left out.
    is_plain: bool,
    answers: Answers,
    retold: Retold,
}

impl Watch {
    /// Prints what is there, as `recv` does.
    fn catch_up(&mut self, context: &Context, reading: &mut Reading<'_>, output: &mut Output) -> Result<()> {
        loop {
            let stroke = reading.stroke(context)?;
            self.warn(context, output)?;
            if stroke.is_empty() {
                return Ok(());
            }
            if output.is_json() {
                let banners = reading.banners(context, &stroke)?;
                print(context, reading, &stroke, &banners, output)?;
            } else {
                reading.show(context, &stroke, output)?;
            }
            self.delivered(reading.client, &stroke, output)?;
            if reading.is_done() {
                return Ok(());
            }
        }
    }

    /// Prints what comes until the stream ends.
    fn follow(
        &mut self,
        context: &Context,
        client: Option<Client>,
        outage: &mut Outage,
        output: &mut Output,
    ) -> Result<()> {
        // As for every command: a local hub that does not run is started here.
        let client = match client {
            Some(client) => client,
            None => context.client()?.without_retries(),
        };
        let mut stream = client
            .stream(&self.room, Some(self.at))
            .map_err(|error| in_room(&self.room, error))?;
        self.check_identity(&client, &stream)?;
        self.acknowledge(&client)?;
        while let Some(streamed) = stream.next()? {
            if outage.is_told {
                output.remark(&format!("watching '{}' again", self.room));
            }
            *outage = Outage::none();
            let mut batch = Vec::new();
            self.take(streamed, &mut batch)?;
            while stream.has_more() {
                match stream.next()? {
                    Some(streamed) => self.take(streamed, &mut batch)?,
                    None => break,
                }
            }
            let (trust, me) = (context.trust(), client.identity());
            trust.read_on(&self.hub, &self.room, me, self.at, &mut batch);
            let leads = |entry: &LogEntry| entry.handoff_to(me).is_some();
            let log = (&self.hub, &self.room);
            self.retold.mark(context, &client, log, &mut batch, leads)?;
            if !output.is_json() {
                self.answers.name(&client, &self.hub, &self.room, &mut batch);
            }
            self.warn(context, output)?;
            if batch.is_empty() {
                // A heartbeat: the time to see whether somebody still reads.
                output.deliver()?;
                continue;
            }
            let reading = self.reading(&client, &stream);
            let banners = reading.banners(context, &batch)?;
            print(context, &reading, &batch, &banners, output)?;
            self.delivered(&client, &batch, output)?;
            context.trust().keep();
        }
        Ok(())
    }

    /// Refuses a log that cannot be the one that was watched so far.
    fn check_identity(&self, client: &Client, stream: &EventStream<'_>) -> Result<()> {
        let what = if client.hub_id()? != self.hub {
            "another hub answers at this address than before".to_owned()
        } else if stream.head().seq < self.printed {
            format!(
                "the hub's log of room '{}' ends at message {}, and {} was read before",
                self.room,
                stream.head().seq,
                self.printed
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Refused, what))
    }

    /// Says what does not fit, before anything of it is read.
    fn warn(&self, context: &Context, output: &mut Output) -> Result<()> {
        let warnings = context.trust().warnings();
        if !warnings.is_empty() && output.is_json() {
            output.json(&json!({ "history": context.trust().history_json(&self.hub, &self.room) }))?;
        }
        output.warn(&warnings);
        Ok(())
    }

    /// Puts a message behind those of the batch.
    fn take(&self, streamed: Streamed, batch: &mut Vec<LogEntry>) -> Result<()> {
        let Streamed::Message { seq, raw } = streamed else {
            return Ok(());
        };
        let last = batch.last().map_or(self.at, |entry| entry.seq);
        let entry = LogEntry::read(raw, &self.hub, &self.room, seq);
        if entry.seq != last.next() || entry.seq != seq {
            let what = format!(
                "the hub's log of room '{}' is not in order: message {} follows {last}",
                self.room, entry.seq
            );
            return Err(Error::new(ErrorKind::Refused, what));
        }
        batch.push(entry);
        Ok(())
    }

    /// What knows of the handoffs among new messages.
    fn reading<'c>(&self, client: &'c Client, stream: &EventStream<'_>) -> Reading<'c> {
        Reading {
            client,
            hub: self.hub,
            room: self.room.clone(),
            cursor: self.owed,
            at: self.at,
            head: stream.head().seq,
            left: None,
            shown: 0,
            ahead: Vec::new(),
            is_plain: self.is_plain,
            offered: None,
            answers: Answers::default(),
            retold: Retold::default(),
        }
    }

    /// Hands what was printed to the reader, and acknowledges it.
    fn delivered(&mut self, client: &Client, printed: &[LogEntry], output: &mut Output) -> Result<()> {
        output.deliver()?;
        if let (Some(first), Some(last)) = (printed.first(), printed.last()) {
            (self.at, self.printed) = (last.seq, last.seq);
            // Nothing unread is passed over.
            if first.seq <= self.owed.next() {
                self.owed = self.owed.max(last.seq);
            }
        }
        self.acknowledge(client)
    }

    fn acknowledge(&mut self, client: &Client) -> Result<()> {
        // A token has no cursor.
        if client.token().is_none() && self.owed > self.cursor {
            client
                .acknowledge(&self.room, self.owed)
                .map_err(|error| in_room(&self.room, error))?;
            self.cursor = self.owed;
        }
        Ok(())
    }
}

/// Prints messages one by one, each handoff to this agent with its banner.
fn print(
    context: &Context,
    reading: &Reading<'_>,
    entries: &[LogEntry],
    banners: &[Banner<'_>],
    output: &mut Output,
) -> Result<()> {
    for entry in entries.iter().filter(|entry| reading.lists(entry)) {
        let banner = banners.iter().find(|banner| banner.message.seq == entry.seq);
        if output.is_json() {
            let mut value = entry.to_json();
            if let Some(banner) = banner {
                value["handoff"] = json!(banner.to_json());
            }
            output.json(&value)?;
            continue;
        }
        if let Some(banner) = banner {
            output.text(&banner.render(Extent::Beginning))?;
            output.text("\n")?;
        }
        output.text(&render(entry, context.repository_if_any(), Extent::Beginning))?;
    }
    Ok(())
}

//! `git parler inbox`: what waits for this agent in all of its rooms on a hub, or waits until something does. Acknowledges
//! nothing, and asks once for each room with something unread, and for what lies before a handoff whose author did not know
//! all of it.

use std::thread;
use std::time::Duration;

use parler_client::{Client, ClientError, Hinted};
use parler_protocol::api::RoomSummary;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, Message, Part, RoomName, Seq};
use serde_json::{Value, json};

use crate::cli::Inbox as Args;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::handoffs::Ledger;
use crate::log_entry::LogEntry;
use crate::output::{BANNER, HEADER, Output, styled};
use crate::retold::Retold;
use crate::room_log::read_page;
use crate::time::parse_ttl;
use crate::{room_labels, screen, text};

/// Handoffs, and mentions, that are shown line by line.
const MOST_LISTED: usize = 30;
/// Longest `--wait`.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) fn run(context: &Context, args: &Args, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let wait = args
        .wait
        .as_ref()
        .map(|text| parse_ttl("--wait", text, LONGEST_WAIT).map(Duration::from_secs))
        .transpose()?;
    let client = context.client()?;
    let inbox = match wait {
        None => look(context, &client, None)?,
        Some(longest) => wait_for_something(context, &client, longest, output)?,
    };
    show(context, &inbox, output)?;
    match &args.wait {
        Some(time) if !inbox.leads() => {
            let what = format_args!("nothing came for this agent within {time}");
            let error = Error::new(ErrorKind::NotFound, what);
            Err(if output.is_json() { error.told() } else { error })
        }
        _ => Ok(()),
    }
}

/// Looks until something is for this agent, or for so long. Polls nothing: the hub says when a room has grown.
fn wait_for_something(context: &Context, client: &Client, longest: Duration, output: &mut Output) -> Result<Inbox> {
    let (hinted, stopper) = client.beside()?;
    // It ends with the process.
    let timer = thread::Builder::new().name("timer".to_owned()).spawn(move || {
        thread::sleep(longest);
        stopper.stop();
    });
    timer.map_err(|error| Error::io("start a thread", &error))?;
    let mut hints = hinted.hints();
    loop {
        match hints.next() {
            // The others hold nothing for this agent, or it would not wait.
            Ok(Hinted::Hint(hint)) if !look(context, client, Some(&hint.room))?.leads() => {}
            // The first one, too: what was there before is not told by a hint.
            Ok(Hinted::Heads(_) | Hinted::Hint(_)) => {
                let inbox = look(context, client, None)?;
                if inbox.leads() {
                    return Ok(inbox);
                }
            }
            // A reader that is gone waits for nothing.
            Ok(Hinted::Heartbeat) => output.deliver()?,
            Ok(Hinted::Away(error)) => output.remark(&format!("{}; waiting for it", Error::from(error).what())),
            Err(ClientError::ToldToStop) => return look(context, client, None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Of all rooms, or of one alone.
fn look(context: &Context, client: &Client, only: Option<&RoomName>) -> Result<Inbox> {
    let rooms = context.rooms(client)?;
    let hub = client.hub_id()?;
    let mut inbox = Inbox {
        hub_option: context.trust().hub_option().to_owned(),
        ..Inbox::default()
    };
    for room in rooms
        .rooms
        .iter()
        .filter(|room| room.unread > 0 && only.is_none_or(|only| only.key() == room.room.key()))
    {
        match look_into(context, client, &hub, room) {
            Ok(found) => inbox.take(found),
            // Left, or gone, since it was listed.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    inbox.sort();
    Ok(inbox)
}

fn show(context: &Context, inbox: &Inbox, output: &mut Output) -> Result<()> {
    output.page(context)?;
    let waiting = context.outbox_if_any()?.map_or(0, |outbox| outbox.count());
    // Before anything of it is read.
    output.warn(&context.trust().warnings());
    if output.is_json() {
        return output.json(&inbox.to_json(waiting));
    }
    inbox.show(output)?;
    if waiting > 0 {
        let what = text::count(waiting as u64, "message");
        output.line(&format!(
            "{what} of yours not sent yet: git parler outbox{}",
            inbox.hub_option
        ))?;
    }
    if inbox.rooms.is_empty() && waiting == 0 {
        output.remark("nothing new in any room");
    }
    Ok(())
}

/// What one room holds that is unread.
struct Found {
    room: RoomName,
    /// Messages of others, or those that were not looked at.
    unread: u64,
    /// Of these so many were not looked at: the oldest.
    unexamined: u64,
    handoffs: Vec<Item>,
    mentions: Vec<Item>,
    /// How many are jobs for the service whose room this is.
    jobs: usize,
    /// How many the hub has told before.
    said_before: usize,
}

/// A message for this agent.
struct Item {
    room: RoomName,
    seq: Seq,
    ts: i64,
    /// For people.
    from: String,
    /// Its first line.
    what: String,
    json: Value,
}

impl Item {
    fn of(message: &Message, room: &RoomName, what: &str, more: Value) -> Self {
        let from = &message.from;
        let mut json = json!({
            "room": room, "seq": message.seq, "ts": message.ts,
            "from": { "id": from.id, "name": from.name, "role": from.role },
        });
        if let (Some(json), Value::Object(more)) = (json.as_object_mut(), more) {
            json.extend(more);
        }
        Self {
            room: room.clone(),
            seq: message.seq,
            ts: message.ts,
            from: text::name_and_role(&from.name, from.role.as_deref()),
            what: text::beginning(what),
            json,
        }
    }
}

fn look_into(context: &Context, client: &Client, hub: &HubId, room: &RoomSummary) -> Result<Found> {
    let cursor = room
        .cursor
        .unwrap_or_else(|| Seq::new(room.head.seq.get().saturating_sub(room.unread)));
    let cursor = cursor.get();
    // The newest, where there are more than one page holds.
    let after = cursor.max(room.head.seq.get().saturating_sub(u64::from(MAX_PAGE_MESSAGES)));
    let mut page = read_page(client, hub, &room.room, Some(Seq::new(after)), MAX_PAGE_MESSAGES)?;
    let (trust, me) = (context.trust(), client.identity());
    trust.read_on(hub, &room.room, me, Seq::new(after), &mut page.entries);
    let leads = |entry: &LogEntry| entry.handoff_to(me).is_some();
    let log = (hub, &room.room);
    Retold::default().mark(context, client, log, &mut page.entries, leads)?;
    let ledger = Ledger::of(&page.entries);
    for entry in &mut page.entries {
        entry.is_taken = ledger.handoff(entry.seq).is_some_and(|handoff| handoff.is_taken_by(me));
    }
    let read = page.entries.last().map_or(after, |last| last.seq.get());
    let mut found = Found {
        room: page.room.clone(),
        unread: room.head.seq.get().max(read) - cursor,
        unexamined: after - cursor + room.head.seq.get().saturating_sub(read),
        handoffs: Vec::new(),
        mentions: Vec::new(),
        jobs: 0,
        said_before: 0,
    };
    for entry in &page.entries {
        if entry.is_by(me) {
            found.unread -= 1;
            continue;
        }
        if entry.said_before.is_some() {
            found.said_before += 1;
            continue;
        }
        found.jobs += usize::from(is_job(entry));
        if let Some((message, handoff)) = entry.handoff_to(me) {
            if ledger
                .handoff(message.seq)
                .is_some_and(|handoff| !handoff.is_open_for(me))
            {
                continue;
            }
            let more = json!({
                "next": handoff.next, "summary": handoff.summary, "to": handoff.to, "bundle": handoff.bundle,
            });
            found.handoffs.push(Item::of(message, &page.room, &handoff.next, more));
        } else if entry.mentions(me)
            && !entry.comes_too_late_for(me)
            && let Some((message, _)) = entry.message()
        {
            found
                .mentions
                .push(Item::of(message, &page.room, &said(entry), json!({})));
        }
    }
    Ok(found)
}

/// Whether it is a job, for whoever serves.
fn is_job(entry: &LogEntry) -> bool {
    let dispatches = |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Dispatch(_)));
    entry.unverified().is_some_and(dispatches) && entry.message().is_some_and(|(_, verdict)| verdict.is_valid())
}

/// The first text of a message, or what it says of a handoff.
fn said(entry: &LogEntry) -> String {
    let parts = entry
        .message()
        .map(|(message, _)| message.parts.as_slice())
        .unwrap_or_default();
    let text = parts.iter().find_map(|part| match part {
        Part::Text(part) => Some(part.text.clone()),
        Part::Handoff(part) => Some(part.next.clone()),
        Part::File(part) => Some(part.name.clone()),
        Part::Task(part) => {
            let note = part.note.as_ref().map(|note| format!(": {note}"));
            Some(format!("{}{}", part.status.as_str(), note.unwrap_or_default()))
        }
        _ => None,
    });
    text.unwrap_or_default()
}

#[derive(Default)]
struct Inbox {
    hub_option: String,
    handoffs: Vec<Item>,
    mentions: Vec<Item>,
    rooms: Vec<RoomCount>,
}

/// A room with something unread.
struct RoomCount {
    room: RoomName,
    unread: u64,
    unexamined: u64,
    handoffs: usize,
    mentions: usize,
    jobs: usize,
    said_before: usize,
}

impl Inbox {
    fn take(&mut self, found: Found) {
        if found.unread == 0 {
            return;
        }
        self.rooms.push(RoomCount {
            room: found.room,
            unread: found.unread,
            unexamined: found.unexamined,
            handoffs: found.handoffs.len(),
            mentions: found.mentions.len(),
            jobs: found.jobs,
            said_before: found.said_before,
        });
        self.handoffs.extend(found.handoffs);
        self.mentions.extend(found.mentions);
    }

    /// Whether there is something for this agent, not only in its rooms.
    fn leads(&self) -> bool {
        !self.handoffs.is_empty() || !self.mentions.is_empty()
    }

    /// The newest first, whichever room they are in.
    fn sort(&mut self) {
        for items in [&mut self.handoffs, &mut self.mentions] {
            items.sort_by_key(|item| std::cmp::Reverse((item.ts, item.seq)));
        }
    }

    fn recv(&self, room: &RoomName) -> String {
        format!("git parler recv --room {room}{}", self.hub_option)
    }

    fn show_command(&self, item: &Item) -> String {
        format!("git parler show {} --room {}{}", item.seq, item.room, self.hub_option)
    }

    fn show(&self, output: &mut Output) -> Result<()> {
        for (items, title, style) in [
            (&self.handoffs, "HANDOFFS TO YOU", BANNER),
            (&self.mentions, "MENTIONS OF YOU", HEADER),
        ] {
            if items.is_empty() {
                continue;
            }
            output.line(&styled(style, title))?;
            for item in items.iter().take(MOST_LISTED) {
                let room = room_labels::shown(item.room.as_str());
                let (room, from) = (screen::third(&room), screen::sixth(&item.from));
                let before = format!("  {room} · message {} from {from}: ", item.seq);
                output.line(&screen::fit(&before, &item.what, ""))?;
                output.line(&format!("    {}", self.show_command(item)))?;
            }
            if items.len() > MOST_LISTED {
                output.line(&format!("  and {} more", items.len() - MOST_LISTED))?;
            }
        }
        let labels = room_labels::column(self.rooms.iter().map(|room| &room.room));
        for (room, label) in self.rooms.iter().zip(&labels) {
            let mut counts = vec![format!("{} unread", room.unread)];
            if room.handoffs > 0 {
                counts.push(text::count(room.handoffs as u64, "handoff"));
            }
            if room.mentions > 0 {
                counts.push(text::count(room.mentions as u64, "mention"));
            }
            if room.jobs > 0 {
                counts.push(text::count(room.jobs as u64, "job"));
            }
            if room.said_before > 0 {
                counts.push(format!("{} said again by the hub", room.said_before));
            }
            if room.unexamined > 0 {
                counts.push(format!("{} of them not looked at", room.unexamined));
            }
            let recv = self.recv(&room.room);
            output.line(&format!("{label}  {} · {recv}", counts.join(" · ")))?;
        }
        Ok(())
    }

    fn to_json(&self, waiting: usize) -> Value {
        let item = |item: &Item| {
            let mut json = item.json.clone();
            json["command"] = json!(self.show_command(item));
            json
        };
        let room = |room: &RoomCount| {
            json!({
                "room": room.room, "unread": room.unread, "unexamined": room.unexamined,
                "handoffs": room.handoffs, "mentions": room.mentions, "jobs": room.jobs, "saidBefore": room.said_before,
                "command": self.recv(&room.room),
            })
        };
        json!({
            "handoffs": self.handoffs.iter().map(item).collect::<Vec<_>>(),
            "mentions": self.mentions.iter().map(item).collect::<Vec<_>>(),
            "rooms": self.rooms.iter().map(room).collect::<Vec<_>>(),
            "waiting": waiting,
        })
    }
}

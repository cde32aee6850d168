//! Every room: its log from the first message to the last, and what was made of it. One slice of the log is held at a time.

use std::collections::BTreeSet;

use parler_protocol::{ChainHash, DroppedMessage, Head, HubId, Message, Oid, Part, RefName, RoomName, Seq};

use super::jobs::Jobs;
use super::messages::{self, Content};
use super::{FindingKind, Place, Report};
use crate::message_parts::blob_references;
use crate::ref_fold::{RefFold, place};
use crate::store::{Inspector, RoomBlobRow, RoomEnd, StoredMessage, StoredRoom};

/// Checks all of them.
pub(super) fn check(inspector: &Inspector, hub: &HubId, report: &mut Report<'_>) {
    let mut row = 0;
    loop {
        let room = match inspector.room_after(row) {
            Ok(Some(room)) => room,
            Ok(None) => return,
            Err(error) => {
                let what = format!("the rooms cannot be read on: {error}");
                return report.found(FindingKind::Database, Place::default(), what);
            }
        };
        row = room.row;
        report.summary.rooms += 1;
        match room.name.parse::<RoomName>() {
            Ok(name) if name.key() == room.key => Log::new(inspector, hub, &name, &room).check(report),
            _ => report.found(
                FindingKind::Head,
                Place {
                    room: Some(room.name),
                    ..Place::default()
                },
                format!("the room's name does not belong to its key {:?}", room.key),
            ),
        }
    }
}

/// A room's log, as far as it was read.
struct Log<'a> {
    inspector: &'a Inspector,
    hub: &'a HubId,
    row: i64,
    name: String,
    seq: i64,
    h: ChainHash,
    ts: i64,
    push_seq: i64,
    fold: RefFold,
    /// Blobs that a message brought.
    brought: i64,
    jobs: Jobs,
}

impl<'a> Log<'a> {
    fn new(inspector: &'a Inspector, hub: &'a HubId, name: &RoomName, room: &StoredRoom) -> Self {
        Self {
            inspector,
            hub,
            row: room.row,
            name: room.name.clone(),
            seq: 0,
            h: ChainHash::start(hub, name),
            ts: 0,
            push_seq: 0,
            fold: RefFold::default(),
            brought: 0,
            jobs: Jobs::of(room),
        }
    }

    fn place(&self) -> Place {
        Place {
            room: Some(self.name.clone()),
            ..Place::default()
        }
    }

    fn place_of(&self, seq: i64) -> Place {
        Place {
            message: Some(seq.unsigned_abs()),
            ..self.place()
        }
    }

    fn check(mut self, report: &mut Report<'_>) {
        loop {
            let slice = match self.inspector.slice(self.row, self.seq) {
                Ok(slice) => slice,
                Err(error) => {
                    let what = format!("cannot be read on after message {}: {error}", self.seq);
                    return report.found(FindingKind::Database, self.place(), what);
                }
            };
            if let Some(end) = slice.end {
                return self.finish(&slice.room, end, report);
            }
            let judged = messages::judge(&slice.messages, self.hub, &self.name);
            for (stored, judged) in slice.messages.iter().zip(judged) {
                self.follow(stored, report);
                report.summary.messages += 1;
                report.summary.unbelieved += u64::from(judged.is_unbelieved);
                for (kind, what) in judged.faults {
                    report.found(kind, self.place_of(stored.seq), what);
                }
                match judged.content {
                    Content::Message(message) => self.take(stored, &message, report),
                    Content::Dropped => report.summary.dropped_messages += 1,
                    Content::Unreadable => {}
                }
                if stored.is_push {
                    self.push_seq = stored.seq;
                }
            }
            report.progress.messages += slice.messages.len() as u64;
            report.went_on();
        }
    }

    /// Number and chain. After a fault it goes on from what the row says, so that one fault is one finding.
    fn follow(&mut self, stored: &StoredMessage, report: &mut Report<'_>) {
        let expected = self.seq + 1;
        let said: Option<[u8; 32]> = stored.h.as_slice().try_into().ok();
        if stored.seq != expected {
            let missing = match stored.seq - expected {
                1 => format!("message {expected} is not there"),
                _ => format!("messages {expected} to {} are not there", stored.seq - 1),
            };
            report.found(FindingKind::Gap, self.place_of(expected), missing);
        } else if said != Some(*self.h.next(&stored.body).as_bytes()) {
            let what = "its bytes, or the link of the chain here, are not those that were stored";
            report.found(FindingKind::Chain, self.place_of(stored.seq), what);
        }
        self.h = said.map_or_else(|| self.h.next(&stored.body), ChainHash::from_bytes);
        self.seq = stored.seq;
    }

    /// What a message did: time, blobs, refs.
    fn take(&mut self, stored: &StoredMessage, message: &Message, report: &mut Report<'_>) {
        if message.ts < self.ts {
            report.found(
                FindingKind::Message,
                self.place_of(stored.seq),
                "is older than the one before",
            );
        }
        self.ts = self.ts.max(message.ts);
        let mut last = None;
        for reference in blob_references(&message.parts) {
            let mut at = self.place_of(stored.seq);
            at.blob = Some(reference.id);
            match self.inspector.room_blob(self.row, reference.id.as_bytes()) {
                Ok(RoomBlobRow::Held { size, seq }) => {
                    if reference.size.is_some_and(|said| said != size.unsigned_abs()) {
                        report.found(
                            FindingKind::BlobReference,
                            at,
                            format!("the blob has {size} bytes, and the message says another number"),
                        );
                    }
                    // It may have come later: given up, and brought again. One that several parts speak of came once.
                    self.brought += i64::from(seq == stored.seq && last != Some(reference.id));
                    last = Some(reference.id);
                }
                Ok(RoomBlobRow::Dropped) => {}
                Ok(RoomBlobRow::Unknown) => {
                    report.found(
                        FindingKind::BlobReference,
                        at,
                        "refers to a blob that the room does not hold",
                    );
                }
                Err(error) => report.found(FindingKind::Database, at, format!("cannot be read: {error}")),
            }
        }
        self.jobs.take(stored, message);
        for part in &message.parts {
            if let Part::Refs(refs) = part {
                for fault in self.fold.apply(stored.seq, refs) {
                    report.found(FindingKind::Refs, self.place_of(stored.seq), fault);
                }
            }
        }
    }

    /// The end of the log against the room's row, and the fold against its refs.
    fn finish(mut self, room: &StoredRoom, end: RoomEnd, report: &mut Report<'_>) {
        if room.head_seq > self.seq {
            let what = match room.head_seq - self.seq {
                1 => format!("message {} is not there", room.head_seq),
                _ => format!("messages {} to {} are not there", self.seq + 1, room.head_seq),
            };
            report.found(FindingKind::Gap, self.place_of(self.seq + 1), what);
        } else if room.head_seq != self.seq || room.head_h[..] != self.h.as_bytes()[..] {
            let ends = Head {
                seq: Seq::new(self.seq.unsigned_abs()),
                h: self.h,
            };
            let what = format!(
                "the room's row has another head: {}, and the log ends at {ends}",
                room.head_seq
            );
            report.found(FindingKind::Head, self.place(), what);
        }
        if room.push_seq != self.push_seq {
            let what = format!(
                "the newest push is message {}, and the room's row says {}",
                self.push_seq, room.push_seq
            );
            report.found(FindingKind::PushIndex, self.place(), what);
        }
        if room.head_ts < self.ts {
            let what = "the room's row has an older time than the newest message";
            report.found(FindingKind::Head, self.place(), what);
        }
        for (agent, cursor) in &end.cursors_too_far {
            let agent = parler_protocol::AgentId::from_bytes(agent).map_or_else(String::new, |id| id.to_string());
            let what = format!(
                "{agent} has acknowledged up to {cursor}, and the log ends at {}",
                room.head_seq
            );
            report.found(FindingKind::Cursor, self.place(), what);
        }
        self.finish_refs(room, &end, report);
        for (seq, what) in self.jobs.compare(&end.jobs) {
            report.found(FindingKind::Job, self.place_of(seq), what);
        }
        if end.blobs != self.brought {
            self.finish_blobs(report);
        }
    }

    fn finish_refs(&mut self, room: &StoredRoom, end: &RoomEnd, report: &mut Report<'_>) {
        report.summary.refs += end.refs.len() as u64;
        for (above, below) in self.fold.conflicts() {
            let what = format!("{above} and {below} cannot both exist");
            report.found(FindingKind::RefConflict, self.place(), what);
        }
        let mut seen = BTreeSet::new();
        for stored in &end.refs {
            let oid = Oid::from_bytes(&stored.oid);
            let name = stored.name.parse::<RefName>();
            let (Ok(name), Some(oid)) = (name, oid) else {
                let what = format!("ref {:?} cannot be read", stored.name);
                report.found(FindingKind::Refs, self.place(), what);
                continue;
            };
            let folded = self.fold.refs.get(&name);
            match folded {
                Some((of_log, seq)) if *of_log == oid && *seq == stored.seq => {}
                Some((of_log, seq)) if *of_log == oid => {
                    let what = format!("{name} was moved by message {seq}, and its row says {}", stored.seq);
                    report.found(FindingKind::Refs, self.place(), what);
                }
                _ => {
                    let of_log = place(folded.map(|(oid, _)| *oid));
                    let what = format!("{name} is at {oid}, and the log leads it to {of_log}");
                    report.found(FindingKind::Refs, self.place(), what);
                }
            }
            seen.insert(name);
        }
        let missing = self.fold.refs.iter().filter(|(name, _)| !seen.contains(*name));
        for (name, (oid, _)) in missing {
            let what = format!("{name} is not there, and the log leads it to {oid}");
            report.found(FindingKind::Refs, self.place(), what);
        }
        let head = self.fold.head.as_ref().map(RefName::as_str);
        if room.head_ref.as_deref() != head {
            let told = |name: Option<&str>| name.unwrap_or("nothing").to_owned();
            let what = format!(
                "HEAD points at {}, and the log says {}",
                told(room.head_ref.as_deref()),
                told(head)
            );
            report.found(FindingKind::Refs, self.place(), what);
        }
        let format = self.fold.object_format.map(|format| format.to_string());
        if room.object_format != format {
            let told = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
            let what = format!(
                "the object format is {}, and the log says {}",
                told(&room.object_format),
                told(&format)
            );
            report.found(FindingKind::Refs, self.place(), what);
        }
    }

    /// Which of the room's blobs no message brought.
    fn finish_blobs(&self, report: &mut Report<'_>) {
        let mut after = 0;
        loop {
            let blobs = match self.inspector.blobs_of_room(self.row, after) {
                Ok(blobs) if blobs.is_empty() => return,
                Ok(blobs) => blobs,
                Err(error) => {
                    let what = format!("its blobs cannot be read: {error}");
                    return report.found(FindingKind::Database, self.place(), what);
                }
            };
            for (row, id, seq) in blobs {
                after = row;
                let Some(id) = super::blobs::blob_id(&id) else { continue };
                let body = self.inspector.body(self.row, seq).ok().flatten();
                let refers = body.is_some_and(|body| match Message::parse(&body) {
                    Ok(message) => blob_references(&message.parts)
                        .iter()
                        .any(|reference| reference.id == id),
                    // Who was there to say so is no longer kept.
                    Err(_) => DroppedMessage::parse(&body).is_some(),
                });
                if !refers {
                    let mut at = self.place_of(seq);
                    at.blob = Some(id);
                    report.found(
                        FindingKind::BlobUnlinked,
                        at,
                        "the message did not bring the blob that is said to be its",
                    );
                }
            }
        }
    }
}

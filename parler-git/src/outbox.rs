//! What one agent wanted to say on one hub while that could not be reached: drafts in private files, each written whole
//! before anybody is told that it waits, and sent in their order by the next command that reaches the hub. A draft has
//! the id of its message from the beginning, so that sent twice it is stored once. Holds no blob and no signature.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_client::{Client, Identity, SessionCache};
use parler_protocol::api::Posted;
use parler_protocol::{BundleId, Draft, HubId, MessageId, Part, RoomName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::error::{AGAIN, Error, ErrorKind, Result};
use crate::file_lock;
use crate::home::{Home, create_private, create_private_dir, read_private, write_private};
use crate::hubs::HubChoice;
use crate::posting::{Place, post_draft};
use crate::room_labels;
use crate::sessions::SessionFile;
use crate::time::now_ms;

/// Largest draft that is kept.
const MAX_DRAFT_BYTES: usize = 900 << 10; // 900 KiB: as the message is at most, with room for what belongs to a file
/// Most drafts that wait.
const MAX_DRAFTS: usize = 10_000;
/// How long another process that is sending is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How the names of drafts end.
const SUFFIX: &str = ".json";

/// A message that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queued {
    /// The id that it will have for ever.
    pub(crate) id: MessageId,
    /// The room, as its author spelled it.
    pub(crate) room: RoomName,
    parts: Vec<Value>,
    mentions: Vec<String>,
    reply_to: Option<MessageId>,
    key: Option<String>,
    /// The hub that it is for, where that was known: whichever hub is at the address by now.
    #[serde(default)]
    pub(crate) hub: Option<HubId>,
    /// Since when it waits, milliseconds since 1970.
    pub(crate) at: i64,
    /// Why the hub refused it, once it has: it is not sent again until somebody says so.
    #[serde(default)]
    pub(crate) refused: Option<String>,
}

impl Queued {
    pub(crate) fn new(room: &RoomName, draft: &Draft, key: Option<&str>) -> Self {
        Self {
            id: draft.id,
            room: room.clone(),
            parts: draft.parts.iter().map(Part::to_value).collect(),
            mentions: draft.mentions.clone(),
            reply_to: draft.reply_to,
            key: key.map(str::to_owned),
            hub: None,
            at: now_ms(),
            refused: None,
        }
    }

    fn draft(&self) -> Draft {
        Draft {
            id: self.id,
            parts: self.parts.iter().map(Part::from_value).collect(),
            mentions: self.mentions.clone(),
            reply_to: self.reply_to,
        }
    }

    /// Whether it is for another hub than the one that is here, as far as both are known.
    pub(crate) fn is_for_another(&self, here: Option<HubId>) -> bool {
        self.hub.zip(here).is_some_and(|(hub, here)| hub != here)
    }

    /// What it says, for its own author.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.parts.iter().map(Part::from_value).collect()
    }
}

/// A draft with its place in the order.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Its number, by which it is named.
    pub(crate) number: u64,
    pub(crate) queued: Queued,
    path: PathBuf,
}

/// What became of drafts.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Stored now, or before.
    pub(crate) sent: Vec<(MessageId, Posted)>,
    /// Refused for good.
    pub(crate) refused: Vec<(u64, MessageId, Error)>,
    /// How many wait for another hub than the one that answers.
    pub(crate) held: usize,
}

/// The drafts of one agent for one hub.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    directory: PathBuf,
    /// Tells which hub was at the address when this agent last spoke to it.
    session: SessionFile,
}

impl Outbox {
    pub(crate) fn of(home: &Home, hub: &HubChoice, agent: &Identity) -> Self {
        // By what the hub is called: its id may not be known while it cannot be reached. Each draft has that of its own.
        let place = hub.to_config();
        let name = BundleId::of(format!("{place}\0{}", agent.key.id()).as_bytes());
        Self {
            directory: home.outbox_dir().join(name.short()),
            session: SessionFile::of(home, &place, agent, None),
        }
    }

    /// The hub that was there when this agent last spoke to it.
    pub(crate) fn hub(&self) -> Option<HubId> {
        self.session.load().map(|session| session.hub)
    }

    /// How many drafts wait, without reading them. Costs one look at a directory that is not there where none ever did.
    pub(crate) fn count(&self) -> usize {
        self.files().map_or(0, |files| files.len())
    }

    /// All that waits, in its order.
    pub(crate) fn waiting(&self) -> Result<Vec<Waiting>> {
        let files = self.files().map_err(|error| self.unreadable(&error))?;
        let mut waiting = Vec::with_capacity(files.len());
        for (number, path) in files {
            // One that is gone was sent by somebody else meanwhile.
            let Some(bytes) = read_private(&path)? else { continue };
            let queued = serde_json::from_slice(&bytes).map_err(|error| {
                Error::fatal(format_args!("{} is damaged: {error}", path.display()))
                    .then(format!("look at it, and git parler outbox drop {number}"))
            })?;
            waiting.push(Waiting { number, queued, path });
        }
        Ok(waiting)
    }

    /// Keeps a draft for the hub that is known at the address. When it returns the draft is on the disk.
    pub(crate) fn add(&self, queued: &Queued) -> Result<u64> {
        let queued = Queued {
            hub: queued.hub.or_else(|| self.hub()),
            ..queued.clone()
        };
        let bytes =
            serde_json::to_vec(&queued).map_err(|error| Error::fatal(format_args!("cannot write JSON: {error}")))?;
        if bytes.len() > MAX_DRAFT_BYTES {
            return Err(
                Error::new(ErrorKind::Refused, "the message is too large to wait for its hub")
                    .then("send it without --queue"),
            );
        }
        create_private_dir(&self.directory)?;
        let _lock = self.lock_adding()?;
        let files = self.files().map_err(|error| self.unreadable(&error))?;
        if files.len() >= MAX_DRAFTS {
            return Err(
                Error::new(ErrorKind::Refused, format_args!("{MAX_DRAFTS} messages wait already"))
                    .then("git parler outbox"),
            );
        }
        let number = files.last().map_or(0, |(number, _)| *number) + 1;
        create_private(&self.directory.join(format!("{number:08}{SUFFIX}")), &bytes)?;
        Ok(number)
    }

    /// Sends what waits, in its order, and forgets what the hub has. What it refuses is kept, marked, and no reason to
    /// keep the others waiting. Fails where the hub cannot be reached, or is not able to store now: what was not sent
    /// waits on.
    pub(crate) fn flush(&self, client: &Client) -> Result<Flushed> {
        let mut flushed = Flushed::default();
        if self.count() == 0 {
            return Ok(flushed);
        }
        let _lock = self.lock_sending()?;
        // Drafts of older programs do not say which hub they are for: the one that was there before anything is asked.
        let last = self.hub();
        let mut place: Option<Place> = None;
        for waiting in self.waiting()? {
            let queued = &waiting.queued;
            if queued.refused.is_some() {
                continue;
            }
            let hub = queued.hub.or(last);
            match send(client, &mut place, queued, hub.as_ref()) {
                Ok(None) => {
                    flushed.held += 1;
                    if queued.hub.is_none() {
                        let bound = Queued { hub, ..queued.clone() };
                        self.write(&waiting, &bound)?;
                    }
                }
                Ok(Some(posted)) => {
                    // Where this is lost the message is sent again, and stored once.
                    forget(&waiting.path)?;
                    flushed.sent.push((queued.id, posted));
                }
                // Only the hub's word counts, and one that does not let this agent in may be another one.
                Err(error)
                    if error.kind == ErrorKind::Unreachable
                        || error.is_stranger()
                        || (error.code().is_none() && error.kind != ErrorKind::NotFound) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    place = None;
                    self.mark(&waiting, Some(room_labels::joined(error.what()).into_owned()))?;
                    flushed.refused.push((waiting.number, queued.id, error));
                }
            }
        }
        Ok(flushed)
    }

    /// What was refused waits as before.
    pub(crate) fn retry_refused(&self) -> Result<()> {
        let _lock = self.lock_sending()?;
        for waiting in self.waiting()? {
            if waiting.queued.refused.is_some() {
                self.mark(&waiting, None)?;
            }
        }
        Ok(())
    }

    /// Forgets a draft. False: there is none of this number.
    pub(crate) fn drop(&self, number: u64) -> Result<bool> {
        let files = self.files().map_err(|error| self.unreadable(&error))?;
        if files.is_empty() {
            return Ok(false);
        }
        // Not while it is being sent: who drops it wants to know that it was not.
        let _lock = self.lock_sending()?;
        let files = self.files().map_err(|error| self.unreadable(&error))?;
        match files.iter().find(|(other, _)| *other == number) {
            Some((_, path)) => forget(path).map(|()| true),
            None => Ok(false),
        }
    }

    /// The draft of this message, if it waits, is for this hub from now on.
    fn bind(&self, id: &MessageId, hub: HubId) -> Result<()> {
        let _lock = self.lock_sending()?;
        match self.waiting()?.iter().find(|waiting| waiting.queued.id == *id) {
            Some(waiting) => {
                let bound = Queued {
                    hub: Some(hub),
                    ..waiting.queued.clone()
                };
                self.write(waiting, &bound)
            }
            None => Ok(()),
        }
    }

    /// Forgets the draft of this message, if it waits.
    fn forget(&self, id: &MessageId) -> Result<()> {
        let _lock = self.lock_sending()?;
        for (_, path) in self.files().map_err(|error| self.unreadable(&error))? {
            // What cannot be read is not it: that was written by this process.
            let Some(bytes) = read_private(&path)? else { continue };
            if serde_json::from_slice(&bytes).is_ok_and(|queued: Queued| queued.id == *id) {
                return forget(&path);
            }
        }
        Ok(())
    }

    fn mark(&self, waiting: &Waiting, refused: Option<String>) -> Result<()> {
        let marked = Queued {
            refused,
            ..waiting.queued.clone()
        };
        self.write(waiting, &marked)
    }

    fn write(&self, waiting: &Waiting, queued: &Queued) -> Result<()> {
        let bytes =
            serde_json::to_vec(queued).map_err(|error| Error::fatal(format_args!("cannot write JSON: {error}")))?;
        write_private(&waiting.path, &bytes)
    }

    /// The drafts' files, by number.
    fn files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
            if let Some(number) = number {
                files.push((number, self.directory.join(name)));
            }
        }
        files.sort();
        Ok(files)
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        Error::io(format_args!("read {}", self.directory.display()), error)
    }

    /// Keeps other senders out, so that what waits is sent in its order.
    fn lock_sending(&self) -> Result<File> {
        self.lock("sending")
    }

    /// Keeps others from taking the same number. Not the lock of senders: who adds must not wait for a hub.
    fn lock_adding(&self) -> Result<File> {
        self.lock("adding")
    }

    fn lock(&self, name: &str) -> Result<File> {
        let path = self.directory.join(name);
        file_lock::take(&path, PATIENCE).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let what = "another command has been sending what waits for the hub for a while";
                Error::new(ErrorKind::Unreachable, what).then(AGAIN)
            }
            _ => Error::io(format_args!("lock {}", path.display()), &error),
        })
    }
}

/// What became of one draft that might have had to wait.
#[derive(Debug)]
pub(crate) enum Sending {
    /// The hub has it.
    Sent(Posted),
    /// It waits.
    Queued,
}

/// Posts a draft behind those that wait, or lets it wait where the hub cannot be reached. The draft is kept before
/// anything is tried: whatever becomes of this process, it is sent once. What the hub refuses is an error as ever, and
/// does not wait.
pub(crate) fn post_or_queue(context: &Context, room: &RoomName, draft: &Draft, key: Option<&str>) -> Result<Sending> {
    context.require_agent()?;
    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let outbox = Outbox::of(&context.home, &hub, &agent.identity);
    outbox.add(&Queued::new(room, draft, key))?;
    let sending = || -> Result<Posted> {
        let client = context.client_that_sends_nothing(&hub, agent.identity.clone())?;
        let mut flushed = outbox.flush(&client)?;
        let own = flushed.sent.iter().position(|(id, _)| *id == draft.id);
        let own = own.map(|at| flushed.sent.remove(at).1);
        let refused = flushed.refused.iter().position(|(_, id, _)| *id == draft.id);
        let refused = refused.map(|at| flushed.refused.remove(at).2);
        context.notice_flushed(&flushed);
        match (own, refused) {
            (Some(posted), _) => Ok(posted),
            (None, Some(error)) => Err(error),
            // Another command sent it meanwhile, and the hub answers as it did then; or the hub that was known when it was
            // kept is not the one that answers, which is the one that is meant now.
            (None, None) => {
                let place = Place::ask_for(&client, room, draft)?;
                outbox.bind(&draft.id, client.hub_id()?)?;
                let posted = post_draft(&client, &place, draft, key, None)?;
                // Where it stays it is sent again, and stored once.
                let _ = outbox.forget(&draft.id);
                Ok(posted)
            }
        }
    };
    match sending() {
        Ok(posted) => Ok(Sending::Sent(posted)),
        Err(error) if error.kind == ErrorKind::Unreachable => Ok(Sending::Queued),
        Err(error) => {
            // By its id: another command may have sent it, and then its number is another draft's by now.
            outbox.forget(&draft.id)?;
            Err(error)
        }
    }
}

/// Sends one draft, if `hub` is the one that answers: else none. `place` is where the last one went.
fn send(client: &Client, place: &mut Option<Place>, queued: &Queued, hub: Option<&HubId>) -> Result<Option<Posted>> {
    let known = place.take().filter(|place| place.room.key() == queued.room.key());
    let draft = queued.draft();
    let asked = known.map_or_else(|| Place::ask_for(client, &queued.room, &draft), Ok);
    // Whoever answered has taken the session for its own. Also where it has no such room.
    let is_reached = asked
        .as_ref()
        .err()
        .is_none_or(|error| error.kind == ErrorKind::NotFound);
    if let Some(hub) = hub.filter(|_| is_reached)
        && client.hub_id()? != *hub
    {
        *place = asked.ok();
        return Ok(None);
    }
    let known = asked?;
    let posted = post_draft(client, &known, &draft, queued.key.as_deref(), None)?;
    *place = Some(Place {
        room: known.room,
        head: posted.head,
    });
    Ok(Some(posted))
}

fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use parler_protocol::TextPart;

    use super::*;

    fn queued(text: &str) -> Queued {
        let draft = Draft::new(vec![TextPart { text: text.into() }.into()]);
        Queued::new(&"build".parse().unwrap(), &draft, None)
    }

    fn outbox(directory: PathBuf) -> Outbox {
        let environment = crate::environment::Environment::for_test(&[("PARLER_HOME", "/nonexistent")]);
        let agent = crate::log_entry::tests::identity(1, "alice", None);
        let home = Home::of(&environment).unwrap();
        Outbox {
            directory,
            ..Outbox::of(&home, &HubChoice::Local, &agent)
        }
    }

    #[test]
    fn drafts_wait_in_their_order_and_privately() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = outbox(directory.path().join("a/b"));
        assert_eq!(outbox.count(), 0);
        assert!(!outbox.drop(1).unwrap());
        let drafts: Vec<_> = (0..12).map(|number| queued(&number.to_string())).collect();
        for draft in &drafts {
            outbox.add(draft).unwrap();
        }
        assert!(outbox.drop(3).unwrap());
        let waiting = outbox.waiting().unwrap();
        assert_eq!(waiting.len(), 11);
        let ids: Vec<_> = waiting.iter().map(|waiting| waiting.queued.id).collect();
        let expected: Vec<_> = drafts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 2)
            .map(|(_, draft)| draft.id)
            .collect();
        assert_eq!(ids, expected);
        let mode = waiting[0].path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(outbox.add(&queued("last")).unwrap(), 13);
        let large = queued(&"x".repeat(1 << 20));
        assert_eq!(outbox.add(&large).unwrap_err().kind, ErrorKind::Refused);
    }

    /// Its number may be another draft's by then.
    #[test]
    fn a_draft_is_forgotten_by_its_id_and_no_other_is() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = outbox(directory.path().to_owned());
        let (gone, other) = (queued("refused"), queued("of another command"));
        let number = outbox.add(&gone).unwrap();
        assert!(outbox.drop(number).unwrap());
        assert_eq!(outbox.add(&other).unwrap(), number);
        outbox.forget(&gone.id).unwrap();
        assert_eq!(outbox.waiting().unwrap().len(), 1);
        outbox.forget(&other.id).unwrap();
        assert_eq!(outbox.count(), 0);
    }

    #[test]
    fn those_who_add_at_once_take_numbers_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = outbox(directory.path().to_owned());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let outbox = outbox.clone();
                scope.spawn(move || (0..10).for_each(|_| assert!(outbox.add(&queued("x")).is_ok())));
            }
        });
        assert_eq!(outbox.waiting().unwrap().len(), 40);
    }
}

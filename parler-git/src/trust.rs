//! What this user's agents remember of hubs: how far the logs of their rooms reached, and whose keys belong to names.
//! Sees every head that a client is told, says once what does not fit, and objects to signing anything for a room whose
//! log is in doubt. Changes nothing that is read, and asks no hub anything.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use parler_client::{Asked, Identity, Witness};
use parler_protocol::{ChainHash, Claim, Head, History, HubId, Message, RoomName, Seq, Stranger};
use serde_json::{Value, json};

use crate::home::Home;
use crate::log_entry::LogEntry;
use crate::names::Names;
use crate::state_file::{Durability, Kept, StateFile};
use crate::text;
use crate::time::now_ms;
use crate::view::short_key;

/// How the names of the two files of a room end.
const HISTORY: &str = "history";
const NAMES: &str = "names";

/// The memory of one process, joined with what is on the disk.
pub(crate) struct Trust {
    /// None: nothing is kept.
    directory: Option<PathBuf>,
    rooms: Mutex<Rooms>,
    /// Where the hub was named for this command alone: what the commands that we name say of it.
    named: OnceLock<String>,
}

#[derive(Default)]
struct Rooms {
    known: BTreeMap<(HubId, String), Known>,
    /// Lines for people that have not been said yet, in blocks.
    warnings: Vec<Vec<String>>,
}

/// One room.
struct Known {
    room: RoomName,
    history: History,
    /// As it was read from the disk, or written there.
    stored: History,
    names: Option<Names>,
    stored_names: Names,
    /// What has been said of it.
    is_doubt_told: bool,
    strangers_told: usize,
}

impl Trust {
    /// The memory in a user's home.
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            directory: Some(home.trust_dir()),
            rooms: Mutex::default(),
            named: OnceLock::new(),
        }
    }

    /// The memory of a job that has a token: it keeps nothing, and knows nothing from before.
    pub(crate) fn of_job() -> Self {
        Self {
            directory: None,
            rooms: Mutex::default(),
            named: OnceLock::new(),
        }
    }

    /// The hub was named on the command line or by a remote's URL, so that a command without it may mean another one.
    pub(crate) fn name_hub(&self, hub: &str) {
        let _ = self.named.set(format!(" --hub {hub}"));
    }

    /// What a command says to mean the hub of this one, where it has to.
    pub(crate) fn hub_option(&self) -> &str {
        self.named.get().map_or("", String::as_str)
    }

    fn commands(&self) -> Commands<'_> {
        Commands { hub: self.hub_option() }
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, hub: &HubId, room: &str, what: &str) -> Option<StateFile> {
        // All are made of letters, digits and `._-`, and do not begin with a dot.
        let directory = self.directory.as_ref()?.join(hub.to_string());
        Some(StateFile::at(directory.join(format!("{room}.{what}"))))
    }

    /// Reads what one file holds. A damaged one is put aside, and said so.
    fn read<T: serde::de::DeserializeOwned + Default>(
        &self,
        warnings: &mut Vec<Vec<String>>,
        hub: &HubId,
        room: &RoomName,
        what: &str,
    ) -> T {
        let Some(file) = self.file(hub, &room.key(), what) else {
            return T::default();
        };
        match file.load() {
            Kept::Content(content) => content,
            Kept::Nothing | Kept::Newer => T::default(),
            Kept::Damaged => {
                let place = file.set_aside().unwrap_or_else(|| file.path().to_owned());
                warnings.push(vec![
                    format!(
                        "warning: what was known of room '{room}' is damaged and not used: {}",
                        place.display()
                    ),
                    "  what its hub says from now on is believed as at first".to_owned(),
                ]);
                T::default()
            }
        }
    }

    /// Works on what is known of a room.
    fn with<R>(&self, hub: &HubId, room: &RoomName, work: impl FnOnce(&mut Known) -> R) -> R {
        let mut rooms = self.rooms();
        let Rooms { known, warnings } = &mut *rooms;
        let known = known.entry((*hub, room.key())).or_insert_with(|| {
            let history: History = self.read(warnings, hub, room, HISTORY);
            Known {
                room: room.clone(),
                stored: history.clone(),
                names: None,
                stored_names: Names::default(),
                is_doubt_told: false,
                // Those were named when they were found; `git parler trust` names them again.
                strangers_told: history.strangers().len(),
                history,
            }
        });
        let worked = work(known);
        if known.history.doubt().is_some() && known.stored.doubt().is_none() {
            // Not to be lost, whatever becomes of this process.
            self.keep_history(hub, known);
        }
        worked
    }

    /// Consecutive messages were read, after `after`: hashes on to them, and says how each author stands to its name.
    pub(crate) fn read_on(&self, hub: &HubId, room: &RoomName, me: &Identity, after: Seq, entries: &mut [LogEntry]) {
        let start = ChainHash::start(hub, room);
        self.with(hub, room, |known| {
            known.history.read(&start, after, &*entries, now_ms())
        });
        self.know_authors(hub, room, me, entries);
    }

    /// Says how the author of each of these messages, which were read at some time, stands to its name.
    pub(crate) fn know_authors(&self, hub: &HubId, room: &RoomName, me: &Identity, entries: &mut [LogEntry]) {
        self.with_names(hub, room, |names| {
            let me = (&me.key.id(), &me.name);
            for entry in entries {
                let Some(message) = entry.unverified() else { continue };
                let is_valid = || entry.message().is_some_and(|(_, verdict)| verdict.is_valid());
                let standing = names.sight(me, message, is_valid);
                let role = message.from.role.as_deref();
                let is_role_anothers = role.is_some_and(|role| names.is_anothers(me, role, &message.from.id));
                entry.accept = (!standing.leads()).then(|| self.commands().accept_key(message));
                entry.is_role_anothers = is_role_anothers;
                entry.set_standing(standing);
            }
        });
    }

    /// Works on the names of a room.
    pub(crate) fn with_names<R>(&self, hub: &HubId, room: &RoomName, work: impl FnOnce(&mut Names) -> R) -> R {
        let is_read = self.with(hub, room, |known| known.names.is_some());
        if !is_read {
            let mut warnings = Vec::new();
            let names: Names = self.read(&mut warnings, hub, room, NAMES);
            self.rooms().warnings.extend(warnings);
            self.with(hub, room, |known| {
                known.stored_names = names.clone();
                known.names = Some(names);
            });
        }
        self.with(hub, room, |known| work(known.names.get_or_insert_default()))
    }

    /// Keeps what this process came to know. Failures are silent: nothing that a user asked for depends on it.
    pub(crate) fn keep(&self) {
        let mut rooms = self.rooms();
        for ((hub, _), known) in &mut rooms.known {
            if known.history != known.stored {
                self.keep_history(hub, known);
            }
            let Some(names) = known.names.as_ref().filter(|names| **names != known.stored_names) else {
                continue;
            };
            let seen = names.clone();
            let file = self.file(hub, &known.room.key(), NAMES);
            let joined = file.and_then(|file| {
                file.update(Durability::Now, |kept: Option<Names>| {
                    let mut all = kept.unwrap_or_default();
                    all.join(&seen);
                    all
                })
            });
            let joined = joined.unwrap_or(seen);
            known.stored_names.clone_from(&joined);
            known.names = Some(joined);
        }
    }

    fn keep_history(&self, hub: &HubId, known: &mut Known) {
        let is_doubtful = known.history.doubt() != known.stored.doubt();
        let durability = if is_doubtful { Durability::Now } else { Durability::Soon };
        if let Some(file) = self.file(hub, &known.room.key(), HISTORY) {
            let joined = file.update(durability, |kept: Option<History>| {
                let mut all = known.history.clone();
                if let Some(kept) = kept {
                    all.merge(&kept);
                }
                all
            });
            if let Some(joined) = joined {
                known.history = joined;
            }
        }
        known.stored.clone_from(&known.history);
    }

    /// The user accepts a room's log as the hub has it.
    pub(crate) fn accept_history(&self, hub: &HubId, room: &RoomName, head: &Head) -> bool {
        self.with(hub, room, |known| {
            let file = self.file(hub, &room.key(), HISTORY);
            let accepted = file.and_then(|file| {
                file.update(Durability::Now, |kept: Option<History>| {
                    let mut history = kept.unwrap_or_default();
                    history.accept(head, now_ms());
                    history
                })
            });
            let is_kept = accepted.is_some();
            if let Some(accepted) = accepted {
                known.history = accepted;
                known.stored.clone_from(&known.history);
            }
            is_kept
        })
    }

    /// The user deleted the room: what was known of its log says nothing of another one of that name.
    pub(crate) fn forget_history(&self, hub: &HubId, room: &RoomName) {
        self.with(hub, room, |known| {
            if let Some(file) = self.file(hub, &room.key(), HISTORY) {
                file.update(Durability::Now, |_: Option<History>| History::default());
            }
            known.history = History::default();
            known.stored.clone_from(&known.history);
        });
    }

    /// The user accepts a key under a name.
    pub(crate) fn accept_key(&self, hub: &HubId, room: &RoomName, name: &str, key: &parler_protocol::AgentId) -> bool {
        let seen = self.with_names(hub, room, |names| {
            names.accept(name, key);
            names.clone()
        });
        let file = self.file(hub, &room.key(), NAMES);
        let joined = file.and_then(|file| {
            file.update(Durability::Now, |kept: Option<Names>| {
                let mut all = kept.unwrap_or_default();
                all.join(&seen);
                all.accept(name, key);
                all
            })
        });
        joined.is_some()
    }

    /// What is known of a room's log.
    pub(crate) fn history(&self, hub: &HubId, room: &RoomName) -> History {
        self.with(hub, room, |known| known.history.clone())
    }

    /// What does not fit, for programs: null where nothing is in doubt.
    pub(crate) fn history_json(&self, hub: &HubId, room: &RoomName) -> Value {
        self.with(hub, room, |known| known.to_json(self.commands()))
    }

    /// What has not been said yet, in lines for people.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut rooms = self.rooms();
        let mut warnings = std::mem::take(&mut rooms.warnings);
        let commands = self.commands();
        warnings.extend(rooms.known.values_mut().flat_map(|known| known.new_warnings(commands)));
        warnings.concat()
    }
}

impl Known {
    fn new_warnings(&mut self, commands: Commands<'_>) -> Vec<Vec<String>> {
        let mut new = Vec::new();
        let room = &self.room;
        if let Some(doubt) = self.history.doubt().filter(|_| !self.is_doubt_told) {
            new.push(vec![
                format!(
                    "warning: the history of room '{room}' is not the one known since {}: {doubt}",
                    text::local_time(doubt.since())
                ),
                "  its hub was set back, as when a backup is restored, or it shows different histories to different members"
                    .to_owned(),
                format!("  nothing is sent there until you accept it. Ask whoever runs the hub, then: {}", commands.accept_history(room)),
            ]);
        }
        self.is_doubt_told |= self.history.doubt().is_some();
        let strangers = self.history.strangers();
        for stranger in strangers.iter().skip(self.strangers_told) {
            new.push(vec![
                format!("warning: {}", stranger_line(stranger, room)),
                format!("  the hub shows different histories to different members, or one of them does not say the truth: {}", commands.list(room)),
            ]);
        }
        self.strangers_told = strangers.len();
        new
    }

    fn to_json(&self, commands: Commands<'_>) -> Value {
        let doubt = self.history.doubt().map(|doubt| {
            let mut value = json!(doubt);
            value["message"] = json!(doubt.to_string());
            value["accept"] = json!(commands.accept_history(&self.room));
            value
        });
        let strangers = self.history.strangers();
        if doubt.is_none() && strangers.is_empty() {
            return Value::Null;
        }
        let strangers: Vec<_> = strangers
            .iter()
            .map(|stranger| {
                let against = stranger.against.as_ref();
                json!({
                    "seq": stranger.by.message, "id": stranger.by.id, "name": stranger.by.name, "about": stranger.at,
                    "against": against.map(|other| json!({"seq": other.message, "id": other.id, "name": other.name})),
                })
            })
            .collect();
        json!({ "doubt": doubt, "strangers": strangers })
    }
}

/// The commands that we name, for the hub that this one spoke to.
#[derive(Clone, Copy)]
struct Commands<'a> {
    hub: &'a str,
}

impl Commands<'_> {
    fn list(self, room: &RoomName) -> String {
        format!("git parler trust --room {room}{}", self.hub)
    }

    fn accept_history(self, room: &RoomName) -> String {
        format!("git parler trust --history --room {room}{}", self.hub)
    }

    /// Accepts the key of a message's author. A name that a shell or we would take for something else is left out.
    fn accept_key(self, message: &Message) -> String {
        let (name, key) = (text::name(&message.from.name), short_key(&message.from.id));
        let is_plain = name == message.from.name && !name.starts_with(['-', '#']);
        let name = if is_plain { format!("{name} ") } else { String::new() };
        format!("git parler trust {name}--key {key} --room {}{}", message.room, self.hub)
    }
}

/// What a member who was shown something else said, for people.
pub(crate) fn stranger_line(stranger: &Stranger, room: &RoomName) -> String {
    let against = match &stranger.against {
        Some(other) => format!("{} in message {}", text::name(&other.name), other.message),
        None => "you".to_owned(),
    };
    format!(
        "{}, in message {} of room '{room}', was shown another message {} than {against}",
        text::name(&stranger.by.name),
        stranger.by.message,
        stranger.at
    )
}

impl Witness for Trust {
    fn asking(&self, hub: &HubId, room: Option<&RoomName>) -> Asked {
        if let Some(room) = room {
            let newest = self.with(hub, room, |known| known.history.newest());
            return Asked::from([(room.key(), newest)]);
        }
        // Of every room that anything is known of, what is known now.
        let directory = self.directory.as_ref().map(|directory| directory.join(hub.to_string()));
        let entries = directory.and_then(|directory| std::fs::read_dir(directory).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let room = name
                .to_str()
                .and_then(|name| name.strip_suffix(HISTORY)?.strip_suffix('.'));
            if let Some(room) = room.and_then(|room| room.parse::<RoomName>().ok()) {
                self.with(hub, &room, |_| ());
            }
        }
        let rooms = self.rooms();
        let of_hub = rooms.known.iter().filter(|((other, _), _)| other == hub);
        of_hub
            .map(|((_, room), known)| (room.clone(), known.history.newest()))
            .collect()
    }

    fn told(&self, hub: &HubId, room: &RoomName, head: &Head, asked: &Asked) {
        let asked = asked.get(&room.key()).copied().unwrap_or_default();
        self.with(hub, room, |known| known.history.told(head, asked, now_ms()));
    }

    fn claimed(&self, hub: &HubId, room: &RoomName, claims: &[Claim]) {
        self.with(hub, room, |known| {
            // As its maker spelled it.
            known.room.clone_from(room);
            for claim in claims {
                known.history.claimed(claim, now_ms());
            }
        });
    }

    fn objection(&self, hub: &HubId, room: &RoomName) -> Option<String> {
        self.with(hub, room, |known| {
            let doubt = known.history.doubt()?;
            Some(format!(
                "its history is not the one that was known, {doubt}; {}",
                self.commands().accept_history(&known.room)
            ))
        })
    }
}

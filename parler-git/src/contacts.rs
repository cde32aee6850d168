//! Which agent is meant by a name, a role or a key, among those that this one can write to. A name goes to the key that
//! it is known to belong to; where that is not known, and several go by it, nobody is chosen.

use parler_client::Client;
use parler_protocol::api::{AgentList, Contact, Peer, RoomList};
use parler_protocol::{AgentId, AgentName, ErrorCode, HubId, RoomName};

use crate::error::{Error, ErrorKind, Result};
use crate::names::{Names, likeness};
use crate::trust::Trust;
use crate::{room_labels, text};

/// Fewest characters of a key that name it.
const MIN_KEY_CHARS: usize = 6;
/// How much of a key is shown where it tells two agents apart.
const KEY_CHARS: usize = 12;
/// Most agents that an error lists.
const MAX_LISTED: usize = 8;

/// An agent among those of one room.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) id: AgentId,
    pub(crate) name: AgentName,
    pub(crate) role: Option<AgentName>,
}

/// The one of these, which are in a room or want to be, that is meant.
pub(crate) fn person(trust: &Trust, hub: &HubId, room: &RoomName, people: &[Person], wanted: &str) -> Result<Person> {
    let contacts: Vec<Contact> = people
        .iter()
        .map(|person| Contact {
            id: person.id,
            name: person.name.clone(),
            role: person.role.clone(),
            last_seen: 0,
            rooms: vec![room.clone()],
            dm: None,
        })
        .collect();
    let known = |contact: &Contact| {
        let belongs = |names: &mut Names| names.belongs(contact.name.as_str(), &contact.id);
        Known::of([trust.with_names(hub, room, belongs)].into_iter())
    };
    let found = find(&contacts, wanted, known).map_err(|error| error.of_room(room))?;
    Ok(Person {
        id: found.id,
        name: found.name.clone(),
        role: found.role.clone(),
    })
}

/// Whether a direct room that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// And both come into it.
    Made,
    /// It is none that one is in.
    Missing,
}

/// Opens the direct room with an agent, which goes by its label from now on. What people should know besides is added
/// to `remarks`.
pub(crate) fn direct_room(
    client: &Client,
    trust: &Trust,
    wanted: &str,
    opening: Opening,
    remarks: &mut Vec<String>,
) -> Result<RoomName> {
    let hub = client.hub_id()?;
    let AgentList { agents } = client.agents()?;
    let me = client.identity();
    let known = |contact: &Contact| {
        let rooms = contact.rooms.iter().chain(&contact.dm);
        let belongs = |names: &mut Names| names.belongs(contact.name.as_str(), &contact.id);
        Known::of(rooms.map(|room| trust.with_names(&hub, room, belongs)))
    };
    let key: AgentId = match find(&agents, wanted, known) {
        Ok(found) => {
            remarks.extend(lookalikes(&agents, found, wanted));
            found.id
        }
        // On some hubs an agent can be written to that shares no room.
        Err(error) => match wanted.parse() {
            Ok(key) if key != me.key.id() => key,
            _ if me.name.is_called(wanted) || wanted == me.key.id().to_string() => {
                return Err(Error::usage(format_args!("{} is you", text::name(wanted))));
            }
            _ => return Err(error),
        },
    };
    let contact = agents.iter().find(|contact| contact.id == key);
    let room = RoomName::direct(&me.key.id(), &key);
    match contact {
        Some(contact) => know(
            &room,
            &contact.id,
            &contact.name,
            agents.iter().map(|other| &other.name),
        ),
        None => room_labels::know(&room, &key.to_string()),
    }
    // The name is what the keys make of it, whatever the hub says.
    if contact.is_none_or(|contact| contact.dm.as_ref() != Some(&room)) {
        if opening == Opening::Missing {
            let what = format!("you are in no direct room with {}", text::name(wanted));
            return Err(Error::new(ErrorKind::NotFound, what).then("git parler rooms"));
        }
        client.open_dm(&key).map_err(|error| match error.code() {
            Some(ErrorCode::NotFound) => {
                let what = format!("{} takes no direct messages from you", text::name(wanted));
                Error::new(ErrorKind::NotFound, what).then("write in a room that both of you are in")
            }
            _ => error.into(),
        })?;
    }
    Ok(room)
}

/// Direct rooms of this list go by their labels from now on.
pub(crate) fn know_rooms(list: &RoomList) {
    let peers: Vec<(&RoomName, &Peer)> = list
        .rooms
        .iter()
        .filter_map(|room| Some((&room.room, room.with.as_ref()?)))
        .collect();
    for (room, peer) in &peers {
        know(room, &peer.id, &peer.name, peers.iter().map(|(_, other)| &other.name));
    }
}

/// A name that several go by says less than a key; and what a shell reads as more than a word is no part of a command
/// that somebody may type.
fn know<'a>(room: &RoomName, key: &AgentId, name: &AgentName, all: impl Iterator<Item = &'a AgentName>) {
    let like = likeness(name.as_str());
    let is_word = text::name(name.as_str()) == name.as_str() && !name.as_str().contains('#');
    match all.filter(|other| likeness(other.as_str()) == like).count() {
        0 | 1 if is_word => room_labels::know(room, name.as_str()),
        _ => room_labels::know(room, &key.to_string()[..KEY_CHARS]),
    }
}

/// What the names of the rooms that an agent is in say of it.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// In one of them its name belongs to its key.
    is_own: bool,
    /// In one of them its name belongs to other keys.
    is_anothers: bool,
}

impl Known {
    /// `belongs`: whether the name belongs to the key, for each room. None: it belongs to none.
    fn of(belongs: impl Iterator<Item = Option<bool>>) -> Self {
        belongs.flatten().fold(Self::default(), |known, belongs| Self {
            is_own: known.is_own || belongs,
            is_anothers: known.is_anothers || !belongs,
        })
    }
}

/// The one that is meant. Who is called as another's key begins is not meant by that: anybody can choose such a name.
fn find<'a>(agents: &'a [Contact], wanted: &str, known: impl Fn(&Contact) -> Known) -> Result<&'a Contact> {
    let wanted = wanted.trim();
    if let Ok(key) = wanted.parse::<AgentId>() {
        let found = agents.iter().find(|contact| contact.id == key);
        return found.ok_or_else(|| nobody(agents, wanted));
    }
    let mut meant = Vec::from_iter(find_called(agents, wanted, known)?);
    if wanted.len() >= MIN_KEY_CHARS && wanted.is_ascii() {
        let digits = wanted.to_ascii_uppercase();
        let is_begun = |contact: &&Contact| contact.id.to_string().starts_with(&digits);
        let others = agents
            .iter()
            .filter(|contact| meant.iter().all(|found| found.id != contact.id));
        let others: Vec<_> = others.filter(is_begun).collect();
        meant.extend(others);
    }
    match meant.as_slice() {
        [] => Err(nobody(agents, wanted)),
        [found] => Ok(found),
        _ => Err(several(wanted, &meant)),
    }
}

/// The one that goes by this name, or by this role.
fn find_called<'a>(
    agents: &'a [Contact],
    wanted: &str,
    known: impl Fn(&Contact) -> Known,
) -> Result<Option<&'a Contact>> {
    let named: Vec<_> = agents.iter().filter(|contact| contact.name.is_called(wanted)).collect();
    let own: Vec<_> = named.iter().copied().filter(|contact| known(contact).is_own).collect();
    match (named.as_slice(), own.as_slice()) {
        ([], _) => {}
        // One room in which the name is another's is enough to ask.
        (_, [found]) | ([found], []) if !known(found).is_anothers => return Ok(Some(found)),
        ([stranger], _) => {
            let what = format!("{} goes by a key that is not the one known", text::name(wanted));
            return Err(
                Error::new(ErrorKind::Refused, format!("{what}: {}", described(stranger)))
                    .then("git parler trust NAME --room ROOM accepts a key; or name the agent by its key"),
            );
        }
        _ => return Err(several(wanted, &named)),
    }
    let with_role = |contact: &&Contact| contact.role.as_ref().is_some_and(|role| role.is_called(wanted));
    let with_role: Vec<_> = agents.iter().filter(with_role).collect();
    match with_role.as_slice() {
        [] => Ok(None),
        [found] => Ok(Some(found)),
        several_roles => Err(several(wanted, several_roles)),
    }
}

fn several(wanted: &str, found: &[&Contact]) -> Error {
    let listed: Vec<_> = found
        .iter()
        .take(MAX_LISTED)
        .map(|contact| described(contact))
        .collect();
    let more = match found.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let what = format!(
        "{} are called {}: {}{more}",
        found.len(),
        text::name(wanted),
        listed.join("; ")
    );
    Error::new(ErrorKind::Conflict, what).then("name the agent by its key, or the first characters of it")
}

fn nobody(agents: &[Contact], wanted: &str) -> Error {
    let what = format!("no agent {} in a room with you", text::name(wanted));
    let like = likeness(wanted);
    let alike = agents.iter().find(|contact| likeness(contact.name.as_str()) == like);
    let what = match alike {
        Some(contact) => format!("{what}; one whose name only looks so is {}", described(contact)),
        None => what,
    };
    Error::new(ErrorKind::NotFound, what).then("git parler roster --room ROOM lists who is there")
}

/// Others whose names cannot be told from the one that was found.
fn lookalikes(agents: &[Contact], found: &Contact, wanted: &str) -> Option<String> {
    let like = likeness(found.name.as_str());
    let others = agents.iter().filter(|contact| contact.id != found.id);
    let alike: Vec<_> = others
        .filter(|contact| likeness(contact.name.as_str()) == like)
        .map(described)
        .collect();
    let is_by_name = found.name.is_called(wanted);
    (is_by_name && !alike.is_empty()).then(|| {
        let who = &found.id.to_string()[..KEY_CHARS];
        format!(
            "{} is key {who}; so looks the name of {}",
            text::name(wanted),
            alike.join("; ")
        )
    })
}

/// An agent, for people: key, name, role and rooms.
fn described(contact: &Contact) -> String {
    let who = text::name_and_role(contact.name.as_str(), contact.role.as_ref().map(AgentName::as_str));
    let key = &contact.id.to_string()[..KEY_CHARS];
    let rooms: Vec<_> = contact.rooms.iter().map(RoomName::as_str).collect();
    match rooms.is_empty() {
        true => format!("key {key} {who}"),
        false => format!("key {key} {who} in {}", rooms.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::AgentKey;

    use super::*;

    fn contact(seed: u8, name: &str, role: Option<&str>) -> Contact {
        Contact {
            id: AgentKey::from_random([seed; 32]).id(),
            name: name.parse().unwrap(),
            role: role.map(|role| role.parse().unwrap()),
            last_seen: 0,
            rooms: vec!["build".parse().unwrap()],
            dm: None,
        }
    }

    #[test]
    fn names_lead_to_the_key_that_they_belong_to() {
        let agents = [
            contact(1, "alice", Some("planner")),
            contact(2, "Bob", Some("reviewer")),
            contact(3, "carol", Some("Reviewer")),
            contact(4, "аlice", None), // Cyrillic a
            contact(5, "dave", None),
            contact(6, "DAVE", None),
            contact(7, "erin", None),
        ];
        let [dave, erin] = [4, 6].map(|index: usize| agents[index].id);
        let known = |contact: &Contact| match contact.id {
            id if id == dave => Known::of([None, Some(true)].into_iter()),
            id if id == erin => Known::of([Some(false)].into_iter()),
            _ => Known::default(),
        };
        let nobody_known = |_: &Contact| Known::default();
        let index = |wanted: &str| {
            let found = find(&agents, wanted, known).map_err(|error| (error.kind, error.line()))?;
            Ok::<_, (ErrorKind, String)>(agents.iter().position(|contact| contact.id == found.id).unwrap())
        };
        assert_eq!(index("ALICE"), Ok(0));
        assert_eq!(index(" bob "), Ok(1));
        assert_eq!(index("planner"), Ok(0));
        assert_eq!(index("dave"), Ok(4), "the one that is known");
        assert_eq!(index(&agents[5].id.to_string()), Ok(5));
        assert_eq!(index(&agents[5].id.to_string()[..8].to_lowercase()), Ok(5));
        let (kind, line) = index("reviewer").unwrap_err();
        assert_eq!(kind, ErrorKind::Conflict);
        for part in [
            "Bob (reviewer)",
            "carol (Reviewer)",
            "in build",
            &agents[1].id.to_string()[..KEY_CHARS],
        ] {
            assert!(line.contains(part), "{line}");
        }
        let (kind, _) = index("erin").unwrap_err();
        assert_eq!(kind, ErrorKind::Refused, "her name is another key's");
        assert_eq!(index("mallory").unwrap_err().0, ErrorKind::NotFound);
        assert!(index("al1ce").unwrap_err().1.contains("looks so"));
        let error = find(&agents, "dave", nobody_known).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(lookalikes(&agents, &agents[0], "alice").unwrap().contains("аlice"));
        assert_eq!(lookalikes(&agents, &agents[1], "bob"), None);
    }

    #[test]
    fn nobody_is_called_as_another_ones_key() {
        let bob = contact(2, "bob", None);
        let key = bob.id.to_string();
        let agents = [
            bob,
            contact(8, &key[..8], None),
            contact(9, "erin", Some(&key[..10].to_lowercase())),
        ];
        let kind = |agents: &[Contact], wanted: &str| find(agents, wanted, |_| Known::default()).unwrap_err().kind;
        for wanted in [&key[..8], &key[..10]] {
            assert_eq!(kind(&agents, wanted), ErrorKind::Conflict, "{wanted}");
        }
        assert_eq!(
            find(&agents, &key[..12], |_| Known::default()).unwrap().id,
            agents[0].id
        );
        // Nor is who has the whole of it for a name, where its owner is in no room.
        let [mallory] = [contact(8, &key, None)];
        assert_eq!(kind(&[mallory], &key), ErrorKind::NotFound);
    }

    /// What is shown in a command is a word for any shell.
    #[test]
    fn a_name_that_is_no_word_is_no_part_of_a_command() {
        let key = AgentKey::from_random([9; 32]).id();
        for (seed, name, is_shown) in [
            (10, "zoë@laptop/project", true),
            (11, "x$(reboot)", false),
            (12, "a b", false),
            (13, "x#1", false),
            (14, "dave;ls", false),
        ] {
            let peer = contact(seed, name, None);
            let room = RoomName::direct(&key, &peer.id);
            know(&room, &peer.id, &peer.name, [&peer.name].into_iter());
            let label = match is_shown {
                true => name.to_owned(),
                false => peer.id.to_string()[..KEY_CHARS].to_owned(),
            };
            assert_eq!(room_labels::shown(room.as_str()), format!("dm/{label}"));
        }
    }
}

//! What must be true of a room whatever happened to its hub: the log is chained and gapless, the hub's refs are its fold,
//! every blob that a message names is there and hashes to its id, and each acknowledged message is there once, where the
//! answer said, and answered so again when it is repeated. Asks as a member does; looks into no file.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use parler_client::Client;
use parler_protocol::api::{Posted, RefList};
use parler_protocol::{BundleId, Part, RoomName, paths};

use crate::{PlainHttp, ReadLog, read_log};

/// A message that the hub acknowledged to this agent.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// What the hub answered.
    pub posted: Posted,
    /// The message as it was sent, signed.
    pub body: Vec<u8>,
    /// The key it was sent with, where that was not its id.
    pub key: Option<String>,
}

/// Reads a room from its first message and checks it against itself. `http` speaks for a member.
#[track_caller]
pub fn audit_room(calls: &Client, http: &PlainHttp, room: &RoomName) -> ReadLog {
    let hub = calls.hub_id().expect("a hub");
    let log = read_log(calls, &hub, room);
    let answer = http.get(&paths::refs(room));
    let list: RefList = serde_json::from_slice(&answer.body).expect("a list of refs");
    let folded: BTreeMap<_, _> = list.refs.iter().map(|entry| (entry.name.clone(), entry.oid)).collect();
    assert_eq!(folded, log.refs, "the hub's refs are not what its log folds to");
    for entry in &list.refs {
        let index = usize::try_from(entry.seq.get()).expect("a short log") - 1;
        let moves_it = |part: &Part| matches!(part, Part::Refs(refs) if refs.updates.iter().any(|update| update.name == entry.name));
        assert!(
            log.messages[index].parts.iter().any(moves_it),
            "{} was not moved by message {}",
            entry.name,
            entry.seq
        );
    }
    for (id, size) in blobs_of(&log) {
        let mut bytes = Vec::new();
        let mut blob = calls
            .blob(room, &id)
            .unwrap_or_else(|error| panic!("blob {id}: {error}"));
        blob.read_to_end(&mut bytes)
            .unwrap_or_else(|error| panic!("blob {id}: {error}"));
        assert_eq!((BundleId::of(&bytes), bytes.len() as u64), (id, size));
    }
    log
}

/// The blobs that the messages brought, with their sizes.
pub fn blobs_of(log: &ReadLog) -> BTreeMap<BundleId, u64> {
    let parts = log.messages.iter().flat_map(|message| &message.parts);
    let blobs = parts.filter_map(|part| match part {
        Part::Bundle(part) => Some((part.blob, part.size)),
        Part::File(part) => Some((part.blob, part.size)),
        _ => None,
    });
    blobs.collect()
}

/// What the hub acknowledged to the agent that `http` speaks for is in the log, in that order, and a repetition is answered
/// as the first time.
#[track_caller]
pub fn audit_acknowledged(http: &PlainHttp, room: &RoomName, log: &ReadLog, acknowledged: &[Acknowledged]) {
    let places: HashMap<_, _> = log.messages.iter().map(|message| (message.id, message.seq)).collect();
    assert_eq!(places.len(), log.messages.len(), "a message is there twice");
    let mut last = None;
    for message in acknowledged {
        let posted = &message.posted;
        assert_eq!(
            places.get(&posted.id),
            Some(&posted.seq),
            "message {} was acknowledged",
            posted.id
        );
        assert!(last < Some(posted.seq), "an agent's messages keep their order");
        last = Some(posted.seq);
        let mut fields = vec![("content-type", "application/json")];
        if let Some(key) = &message.key {
            fields.push((paths::IDEMPOTENCY_KEY_HEADER, key));
        }
        let again = http
            .ask("POST", &paths::messages(room), &fields, &message.body)
            .expect("a hub that answers");
        let told: Option<Posted> = serde_json::from_slice(&again.body).ok();
        assert_eq!(
            (again.status, told.as_ref()),
            (200, Some(posted)),
            "{}",
            String::from_utf8_lossy(&again.body)
        );
    }
}

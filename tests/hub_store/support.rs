//! What the tests share: a store in a directory of its own, agents in it, and messages to append.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parler_hub::store::{
    Append, Appended, BlobReference, NewSession, Principal, QueueWord, SqliteOptions, SqliteStore, Store, StoreError,
};
use parler_protocol::{
    AgentKey, BundleId, MessageId, ObjectFormat, Oid, RefName, RefUpdate, RefsPart, RoomKind, RoomName, Seq,
    retry_digest,
};
use tempfile::TempDir;

/// When everything happens unless a test says otherwise, milliseconds since 1970.
pub(crate) const NOW: i64 = 1_800_000_000_000;
/// A session's length.
pub(crate) const DAY_MS: i64 = 24 * 3600 * 1000;

/// A store in a temporary directory.
pub(crate) struct Fixture {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) directory: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(SqliteOptions::default())
    }

    pub(crate) fn with(options: SqliteOptions) -> Self {
        let directory = TempDir::new().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path(), options).unwrap());
        Self { store, directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Closes the store and opens it again.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(SqliteOptions::default()).await
    }

    /// Closes the store and opens it with these options.
    pub(crate) async fn restart_with(self, options: SqliteOptions) -> Self {
        self.store.close().await.unwrap();
        let Self { store, directory } = self;
        drop(store);
        let store = Arc::new(SqliteStore::open(directory.path(), options).unwrap());
        Self { store, directory }
    }

    /// A known agent. The same name is the same key.
    pub(crate) async fn agent(&self, name: &str) -> Principal {
        let principal = principal(name);
        self.store.open_session(session(&principal)).await.unwrap();
        principal
    }

    /// An agent that owns a channel.
    pub(crate) async fn owner(&self, name: &str, channel: &str) -> Principal {
        let principal = self.agent(name).await;
        self.store
            .create_room(&room(channel), RoomKind::Channel, principal.agent, NOW)
            .await
            .unwrap();
        principal
    }

    /// An agent that is in a channel.
    pub(crate) async fn member(&self, name: &str, channel: &str) -> Principal {
        let principal = self.agent(name).await;
        self.store
            .join_channel(principal.agent, &room(channel), NOW)
            .await
            .unwrap();
        principal
    }

    /// Everything in a room, as stored.
    pub(crate) async fn messages(&self, by: &Principal, name: &str) -> Vec<Bytes> {
        let page = self
            .store
            .read(by.agent, &room(name), Some(Seq::ZERO), u32::MAX, usize::MAX)
            .await
            .unwrap();
        assert_eq!(page.cursor, page.head.seq);
        page.messages
    }

    pub(crate) async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        self.store.append(append).await
    }
}

/// The principal of this name; its key is made from the name.
pub(crate) fn principal(name: &str) -> Principal {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    Principal {
        agent: AgentKey::from_random(seed).id(),
        name: name.parse().unwrap(),
        role: None,
    }
}

/// A session that lets its agent in.
pub(crate) fn session(principal: &Principal) -> NewSession {
    let mut token = [0; 32];
    token[..16].copy_from_slice(MessageId::generate().as_bytes());
    NewSession {
        principal: principal.clone(),
        token,
        expires_at: NOW + DAY_MS,
        admit: true,
        invite: None,
        now: NOW,
    }
}

pub(crate) fn room(name: &str) -> RoomName {
    name.parse().unwrap()
}

/// A text message with a key of its own.
pub(crate) fn text(by: &Principal, room: &str, text: &str) -> Append {
    let parts = serde_json::json!([{ "kind": "text", "text": text }]);
    let id = MessageId::generate();
    Append {
        by: by.clone(),
        signed_by: None,
        room: room.parse().unwrap(),
        id,
        key: id.to_string(),
        digest: retry_digest(parts.as_array().unwrap(), &[], None),
        parts: parts.to_string().into(),
        mentions: Vec::new(),
        reply_to: None,
        refs: None,
        is_push: false,
        refers_to: Vec::new(),
        builds_on: Vec::new(),
        blob: None,
        queue: QueueWord::default(),
        now: NOW,
    }
}

/// A message that moves refs: (name, old, new), each digit standing for an object id made of it.
pub(crate) fn push(by: &Principal, room: &str, updates: &[(&str, Option<char>, Option<char>)]) -> Append {
    let updates = updates
        .iter()
        .map(|(name, old, new)| RefUpdate {
            name: name.parse().unwrap(),
            old: old.map(oid),
            new: new.map(oid),
            forced: false,
            peeled: None,
        })
        .collect();
    let refs = RefsPart {
        updates,
        atomic: false,
        object_format: ObjectFormat::Sha1,
        head: None,
        base_hint: None,
    };
    with_refs(by, room, refs)
}

/// A message with this refs part.
pub(crate) fn with_refs(by: &Principal, room: &str, refs: RefsPart) -> Append {
    let parts = serde_json::json!([parler_protocol::Part::from(refs.clone()).to_value()]);
    Append {
        digest: retry_digest(parts.as_array().unwrap(), &[], None),
        parts: parts.to_string().into(),
        refs: Some(refs),
        is_push: true,
        ..text(by, room, "")
    }
}

/// A part's word on a blob, without its length.
pub(crate) fn reference(id: BundleId) -> BlobReference {
    BlobReference { id, size: None }
}

/// The object id that is this hexadecimal digit 40 times.
pub(crate) fn oid(digit: char) -> Oid {
    digit.to_string().repeat(40).parse().unwrap()
}

pub(crate) fn ref_name(name: &str) -> RefName {
    name.parse().unwrap()
}

//! A hub's state in an SQLite database in WAL mode: one thread writes, a few connections read.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use parler_protocol::api::{InviteCreated, Member, RefList, RoomAnswer, RoomSummary};
use parler_protocol::{AgentId, BundleId, Head, HubId, InviteCode, RoomKind, RoomName, Seq};

use super::{
    Append, Appended, BlobLocation, LogPage, NewInvite, NewSession, Principal, PushLog, Store, StoreError, TokenHash,
};

/// How a database is opened.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Connections that read; 0 for the usual number.
    pub readers: usize,
    /// Most pages of 4 KiB that the database may have.
    pub max_pages: Option<u32>,
}

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another hub", .0.display())]
    InUse(PathBuf),
    /// A newer program wrote it.
    #[error("{} has format {found}, this program knows formats up to {known}: use the newer program", path.display())]
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this program knows.
        known: i64,
    },
    /// The database is another program's.
    #[error("{} is not a hub's database", .0.display())]
    NotAHub(PathBuf),
    /// A file cannot be made or opened.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database cannot be read or written.
    #[error("cannot open {}: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// A [`Store`] in a directory.
#[derive(Debug)]
pub struct SqliteStore {
    hub: HubId,
}

impl SqliteStore {
    /// Opens the data directory `path`, which is made if need be.
    pub fn open(path: impl AsRef<Path>, _options: SqliteOptions) -> Result<Self, OpenError> {
        Err(OpenError::NotAHub(path.as_ref().to_owned()))
    }
}

fn later<T>() -> Result<T, StoreError> {
    Err(StoreError::Stopped("not built yet".to_owned()))
}

#[async_trait]
impl Store for SqliteStore {
    fn hub(&self) -> HubId {
        self.hub
    }
    async fn open_session(&self, _session: NewSession) -> Result<Option<RoomAnswer>, StoreError> {
        later()
    }
    async fn session(&self, _token: TokenHash, _now: i64) -> Result<Option<Principal>, StoreError> {
        later()
    }
    async fn create_room(&self, _: &RoomName, _: RoomKind, _: AgentId, _: i64) -> Result<RoomAnswer, StoreError> {
        later()
    }
    async fn create_invite(&self, _invite: NewInvite) -> Result<InviteCreated, StoreError> {
        later()
    }
    async fn join(&self, _: AgentId, _: &InviteCode, _: i64) -> Result<RoomAnswer, StoreError> {
        later()
    }
    async fn join_channel(&self, _: AgentId, _: &RoomName, _: i64) -> Result<RoomAnswer, StoreError> {
        later()
    }
    async fn room(&self, _: AgentId, _: &RoomName) -> Result<RoomAnswer, StoreError> {
        later()
    }
    async fn rooms(&self, _: AgentId) -> Result<Vec<RoomSummary>, StoreError> {
        later()
    }
    async fn members(&self, _: AgentId, _: &RoomName) -> Result<(RoomAnswer, Vec<Member>), StoreError> {
        later()
    }
    async fn check_append(&self, _: &Append) -> Result<Option<Appended>, StoreError> {
        later()
    }
    async fn append(&self, _: Append) -> Result<Appended, StoreError> {
        later()
    }
    async fn read(&self, _: AgentId, _: &RoomName, _: Option<Seq>, _: u32, _: usize) -> Result<LogPage, StoreError> {
        later()
    }
    async fn pushes(&self, _: AgentId, _: &RoomName, _: Seq) -> Result<PushLog, StoreError> {
        later()
    }
    async fn refs(&self, _: AgentId, _: &RoomName) -> Result<(RefList, Head), StoreError> {
        later()
    }
    async fn acknowledge(&self, _: AgentId, _: &RoomName, _: Seq) -> Result<(Seq, Head), StoreError> {
        later()
    }
    async fn blob(&self, _: AgentId, _: &RoomName, _: &BundleId) -> Result<BlobLocation, StoreError> {
        later()
    }
    async fn close(&self) -> Result<(), StoreError> {
        later()
    }
}

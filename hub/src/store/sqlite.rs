//! A hub's state in an SQLite database in WAL mode: one thread writes, a few connections read. `docs/storage.md` has
//! the tables, the files and what is promised after which crash.

mod agents;
mod append;
mod batch;
mod blobs;
mod columns;
mod connection;
mod contacts;
mod data_directory;
mod departures;
mod envelope;
mod failure;
mod fetches;
mod inspector;
mod invites;
#[cfg(test)]
mod job_costs;
mod job_list;
mod job_row;
mod job_tokens;
mod job_words;
mod jobs;
mod log;
mod members;
mod names;
mod new_database;
mod open_error;
mod outsiders;
mod queue;
mod readers;
mod refs;
mod repetition;
mod retention;
mod rooms;
mod schema;
mod services;
mod sessions;
mod shrink;
mod snapshot;
mod tokens;
mod writer;

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use parler_protocol::api::{
    Contact, InviteCreated, JoinRequest, Joined, Member, OpenInvite, RefList, RoomAnswer, RoomSummary, TokenSummary,
};
use parler_protocol::{
    AgentId, BundleId, Head, HubId, InviteCode, InviteId, RoomKind, RoomName, Seq, StatusText, TokenName,
};

use self::columns::{agent_id, column, message_id, optional, parsed, seq_of};
use self::data_directory::DataDirectory;
use self::readers::Readers;
use self::writer::Writer;
use crate::disk_space::FreeFloor;
use crate::fail_point::{FailPoint, reached};

pub(crate) use self::inspector::{Inspector, RoomBlobRow, RoomEnd, StoredBlob, StoredJob, StoredMessage, StoredRoom};
pub use self::open_error::OpenError;
pub(crate) use self::shrink::shrink;
pub(crate) use self::snapshot::{Snapshot, SnapshotSource};

use super::{
    Admission, Append, Appended, BlobDrop, BlobLocation, CommitStats, DeletedRoom, DroppedBlobs, DroppedMessages,
    JobToken, LogPage, Need, NewInvite, NewSession, NewToken, OpenedDm, Principal, PushLog, Reach, RoomMark,
    RoomReaders, SlicedMessage, Store, StoreError, TokenHash, TokenHolder,
};

/// About what an operation writes that is no message, in bytes.
const SMALL_BYTES: usize = 512;

/// How a database is opened. The default is right for a hub.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// Connections that read; 0 for the usual number.
    pub readers: usize,
    /// Most pages of 4 KiB that the database may have: what is over it is refused as if the disk were full.
    pub max_pages: Option<u32>,
    /// Part of the disk that messages leave free; none by default. Reading, sessions and cursors go on below it.
    pub free_floor: FreeFloor,
    /// Where the writer counts its commits.
    pub commits: CommitStats,
}

/// A [`Store`] in a directory.
#[derive(Debug)]
pub struct SqliteStore {
    hub: HubId,
    readers: Readers,
    // Dropped after the readers: it empties the log, which a reader could be using.
    writer: Writer,
}

impl SqliteStore {
    /// Opens the data directory `path`, which is made if need be, and holds it until the store is closed or dropped.
    /// Blocks for some milliseconds.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let directory = DataDirectory::open(path.as_ref())?;
        reached(FailPoint::DirectoryLocked);
        let database = directory.database();
        let failed = |source| OpenError::Database {
            path: database.clone(),
            source,
        };
        let not_opened = |source| OpenError::Io {
            path: path.as_ref().to_owned(),
            source,
        };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| not_opened(io::Error::other(error)))?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        new_database::make_if_missing(&database, random, now)?;

        let connection = connection::open_writer(&database).map_err(failed)?;
        schema::check(&connection, &database)?;
        connection::prepare_writer(&connection, options.max_pages).map_err(failed)?;
        schema::migrate(&connection).map_err(failed)?;
        let hub = schema::hub_id(&connection, random, now).map_err(failed)?;

        let readers = Readers::open(&database, options.readers).map_err(failed)?;
        let writer = Writer::start(connection, directory, &options).map_err(not_opened)?;
        reached(FailPoint::StoreOpened);
        Ok(Self { hub, readers, writer })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn hub(&self) -> HubId {
        self.hub
    }

    async fn open_session(&self, session: NewSession) -> Result<Option<Joined>, StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| sessions::open(batch, &session))
            .await
    }

    async fn session(&self, token: TokenHash, now: i64) -> Result<Option<Principal>, StoreError> {
        self.readers
            .run(move |connection| sessions::find(connection, &token, now))
            .await
    }

    async fn admit(&self, agent: AgentId, rooms: &[RoomName], now: i64) -> Result<Admission, StoreError> {
        let (hub, rooms) = (self.hub, rooms.to_vec());
        self.writer
            .run(SMALL_BYTES, move |batch| {
                members::admit(batch.connection, &hub, &agent, &rooms, now)
            })
            .await
    }

    async fn set_status(&self, agent: AgentId, status: Option<StatusText>) -> Result<(), StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| {
                agents::set_status(batch.connection, &agent, status.as_ref())
            })
            .await
    }

    async fn knows_anybody(&self) -> Result<bool, StoreError> {
        self.readers.run(agents::is_any_known).await
    }

    async fn create_room(
        &self,
        room: &RoomName,
        kind: RoomKind,
        owner: AgentId,
        now: i64,
    ) -> Result<RoomAnswer, StoreError> {
        let (hub, room) = (self.hub, room.clone());
        self.writer
            .run(SMALL_BYTES, move |batch| {
                rooms::create(batch, &hub, &room, kind, &owner, now)
            })
            .await
    }

    async fn create_invite(&self, invite: NewInvite) -> Result<InviteCreated, StoreError> {
        let hub = self.hub;
        self.writer
            .run(SMALL_BYTES, move |batch| invites::create(batch, &hub, &invite))
            .await
    }

    async fn join(&self, agent: AgentId, code: &InviteCode, now: i64) -> Result<Joined, StoreError> {
        let code = code.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                let agent = agents::find(batch.connection, &agent)?.ok_or(StoreError::NotAdmitted)?;
                invites::redeem(batch, &code, agent, now)
            })
            .await
    }

    async fn join_channel(&self, agent: AgentId, room: &RoomName, now: i64) -> Result<RoomAnswer, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                members::join_channel(batch, &room, &agent, now)
            })
            .await
    }

    async fn end_membership(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        now: i64,
    ) -> Result<RoomName, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                departures::end_membership(batch, &room, &by, &agent, now)
            })
            .await
    }

    async fn set_owner(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        is_owner: bool,
    ) -> Result<RoomAnswer, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                departures::set_owner(batch, &room, &by, &agent, is_owner)
            })
            .await
    }

    async fn delete_room(&self, room: &RoomName, by: AgentId, now: i64) -> Result<DeletedRoom, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                departures::delete_room(batch, &room, &by, now)
            })
            .await
    }

    async fn requests(&self, agent: AgentId, room: &RoomName) -> Result<Vec<JoinRequest>, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| outsiders::waiting(connection, &room, &agent))
            .await
    }

    async fn answer_request(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        admits: bool,
        now: i64,
    ) -> Result<RoomName, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                outsiders::answer(batch, &room, &by, &agent, admits, now)
            })
            .await
    }

    async fn invites(
        &self,
        agent: AgentId,
        room: &RoomName,
        now: i64,
    ) -> Result<(RoomAnswer, Vec<OpenInvite>), StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| invites::list(connection, &room, &agent, now))
            .await
    }

    async fn revoke_invites(
        &self,
        agent: AgentId,
        room: &RoomName,
        id: Option<InviteId>,
        now: i64,
    ) -> Result<u64, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                invites::revoke(batch, &room, &agent, id.as_ref(), now)
            })
            .await
    }

    async fn open_dm(&self, agent: AgentId, other: AgentId, reach: Reach, now: i64) -> Result<OpenedDm, StoreError> {
        let hub = self.hub;
        self.writer
            .run(SMALL_BYTES, move |batch| {
                contacts::open_dm(batch, &hub, &agent, &other, reach, now)
            })
            .await
    }

    async fn contacts(&self, agent: AgentId, reach: Reach) -> Result<Vec<Contact>, StoreError> {
        self.readers
            .run(move |connection| contacts::list(connection, &agent, reach))
            .await
    }

    async fn create_token(&self, token: NewToken) -> Result<TokenSummary, StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| tokens::create(batch, &token))
            .await
    }

    async fn exchange_identity(&self, job: JobToken) -> Result<TokenSummary, StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| job_tokens::exchange(batch, &job))
            .await
    }

    async fn token(&self, hash: TokenHash) -> Result<Option<TokenHolder>, StoreError> {
        self.readers
            .run(move |connection| tokens::find(connection, &hash))
            .await
    }

    async fn tokens(&self, agent: AgentId) -> Result<Vec<TokenSummary>, StoreError> {
        self.readers
            .run(move |connection| tokens::list(connection, &agent))
            .await
    }

    async fn revoke_token(
        &self,
        by: AgentId,
        name: &TokenName,
        now: i64,
    ) -> Result<(TokenSummary, Vec<RoomName>), StoreError> {
        let name = name.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| tokens::revoke(batch, &by, &name, now))
            .await
    }

    async fn room_for(&self, agent: AgentId, room: &RoomName, need: Need) -> Result<RoomAnswer, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| {
                let (room, _) = rooms::for_caller(connection, &room, &agent, need)?;
                Ok(room.answer(room.end.head()))
            })
            .await
    }

    async fn rooms(&self, agent: AgentId) -> Result<Vec<RoomSummary>, StoreError> {
        self.readers
            .run(move |connection| rooms::list(connection, &agent, None))
            .await
    }

    async fn room_summary(&self, agent: AgentId, room: &RoomName) -> Result<RoomSummary, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| {
                let found = rooms::list(connection, &agent, Some(&room))?.pop();
                found.ok_or_else(|| StoreError::NotFound.into())
            })
            .await
    }

    async fn members(&self, agent: AgentId, room: &RoomName) -> Result<(RoomAnswer, Vec<Member>), StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| members::list(connection, &room, &agent))
            .await
    }

    async fn check_append(&self, append: &Append) -> Result<Option<Appended>, StoreError> {
        let append = append.clone();
        self.readers
            .run(move |connection| append::check(connection, &append))
            .await
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        // It is moved from hand to hand down to the thread.
        let append = Box::new(append);
        self.writer
            .run_checked_first(append::bytes(&append), move |batch| append::run(batch, &append))
            .await
    }

    async fn read(
        &self,
        agent: AgentId,
        room: &RoomName,
        after: Option<Seq>,
        limit: u32,
        max_bytes: usize,
    ) -> Result<LogPage, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| log::read(connection, &room, &agent, after, limit, max_bytes))
            .await
    }

    async fn read_for(
        &self,
        agents: Vec<AgentId>,
        room: &RoomName,
        after: Seq,
        limit: u32,
        max_bytes: usize,
    ) -> Result<(LogPage, HashSet<AgentId>), StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| log::read_for(connection, &room, &agents, after, limit, max_bytes))
            .await
    }

    async fn pushes(
        &self,
        agent: AgentId,
        room: &RoomName,
        since: Seq,
        max_bytes: usize,
    ) -> Result<PushLog, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| log::pushes(connection, &room, &agent, since, max_bytes))
            .await
    }

    async fn refs(&self, agent: AgentId, room: &RoomName) -> Result<(RefList, Head), StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| refs::list(connection, &room, &agent))
            .await
    }

    async fn acknowledge(&self, agent: AgentId, room: &RoomName, seq: Seq) -> Result<(Seq, Head), StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                members::acknowledge(batch, &room, &agent, seq)
            })
            .await
    }

    async fn dropped_blobs(&self, agent: AgentId, room: &RoomName) -> Result<Vec<BundleId>, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| {
                let (room, _) = rooms::for_caller(connection, &room, &agent, Need::Refs)?;
                retention::dropped_ids(connection, room.row)
            })
            .await
    }

    async fn all_rooms(&self) -> Result<Vec<RoomMark>, StoreError> {
        self.readers.run(retention::all_rooms).await
    }

    async fn log_slice(&self, room: &RoomName, after: Seq) -> Result<Vec<SlicedMessage>, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| retention::log_slice(connection, &room, after))
            .await
    }

    async fn held_blobs(
        &self,
        room: &RoomName,
        up_to: Seq,
        after: Option<BundleId>,
    ) -> Result<Vec<(BundleId, u64)>, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| retention::held_blobs(connection, &room, up_to, after))
            .await
    }

    async fn drop_messages(
        &self,
        room: &RoomName,
        before: i64,
        now: i64,
        from: Option<Seq>,
        dry_run: bool,
    ) -> Result<DroppedMessages, StoreError> {
        let room = room.clone();
        let look = move |connection: &rusqlite::Connection| {
            retention::drop_messages(connection, &room, before, now, from, dry_run)
        };
        // What is only counted needs no writer.
        if dry_run {
            return self.readers.run(look).await;
        }
        self.writer.run(SMALL_BYTES, move |batch| look(batch.connection)).await
    }

    async fn drop_blobs(&self, drop: BlobDrop) -> Result<Option<DroppedBlobs>, StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| retention::drop_blobs(batch.connection, &drop))
            .await
    }

    async fn file_blobs(&self, first_byte: u8) -> Result<HashSet<BundleId>, StoreError> {
        self.readers
            .run(move |connection| blobs::files(connection, first_byte))
            .await
    }

    async fn blob(&self, agent: AgentId, room: &RoomName, id: &BundleId) -> Result<BlobLocation, StoreError> {
        let (room, id) = (room.clone(), *id);
        self.readers
            .run(move |connection| blobs::locate(connection, &room, &agent, &id))
            .await
    }

    async fn blob_sizes(&self, agent: AgentId, room: &RoomName, ids: &[BundleId]) -> Result<Vec<u64>, StoreError> {
        let (room, ids) = (room.clone(), ids.to_vec());
        self.readers
            .run(move |connection| blobs::sizes(connection, &room, &agent, &ids))
            .await
    }

    async fn blobs(
        &self,
        agent: AgentId,
        room: &RoomName,
        ids: &[BundleId],
        max_bytes: usize,
    ) -> Result<Vec<BlobLocation>, StoreError> {
        let (room, ids) = (room.clone(), ids.to_vec());
        self.readers
            .run(move |connection| blobs::locate_first(connection, &room, &agent, &ids, max_bytes))
            .await
    }

    async fn record_fetches(
        &self,
        agent: AgentId,
        room: &RoomName,
        ids: &[BundleId],
        now: i64,
    ) -> Result<bool, StoreError> {
        let (room, ids) = (room.clone(), ids.to_vec());
        self.writer
            .run(SMALL_BYTES, move |batch| {
                fetches::record(batch.connection, &room, &agent, &ids, now)
            })
            .await
    }

    async fn readers(&self, agent: AgentId, room: &RoomName, blobs: &[BundleId]) -> Result<RoomReaders, StoreError> {
        let (room, blobs) = (room.clone(), blobs.to_vec());
        self.readers
            .run(move |connection| fetches::readers(connection, &room, &agent, &blobs))
            .await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.readers.close().await;
        self.writer.close().await
    }
}

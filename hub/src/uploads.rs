//! The uploads that are under way: whose they are, how far, and how many each agent may have. Their bytes are the blob
//! store's; which message they belong to is said at the end, by the message.
//!
//! Nothing here wakes up by itself: what has ended is forgotten when something new begins, and when a hub starts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use parler_protocol::api::UploadProgress;
use parler_protocol::{AgentId, BundleId, ErrorCode, Problem, RoomName, UploadId};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedMutexGuard, watch};

use crate::blob_store::{BlobError, BlobStore, StagedBlob};
use crate::hub_limits::HubLimits;
use crate::problem::Refusal;
use crate::store::Principal;

/// An upload that stood still for so long gives way to a new one, where that would be one too many.
const ABANDONED: Duration = Duration::from_secs(900); // 15 min
/// How long a client rests that has as many as it may have.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Whose an upload is, and for which room: nobody else learns of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    agent: AgentId,
    /// The room's name in lower case.
    room: String,
}

impl Place {
    pub(crate) fn new(by: &Principal, room: &RoomName) -> Self {
        Self {
            agent: by.agent,
            room: room.key(),
        }
    }
}

/// What is kept beside an upload's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    place: Place,
    /// What makes a repeated beginning known.
    key: Option<String>,
    /// How many bytes were announced.
    size: Option<u64>,
}

/// One upload.
pub(crate) struct Upload {
    id: UploadId,
    note: Note,
    /// Bytes taken, settled or not.
    taken: AtomicU64,
    /// When it was last heard of, milliseconds since 1970.
    touched: AtomicI64,
    /// Who has it now; a new holder makes the last one let go.
    holder: watch::Sender<u64>,
    /// None before its files are made, while whoever makes them holds it, and once it is over.
    blob: Arc<tokio::sync::Mutex<Option<Box<dyn StagedBlob>>>>,
}

type All = HashMap<UploadId, Arc<Upload>>;

/// All of them.
pub(crate) struct Uploads {
    blobs: Arc<dyn BlobStore>,
    limits: HubLimits,
    all: Mutex<All>,
}

/// What became of an upload that wants to begin.
enum Admitted {
    /// It has its place.
    New,
    /// It was begun before.
    Begun(Arc<Upload>),
    /// This one has to go first.
    After(Arc<Upload>),
}

/// An upload whose files are being made. One that is given up before they are there leaves nothing among the others.
struct Beginning<'a> {
    uploads: &'a Uploads,
    upload: Arc<Upload>,
    blob: OwnedMutexGuard<Option<Box<dyn StagedBlob>>>,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if self.blob.is_none() {
            self.uploads.lock().remove(&self.upload.id);
        }
    }
}

/// An upload in one request's hands.
pub(crate) struct Held {
    pub(crate) upload: Arc<Upload>,
    blob: OwnedMutexGuard<Option<Box<dyn StagedBlob>>>,
    holder: watch::Receiver<u64>,
    number: u64,
}

impl Uploads {
    /// Those that an earlier process left, as far as they have not ended.
    pub(crate) async fn open(blobs: Arc<dyn BlobStore>, limits: HubLimits, now: i64) -> Self {
        let uploads = Self {
            blobs,
            limits,
            all: Mutex::default(),
        };
        let kept = uploads.blobs.staged().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for uploads of before");
            Vec::new()
        });
        for mut found in kept {
            let age = i64::try_from(found.age.as_millis()).unwrap_or(i64::MAX);
            let note = serde_json::from_slice(&found.note).ok();
            match (note, found.blob.settle().await) {
                (Some(note), Ok(length)) if found.age < uploads.limits.upload_ttl => {
                    let touched = now.saturating_sub(age);
                    let upload = Upload::new(found.id, note, Some(found.blob), length, touched);
                    uploads.lock().insert(found.id, Arc::new(upload));
                }
                _ => drop(found.blob.remove().await),
            }
        }
        uploads
    }

    /// Begins an upload, or finds the one that was begun with this key. Whether it is new.
    pub(crate) async fn begin(
        &self,
        place: Place,
        key: Option<String>,
        size: Option<u64>,
        now: i64,
    ) -> Result<(Arc<Upload>, bool), Refusal> {
        self.forget_ended(now).await;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(Refusal::internal)?;
        let note = Note { place, key, size };
        let written = serde_json::to_vec(&note).map_err(Refusal::internal)?;
        let upload = Arc::new(Upload::new(UploadId::from_random(random), note, None, 0, now));
        // Whoever finds it before its files are there waits.
        let mut beginning = Beginning {
            blob: Arc::clone(&upload.blob).lock_owned().await,
            upload,
            uploads: self,
        };
        loop {
            match self.admit(&beginning.upload, now)? {
                Admitted::Begun(known) => return Ok((known, false)),
                Admitted::After(abandoned) => self.remove(&abandoned).await?,
                Admitted::New => break,
            }
        }
        if let Some(size) = size {
            // Looked at, not set aside: an upload that stands still must not keep space from others.
            drop(self.blobs.begin(size).await?);
        }
        *beginning.blob = Some(self.blobs.stage(beginning.upload.id, &written).await?);
        Ok((Arc::clone(&beginning.upload), true))
    }

    /// Lets an upload in beside the others, in one step: two that begin at once are counted like two, one after the other.
    fn admit(&self, new: &Arc<Upload>, now: i64) -> Result<Admitted, Refusal> {
        let mut all = self.lock();
        if let Some(known) = same(&all, &new.note) {
            if known.note.size != new.note.size {
                return Err(Refusal::new(
                    ErrorCode::IdempotencyConflict,
                    "the idempotency key was used for an upload of another size",
                ));
            }
            known.touch(now);
            return Ok(Admitted::Begun(known));
        }
        if let Some(abandoned) = self.one_too_many(&all, &new.note, now)? {
            return Ok(Admitted::After(abandoned));
        }
        all.insert(new.id, Arc::clone(new));
        Ok(Admitted::New)
    }

    /// This upload, if it is of this place and not over.
    pub(crate) fn find(&self, place: &Place, id: &UploadId, now: i64) -> Option<Arc<Upload>> {
        let found = self.lock().get(id).cloned()?;
        let is_there = found.note.place == *place && !found.has_ended(self.ttl_ms(), now);
        is_there.then_some(found)
    }

    /// Ends an upload. What was published stays.
    pub(crate) async fn remove(&self, upload: &Arc<Upload>) -> Result<(), Refusal> {
        if let Some(held) = upload.hold().await {
            self.end(held).await?;
        }
        Ok(())
    }

    /// Ends an upload that is held.
    pub(crate) async fn end(&self, mut held: Held) -> Result<(), Refusal> {
        self.lock().remove(&held.upload.id);
        if let Some(blob) = held.blob.take() {
            blob.remove().await?;
        }
        Ok(())
    }

    /// Takes bytes, unless they are more than announced or than the hub's limits allow.
    pub(crate) async fn write(&self, held: &mut Held, bytes: Bytes, now: i64) -> Result<(), Refusal> {
        let (upload, more) = (&held.upload, bytes.len() as u64);
        let after = upload.taken.load(Ordering::Acquire).saturating_add(more);
        self.check_length(upload, after)?;
        let blob = held.blob.as_mut().ok_or_else(Refusal::not_found)?;
        upload.taken.store(after, Ordering::Release);
        upload.touch(now);
        Ok(blob.write(bytes).await?)
    }

    /// Refuses what an upload that becomes this long is too long for.
    pub(crate) fn check_length(&self, upload: &Upload, length: u64) -> Result<(), Refusal> {
        let most = upload.note.size.unwrap_or(self.limits.max_blob_bytes);
        if length > most {
            return Err(Refusal::too_large("the upload is", most));
        }
        if upload.note.size.is_none() {
            let others = claimed(&self.lock(), &upload.note.place.agent, Some(&upload.id));
            if others.saturating_add(length) > self.limits.max_upload_bytes {
                return Err(quota("the uploads of this agent are too large together"));
            }
        }
        Ok(())
    }

    /// How far it is.
    pub(crate) fn progress(&self, upload: &Upload, offset: u64) -> UploadProgress {
        UploadProgress {
            upload: upload.id,
            offset,
            size: upload.note.size,
            max_bytes: self.limits.max_blob_bytes,
            expires_at: upload.touched.load(Ordering::Acquire).saturating_add(self.ttl_ms()),
        }
    }

    fn ttl_ms(&self) -> i64 {
        i64::try_from(self.limits.upload_ttl.as_millis()).unwrap_or(i64::MAX)
    }

    async fn forget_ended(&self, now: i64) {
        let ended: Vec<_> = self
            .lock()
            .values()
            .filter(|upload| upload.has_ended(self.ttl_ms(), now))
            .cloned()
            .collect();
        for upload in ended {
            if let Err(error) = self.remove(&upload).await {
                tracing::warn!(?error, "an upload that has ended cannot be removed");
            }
        }
    }

    /// Which upload has to go before another one begins, if any: of the agent, or of anybody where all have too many.
    fn one_too_many(&self, all: &All, note: &Note, now: i64) -> Result<Option<Arc<Upload>>, Refusal> {
        let agent = &note.place.agent;
        let of_agent = |upload: &&Arc<Upload>| upload.note.place.agent == *agent;
        let count = all.values().filter(of_agent).count();
        let bytes = claimed(all, agent, None).saturating_add(note.size.unwrap_or(0));
        let is_agent_full = count >= self.limits.max_uploads || bytes > self.limits.max_upload_bytes;
        if !is_agent_full && all.len() < self.limits.max_uploads_of_all {
            return Ok(None);
        }
        let long_ago = now.saturating_sub(i64::try_from(ABANDONED.as_millis()).unwrap_or(i64::MAX));
        let abandoned = all
            .values()
            .filter(|upload| !is_agent_full || of_agent(upload))
            .filter(|upload| upload.touched.load(Ordering::Acquire) < long_ago)
            .min_by_key(|upload| upload.touched.load(Ordering::Acquire));
        match abandoned {
            Some(upload) => Ok(Some(Arc::clone(upload))),
            None if is_agent_full => Err(quota("this agent has as many uploads under way as it may have")),
            None => Err(quota("this hub has as many uploads under way as it may have")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    fn new(id: UploadId, note: Note, blob: Option<Box<dyn StagedBlob>>, taken: u64, touched: i64) -> Self {
        Self {
            id,
            note,
            taken: AtomicU64::new(taken),
            touched: AtomicI64::new(touched),
            holder: watch::Sender::new(0),
            blob: Arc::new(tokio::sync::Mutex::new(blob)),
        }
    }

    pub(crate) fn id(&self) -> UploadId {
        self.id
    }

    pub(crate) fn touch(&self, now: i64) {
        self.touched.fetch_max(now, Ordering::AcqRel);
    }

    fn has_ended(&self, ttl_ms: i64, now: i64) -> bool {
        self.touched.load(Ordering::Acquire).saturating_add(ttl_ms) <= now
    }

    /// Takes it out of whoever's hands it is in. A client whose connection broke comes back long before the hub notices
    /// that the old one is dead, so the newest request has it; and an offset that is told does not move afterwards. None
    /// when it is over.
    pub(crate) async fn hold(self: &Arc<Self>) -> Option<Held> {
        let mut number = 0;
        self.holder.send_modify(|holder| {
            *holder += 1;
            number = *holder;
        });
        let holder = self.holder.subscribe();
        let blob = Arc::clone(&self.blob).lock_owned().await;
        blob.is_some().then(|| Held {
            upload: Arc::clone(self),
            blob,
            holder,
            number,
        })
    }
}

impl Held {
    /// Ready when another request wants it.
    pub(crate) async fn wanted(&mut self) {
        let number = self.number;
        // The sender is in the upload, which is held.
        let _ = self.holder.wait_for(|holder| *holder != number).await;
    }

    /// Waits until what was taken is in its place, and says how many bytes there are.
    pub(crate) async fn settle(&mut self) -> Result<u64, Refusal> {
        let blob = self.blob.as_mut().ok_or_else(Refusal::not_found)?;
        let settled = blob.settle().await;
        let length = match settled {
            Ok(length) => length,
            // The next one tells how much was kept.
            Err(error) => {
                let length = blob.settle().await?;
                self.upload.taken.store(length, Ordering::Release);
                return Err(error.into());
            }
        };
        self.upload.taken.store(length, Ordering::Release);
        Ok(length)
    }

    /// Makes it durable as the blob of this id.
    pub(crate) async fn publish(&mut self, id: BundleId) -> Result<(), BlobError> {
        match &mut *self.blob {
            Some(blob) => blob.publish(id).await,
            None => Err(BlobError::Mismatch(id)),
        }
    }
}

/// The answer to bytes that do not follow those the hub has.
pub(crate) fn wrong_offset(offset: u64) -> Refusal {
    let mut problem = Problem::new(
        ErrorCode::UploadOffset,
        format!("the hub has {offset} bytes of this upload"),
    );
    problem.offset = Some(offset);
    problem.into()
}

/// The upload that was begun like this.
fn same(all: &All, note: &Note) -> Option<Arc<Upload>> {
    note.key.as_ref()?;
    let is_same = |upload: &&Arc<Upload>| upload.note.place == note.place && upload.note.key == note.key;
    all.values().find(is_same).cloned()
}

/// Bytes that the agent's uploads have or have announced, one left out.
fn claimed(all: &All, agent: &AgentId, except: Option<&UploadId>) -> u64 {
    let of_agent = all.values().filter(|upload| upload.note.place.agent == *agent);
    of_agent
        .filter(|upload| Some(&upload.id) != except)
        .map(|upload| upload.note.size.unwrap_or_else(|| upload.taken.load(Ordering::Acquire)))
        .fold(0, u64::saturating_add)
}

fn quota(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::RateLimited, detail).retry_after(RETRY_AFTER)
}

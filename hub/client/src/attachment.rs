//! A blob on its way into a room with the message that brings it. Small ones travel in the message's own request; a large
//! one is uploaded before, so that a cut connection costs the bytes that were in flight and no more.

use std::cell::Cell;

use http::{HeaderName, Method};
use parler_protocol::api::{BeginUpload, Posted, UploadProgress};
use parler_protocol::{ErrorCode, Fence, MessageId, RoomName, Signed, UploadId, paths};

use crate::patience::Patience;
use crate::request::{Request, RequestBody};
use crate::{BlobSource, Client, ClientError};

/// Up to this size a blob travels with its message: sending it all again costs seconds at worst, and two requests more
/// would cost every push a round trip each. Also what a client keeps in memory of a bundle.
pub const ONE_REQUEST_BYTES: u64 = 8 << 20; // 8 MiB
/// Bytes of one request of an upload. A proxy that hands a request on only when it has all of it loses this much at most.
const PART_BYTES: u64 = 64 << 20; // 64 MiB
/// How often an upload is begun anew: once where a power failure at the hub spoiled it, once where it was forgotten.
const BEGINNINGS: u32 = 3;

/// A blob for one room, posted with as many messages as it takes until one is stored.
pub struct Attachment<'a> {
    client: &'a Client,
    room: &'a RoomName,
    source: &'a dyn BlobSource,
    /// Where it is, whole or not.
    upload: Cell<Option<UploadId>>,
    /// The claim of the job that its message speaks of.
    fence: Option<Fence>,
}

impl Client {
    /// A blob to post in this room. Nothing is sent yet.
    pub fn attachment<'a>(&'a self, room: &'a RoomName, source: &'a dyn BlobSource) -> Attachment<'a> {
        Attachment {
            client: self,
            room,
            source,
            upload: Cell::new(None),
            fence: None,
        }
    }
}

impl Attachment<'_> {
    /// The same, for a message that says what becomes of a job.
    #[must_use]
    pub fn with_fence(mut self, fence: impl Into<Option<Fence>>) -> Self {
        self.fence = fence.into();
        self
    }

    /// Posts a message that brings the blob. Where the hub refuses the message, what was uploaded is kept for the next
    /// one.
    ///
    /// # Errors
    /// As [`Client::post`], and [`ClientError::Stopped`] when an upload came to a stop.
    pub fn post(&self, message: &Signed, key: Option<&str>) -> Result<Posted, ClientError> {
        self.client.check_history(self.room)?;
        let body = message.body.clone().into();
        if self.source.size() <= ONE_REQUEST_BYTES {
            let body = RequestBody::WithBlob(body, self.source);
            return self.client.post_request(self.room, key, body, None, self.fence);
        }
        let mut beginnings = 1;
        loop {
            let upload = self.uploaded()?;
            let body = RequestBody::Json(body.clone());
            let posted = self.client.post_request(self.room, key, body, Some(upload), self.fence);
            match posted {
                Err(ClientError::Problem(problem))
                    if matches!(problem.code, ErrorCode::UnknownUpload | ErrorCode::BlobMismatch)
                        && beginnings < BEGINNINGS =>
                {
                    self.upload.set(None);
                    beginnings += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Tells the hub that no message will bring the blob. What is not told is forgotten after a day.
    pub fn abandon(self) {
        if let Some(upload) = self.upload.take() {
            let request = Request {
                method: Method::DELETE,
                ..Request::get(paths::upload(self.room, &upload))
            };
            // It is the hub's space, and the hub looks after it.
            let _ = self.client.attempt_once(&request);
        }
    }

    /// Uploads what the hub does not have yet.
    fn uploaded(&self) -> Result<UploadId, ClientError> {
        let size = self.source.size();
        let mut patience = Patience::new(self.client.deadlines());
        for _ in 0..BEGINNINGS {
            let progress = match self.upload.get() {
                Some(upload) => self.ask(&upload)?,
                None => Some(self.begin()?),
            };
            let Some(progress) = progress else {
                self.upload.set(None);
                continue;
            };
            self.upload.set(Some(progress.upload));
            if self.send(&progress, &mut patience)? {
                return Ok(progress.upload);
            }
            self.upload.set(None);
        }
        Err(self.stopped(0, size, self.client.not_a_hub("it forgets uploads")))
    }

    /// Sends what is missing. False when the hub does not know the upload any more.
    fn send(&self, begun: &UploadProgress, patience: &mut Patience) -> Result<bool, ClientError> {
        let size = self.source.size();
        let mut offset = begun.offset;
        // Where the hub is, is asked for after each failure.
        let mut is_known = true;
        while !is_known || offset < size {
            let tried = if is_known {
                self.append(&begun.upload, offset)
            } else {
                self.client
                    .call_once(&Request::get(paths::upload(self.room, &begun.upload)))
            };
            match tried {
                Ok(progress) => {
                    if progress.offset > size {
                        return Err(self.client.not_a_hub("more bytes of an upload than were sent"));
                    }
                    if progress.offset > offset {
                        patience.progressed();
                    }
                    offset = progress.offset;
                    is_known = true;
                }
                Err(ClientError::Problem(problem)) if problem.code == ErrorCode::NotFound => return Ok(false),
                Err(failure) => {
                    let told = match &failure {
                        ClientError::Problem(problem) => problem.offset.filter(|told| *told <= size),
                        _ => None,
                    };
                    patience
                        .pause(self.client, failure)
                        .map_err(|failure| self.stopped(offset, size, failure))?;
                    is_known = told.is_some();
                    if told.is_some_and(|told| told > offset) {
                        patience.progressed();
                    }
                    offset = told.unwrap_or(offset);
                }
            }
        }
        Ok(true)
    }

    fn begin(&self) -> Result<UploadProgress, ClientError> {
        let begin = BeginUpload {
            size: Some(self.source.size()),
        };
        let mut request = self.client.json(Method::POST, &paths::uploads(self.room), &begin)?;
        // By its id the same blob is found again, also by a program that is run after this one was ended.
        let key = match self.source.id() {
            Some(id) => format!("blob:{id}"),
            None => format!("upload:{}", MessageId::generate()),
        };
        let field = HeaderName::from_static(paths::IDEMPOTENCY_KEY_HEADER);
        request.headers.push((field, key));
        self.client.call(&request)
    }

    fn ask(&self, upload: &UploadId) -> Result<Option<UploadProgress>, ClientError> {
        match self.client.call(&Request::get(paths::upload(self.room, upload))) {
            Ok(progress) => Ok(Some(progress)),
            Err(ClientError::Problem(problem)) if problem.code == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append(&self, upload: &UploadId, offset: u64) -> Result<UploadProgress, ClientError> {
        let length = (self.source.size() - offset).min(PART_BYTES);
        let field = HeaderName::from_static(paths::UPLOAD_OFFSET_HEADER);
        self.client.call_once(&Request {
            method: Method::PATCH,
            headers: vec![(field, offset.to_string())],
            body: RequestBody::Part {
                source: self.source,
                offset,
                length,
            },
            ..Request::get(paths::upload(self.room, upload))
        })
    }

    /// What to say of an upload that failed for good. The hub's own words need no more.
    fn stopped(&self, done: u64, size: u64, failure: ClientError) -> ClientError {
        self.client.stopped("upload", done, size, failure)
    }
}

//! One request and its answer: sessions and deadlines.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, StatusCode};
use parler_protocol::api::{OpenSession, SessionOpened, WakePath};
use parler_protocol::{AccessToken, Challenge, HubId, InviteCode, Problem, paths, session_proof_bytes};
use reqwest::Response;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use crate::certificate;
use crate::pace::Pace;
use crate::patience::is_passing;
use crate::request::{Request, RequestBody};
use crate::revive::Reviving;
use crate::stop::Stop;
use crate::tls::tls_config;
use crate::upload_body::{Progress, upload};
use crate::witness::head_of;
use crate::{CachedSession, ClientError, ClientOptions, Deadlines, HubAddress, Identity, NoWitness, Witness, trace};

mod attempts;

/// A session that ends sooner than this is renewed before it is used.
const SESSION_MARGIN_MS: i64 = 60_000;
/// Largest problem answer that is read.
const MAX_PROBLEM_BYTES: usize = 4 << 20; // 4 MiB: it may list 10,000 refs
/// Largest answer that is held in memory as a whole.
const MAX_JSON_BYTES: usize = 256 << 20; // 256 MiB
/// How fast the slowest disk writes that a hub is waited for.
const SLOW_DISK_BYTES_PER_SECOND: u64 = 16 << 20; // 16 MiB/s
/// An idle connection is dropped sooner than the hub does it (10 s).
const POOL_IDLE: Duration = Duration::from_secs(5);

/// A hub, spoken to as one agent. Not for several threads at once: make one [beside](Client::beside) it for each.
pub struct Client {
    pub(crate) options: ClientOptions,
    runtime: Runtime,
    http: reqwest::Client,
    pub(crate) tls: rustls::ClientConfig,
    /// How many clients share the line with this one, and itself.
    pub(crate) on_the_line: Cell<u64>,
    /// Where somebody else may end what this client does.
    pub(crate) stop: Option<Arc<Stop>>,
    /// When all that this client does has to be over.
    until: Option<Instant>,
    /// What is told the hub of what wakes this agent.
    wake: Option<WakePath>,
    session: RefCell<Option<CachedSession>>,
    /// Which try of a call the next request belongs to.
    attempt: Cell<u32>,
    /// Whether the hub has answered a call.
    was_answered: Cell<bool>,
    /// Whether the last call may have been done by a request whose answer did not come.
    pub(crate) may_have_arrived: Cell<bool>,
    /// The largest blob that the hub takes, once it has said so.
    blob_limit: Cell<Option<u64>>,
    pub(crate) reviving: Reviving,
    pub(crate) witness: Arc<dyn Witness>,
}

impl Client {
    /// A client of this hub. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when the system gives no event queue, or no trust roots for an https hub.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let tls = tls_config(&options.address)?;
        Self::with_tls(options, tls)
    }

    pub(crate) fn with_tls(options: ClientOptions, tls: rustls::ClientConfig) -> Result<Self, ClientError> {
        let setup = |error: &dyn std::fmt::Display| ClientError::Setup(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| setup(&error))?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .user_agent(concat!("parler/", env!("CARGO_PKG_VERSION")))
            // A hub never sends its clients elsewhere; following would carry the token along.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(options.deadlines.connect)
            .pool_idle_timeout(POOL_IDLE);
        if options.address.is_loopback() {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| setup(&error))?;
        let session = RefCell::new(match &options.token {
            // As good as a session, and for as long as the hub says.
            Some(token) => Some(CachedSession {
                token: token.expose().to_owned(),
                expires_at: i64::MAX,
                hub: token.hub(),
            }),
            None => options.sessions.load(),
        });
        Ok(Self {
            reviving: Reviving::none(options.secret.clone()),
            options,
            runtime,
            http,
            tls,
            stop: None,
            until: None,
            wake: None,
            session,
            attempt: Cell::new(1),
            was_answered: Cell::new(false),
            may_have_arrived: Cell::new(false),
            on_the_line: Cell::new(1),
            blob_limit: Cell::new(None),
            witness: Arc::new(NoWitness),
        })
    }

    /// The same client, which sends nothing again: its caller has a way of its own to come back.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.options.deadlines.retry = Duration::ZERO;
        self.options.deadlines.transfer = Duration::ZERO;
        self
    }

    /// The same client, all of whose calls together are given up at this moment: connecting, proving the key, sending
    /// again and reading answers with them. For somebody who must not be kept waiting.
    #[must_use]
    pub fn until(mut self, moment: Instant) -> Self {
        self.until = Some(moment);
        self
    }

    /// The same client, which says to the hub that it speaks for a hook of a coding agent, and what that does with what
    /// comes: those who look at whom a message has reached are told.
    #[must_use]
    pub fn waking(mut self, wake: WakePath) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Ends without waiting for what was given up: the system's look for a name cannot be stopped.
    pub fn leave(self) {
        self.runtime.shutdown_background();
    }

    /// Who this client speaks as.
    pub fn identity(&self) -> &Identity {
        &self.options.identity
    }

    /// The token by which this client speaks, where it is no agent.
    pub fn token(&self) -> Option<&AccessToken> {
        self.options.token.as_ref()
    }

    /// The hub's address.
    pub fn address(&self) -> &HubAddress {
        &self.options.address
    }

    /// The size of the largest blob that the hub takes, in bytes, as far as it has said. Its answers to
    /// [`Client::pushes`] say it, one that there is no such room too, and those to [`Client::room`] and
    /// [`Client::messages`].
    pub fn blob_limit(&self) -> Option<u64> {
        self.blob_limit.get()
    }

    /// The hub's id: known from the session, or one is opened.
    ///
    /// # Errors
    /// As every call.
    pub fn hub_id(&self) -> Result<HubId, ClientError> {
        self.wait_for(self.retrying(async || Ok(self.session().await?.hub)))
    }

    /// Opens a new session, which also tells the hub a new name or role.
    ///
    /// # Errors
    /// `not_admitted` for a key the hub does not know, and as every call.
    pub fn open_session(&self) -> Result<CachedSession, ClientError> {
        self.wait_for(self.retrying(async || Ok(self.prove(None, None).await?.0)))
    }

    /// Opens a session that redeems an invite on the way.
    pub(crate) fn open_session_with(&self, invite: &InviteCode) -> Result<SessionOpened, ClientError> {
        self.wait_for(self.prove(None, Some(invite.clone())))
            .map(|(_, opened)| opened)
    }

    /// Does this work to its end, or until somebody says stop.
    fn wait_for<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        if self.stop.is_none() && self.until.is_none() {
            return self.runtime.block_on(work);
        }
        let stopped = async {
            match &self.stop {
                Some(stop) => stop.said().await,
                None => std::future::pending().await,
            }
        };
        let over = async {
            match self.until {
                Some(moment) => tokio::time::sleep_until(moment.into()).await,
                None => std::future::pending().await,
            }
        };
        let begun = Instant::now();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = stopped => Err(ClientError::ToldToStop),
                () = over => Err(self.deadline(begun.elapsed())),
                done = work => done,
            }
        })
    }

    /// The session at hand, good or not.
    pub(crate) fn kept_session(&self) -> Option<CachedSession> {
        self.session.borrow().clone()
    }

    /// Whether a session is at hand.
    pub(crate) fn has_session(&self) -> bool {
        self.session.borrow().as_ref().is_some_and(is_fresh)
    }

    /// Sends a request and reads the whole answer as JSON.
    pub(crate) fn call<T: DeserializeOwned>(&self, request: &Request<'_>) -> Result<T, ClientError> {
        let (_, body) = self.exchange(request)?;
        self.read_json(&body)
    }

    /// Sends a request and reads the whole answer; an answer of 304 has an empty body.
    pub(crate) fn exchange(&self, request: &Request<'_>) -> Result<(http::response::Parts, Bytes), ClientError> {
        self.wait_for(self.ask(request, async |response| {
            let (parts, body) = split(response);
            Ok((parts, self.read_body(body, MAX_JSON_BYTES).await?))
        }))
    }

    /// Sends a request that needs no session, once, and reads the whole answer.
    pub(crate) fn exchange_openly(&self, request: &Request<'_>) -> Result<(http::response::Parts, Bytes), ClientError> {
        self.wait_for(async {
            let (parts, body) = split(self.send(request, None).await?);
            Ok((parts, self.read_body(body, MAX_PROBLEM_BYTES).await?))
        })
    }

    /// Sends a request and gives its answer before the body is read.
    pub(crate) fn open(&self, request: &Request<'_>) -> Result<Response, ClientError> {
        self.wait_for(self.ask(request, async |response| Ok(response)))
    }

    /// How long a stream may be silent.
    pub(crate) fn silence(&self) -> Duration {
        self.options.deadlines.silence
    }

    /// Sends a request once and reads the whole answer as JSON: for those that come back in another way.
    pub(crate) fn call_once<T: DeserializeOwned>(&self, request: &Request<'_>) -> Result<T, ClientError> {
        let body = self.wait_for(async {
            let response = self.attempt(request, &Cell::new(false)).await?;
            self.read_body(split(response).1, MAX_JSON_BYTES).await
        })?;
        self.read_json(&body)
    }

    /// Sends a request once and gives its answer before the body is read.
    pub(crate) fn attempt_once(&self, request: &Request<'_>) -> Result<Response, ClientError> {
        self.wait_for(self.attempt(request, &Cell::new(false)))
    }

    /// Waits between two tries.
    pub(crate) fn rest(&self, pause: Duration) {
        // One who is told to stop hears of it with the next call.
        let _ = self.wait_for(async {
            tokio::time::sleep(pause).await;
            Ok(())
        });
    }

    /// How long this client waits.
    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.options.deadlines
    }

    /// What to say of a transfer that ended with this failure. What the hub says itself is left as it is.
    pub(crate) fn stopped(&self, what: &'static str, done: u64, size: u64, failure: ClientError) -> ClientError {
        if !is_passing(&failure) {
            return failure;
        }
        ClientError::Stopped {
            address: self.options.address.to_string(),
            what,
            done,
            size,
            reason: failure.to_string(),
        }
    }

    /// The next piece of an answer that was [opened](Self::open).
    pub(crate) fn next_piece(&self, response: &mut Response) -> Result<Option<Bytes>, ClientError> {
        self.next_piece_within(response, self.options.deadlines.stall)
    }

    /// The next piece of an answer in which silence has another meaning.
    pub(crate) fn next_piece_within(
        &self,
        response: &mut Response,
        deadline: Duration,
    ) -> Result<Option<Bytes>, ClientError> {
        self.wait_for(self.within(deadline, response.chunk()))
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| self.not_a_hub(error.to_string()))
    }

    pub(crate) fn not_a_hub(&self, reason: impl Into<String>) -> ClientError {
        ClientError::NotAHub {
            address: self.options.address.to_string(),
            reason: reason.into(),
        }
    }

    pub(crate) fn too_slow(&self, bytes: u64, seconds: u64) -> ClientError {
        ClientError::TooSlow {
            address: self.options.address.to_string(),
            bytes,
            seconds,
        }
    }

    pub(crate) fn lost(&self, reason: impl Into<String>) -> ClientError {
        ClientError::Lost {
            address: self.options.address.to_string(),
            reason: reason.into(),
        }
    }

    /// The session at hand, or a new one.
    async fn session(&self) -> Result<CachedSession, ClientError> {
        let kept = self.session.borrow().clone().filter(is_fresh);
        match kept {
            Some(session) => Ok(session),
            None => self.prove(None, None).await.map(|(session, _)| session),
        }
    }

    /// Proves the key: answers `challenge`, or asks for one first.
    async fn prove(
        &self,
        challenge: Option<Challenge>,
        invite: Option<InviteCode>,
    ) -> Result<(CachedSession, SessionOpened), ClientError> {
        if self.options.token.is_some() {
            return Err(ClientError::Setup("a token opens no session".to_owned()));
        }
        let identity = &self.options.identity;
        let mut ask = OpenSession {
            id: identity.key.id(),
            name: identity.name.clone(),
            role: identity.role.clone(),
            challenge: None,
            sig: None,
            secret: None,
            invite: None,
        };
        let challenge = match challenge {
            Some(challenge) => challenge,
            None => match self.send_session(&ask).await {
                Err(ClientError::Problem(Problem {
                    challenge: Some(challenge),
                    ..
                })) => challenge,
                Err(error) => return Err(error),
                Ok(_) => return Err(self.not_a_hub("a session without proof")),
            },
        };
        let proof = session_proof_bytes(&challenge, &self.options.address.authority());
        ask.sig = Some(BASE64.encode(&identity.key.sign(&proof)));
        ask.challenge = Some(challenge);
        ask.secret = self.reviving.secret();
        ask.invite = invite;
        let opened = self.send_session(&ask).await?;
        let session = CachedSession {
            token: opened.token.clone(),
            expires_at: opened.expires_at,
            hub: opened.hub,
        };
        self.options.sessions.store(&session);
        self.session.replace(Some(session.clone()));
        Ok((session, opened))
    }

    async fn send_session(&self, ask: &OpenSession) -> Result<SessionOpened, ClientError> {
        let body = serde_json::to_vec(ask).map_err(|error| ClientError::Setup(error.to_string()))?;
        let response = self
            .send(&Request::json(Method::POST, paths::SESSION, body), None)
            .await?;
        let body = self.read_body(split(response).1, MAX_PROBLEM_BYTES).await?;
        self.read_json(&body)
    }

    /// Sends a request once. An answer of 400 and above is an error.
    async fn send(&self, request: &Request<'_>, session: Option<&CachedSession>) -> Result<Response, ClientError> {
        let began = Instant::now();
        let answer = self.exchange_once(request, session).await;
        trace::request(request, &answer, began.elapsed(), self.attempt.get());
        answer
    }

    async fn exchange_once(
        &self,
        request: &Request<'_>,
        session: Option<&CachedSession>,
    ) -> Result<Response, ClientError> {
        let place = session.and_then(|session| Some((&session.hub, paths::room_of(&request.path)?)));
        let asked = place.as_ref().map(|(hub, room)| self.witness.asking(hub, Some(room)));
        let mut builder = self
            .http
            .request(request.method.clone(), self.options.address.join(&request.path));
        if !request.headers.iter().any(|(name, _)| name == ACCEPT) {
            builder = builder.header(ACCEPT, "application/json");
        }
        if let Some(session) = session {
            builder = builder.header(AUTHORIZATION, format!("Bearer {}", session.token));
        }
        if self.options.token.is_some() {
            // The hub does not know a job's key.
            builder = builder.header(paths::AGENT_HEADER, self.options.identity.key.id().to_string());
        }
        if let Some(wake) = self.wake.filter(|_| session.is_some()) {
            builder = builder.header(paths::WAKE_HEADER, wake.as_str());
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let progress = Progress::default();
        builder = match &request.body {
            RequestBody::Empty => builder,
            RequestBody::Json(json) => builder.header(CONTENT_TYPE, "application/json").body(json.clone()),
            RequestBody::WithBlob(message, blob) => builder
                .header(CONTENT_TYPE, paths::MESSAGE_WITH_BLOB_TYPE)
                .header(paths::MESSAGE_LENGTH_HEADER, message.len())
                .header(CONTENT_LENGTH, message.len() as u64 + blob.size())
                .body(upload(
                    Some(message.clone()),
                    blob.open().map_err(ClientError::Source)?,
                    progress.clone(),
                )),
            RequestBody::Part { source, offset, length } => {
                let reader = source.open_at(*offset).map_err(ClientError::Source)?;
                builder
                    .header(CONTENT_TYPE, paths::PARTIAL_UPLOAD_TYPE)
                    .header(CONTENT_LENGTH, *length)
                    .body(upload(None, Box::new(reader.take(*length)), progress.clone()))
            }
        };
        let blob_bytes = match &request.body {
            RequestBody::WithBlob(_, blob) => blob.size(),
            RequestBody::Part { length, .. } => *length,
            RequestBody::Empty | RequestBody::Json(_) => 0,
        };
        // The hub answers when the blob is on its disk, and only then.
        let sync = Duration::from_secs(blob_bytes / SLOW_DISK_BYTES_PER_SECOND);
        let stall = self.options.deadlines.stall + request.patience + sync;
        let response = tokio::select! {
            answer = builder.send() => answer.map_err(|error| self.transport_error(&error))?,
            () = progress.stalled(stall) => return Err(self.deadline(stall)),
        };
        if let (Some((hub, room)), Some(asked), Some(head)) = (&place, &asked, head_of(response.headers())) {
            self.witness.told(hub, room, &head, asked);
        }
        let limit = response.headers().get(paths::BLOB_LIMIT_HEADER);
        if let Some(limit) = limit.and_then(|limit| limit.to_str().ok()?.parse().ok()) {
            self.blob_limit.set(Some(limit));
        }
        if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let status = response.status();
        let body = self.read_body(split(response).1, MAX_PROBLEM_BYTES).await?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(problem.into()),
            Err(_) => Err(self.not_a_hub(format!("HTTP status {status} without a problem document"))),
        }
    }

    async fn read_body(&self, mut response: Response, limit: usize) -> Result<Bytes, ClientError> {
        let mut body = Vec::new();
        let deadlines = &self.options.deadlines;
        let (begun, mut pace) = (Instant::now(), Pace::new());
        let mut asked = begun;
        while let Some(piece) = self.within(deadlines.stall, response.chunk()).await? {
            pace.came(self, piece.len(), asked.elapsed())?;
            asked = Instant::now();
            if begun.elapsed() > deadlines.answer {
                return Err(self.too_slow(body.len() as u64, deadlines.answer.as_secs()));
            }
            if body.len() + piece.len() > limit {
                return Err(self.not_a_hub(format!("an answer of more than {limit} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.into())
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(deadline, work).await {
            Ok(answer) => answer.map_err(|error| self.transport_error(&error)),
            Err(_) => Err(self.deadline(deadline)),
        }
    }

    fn deadline(&self, waited: Duration) -> ClientError {
        ClientError::Deadline {
            address: self.options.address.to_string(),
            seconds: waited.as_secs(),
        }
    }

    fn transport_error(&self, error: &reqwest::Error) -> ClientError {
        let address = self.options.address.to_string();
        if let Some(reason) = certificate::distrust(error) {
            return ClientError::Untrusted { address, reason };
        }
        if let Some(reason) = certificate::other_scheme(error) {
            return self.not_a_hub(reason);
        }
        let reason = innermost(error);
        if error.is_connect() {
            ClientError::Unreachable { address, reason }
        } else {
            ClientError::Lost { address, reason }
        }
    }
}

/// A session that will still be good when the request arrives.
fn is_fresh(session: &CachedSession) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    i64::try_from(now).is_ok_and(|now| session.expires_at > now + SESSION_MARGIN_MS)
}

/// The last cause of an error: the one the system gave.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn split(response: Response) -> (http::response::Parts, Response) {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = response.status();
    parts.headers = response.headers().clone();
    (parts, response)
}

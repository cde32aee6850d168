//! The calls of a hub, one method each.

use std::time::Duration;

use http::header::IF_NONE_MATCH;
use http::{HeaderName, Method, StatusCode};
use parler_protocol::api::{
    AgentList, ChangeMember, CreateInvite, CreateRoom, CreateToken, Cursor, ExchangeIdentity, InviteCreated,
    InviteList, InvitesRevoked, Join, Joined, MemberList, OpenDm, Page, Posted, Pushes, Receipts, RoomAnswer, RoomList,
    SetStatus, TokenCreated, TokenList, TokenSummary, WantedBundles,
};
use parler_protocol::limits::{MAX_BUNDLES_PER_QUERY, MAX_WAIT};
use parler_protocol::{
    AgentId, BundleId, ErrorCode, Fence, Head, InviteCode, InviteId, RoomKind, RoomName, Seq, Signed, StatusText,
    TokenName, UploadId, paths,
};
use serde::Serialize;

use crate::request::{Request, RequestBody};
use crate::services::fence_field;
use crate::witness::head_of;
use crate::{BlobReader, BlobSource, BundleStream, Client, ClientError};

/// Which part of a log to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadFrom {
    /// After this message; where absent, after what I have acknowledged.
    pub after: Option<Seq>,
    /// At most this many; the hub's choice where absent. 0 asks for the head alone.
    pub limit: Option<u32>,
    /// How long to wait for a message when there is none.
    pub wait: Option<Duration>,
}

/// What is new among a room's pushes.
#[derive(Debug, Clone)]
pub enum PushesAnswer {
    /// Nothing since the version that the caller knows.
    NotModified {
        /// The log's head.
        head: Head,
    },
    /// These.
    Changed(Pushes),
}

impl Client {
    /// Redeems an invite, for a key that the hub knows or not.
    ///
    /// # Errors
    /// `invalid_invite`, `approval_refused`, and as every call.
    pub fn join(&self, code: &InviteCode) -> Result<Joined, ClientError> {
        if self.has_session() {
            let (parts, body) =
                self.exchange(&self.json(Method::POST, paths::JOIN, &Join { code: code.clone() })?)?;
            return match parts.status {
                StatusCode::ACCEPTED => self.read_json(&body).map(Joined::Waiting),
                _ => self.read_json(&body).map(Joined::In),
            };
        }
        let opened = self.open_session_with(code)?;
        match (opened.joined, opened.waiting) {
            (Some(room), _) => Ok(Joined::In(room)),
            (None, Some(waiting)) => Ok(Joined::Waiting(waiting)),
            (None, None) => Err(self.not_a_hub("an invite that leads into no room")),
        }
    }

    /// Makes an invite, and the channel it leads into where there is none of that name.
    ///
    /// # Errors
    /// `not_found` for a room that is somebody else's, and as every call.
    pub fn create_invite(&self, invite: &CreateInvite) -> Result<InviteCreated, ClientError> {
        self.call(&self.json(Method::POST, paths::INVITES, invite)?)
    }

    /// Makes a room.
    ///
    /// # Errors
    /// `room_exists`, and as every call.
    pub fn create_room(&self, room: &RoomName, kind: RoomKind) -> Result<RoomAnswer, ClientError> {
        self.call(&self.json(
            Method::POST,
            paths::ROOMS,
            &CreateRoom {
                room: room.clone(),
                kind,
            },
        )?)
    }

    /// The rooms I am in.
    ///
    /// # Errors
    /// As every call.
    pub fn rooms(&self) -> Result<RoomList, ClientError> {
        let hub = self.hub_id()?;
        let asked = self.witness().asking(&hub, None);
        let list: RoomList = self.call(&Request::get(paths::ROOMS.to_owned()))?;
        // A session that was renewed on the way may be another hub's.
        if self.hub_id()? == hub {
            for found in &list.rooms {
                self.witness().told(&hub, &found.room, &found.head, &asked);
            }
        }
        Ok(list)
    }

    /// The agents I can write to.
    ///
    /// # Errors
    /// As every call.
    pub fn agents(&self) -> Result<AgentList, ClientError> {
        self.call(&Request::get(paths::AGENTS.to_owned()))
    }

    /// Opens the direct room of me and another agent, which is made once. It has the name that both of us know
    /// ([`RoomName::direct`]).
    ///
    /// # Errors
    /// `not_found` for an agent that is not known, not within reach, or has left it; and as every call.
    pub fn open_dm(&self, agent: &AgentId) -> Result<RoomAnswer, ClientError> {
        let opened: RoomAnswer = self.call(&self.json(Method::POST, paths::DMS, &OpenDm { agent: *agent })?)?;
        match opened.room == RoomName::direct(&self.identity().key.id(), agent) {
            true => Ok(opened),
            // What is meant for one agent would reach another.
            false => Err(self.not_a_hub("the direct room of other agents")),
        }
    }

    /// A room: how far it reaches.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn room(&self, room: &RoomName) -> Result<RoomAnswer, ClientError> {
        self.call(&Request::get(paths::room(room)))
    }

    /// Says what I am at, or nothing any more.
    ///
    /// # Errors
    /// As every call.
    pub fn set_status(&self, status: Option<StatusText>) -> Result<SetStatus, ClientError> {
        self.call(&self.json(Method::PUT, paths::STATUS, &SetStatus { status })?)
    }

    /// Makes a token. The answer holds a secret that is told only once.
    ///
    /// # Errors
    /// `not_found` for a room I am not in, `token_exists`, and as every call.
    pub fn create_token(&self, token: &CreateToken) -> Result<TokenCreated, ClientError> {
        self.call(&self.json(Method::POST, paths::TOKENS, token)?)
    }

    /// Exchanges an identity token of a CI job for a token. Asked once: the hub takes each identity token once. Opens no
    /// session. The answer holds a secret that is told only once.
    ///
    /// # Errors
    /// `oidc_refused`, and as every call.
    pub fn exchange_identity(&self, identity: &ExchangeIdentity) -> Result<TokenCreated, ClientError> {
        let (_, body) = self.exchange_openly(&self.json(Method::POST, paths::OIDC, identity)?)?;
        self.read_json(&body)
    }

    /// The tokens I made, and those for rooms that I own.
    ///
    /// # Errors
    /// As every call.
    pub fn tokens(&self) -> Result<TokenList, ClientError> {
        self.call(&Request::get(paths::TOKENS.to_owned()))
    }

    /// Ends a token.
    ///
    /// # Errors
    /// `not_found` for one that is neither mine nor for a room that I own, and as every call.
    pub fn revoke_token(&self, name: &TokenName) -> Result<TokenSummary, ClientError> {
        self.call(&Request {
            method: Method::DELETE,
            ..Request::get(paths::token(name))
        })
    }

    /// What the token by which this client speaks may do.
    ///
    /// # Errors
    /// `not_found` where it speaks by none, and as every call.
    pub fn describe_token(&self) -> Result<TokenSummary, ClientError> {
        self.call(&Request::get(paths::TOKEN.to_owned()))
    }

    /// A room's members.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn members(&self, room: &RoomName) -> Result<MemberList, ClientError> {
        self.call(&Request::get(paths::members(room)))
    }

    /// Leaves a room, or removes another member from one that I own.
    ///
    /// # Errors
    /// `not_found`, `not_owner`, `last_owner`, and as every call.
    pub fn end_membership(&self, room: &RoomName, agent: &AgentId) -> Result<(), ClientError> {
        self.end(paths::member(room, agent))
    }

    /// Makes a member an owner of a room that I own, or no longer one.
    ///
    /// # Errors
    /// `not_found`, `not_owner`, `last_owner`, and as every call.
    pub fn set_owner(&self, room: &RoomName, agent: &AgentId, owner: bool) -> Result<ChangeMember, ClientError> {
        self.call(&self.json(Method::PUT, &paths::member(room, agent), &ChangeMember { owner })?)
    }

    /// Lets an agent into a room that I own, which asked for it.
    ///
    /// # Errors
    /// `not_found`, `not_owner`, and as every call.
    pub fn admit(&self, room: &RoomName, agent: &AgentId) -> Result<(), ClientError> {
        self.exchange(&Request {
            method: Method::PUT,
            ..Request::get(paths::request(room, agent))
        })
        .map(drop)
    }

    /// Refuses it.
    ///
    /// # Errors
    /// `not_found`, `not_owner`, and as every call.
    pub fn refuse(&self, room: &RoomName, agent: &AgentId) -> Result<(), ClientError> {
        self.end(paths::request(room, agent))
    }

    /// Deletes a room that I own, with all it holds.
    ///
    /// # Errors
    /// `not_found`, `not_owner`, and as every call.
    pub fn delete_room(&self, room: &RoomName) -> Result<(), ClientError> {
        self.end(paths::room(room))
    }

    /// Ends something. That there is nothing there any more is what was wanted, where a request before may have done it.
    fn end(&self, path: String) -> Result<(), ClientError> {
        let ended = self.exchange(&Request {
            method: Method::DELETE,
            ..Request::get(path)
        });
        match ended {
            Err(ClientError::Problem(problem))
                if problem.code == ErrorCode::NotFound && self.may_have_arrived.get() =>
            {
                Ok(())
            }
            ended => ended.map(drop),
        }
    }

    /// The invites of a room that are open: all of them for an owner, for others those they made.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn invites(&self, room: &RoomName) -> Result<InviteList, ClientError> {
        self.call(&Request::get(paths::room_invites(room)))
    }

    /// Ends one of these invites, or all of them.
    ///
    /// # Errors
    /// `not_found`, `invalid_invite`, and as every call.
    pub fn revoke_invites(&self, room: &RoomName, id: Option<&InviteId>) -> Result<InvitesRevoked, ClientError> {
        let path = match id {
            Some(id) => paths::room_invite(room, id),
            None => paths::room_invites(room),
        };
        self.call(&Request {
            method: Method::DELETE,
            ..Request::get(path)
        })
    }

    /// A page of a room's log.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn messages(&self, room: &RoomName, from: &ReadFrom) -> Result<Page, ClientError> {
        let wait = from.wait.unwrap_or_default().min(MAX_WAIT);
        let mut query = Vec::new();
        if let Some(after) = from.after {
            query.push(format!("after={after}"));
        }
        if let Some(limit) = from.limit {
            query.push(format!("limit={limit}"));
        }
        if !wait.is_zero() {
            query.push(format!("wait={}", wait.as_secs().max(1)));
        }
        let mut path = paths::messages(room);
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let mut request = Request {
            patience: wait,
            ..Request::get(path)
        };
        request
            .headers
            .push((HeaderName::from_static(paths::NOTES_HEADER), "1".to_owned()));
        self.call(&request)
    }

    /// What the hub knows of a message and its readers. With `since`, a version already had, waits for at most `wait`, or 55
    /// seconds, until something has changed.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn receipts(
        &self,
        room: &RoomName,
        seq: Seq,
        since: Option<&str>,
        wait: Duration,
    ) -> Result<Receipts, ClientError> {
        let wait = wait.min(MAX_WAIT);
        let mut path = paths::receipts(room, seq);
        // A version of a hub is hexadecimal; what else one may say is not for a URL.
        let since = since.filter(|since| since.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if let Some(since) = since.filter(|_| !wait.is_zero()) {
            path = format!("{path}?since={since}&wait={}", wait.as_secs().max(1));
        }
        self.call(&Request {
            patience: wait,
            ..Request::get(path)
        })
    }

    /// Moves my cursor forward.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn acknowledge(&self, room: &RoomName, seq: Seq) -> Result<Cursor, ClientError> {
        self.call(&self.json(Method::PUT, &paths::cursor(room), &Cursor { cursor: seq })?)
    }

    /// Appends a signed message, with the blob it brings. Sent again after a lost answer: the message's id, or `key`
    /// instead of it, makes that safe.
    ///
    /// # Errors
    /// [`ClientError::InDoubt`] where the witness objects: nothing was sent then. `ref_moved`,
    /// `ref_directory_conflict`, `idempotency_conflict` and others of the hub;
    /// [`ClientError::OutcomeUnknown`] when it is not known whether the message is stored.
    pub fn post(
        &self,
        room: &RoomName,
        message: &Signed,
        key: Option<&str>,
        blob: Option<&dyn BlobSource>,
    ) -> Result<Posted, ClientError> {
        self.post_with_fence(room, None, message, key, blob)
    }

    /// Sends a message, whose blob travels with it or has been uploaded.
    pub(crate) fn post_request(
        &self,
        room: &RoomName,
        key: Option<&str>,
        body: RequestBody<'_>,
        upload: Option<UploadId>,
        fence: Option<Fence>,
    ) -> Result<Posted, ClientError> {
        let key = key.map(|key| (paths::IDEMPOTENCY_KEY_HEADER, key.to_owned()));
        let upload = upload.map(|upload| (paths::UPLOAD_HEADER, upload.to_string()));
        let fields = key.into_iter().chain(upload);
        self.call(&Request {
            method: Method::POST,
            stores: true,
            body,
            headers: fields
                .map(|(name, value)| (HeaderName::from_static(name), value))
                .chain(fence.map(fence_field))
                .collect(),
            ..Request::get(paths::messages(room))
        })
    }

    /// The messages that carry refs or bundles, after the version that the caller knows. `drops` and `remade` are what it
    /// was told with that.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn pushes(
        &self,
        room: &RoomName,
        known: Option<Seq>,
        drops: Option<&str>,
        remade: Option<i64>,
    ) -> Result<PushesAnswer, ClientError> {
        let mut request = Request::get(paths::pushes(room, known.unwrap_or_default()));
        if let Some(known) = known {
            let drops = drops.map(|drops| format!("-{drops}")).unwrap_or_default();
            let remade = remade.map(|at| format!("+{at}")).unwrap_or_default();
            request
                .headers
                .push((IF_NONE_MATCH, format!("\"{known}{drops}{remade}\"")));
        }
        let (parts, body) = self.exchange(&request)?;
        if parts.status != StatusCode::NOT_MODIFIED {
            return self.read_json(&body).map(PushesAnswer::Changed);
        }
        Ok(PushesAnswer::NotModified {
            head: head_of(&parts.headers).ok_or_else(|| self.not_a_hub("no head with a 304"))?,
        })
    }

    /// Several bundles of a room in one answer, in the order asked for: at most [`MAX_BUNDLES_PER_REQUEST`]. Where the
    /// connection is lost, the rest is asked for anew.
    ///
    /// # Errors
    /// `not_found` when one of them is not in the room, and as every call.
    ///
    /// [`MAX_BUNDLES_PER_REQUEST`]: parler_protocol::limits::MAX_BUNDLES_PER_REQUEST
    pub fn bundles(&self, room: &RoomName, ids: &[BundleId]) -> Result<BundleStream<'_>, ClientError> {
        let response = self.open(&self.bundles_request(room, ids)?)?;
        Ok(BundleStream::new(self, room, ids, response))
    }

    /// Asks for bundles in the way that takes so many of them.
    pub(crate) fn bundles_request(&self, room: &RoomName, ids: &[BundleId]) -> Result<Request<'static>, ClientError> {
        if ids.len() <= MAX_BUNDLES_PER_QUERY {
            return Ok(Request::get(paths::bundles(room, ids)));
        }
        let wanted = WantedBundles { ids: ids.to_vec() };
        self.json(Method::POST, &paths::many_bundles(room), &wanted)
    }

    /// One blob of a room. Where the connection is lost, it goes on from the byte it had reached.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn blob(&self, room: &RoomName, id: &BundleId) -> Result<BlobReader<'_>, ClientError> {
        let response = self.open(&Request::get(paths::blob(room, id)))?;
        BlobReader::new(self, room, response, *id)
    }

    pub(crate) fn json(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Request<'static>, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Setup(error.to_string()))?;
        Ok(Request::json(method, path, body))
    }
}

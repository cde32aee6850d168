//! The hub's URL paths and header names, shared by router, client and documentation.

use crate::{AgentId, BundleId, Fence, InviteId, RoomName, Seq, ServiceName, TokenName, UploadId};

/// Liveness: 200 while the hub serves.
pub const HEALTH: &str = "/healthz";
/// Opens a session.
pub const SESSION: &str = "/v1/session";
/// Makes an invite.
pub const INVITES: &str = "/v1/invites";
/// Redeems an invite.
pub const JOIN: &str = "/v1/join";
/// Makes a room, lists mine.
pub const ROOMS: &str = "/v1/rooms";
/// The agents I can write to.
pub const AGENTS: &str = "/v1/agents";
/// Opens the direct room of two agents.
pub const DMS: &str = "/v1/dms";
/// What I say that I am at.
pub const STATUS: &str = "/v1/status";
/// Makes a token, lists tokens.
pub const TOKENS: &str = "/v1/tokens";
/// Exchanges an identity token of a CI job for a token.
pub const OIDC: &str = "/v1/oidc";
/// What the token that asks may do.
pub const TOKEN: &str = "/v1/token";
/// Serves a service.
pub const SERVICES: &str = "/v1/services";
/// The OpenAPI document of all this.
pub const OPENAPI: &str = "/v1/openapi.json";
/// Hints about all my rooms, as they change.
pub const EVENTS: &str = "/v1/events";

/// Route templates of the calls on one room, as the router has them.
pub mod template {
    /// One token: revoked.
    pub const TOKEN_NAMED: &str = "/v1/tokens/{name}";
    /// A room: how far it reaches.
    pub const ROOM: &str = "/v1/rooms/{room}";
    /// The members of a room.
    pub const MEMBERS: &str = "/v1/rooms/{room}/members";
    /// One member: made an owner, or no longer one of the room.
    pub const MEMBER: &str = "/v1/rooms/{room}/members/{agent}";
    /// One that asked to be let into a room: let in, or refused.
    pub const REQUEST: &str = "/v1/rooms/{room}/requests/{agent}";
    /// The invites of a room that are open: listed, or revoked all at once.
    pub const ROOM_INVITES: &str = "/v1/rooms/{room}/invites";
    /// One of them: revoked.
    pub const ROOM_INVITE: &str = "/v1/rooms/{room}/invites/{invite}";
    /// The log: read a page, append a message.
    pub const MESSAGES: &str = "/v1/rooms/{room}/messages";
    /// What became of one message.
    pub const RECEIPTS: &str = "/v1/rooms/{room}/messages/{seq}/receipts";
    /// The log as it grows.
    pub const STREAM: &str = "/v1/rooms/{room}/stream";
    /// What I have acknowledged.
    pub const CURSOR: &str = "/v1/rooms/{room}/cursor";
    /// The messages that carry refs or bundles.
    pub const PUSHES: &str = "/v1/rooms/{room}/pushes";
    /// The hub's own fold of the refs.
    pub const REFS: &str = "/v1/rooms/{room}/refs";
    /// One blob.
    pub const BLOB: &str = "/v1/rooms/{room}/blobs/{id}";
    /// Several bundles in one answer.
    pub const BUNDLES: &str = "/v1/rooms/{room}/bundles";
    /// A service's jobs that are claimed: claim one.
    pub const CLAIMS: &str = "/v1/services/{service}/claims";
    /// One of them: keep it, give it back.
    pub const CLAIM: &str = "/v1/services/{service}/claims/{seq}";
    /// A service's jobs.
    pub const JOBS: &str = "/v1/services/{service}/jobs";
    /// One that nobody is offered any more: offer it again.
    pub const JOB_RETRY: &str = "/v1/services/{service}/jobs/{seq}/retry";
    /// Begins an upload.
    pub const UPLOADS: &str = "/v1/rooms/{room}/uploads";
    /// One upload: how far it is, its next bytes, its end.
    pub const UPLOAD: &str = "/v1/rooms/{room}/uploads/{id}";
}

/// `/v1/tokens/{name}`
pub fn token(name: &TokenName) -> String {
    format!("{TOKENS}/{name}")
}

/// `/v1/rooms/{room}`
pub fn room(room: &RoomName) -> String {
    format!("{ROOMS}/{room}")
}

/// `/v1/rooms/{room}/members`
pub fn members(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/members")
}

/// `/v1/rooms/{room}/members/{agent}`
pub fn member(room: &RoomName, agent: &AgentId) -> String {
    format!("{ROOMS}/{room}/members/{agent}")
}

/// `/v1/rooms/{room}/requests/{agent}`
pub fn request(room: &RoomName, agent: &AgentId) -> String {
    format!("{ROOMS}/{room}/requests/{agent}")
}

/// `/v1/rooms/{room}/invites`
pub fn room_invites(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/invites")
}

/// `/v1/rooms/{room}/invites/{invite}`
pub fn room_invite(room: &RoomName, invite: &InviteId) -> String {
    format!("{ROOMS}/{room}/invites/{invite}")
}

/// `/v1/rooms/{room}/messages`
pub fn messages(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/messages")
}

/// `/v1/rooms/{room}/messages/{seq}/receipts`
pub fn receipts(room: &RoomName, seq: Seq) -> String {
    format!("{ROOMS}/{room}/messages/{seq}/receipts")
}

/// `/v1/rooms/{room}/stream`
pub fn stream(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/stream")
}

/// `/v1/rooms/{room}/cursor`
pub fn cursor(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/cursor")
}

/// `/v1/rooms/{room}/pushes?since={version}`
pub fn pushes(room: &RoomName, since: Seq) -> String {
    format!("{ROOMS}/{room}/pushes?since={since}")
}

/// `/v1/rooms/{room}/refs`
pub fn refs(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/refs")
}

/// `/v1/rooms/{room}/blobs/{id}`
pub fn blob(room: &RoomName, id: &BundleId) -> String {
    format!("{ROOMS}/{room}/blobs/{id}")
}

/// `/v1/rooms/{room}/bundles?ids={id},{id}..`
pub fn bundles(room: &RoomName, ids: &[BundleId]) -> String {
    let ids: Vec<_> = ids.iter().map(BundleId::to_string).collect();
    format!("{}?ids={}", many_bundles(room), ids.join(","))
}

/// `/v1/rooms/{room}/bundles`, where the ids are in the body.
pub fn many_bundles(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/bundles")
}

/// `/v1/rooms/{room}/uploads`
pub fn uploads(room: &RoomName) -> String {
    format!("{ROOMS}/{room}/uploads")
}

/// `/v1/rooms/{room}/uploads/{id}`
pub fn upload(room: &RoomName, id: &UploadId) -> String {
    format!("{ROOMS}/{room}/uploads/{id}")
}

/// `/v1/services/{service}/claims`
pub fn claims(service: &ServiceName) -> String {
    format!("{SERVICES}/{service}/claims")
}

/// `/v1/services/{service}/claims/{seq}`
pub fn claim(service: &ServiceName, seq: Seq) -> String {
    format!("{SERVICES}/{service}/claims/{seq}")
}

/// `/v1/services/{service}/claims/{seq}?fence={number}`: the claim given back.
pub fn release(service: &ServiceName, fence: Fence) -> String {
    format!("{}?fence={}", claim(service, fence.seq), fence.number)
}

/// `/v1/services/{service}/jobs?after={seq}&limit={n}`
pub fn jobs(service: &ServiceName, after: Seq, limit: u32) -> String {
    format!("{SERVICES}/{service}/jobs?after={after}&limit={limit}")
}

/// `/v1/services/{service}/jobs/{seq}/retry`
pub fn job_retry(service: &ServiceName, seq: Seq) -> String {
    format!("{SERVICES}/{service}/jobs/{seq}/retry")
}

/// The room that a path is about, if it is about one: for a service, that of its jobs.
pub fn room_of(path: &str) -> Option<RoomName> {
    if let Some(rest) = path.strip_prefix(SERVICES).and_then(|rest| rest.strip_prefix('/')) {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        return Some(rest[..end].parse::<ServiceName>().ok()?.room());
    }
    let rest = path.strip_prefix(ROOMS)?.strip_prefix('/')?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// On every room answer, 304 too: the log's head, `SEQ H`.
pub const HEAD_HEADER: &str = "parler-head";
/// On every answer to `pushes`, 304 and 404 too: the size of the largest blob that the hub takes, in bytes.
pub const BLOB_LIMIT_HEADER: &str = "parler-blob-limit";
/// On a message that brings a blob's bytes behind it: the length of the message's JSON in bytes.
pub const MESSAGE_LENGTH_HEADER: &str = "parler-message-length";
/// On a message that brings a blob uploaded before: the upload's id.
pub const UPLOAD_HEADER: &str = "parler-upload";
/// How many bytes of an upload there are; on a request, how many there were before these.
pub const UPLOAD_OFFSET_HEADER: &str = "upload-offset";
/// How many bytes an upload will have, where its beginning said so.
pub const UPLOAD_LENGTH_HEADER: &str = "upload-length";
/// A key that makes a repeated request give the first answer; the message's id stands in when absent.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// On a message that is posted by a token: the key that signed it.
pub const AGENT_HEADER: &str = "parler-agent";
/// On what is posted of a claimed job: the claim, `SEQ FENCE`.
pub const FENCE_HEADER: &str = "parler-fence";
/// On a read of the log: its reader knows what stands in place of messages that are no longer kept.
pub const NOTES_HEADER: &str = "parler-notes";
/// Says that a hook of a coding agent asks, and what it does with what comes: `session` or `turn`.
pub const WAKE_HEADER: &str = "parler-wake";
/// Body of a message followed by the bytes of the one blob it brings.
pub const MESSAGE_WITH_BLOB_TYPE: &str = "application/vnd.parler.message-with-blob";
/// Body of several bundles: for each a line `ID SIZE\n`, then its bytes.
pub const BUNDLES_TYPE: &str = "application/vnd.parler.bundles";
/// Body of the next bytes of an upload.
pub const PARTIAL_UPLOAD_TYPE: &str = "application/partial-upload";
/// Body of a stream of server-sent events.
pub const EVENT_STREAM_TYPE: &str = "text/event-stream";
/// On a stream that is opened again: the last message that arrived.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";
/// Body of a problem answer.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// Names of server-sent events.
pub mod event {
    /// A message of the room, as stored; its id is the message's number.
    pub const MESSAGE: &str = "message";
    /// In place of a message that a line of an event cannot hold: read it as a page.
    pub const REREAD: &str = "reread";
    /// How far all my rooms reach.
    pub const HEADS: &str = "heads";
    /// One of my rooms has grown, or is new to me.
    pub const HINT: &str = "hint";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_path_is_found() {
        let room: RoomName = "build".parse().unwrap();
        let id = BundleId::of(b"x");
        for path in [
            members(&room),
            messages(&room) + "?after=3",
            receipts(&room, Seq::new(3)),
            stream(&room),
            cursor(&room),
            pushes(&room, Seq::ZERO),
            blob(&room, &id),
            bundles(&room, &[id]),
            format!("{ROOMS}/build"),
        ] {
            assert_eq!(room_of(&path), Some(room.clone()), "{path}");
        }
        let service: ServiceName = "Review".parse().unwrap();
        for path in [
            claims(&service),
            claim(&service, Seq::new(3)),
            jobs(&service, Seq::ZERO, 1),
            job_retry(&service, Seq::new(3)),
        ] {
            assert_eq!(room_of(&path), Some(service.room()), "{path}");
        }
        for path in [
            ROOMS,
            SESSION,
            EVENTS,
            SERVICES,
            "/v1/rooms/",
            "/v1/rooms/..%2f/x",
            "/v1/roomsx/y",
        ] {
            assert_eq!(room_of(path), None, "{path}");
        }
    }
}

//! A client of a hub that a test steers by hand: it posts what no program of ours would.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parler_client::{Client, ClientError, ClientOptions, Deadlines, Identity, NoSessionCache, ReadFrom};
use parler_protocol::api::Posted;
use parler_protocol::{AgentKey, Draft, Head, InviteCode, Part, RoomName, Seq, SignContext, Signed, Target, sign};

/// An agent with a new key.
pub struct RawClient {
    /// The calls of the hub.
    pub calls: Client,
}

impl RawClient {
    /// An agent of this name at an open hub.
    pub fn new(url: &str, name: &str) -> Self {
        Self::with(url, name, None, Deadlines::default())
    }

    /// An agent of this name, who shows a local hub's secret, and waits this long.
    pub fn with(url: &str, name: &str, secret: Option<String>, deadlines: Deadlines) -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the kernel's randomness");
        let identity = Identity {
            key: Arc::new(AgentKey::from_random(seed)),
            name: name.parse().expect("a name"),
            role: None,
        };
        let options = ClientOptions {
            address: url.parse().expect("a hub's address"),
            identity,
            secret,
            token: None,
            sessions: Box::new(NoSessionCache),
            deadlines,
        };
        Self {
            calls: Client::new(options).expect("valid options"),
        }
    }

    /// Redeems an invite and returns its room.
    #[track_caller]
    pub fn join(&self, code: &str) -> RoomName {
        let code: InviteCode = code.parse().expect("an invite code");
        let joined = self.calls.join(&code).expect("an invite");
        joined.room().expect("an invite that leads in at once").room
    }

    /// The log's head.
    #[track_caller]
    pub fn head(&self, room: &RoomName) -> Head {
        let from = ReadFrom {
            after: Some(Seq::default()),
            limit: Some(0),
            wait: None,
        };
        self.calls.messages(room, &from).expect("a room of mine").head
    }

    /// Signs parts for a room, as seen at this head.
    pub fn sign(&self, room: &RoomName, head: &Head, parts: Vec<Part>) -> Signed {
        self.sign_draft(room, head, &Draft::new(parts))
    }

    /// Signs a draft for a room, as seen at this head.
    pub fn sign_draft(&self, room: &RoomName, head: &Head, draft: &Draft) -> Signed {
        self.sign_at(now_ms(), room, head, draft)
    }

    /// Signs a draft by a clock that shows this, milliseconds since 1970.
    pub fn sign_at(&self, now_ms: i64, room: &RoomName, head: &Head, draft: &Draft) -> Signed {
        let identity = self.calls.identity();
        let hub = self.calls.hub_id().expect("a hub");
        let target = Target::Room { room: room.clone() };
        let context = SignContext {
            key: &identity.key,
            name: &identity.name,
            role: None,
            hub: &hub,
            room,
            target: &target,
            head,
            now_ms,
        };
        sign(draft, &context)
    }

    /// Posts signed parts after a look at the head.
    ///
    /// # Errors
    /// As the hub answers.
    pub fn post(&self, room: &RoomName, parts: Vec<Part>) -> Result<Posted, ClientError> {
        let head = self.head(room);
        self.calls.post(room, &self.sign(room, &head, parts), None, None)
    }
}

/// The machine's clock, milliseconds since 1970.
///
/// # Panics
/// If that shows a time before 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock before the year 292 million")
}

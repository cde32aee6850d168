//! An agent that talks to a hub.

use std::net::SocketAddr;

use bytes::Bytes;
use data_encoding::BASE64;
use hyper::Request;
use parler_protocol::api::{OpenSession, RoomAnswer, SessionOpened};
use parler_protocol::{
    AgentId, AgentKey, AgentName, Challenge, ErrorCode, HubId, RoomName, paths, session_proof_bytes,
};
use serde::Serialize;
use serde_json::json;

use super::{Answer, request};

pub(crate) struct Agent {
    pub(crate) key: AgentKey,
    pub(crate) name: AgentName,
    pub(crate) role: Option<AgentName>,
    pub(crate) hub: HubId,
    pub(crate) token: String,
    pub(crate) secret: Option<String>,
    pub(crate) address: SocketAddr,
}

impl Agent {
    /// An agent with a new key and no session.
    pub(crate) fn new(address: SocketAddr, hub: HubId, name: &str) -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).unwrap();
        Self {
            key: AgentKey::from_random(seed),
            name: name.parse().unwrap(),
            role: None,
            hub,
            token: String::new(),
            secret: None,
            address,
        }
    }

    pub(crate) fn id(&self) -> AgentId {
        self.key.id()
    }

    /// A challenge, as any 401 brings it.
    pub(crate) async fn challenge(&self) -> Challenge {
        let answer = self.post(paths::SESSION, &self.proof(None)).await;
        answer.problem(ErrorCode::Unauthenticated).challenge.unwrap()
    }

    /// What proves the key, for the address that the agent connects to.
    pub(crate) fn proof(&self, challenge: Option<Challenge>) -> OpenSession {
        self.proof_for(challenge, &self.address.to_string())
    }

    pub(crate) fn proof_for(&self, challenge: Option<Challenge>, authority: &str) -> OpenSession {
        let sig = challenge
            .as_ref()
            .map(|challenge| BASE64.encode(&self.key.sign(&session_proof_bytes(challenge, authority))));
        OpenSession {
            id: self.id(),
            name: self.name.clone(),
            role: self.role.clone(),
            challenge,
            sig,
            secret: self.secret.clone(),
            invite: None,
        }
    }

    /// Tries to open a session.
    pub(crate) async fn prove(&self) -> Answer {
        let challenge = self.challenge().await;
        self.post(paths::SESSION, &self.proof(Some(challenge))).await
    }

    pub(crate) async fn open_session(&mut self) {
        let opened: SessionOpened = self.prove().await.expect(200).json();
        assert_eq!(opened.hub, self.hub);
        self.token = opened.token;
    }

    fn request(&self, method: &str, path: &str) -> hyper::http::request::Builder {
        let builder = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string());
        if self.token.is_empty() {
            return builder;
        }
        builder.header("authorization", format!("Bearer {}", self.token))
    }

    /// Sends a request that `build` completes.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        build: impl FnOnce(hyper::http::request::Builder) -> hyper::http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Answer {
        request(
            self.address,
            build(self.request(method, path)).body(body.into()).unwrap(),
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, |request| request, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> Answer {
        self.post_bytes(path, serde_json::to_vec(body).unwrap()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &impl Serialize) -> Answer {
        let body = serde_json::to_vec(body).unwrap();
        self.send(
            "PUT",
            path,
            |request| request.header("content-type", "application/json"),
            body,
        )
        .await
    }

    /// A request without a body.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, |request| request, "").await
    }

    /// Posts JSON as it is.
    pub(crate) async fn post_bytes(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(
            "POST",
            path,
            |request| request.header("content-type", "application/json"),
            body,
        )
        .await
    }

    /// Posts a message with a blob behind it.
    pub(crate) async fn post_with_blob(&self, room: &RoomName, message: &[u8], blob: &[u8]) -> Answer {
        let typed = |request: hyper::http::request::Builder| {
            request
                .header("content-type", paths::MESSAGE_WITH_BLOB_TYPE)
                .header(paths::MESSAGE_LENGTH_HEADER, message.len())
        };
        self.send("POST", &paths::messages(room), typed, [message, blob].concat())
            .await
    }

    /// Makes a channel.
    pub(crate) async fn create_room(&self, room: &str) -> RoomAnswer {
        self.post(paths::ROOMS, &json!({ "room": room, "kind": "channel" }))
            .await
            .expect(201)
            .json()
    }

    /// Lets another agent into a room.
    pub(crate) async fn invite(&self, room: &RoomName, other: &Self) {
        let invite = self.post(paths::INVITES, &json!({ "room": room })).await.expect(201);
        let code = invite.json::<serde_json::Value>()["code"].clone();
        other
            .post(paths::JOIN, &json!({ "code": code }))
            .await
            .expect(200)
            .head();
    }
}

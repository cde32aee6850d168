//! Coming into a room: invites, and requests that wait for an owner; and what members may become.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RoomAnswer;
use crate::{AgentId, AgentName, InviteCode, InviteId, RoomKind, RoomName};

/// `POST /v1/invites`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateInvite {
    /// The room to invite into. A channel that does not exist yet is made, with the inviter as its owner.
    pub room: RoomName,
    /// How long the code works, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<u64>,
    /// How often it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    /// Whether an owner has to let in whoever comes by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// The answer to [`CreateInvite`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InviteCreated {
    /// The code.
    pub code: InviteCode,
    /// The room it leads into.
    pub room: RoomName,
    /// The room's kind.
    pub kind: RoomKind,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// Whether an owner has to let in whoever comes by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// `GET /v1/rooms/{room}/invites`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InviteList {
    /// The room.
    pub room: RoomName,
    /// Those that still let somebody in: all of them for an owner, for others those they made. The oldest first.
    pub invites: Vec<OpenInvite>,
}

/// One invite, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenInvite {
    /// Names it.
    pub id: InviteId,
    /// What its maker is called now.
    pub by: AgentName,
    /// When it was made, milliseconds since 1970.
    pub created_at: i64,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// How often it works in all.
    pub max_uses: u32,
    /// How often it has been used.
    pub uses: u32,
    /// Whether an owner has to let in whoever comes by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// The answer to `DELETE /v1/rooms/{room}/invites` and `DELETE /v1/rooms/{room}/invites/{invite}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvitesRevoked {
    /// How many were open and no longer are.
    pub revoked: u64,
}

/// `PUT /v1/rooms/{room}/members/{agent}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeMember {
    /// Whether it is an owner from now on.
    pub owner: bool,
}

/// `POST /v1/join`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Join {
    /// The code.
    pub code: InviteCode,
}

/// The answer to [`Join`] where an owner has to let the agent in, with status 202.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinPending {
    /// The room that the code leads to.
    pub room: RoomName,
    /// Its kind.
    pub kind: RoomKind,
}

/// What became of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Joined {
    /// The agent is in.
    In(RoomAnswer),
    /// It waits until an owner lets it in.
    Waiting(JoinPending),
}

impl Joined {
    /// The room, where the agent is in it.
    pub fn room(self) -> Option<RoomAnswer> {
        match self {
            Self::In(room) => Some(room),
            Self::Waiting(_) => None,
        }
    }
}

/// Somebody who asked to be let into a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinRequest {
    /// The agent's key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// When it asked, milliseconds since 1970.
    pub since: i64,
}

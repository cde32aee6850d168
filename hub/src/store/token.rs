//! What the store knows of a token: never the token itself, only its hash, and the account its messages belong to.

use std::collections::BTreeMap;

use parler_protocol::api::TokenSummary;
use parler_protocol::{AgentId, RoomName, TokenName, TokenScope};

use super::TokenHash;

/// A token about to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its maker: a member of all of the rooms.
    pub by: AgentId,
    /// What it is called.
    pub name: TokenName,
    /// The author that its messages belong to: a key that nobody has, so that no session is opened with it.
    pub account: AgentId,
    /// Hash of the new token.
    pub hash: TokenHash,
    /// The rooms it is for.
    pub rooms: Vec<RoomName>,
    /// What it may do in each.
    pub can: Vec<TokenScope>,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// A token about to be made for a CI job that showed who it is.
#[derive(Debug, Clone)]
pub struct JobToken {
    /// What the rule makes of it. Rooms that its maker is not in are left out.
    pub token: NewToken,
    /// The room that has to be among them.
    pub room: Option<RoomName>,
    /// Who signed the identity token.
    pub issuer: String,
    /// What that says of the job, as far as people are told.
    pub claims: BTreeMap<String, String>,
    /// Hash of what makes the identity token one of its kind.
    pub identity: TokenHash,
    /// From when on no file of rules would have it taken, milliseconds since 1970.
    pub identity_ends: i64,
    /// Most identity tokens that are remembered at once.
    pub most_identities: u32,
}

/// A token that somebody holds. It may have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// The author that its messages belong to.
    pub account: AgentId,
    /// Hash of the token. A new token under the same name has the same account and another hash.
    pub hash: TokenHash,
    /// What it may do, and until when.
    pub summary: TokenSummary,
}

/// What somebody must be allowed in a room. A member is allowed all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// To know that the room is there, and how far it reaches.
    Head,
    /// To read what moved its refs.
    Refs,
    /// To read all of it.
    Read,
    /// To post.
    Post,
    /// To know of the room's jobs.
    Jobs,
    /// To work on the room's jobs.
    Claim,
}

impl Need {
    /// Whether a token with these scopes in the room may.
    pub fn is_met_by(self, can: &[TokenScope]) -> bool {
        let has = |scope| can.contains(&scope);
        match self {
            Self::Head => !can.is_empty(),
            // Who posts a push must know where the refs are.
            Self::Refs => has(TokenScope::Post) || has(TokenScope::Read),
            Self::Read => has(TokenScope::Read),
            Self::Post => has(TokenScope::Post),
            Self::Jobs => has(TokenScope::Read) || has(TokenScope::Claim),
            Self::Claim => has(TokenScope::Claim),
        }
    }
}

//! Whether somebody in a room has the name or role that a handoff is for: it may be misspelt, or come later. Refuses
//! nothing, and says nothing where nobody can be asked.

use std::fmt;

use parler_client::Client;
use parler_protocol::RoomName;
use parler_protocol::api::Member;

/// Nobody whom a handoff could be for has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nobody {
    /// Nobody has it at all.
    AtAll,
    /// Its author alone, for whom it is not.
    ButItsAuthor,
}

impl Nobody {
    /// Asks for the room's members. None: somebody has the name or role, or the hub does not say.
    pub fn called(client: &Client, room: &RoomName, to: &str) -> Option<Self> {
        let members = client.members(room).ok()?.members;
        let is_called =
            |member: &Member| member.name.is_called(to) || member.role.as_ref().is_some_and(|role| role.is_called(to));
        let me = client.identity().key.id();
        if members.iter().any(|member| member.id != me && is_called(member)) {
            return None;
        }
        match members.iter().any(is_called) {
            true => Some(Self::ButItsAuthor),
            false => Some(Self::AtAll),
        }
    }
}

impl fmt::Display for Nobody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtAll => "nobody",
            Self::ButItsAuthor => "nobody but you",
        })
    }
}

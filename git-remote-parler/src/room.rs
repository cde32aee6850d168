//! A room as it is read from its hub: one conditional request, verified, and joined to what the repository remembers.

use parler_client::{Client, ClientError, PushesAnswer};
use parler_protocol::api::Pushes;
use parler_protocol::{ChainHash, Claim, ErrorCode, Head, RoomKind, RoomName, Seq};

use crate::room_cache::RoomCache;
use crate::room_state::{FoldError, RoomState};

/// A room's pushes, and how far its log reaches.
#[derive(Debug, Clone)]
pub struct Room {
    /// Its refs and bundles.
    pub state: RoomState,
    /// The newest head that the hub told.
    pub head: Head,
}

/// Why a room cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// There is none of that name, or it is somebody else's: the same words for both.
    #[error("no room '{room}' that you belong to: git parler join CODE, or make it: git parler invite --group {room}")]
    Unknown {
        /// The room asked for.
        room: RoomName,
    },
    /// The hub's log is not to be believed.
    #[error("the log of room '{room}' cannot be trusted: {why}")]
    Log {
        /// The room.
        room: RoomName,
        /// What is wrong.
        why: Box<FoldError>,
    },
    /// The hub's log does not continue the one that was seen before.
    #[error(
        "the log of room '{room}' is not the one seen before: {why}; if its hub was restored from a backup: git parler trust --history --room {room}"
    )]
    Rewritten {
        /// The room.
        room: RoomName,
        /// What does not fit.
        why: String,
    },
    /// The hub answered with something else than what it was asked for.
    #[error("the hub was asked for room '{room}' and answered with '{answered}' of another place")]
    OtherRoom {
        /// The room asked for.
        room: RoomName,
        /// The room it answered with.
        answered: RoomName,
    },
    /// The hub contradicts itself.
    #[error("the hub's answer about room '{room}' ends at message {found}, not {said}")]
    Incomplete {
        /// The room.
        room: RoomName,
        /// The last message it said there is.
        said: Seq,
        /// The last it sent.
        found: Seq,
    },
    /// The hub did not answer, or said no.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Room {
    /// Reads a room: what is new since the cached fold is asked for, verified and folded in. One request, two more
    /// where no session is cached.
    ///
    /// # Errors
    /// [`RoomError`].
    pub fn read(client: &Client, name: &RoomName, cache: &RoomCache) -> Result<Self, RoomError> {
        let known = cache.load(&client.hub_id()?, name);
        let answer = Self::ask(client, name, known.as_ref().map(RoomState::version))?;
        // The session may have been renewed on the way, with a hub whose data was replaced: then the log begins anew.
        let hub = client.hub_id()?;
        let (answer, known) = match known {
            Some(state) if *state.hub() != hub => (Self::ask(client, name, None)?, None),
            known => (answer, known),
        };
        match (answer, known) {
            (PushesAnswer::NotModified { head }, known) => {
                let state = known.unwrap_or_else(|| RoomState::empty(hub, name.clone()));
                Ok(Self { state, head })
            }
            // Another room's log, or another hub's, is signed as well as this one's.
            (PushesAnswer::Changed(pushes), _) if pushes.room.key() != name.key() || pushes.hub != hub => {
                let (room, answered) = (name.clone(), pushes.room);
                Err(RoomError::OtherRoom { room, answered })
            }
            (PushesAnswer::Changed(pushes), Some(state)) => {
                let (room, claims) = Self::continue_from(state, &pushes)?;
                client.witness().claimed(&hub, &pushes.room, &claims);
                cache.store(&room.state);
                Ok(room)
            }
            (PushesAnswer::Changed(pushes), None) => {
                let (room, claims) = Self::from_start(&pushes, cache)?;
                client.witness().claimed(&hub, &pushes.room, &claims);
                Ok(room)
            }
        }
    }

    fn ask(client: &Client, name: &RoomName, known: Option<Seq>) -> Result<PushesAnswer, RoomError> {
        client.pushes(name, known).map_err(|error| match error.code() {
            Some(ErrorCode::NotFound) => RoomError::Unknown { room: name.clone() },
            _ => RoomError::Client(error),
        })
    }

    /// Makes a channel of that name, with this agent as its owner.
    ///
    /// # Errors
    /// [`RoomError::Unknown`] when a room of that name is somebody else's.
    pub fn create(client: &Client, name: &RoomName) -> Result<Self, RoomError> {
        let made = client
            .create_room(name, RoomKind::Channel)
            .map_err(|error| match error.code() {
                Some(ErrorCode::RoomExists) => RoomError::Unknown { room: name.clone() },
                _ => error.into(),
            })?;
        Ok(Self {
            state: RoomState::empty(client.hub_id()?, made.room),
            head: made.head,
        })
    }

    /// What a room of that name would be, before it is made.
    pub(crate) fn unmade(client: &Client, name: &RoomName) -> Result<Self, RoomError> {
        let hub = client.hub_id()?;
        let head = Head {
            seq: Seq::ZERO,
            h: ChainHash::start(&hub, name),
        };
        Ok(Self {
            state: RoomState::empty(hub, name.clone()),
            head,
        })
    }

    fn from_start(pushes: &Pushes, cache: &RoomCache) -> Result<(Self, Vec<Claim>), RoomError> {
        let mut state = RoomState::empty(pushes.hub, pushes.room.clone());
        let log = |why| RoomError::Log {
            room: pushes.room.clone(),
            why: Box::new(why),
        };
        let claims = state.fold(&raw(pushes)).map_err(log)?;
        if state.version() != pushes.version {
            let (said, found) = (pushes.version, state.version());
            return Err(RoomError::Incomplete {
                room: pushes.room.clone(),
                said,
                found,
            });
        }
        if state.version() > Seq::ZERO {
            cache.store(&state);
        }
        let head = pushes.head;
        Ok((Self { state, head }, claims))
    }

    fn continue_from(mut state: RoomState, pushes: &Pushes) -> Result<(Self, Vec<Claim>), RoomError> {
        let rewritten = |why: String| RoomError::Rewritten {
            room: pushes.room.clone(),
            why,
        };
        let before = state.version();
        let claims = state.fold(&raw(pushes)).map_err(|why| match why {
            FoldError::Forked { .. } | FoldError::Order { .. } => rewritten(why.to_string()),
            _ => RoomError::Log {
                room: pushes.room.clone(),
                why: Box::new(why),
            },
        })?;
        if state.version() != pushes.version {
            return Err(rewritten(format!(
                "it ends at message {}, and message {before} was there",
                pushes.version
            )));
        }
        let head = pushes.head;
        Ok((Self { state, head }, claims))
    }
}

fn raw(pushes: &Pushes) -> Vec<&str> {
    pushes.messages.iter().map(|message| message.get()).collect()
}

//! A room as it is read from its hub: one conditional request, verified, and joined to what the repository remembers.

use parler_client::{Client, ClientError, PushesAnswer};
use parler_protocol::api::Pushes;
use parler_protocol::{ChainHash, Claim, ErrorCode, Head, RoomKind, RoomName, Seq, ServiceName};

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
    /// There is no service of that name, or none for this agent: the same words for both.
    #[error("no service '{service}' on this hub, or none for you: git parler serve {service}, or ask for an invite")]
    NoService {
        /// The service asked for.
        service: ServiceName,
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
        "the log of room '{room}' is not the one seen before: {why}; if its hub was restored from a backup, or you know that the room was made anew: git parler trust --history --room {room}"
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

impl RoomError {
    /// There is no such room, or none for this agent.
    pub fn unknown(room: &RoomName) -> Self {
        match ServiceName::of_room(room) {
            Some(service) => Self::NoService { service },
            None => Self::Unknown { room: room.clone() },
        }
    }
}

impl Room {
    /// Reads a room: what is new since the cached fold is asked for, verified and folded in. One request, two more
    /// where no session is cached; of a very large room one for each part of its log.
    ///
    /// # Errors
    /// [`RoomError`].
    pub fn read(client: &Client, name: &RoomName, cache: &RoomCache) -> Result<Self, RoomError> {
        let known = cache.load(&client.hub_id()?, name);
        match &known {
            Some(state) => tracing::debug!(room = %name, version = %state.version(), "the cached fold is continued"),
            None => tracing::debug!(room = %name, "no cached fold: the room is read from its beginning"),
        }
        let answer = Self::ask(client, name, known.as_ref().map(|state| (state, state.version())))?;
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
            (PushesAnswer::Changed(pushes), known) => Self::follow(client, name, cache, known, pushes),
        }
    }

    /// Reads the room of a service for somebody who has a job for it. Who was not there before sees an empty one: a job
    /// is what makes a member, and only the answer to it tells whether there is such a service.
    ///
    /// # Errors
    /// [`RoomError`].
    pub fn read_for_job(client: &Client, service: &ServiceName, cache: &RoomCache) -> Result<Self, RoomError> {
        let name = service.room();
        match Self::read(client, &name, cache) {
            Err(RoomError::NoService { .. }) => Self::unmade(client, &name),
            read => read,
        }
    }

    /// Folds what was answered into what is known, and asks for more as long as there is more.
    fn follow(
        client: &Client,
        name: &RoomName,
        cache: &RoomCache,
        known: Option<RoomState>,
        first: Pushes,
    ) -> Result<Self, RoomError> {
        let hub = client.hub_id()?;
        let is_continued = known.is_some();
        let mut state = known.unwrap_or_else(|| RoomState::empty(hub, first.room.clone()));
        let mut pushes = first;
        loop {
            // Another room's log, or another hub's, is signed as well as this one's.
            if pushes.room.key() != name.key() || pushes.hub != hub {
                let (room, answered) = (name.clone(), pushes.room);
                return Err(RoomError::OtherRoom { room, answered });
            }
            if state.version() > Seq::ZERO && state.remade() != pushes.remade {
                return Err(RoomError::Rewritten {
                    room: pushes.room,
                    why: "that room was deleted, and this one made under its name".to_owned(),
                });
            }
            state.note_remade(pushes.remade);
            let claims = Self::fold(&mut state, &pushes, is_continued)?;
            state.note_dropped(pushes.drops.clone(), pushes.dropped.as_deref());
            client.witness().claimed(&hub, &pushes.room, &claims);
            if state.version() > Seq::ZERO {
                // Each part is kept: whatever ends this, the next command goes on from here.
                cache.store(&state);
            }
            let Some(next) = pushes.next else {
                let head = pushes.head;
                return Ok(Self { state, head });
            };
            pushes = match Self::ask(client, name, Some((&state, next)))? {
                PushesAnswer::Changed(more) => more,
                PushesAnswer::NotModified { .. } => {
                    return Err(RoomError::Incomplete {
                        room: pushes.room,
                        said: pushes.version,
                        found: next,
                    });
                }
            };
        }
    }

    /// Asks for what comes after a version, as one who knows what this state knows.
    fn ask(client: &Client, name: &RoomName, known: Option<(&RoomState, Seq)>) -> Result<PushesAnswer, RoomError> {
        let (version, drops, remade) = match known {
            Some((state, version)) => (Some(version), state.drops(), state.remade()),
            None => (None, None, None),
        };
        client
            .pushes(name, version, drops, remade)
            .map_err(|error| match error.code() {
                Some(ErrorCode::NotFound) => RoomError::unknown(name),
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

    /// Whether this repository has seen a room of this name at this hub. Where the hub has none for us now, it was deleted, or
    /// an owner has removed us: it is not to be made anew by accident.
    pub(crate) fn was_known(client: &Client, name: &RoomName, cache: &RoomCache) -> Result<bool, RoomError> {
        Ok(cache.load(&client.hub_id()?, name).is_some())
    }

    /// What a room of that name is to somebody who is not in it.
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

    /// Folds one answer in, which leads as far as it says.
    fn fold(state: &mut RoomState, pushes: &Pushes, is_continued: bool) -> Result<Vec<Claim>, RoomError> {
        let room = || pushes.room.clone();
        let before = state.version();
        let claims = state.fold(&raw(pushes)).map_err(|why| match why {
            FoldError::Forked { .. } | FoldError::Order { .. } if is_continued => RoomError::Rewritten {
                room: room(),
                why: why.to_string(),
            },
            _ => RoomError::Log {
                room: room(),
                why: Box::new(why),
            },
        })?;
        let (said, found) = (pushes.next.unwrap_or(pushes.version), state.version());
        let goes_on = pushes.next.is_none_or(|next| next > before && next < pushes.version);
        match found == said && goes_on {
            true => Ok(claims),
            false if is_continued => Err(RoomError::Rewritten {
                room: room(),
                why: format!("it ends at message {}, and message {before} was there", pushes.version),
            }),
            false => Err(RoomError::Incomplete {
                room: room(),
                said: pushes.version,
                found,
            }),
        }
    }
}

fn raw(pushes: &Pushes) -> Vec<&str> {
    pushes.messages.iter().map(|message| message.get()).collect()
}

//! Hints about all of an agent's rooms, for as long as somebody takes them: opened again after every end of the hub or of
//! the way to it. Carries no message; whoever is told of one reads the room.

use backon::ExponentialBackoff;
use http::header::ACCEPT;
use parler_protocol::HubId;
use parler_protocol::api::{RoomHint, RoomHints};
use parler_protocol::paths::{self, event};

use crate::request::Request;
use crate::sse_response::{Arrived, SseResponse};
use crate::{Asked, Client, ClientError, rests};

/// Largest event: all rooms of an agent that is in very many.
const MAX_EVENT_BYTES: usize = 16 << 20; // 16 MiB

/// What a stream of hints brings.
#[derive(Debug)]
pub enum Hinted {
    /// How far every room reaches: first of all, and again whenever the hub was away or ended the stream in its time,
    /// because what grew meanwhile is told by nothing else.
    Heads(RoomHints),
    /// A room that has grown, or that the agent has come into.
    Hint(RoomHint),
    /// Nothing is new, and the hub is there.
    Heartbeat,
    /// The hub, or the way to it, has gone away, for this reason. Told once each time; the next call waits until the hub
    /// is back.
    Away(ClientError),
}

/// The hints, without end.
pub struct HintStream<'a> {
    client: &'a Client,
    open: Option<Open>,
    is_away: bool,
    is_revived: bool,
    rests: ExponentialBackoff,
}

/// A connection, with what was known when it was asked for.
struct Open {
    hub: HubId,
    asked: Asked,
    events: SseResponse,
}

impl Client {
    /// Hints about all my rooms, from the first call of [`HintStream::next`] until it is dropped.
    pub fn hints(&self) -> HintStream<'_> {
        HintStream {
            client: self,
            open: None,
            is_away: false,
            is_revived: false,
            rests: rests::of_a_stream(),
        }
    }
}

impl HintStream<'_> {
    /// The next hint, however long it takes: a hub that is away is asked again and again, with rests of up to 10 s that
    /// are never like another's. A local hub that has ended is started again where the client knows how
    /// ([`Client::reviving`]).
    ///
    /// # Errors
    /// Only what does not pass by itself: `unauthenticated`, `not_admitted` and other problems that the hub means.
    #[allow(clippy::should_implement_trait, reason = "it has no end, and errors")]
    pub fn next(&mut self) -> Result<Hinted, ClientError> {
        loop {
            match self.try_next() {
                Ok(Some(hinted)) => return Ok(hinted),
                // Ended in order: the hub stops, or wants it opened anew.
                Ok(None) => self.open = None,
                Err(error) => {
                    self.open = None;
                    if passes(&error) && !std::mem::replace(&mut self.is_away, true) {
                        return Ok(Hinted::Away(error));
                    }
                    // One that is started and yet does not answer is waited for like any other.
                    if !std::mem::replace(&mut self.is_revived, true) && self.client.revived_after(&error) {
                        continue;
                    }
                    if !passes(&error) {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(self.rests.next().expect("rests have no end"));
        }
    }

    /// The next hint of the connection that is open. None: it has ended.
    fn try_next(&mut self) -> Result<Option<Hinted>, ClientError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let mut request = Request::get(paths::EVENTS.to_owned());
                request.headers.push((ACCEPT, paths::EVENT_STREAM_TYPE.to_owned()));
                let hub = self.client.hub_id()?;
                let asked = self.client.witness().asking(&hub, None);
                let response = self.client.attempt_once(&request)?;
                let events = SseResponse::new(response, MAX_EVENT_BYTES);
                self.open.insert(Open { hub, asked, events })
            }
        };
        let event = match open.events.next(self.client)? {
            Arrived::End => return Ok(None),
            Arrived::Heartbeat => return Ok(Some(Hinted::Heartbeat)),
            Arrived::Event(event) => event,
        };
        let told = |rooms: &[RoomHint]| {
            for hint in rooms {
                let witness = self.client.witness();
                witness.told(&open.hub, &hint.room, &hint.head, &open.asked);
            }
        };
        Ok(Some(match std::str::from_utf8(&event.name) {
            Ok(event::HEADS) => {
                let heads: RoomHints = self.client.read_json(&event.data)?;
                told(&heads.rooms);
                (self.is_away, self.is_revived) = (false, false);
                self.rests = rests::of_a_stream();
                Hinted::Heads(heads)
            }
            Ok(event::HINT) => {
                let hint = self.client.read_json(&event.data)?;
                told(std::slice::from_ref(&hint));
                Hinted::Hint(hint)
            }
            // What the future brings.
            _ => Hinted::Heartbeat,
        }))
    }
}

/// Whether asking again later may help. What is no hub may be a proxy whose hub is being restarted.
fn passes(error: &ClientError) -> bool {
    match error {
        ClientError::Problem(problem) => problem.code.is_retryable(),
        ClientError::Unreachable { .. }
        | ClientError::Lost { .. }
        | ClientError::Deadline { .. }
        | ClientError::TooSlow { .. }
        | ClientError::OutcomeUnknown { .. }
        | ClientError::NotAHub { .. }
        | ClientError::Stopped { .. } => true,
        ClientError::Untrusted { .. }
        | ClientError::InDoubt { .. }
        | ClientError::Source(_)
        | ClientError::Setup(_)
        | ClientError::ToldToStop => false,
    }
}

//! Bodies that are sent only as long as their reader is in the room. Asks the store when somebody has left, and not for each
//! piece.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use parler_protocol::{AgentId, RoomName};

use crate::room_call::RoomCall;
use crate::state::SharedState;
use crate::store::StoreError;
use crate::wake::FactSubscription;

/// Who is sent something, and whether it is in the room still.
pub(crate) struct Reader {
    state: SharedState,
    agent: AgentId,
    room: RoomName,
    departures: FactSubscription,
    /// Whether it may have left before anybody listened.
    is_new: bool,
}

impl Reader {
    /// The caller. From here on no departure goes unnoticed.
    pub(crate) fn of(call: &RoomCall) -> Self {
        Self {
            state: SharedState::clone(&call.state),
            agent: call.principal.agent,
            room: call.room.clone(),
            departures: call.state.wake.subscribe_left(&call.room.key()),
            is_new: true,
        }
    }

    /// Waits until somebody has left the room, perhaps this one. Nothing is lost when the future is dropped before it is
    /// ready; afterwards [`Reader::check`] has to come to its end.
    pub(crate) async fn somebody_left(&mut self) {
        if !std::mem::take(&mut self.is_new) {
            self.departures.changed().await;
        }
    }

    /// Whether the reader is in the room still.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        self.state.store.room(self.agent, &self.room).await.map(drop)
    }
}

/// The stream, cut off when its reader is gone.
pub(crate) fn while_member<S, E>(
    call: &RoomCall,
    stream: S,
) -> impl Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + use<S, E>
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let start = Some((Box::pin(stream), Reader::of(call)));
    futures_util::stream::unfold(start, async |state| {
        let (mut stream, mut reader) = state?;
        loop {
            tokio::select! {
                biased;
                () = reader.somebody_left() => {
                    if let Err(error) = reader.check().await {
                        return Some((Err(error.into()), None));
                    }
                }
                piece = stream.next() => {
                    let piece = piece?.map_err(Into::into);
                    return Some((piece, Some((stream, reader))));
                }
            }
        }
    })
}

//! An answer that goes on, as the events in it. Takes what has arrived and says when nothing does; what an event means is
//! the reader's business.

use std::collections::VecDeque;

use reqwest::Response;

use crate::sse::{SseEvent, SseParser, TooLong};
use crate::{Client, ClientError};

/// What came.
pub(crate) enum Arrived {
    Event(SseEvent),
    /// No whole event, but the hub is there.
    Heartbeat,
    /// The end, in order.
    End,
}

pub(crate) struct SseResponse {
    response: Response,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
}

impl SseResponse {
    /// For events of at most `limit` bytes.
    pub(crate) fn new(response: Response, limit: usize) -> Self {
        Self {
            response,
            parser: SseParser::new(limit),
            ready: VecDeque::new(),
        }
    }

    /// Whether an event is there that was not taken yet.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What comes next.
    ///
    /// # Errors
    /// [`ClientError::Deadline`] after a silence longer than the hub promises, [`ClientError::Lost`] when the connection
    /// ended.
    pub(crate) fn next(&mut self, client: &Client) -> Result<Arrived, ClientError> {
        if self.ready.is_empty() {
            let Some(piece) = client.next_piece_within(&mut self.response, client.silence())? else {
                return Ok(Arrived::End);
            };
            let ready = &mut self.ready;
            self.parser
                .feed(&piece, |event| ready.push_back(event))
                .map_err(|TooLong| client.not_a_hub("an event without end"))?;
        }
        Ok(self.ready.pop_front().map_or(Arrived::Heartbeat, Arrived::Event))
    }
}

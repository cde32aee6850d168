//! How often a request is made until it has an answer, and what is said where none came.

use std::cell::Cell;
use std::time::{Duration, Instant};

use parler_protocol::ErrorCode;
use reqwest::Response;

use crate::request::Request;
use crate::{CachedSession, Client, ClientError, rests, trace};

/// How often a call is sent again at most.
const MOST_RETRIES: usize = 8;

impl Client {
    /// Makes one request until it has an answer, the answer is final, or the time for sending again is over.
    pub(super) async fn ask<T>(
        &self,
        request: &Request<'_>,
        read: impl AsyncFn(Response) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        // Whether the request itself, not only the proof before it, may have arrived without an answer.
        let unanswered = Cell::new(false);
        let asked = self.retrying(async || {
            let response = self.attempt(request, &unanswered).await?;
            read(response).await.inspect_err(|_| unanswered.set(true))
        });
        let asked = asked.await;
        self.may_have_arrived.set(unanswered.get());
        if matches!(asked, Ok(_) | Err(ClientError::Problem(_))) {
            self.was_answered.set(true);
        }
        asked.map_err(|error| match request.stores && unanswered.get() {
            true => self.unknown_outcome(error),
            false => error,
        })
    }

    /// Tries until it succeeds, the failure is final, or the time for trying again is over.
    pub(super) async fn retrying<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut rests = rests::of_a_call(self.options.deadlines.rest).take(MOST_RETRIES);
        let begun = Instant::now();
        // Also between two calls of one command.
        let mut reached = self.was_answered.get();
        self.attempt.set(0);
        loop {
            self.attempt.update(|number| number + 1);
            let error = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let in_time = |rest| begun.elapsed() + rest < self.options.deadlines.retry;
            let revived = in_time(Duration::ZERO) && self.revived_after(&error);
            reached |= revived || !error.is_unreachable();
            let again = match &error {
                ClientError::Lost { .. } => true,
                ClientError::Problem(problem) => revived || problem.code == ErrorCode::Unavailable,
                // Somebody listened a moment ago: the hub is restarting.
                ClientError::Unreachable { .. } => reached,
                _ => false,
            };
            match rests.next().filter(|rest| again && in_time(*rest)) {
                Some(rest) => {
                    trace::again(rest, &error);
                    tokio::time::sleep(rest).await;
                }
                None => return Err(error),
            }
        }
    }

    /// What to say of a message whose last attempt failed so.
    fn unknown_outcome(&self, error: ClientError) -> ClientError {
        match error {
            ClientError::Lost { .. }
            | ClientError::Deadline { .. }
            | ClientError::TooSlow { .. }
            | ClientError::Unreachable { .. } => ClientError::OutcomeUnknown {
                address: self.options.address.to_string(),
                reason: error.to_string(),
            },
            other => other,
        }
    }

    /// One attempt, with the session renewed once where the hub no longer takes it.
    pub(super) async fn attempt(
        &self,
        request: &Request<'_>,
        unanswered: &Cell<bool>,
    ) -> Result<Response, ClientError> {
        let session = self.session().await?;
        let send = async |session: &CachedSession| {
            let answer = self.send(request, Some(session)).await;
            if matches!(
                answer,
                Err(ClientError::Lost { .. } | ClientError::Deadline { .. } | ClientError::TooSlow { .. })
            ) {
                unanswered.set(true);
            }
            answer
        };
        match send(&session).await {
            Err(ClientError::Problem(problem))
                if problem.code == ErrorCode::Unauthenticated && self.options.token.is_none() =>
            {
                let (session, _) = self.prove(problem.challenge, None).await?;
                send(&session).await
            }
            answer => answer,
        }
    }
}

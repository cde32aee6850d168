//! What a push is that dispatches a job: its ref moves in the sender's own place, whatever is there, and its message names
//! a bundle in any case. Decides nothing about the job itself, which is among the parts that ride along.

use parler_client::ClientError;
use parler_protocol::{Oid, Problem, RefName, RefUpdate, ServiceName};

use super::{Move, Push};
use crate::push::{Force, PushError};
use crate::room::Room;
use crate::room_state::{RoomBundle, RoomState};

/// How often a job is posted anew because the same sender has dispatched the same branch meanwhile.
const MOST_ROUNDS: u32 = 20;

impl Push<'_, '_> {
    /// What the sender calls a ref of the room.
    pub(super) fn called(&self, name: &RefName) -> RefName {
        let own = self.request.is_job.then(|| name.requested()).flatten();
        own.unwrap_or_else(|| name.clone())
    }

    /// The room without what others brought to it: what they say of bundles nobody has checked, and the job would wait
    /// for a worker to find out. Also without what was once made against another remote, which a worker does not have.
    pub(super) fn own_state(&self) -> RoomState {
        let client = self.pusher.client;
        let key = client.identity().key.id();
        // Each run of a token has a key of its own.
        let sender = client.token().map(|token| token.name().sender());
        self.state().with_bundles(|bundle: &RoomBundle| {
            let is_own = match &sender {
                Some(sender) => bundle.author == sender.as_str(),
                None => bundle.author_id == key,
            };
            let part = &bundle.part;
            let is_whole = part.prerequisites.is_empty() || (!part.needs.is_empty() && part.base_hint.is_none());
            is_own && is_whole
        })
    }

    /// Deletes what is in the way of the job's ref: a branch that the sender had before, of which this one's name makes a
    /// directory, or what lies where nobody's refs belong.
    pub(super) fn make_way(&mut self) {
        if !self.request.is_job {
            return;
        }
        let Some(name) = self.moves.first().map(|planned| planned.update.name.clone()) else {
            return;
        };
        let in_the_way = self
            .state()
            .refs()
            .iter()
            .filter(|(other, _)| other.conflicts_with(&name));
        let deleted: Vec<Move> = in_the_way
            .map(|(other, found)| Move {
                update: RefUpdate {
                    name: other.clone(),
                    old: Some(found.oid),
                    new: None,
                    forced: false,
                    peeled: None,
                },
                new: None,
                force: Force::Always,
            })
            .collect();
        self.moves.extend(deleted);
    }

    /// Somebody of the same name dispatched meanwhile: the place is where that left it.
    pub(super) fn follow_job(&mut self, problem: &Problem) -> Result<(), PushError> {
        self.count_round(problem)?;
        for planned in &mut self.moves {
            let found = problem
                .conflicts
                .iter()
                .find(|conflict| conflict.name == planned.update.name);
            if let Some(conflict) = found {
                planned.start_from(conflict.actual);
            }
        }
        self.moves
            .retain(|planned| planned.update.old.is_some() || planned.update.new.is_some());
        Ok(())
    }

    /// Something has come into the way meanwhile.
    pub(super) fn make_way_again(&mut self, problem: &Problem) -> Result<(), PushError> {
        self.count_round(problem)?;
        if let Some(service) = ServiceName::of_room(self.pusher.room) {
            self.room = Room::read_for_job(self.pusher.client, &service, self.pusher.cache)?;
        }
        self.moves.retain(|planned| planned.update.new.is_some());
        for planned in &mut self.moves {
            let there = self.room.state.refs().get(&planned.update.name);
            planned.start_from(there.map(|found| found.oid));
        }
        self.make_way();
        Ok(())
    }

    fn count_round(&mut self, problem: &Problem) -> Result<(), PushError> {
        self.rounds += 1;
        match self.rounds < MOST_ROUNDS {
            true => Ok(()),
            false => Err(ClientError::Problem(problem.clone()).into()),
        }
    }
}

impl Move {
    /// The ref is there now, and moves all the same.
    fn start_from(&mut self, there: Option<Oid>) {
        let update = &mut self.update;
        update.old = there;
        update.forced = there.is_some() && update.new.is_some() && there != update.new;
    }
}

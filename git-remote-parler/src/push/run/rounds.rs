//! The rounds in which a push is posted: the hub's answer to each decides what the next one still asks for. Never sends
//! an update again with another old value, unless it is a job's.

use std::collections::BTreeSet;

use parler_client::{Attachment, ClientError, PushesAnswer};
use parler_protocol::api::Posted;
use parler_protocol::{
    BundleId, Draft, ErrorCode, HandoffPart, Message, Oid, Part, Problem, RefConflict, RefName, RefUpdate, RefsPart,
    Seq, verify,
};

use super::{Move, Push, relation};
use crate::push::decision::Relation;
use crate::push::plan::{Plan, Tip};
use crate::push::post::{MeteredSpool, Packed};
use crate::push::{Force, PushError, RefOutcome, Refusal};
use crate::repository::LocalHead;
use crate::room::{Room, RoomError};
use crate::signing::sign_for_room;

/// How many messages are looked at for the one that a first run has posted.
const MOST_CANDIDATES: usize = 16;

/// What a message says besides what it brings and who signed it. What git counted may be counted otherwise by now.
fn said(parts: &[Part]) -> Vec<Part> {
    let said = parts.iter().filter_map(|part| match part {
        Part::Bundle(_) | Part::Refs(_) | Part::Seen(_) | Part::Sig(_) => None,
        Part::Handoff(handoff) => Some(Part::Handoff(HandoffPart {
            work: None,
            ..handoff.clone()
        })),
        part => Some(part.clone()),
    });
    said.collect()
}

impl Push<'_, '_> {
    /// Posts until every ref is decided. What was uploaded serves all rounds.
    pub(super) fn post_until_decided(
        &mut self,
        plan: &Plan,
        packed: Option<&Packed>,
        tips: &[Tip],
    ) -> Result<(), PushError> {
        let (client, room) = (self.pusher.client, self.state().room().clone());
        let Some(packed) = packed else {
            return self.post_rounds(plan, None, tips);
        };
        let meter = self.repository().meter("Uploading bundle", packed.built.spool.size());
        let bundle = MeteredSpool::new(&packed.built.spool, meter);
        let attachment = client.attachment(&room, &bundle).with_fence(self.request.fence);
        self.post_rounds(plan, Some((packed, &attachment)), tips)?;
        if self.report.bundle.is_some() {
            bundle.arrived();
        }
        if self.report.bundle.is_none() {
            attachment.abandon();
        }
        Ok(())
    }

    /// Posts, and where refs moved meanwhile, reports those and posts the others. Every round loses a ref.
    fn post_rounds(
        &mut self,
        plan: &Plan,
        packed: Option<(&Packed, &Attachment<'_>)>,
        tips: &[Tip],
    ) -> Result<(), PushError> {
        let mut is_first = true;
        let moved = self.moves.iter().filter(|planned| planned.new.is_some()).count();
        loop {
            // Refs that were lost meanwhile may leave nothing that the bundle is needed for.
            let packed = packed.filter(|(packed, _)| tips.len() > moved || self.needs_bundle(packed));
            let attachment = packed.map(|(_, attachment)| attachment);
            let packed = packed.map(|(packed, _)| packed);
            let id = packed.map(|packed| packed.part.blob).or(self.report.bundle_id);
            let draft = self.draft(plan, packed, id, is_first)?;
            let (hub, room) = (self.state().hub(), self.state().room());
            let signed = sign_for_room(self.pusher.client, hub, room, &self.room.head, &draft);
            let (client, key) = (self.pusher.client, self.request.key);
            let posted = match attachment {
                Some(attachment) => attachment.post(&signed, key),
                None => client.post_with_fence(room, self.request.fence, &signed, key, None),
            };
            match posted {
                Ok(posted) => {
                    self.report.replayed = posted.id != signed.id;
                    self.done(posted, packed, tips);
                    return Ok(());
                }
                Err(ClientError::Problem(problem)) if problem.code == ErrorCode::NotFound => {
                    return Err(RoomError::unknown(&self.report.room).into());
                }
                // A command that is run again finds its refs where its first run moved them, and has another message to post.
                Err(ClientError::Problem(problem)) if problem.code == ErrorCode::IdempotencyConflict => {
                    let is_there = |planned: &Move| {
                        let there = self.state().refs().get(&planned.update.name).map(|found| found.oid);
                        there == planned.update.new
                    };
                    // What a job asks for is where it was left, if it is the same one.
                    let before = if self.moves.iter().all(is_there) {
                        self.posted_before(&draft)?
                    } else {
                        None
                    };
                    self.report.posted = Some(before.ok_or(ClientError::Problem(problem))?);
                    self.report.replayed = true;
                    return Ok(());
                }
                Err(ClientError::Problem(problem)) => self.answer_problem(problem)?,
                Err(error) => return Err(error.into()),
            }
            self.refuse_the_rest();
            if self.has_failed() || (self.moves.is_empty() && self.request.extra.is_none()) {
                return Ok(());
            }
            is_first = false;
        }
    }

    /// The message that moved the refs to where they are and said then what this draft says.
    fn posted_before(&self, draft: &Draft) -> Result<Option<Posted>, PushError> {
        let (client, state) = (self.pusher.client, self.state());
        let moved = self.request.changes.iter().filter_map(|change| {
            let found = state.refs().get(&change.destination)?;
            Some(found.seq)
        });
        let brought = self.report.bundle_id.as_ref().and_then(|id| state.bundle(id));
        let candidates: BTreeSet<Seq> = moved.chain(brought.map(|bundle| bundle.seq)).collect();
        for seq in candidates.into_iter().rev().take(MOST_CANDIDATES) {
            // A token that may post may read these, and no others.
            let before = Seq::new(seq.get().saturating_sub(1));
            let PushesAnswer::Changed(pushes) = client.pushes(state.room(), Some(before), None, None)? else {
                continue;
            };
            let Some(message) = pushes.messages.first() else {
                continue;
            };
            let Ok(message) = Message::parse(message.get().as_bytes()) else {
                continue;
            };
            let is_own = match client.token() {
                // Each job has a key of its own.
                Some(token) => message.from.name == token.name().sender().as_str(),
                None => message.from.id == client.identity().key.id(),
            };
            let is_own = is_own && verify(&message, state.hub()).is_valid();
            let says_the_same = said(&message.parts) == said(&draft.parts)
                && (&message.mentions, message.reply_to) == (&draft.mentions, draft.reply_to);
            if message.seq == seq && is_own && says_the_same {
                return Ok(Some(Posted {
                    id: message.id,
                    seq,
                    room: state.room().clone(),
                    head: pushes.head,
                }));
            }
        }
        Ok(None)
    }

    /// Whether one of the refs that still move is in the bundle.
    fn needs_bundle(&self, packed: &Packed) -> bool {
        let bundled = |oid: Option<Oid>| packed.part.refs.iter().any(|tip| Some(tip.oid) == oid);
        self.moves.iter().any(|planned| bundled(planned.update.new))
    }

    fn draft(
        &self,
        plan: &Plan,
        packed: Option<&Packed>,
        id: Option<BundleId>,
        may_set_head: bool,
    ) -> Result<Draft, PushError> {
        let mut parts = Vec::new();
        let bundle = packed.map(|packed| &packed.part).or(self.held.as_ref());
        parts.extend(bundle.map(|part| part.clone().into()));
        if !self.moves.is_empty() {
            let updates: Vec<RefUpdate> = self.moves.iter().map(|planned| planned.update.clone()).collect();
            // Whoever pushed first in between has set it.
            let head = if may_set_head { self.first_head(&updates)? } else { None };
            let object_format = self.repository().object_format();
            let base_hint = plan.refs_hint.clone();
            parts.push(
                RefsPart {
                    updates,
                    atomic: self.request.atomic,
                    object_format,
                    head,
                    base_hint,
                }
                .into(),
            );
        }
        if let Some(extra) = self.request.extra {
            parts.extend(extra(id).into_iter().map(|part| match part {
                Part::Handoff(handoff) => Part::Handoff(HandoffPart {
                    work: handoff.work.or_else(|| self.work.clone()),
                    ..handoff
                }),
                part => part,
            }));
        }
        let mut draft = Draft::new(parts);
        draft.mentions = self.request.mentions.clone();
        draft.reply_to = self.request.reply_to;
        Ok(draft)
    }

    /// What HEAD becomes by the room's first branches: the pusher's own branch if it is among them.
    fn first_head(&self, updates: &[RefUpdate]) -> Result<Option<RefName>, PushError> {
        if self.state().head_ref().is_some() {
            return Ok(None);
        }
        let current = match self.repository().head() {
            Ok(LocalHead::Branch { name, .. }) => Some(name),
            _ => None,
        };
        let own = updates
            .iter()
            .find(|update| update.new.is_some() && current.as_deref() == Some(update.name.as_str()));
        let own = own.map(|update| &update.name);
        Ok(own.or_else(|| RefsPart::first_head(updates)).cloned())
    }

    fn answer_problem(&mut self, problem: Problem) -> Result<(), PushError> {
        match problem.code {
            ErrorCode::RefMoved if self.request.is_job => self.follow_job(&problem),
            ErrorCode::RefDirectoryConflict if self.request.is_job => self.make_way_again(&problem),
            ErrorCode::RefMoved if !problem.conflicts.is_empty() => {
                let before = self.moves.len();
                for conflict in &problem.conflicts {
                    self.lose(conflict)?;
                }
                if self.moves.len() < before {
                    Ok(())
                } else {
                    Err(ClientError::Problem(problem).into())
                }
            }
            ErrorCode::RefDirectoryConflict => {
                let before = self.moves.len();
                self.room = Room::read(self.pusher.client, self.pusher.room, self.pusher.cache)?;
                self.refuse_directory_conflicts();
                if self.moves.len() == before {
                    self.refuse_all(&Refusal::Other(problem.detail));
                }
                Ok(())
            }
            _ => Err(ClientError::Problem(problem).into()),
        }
    }

    /// A ref that somebody else moved first.
    fn lose(&mut self, conflict: &RefConflict) -> Result<(), PushError> {
        let Some(position) = self
            .moves
            .iter()
            .position(|planned| planned.update.name == conflict.name)
        else {
            return Ok(());
        };
        let lost = self.moves.remove(position);
        let outcome = match (conflict.actual, lost.new) {
            (actual, new) if actual == new.map(|new| new.oid) => RefOutcome::UpToDate,
            _ if lost.force != Force::No => RefOutcome::Refused(Refusal::StaleInfo),
            (Some(actual), Some(new)) => match relation(self.repository(), actual, &new)? {
                Relation::Diverged => RefOutcome::Refused(Refusal::NonFastForward),
                _ => RefOutcome::Refused(Refusal::FetchFirst),
            },
            _ => RefOutcome::Refused(Refusal::FetchFirst),
        };
        self.outcomes.insert(conflict.name.clone(), outcome);
        Ok(())
    }
}

//! One push from the first decision to the hub's answer.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use parler_protocol::api::Posted;
use parler_protocol::{BundleId, BundlePart, Oid, Part, RefName, RefUpdate, Work};

use super::decision::{Decision, Relation, Wish, decide, directory_conflicts};
use super::deepen::{DeepenPolicy, bring_history};
use super::nearer_base::nearer_base;
use super::plan::{Plan, Planner, Tip, Unplanned, is_enough};
use super::post::Packed;
use super::work;
use super::{
    CutOff, Force, PushError, PushReport, PushRequest, PushedBundle, Pusher, RefChange, RefOutcome, RefReport, Refusal,
    RoomLookup,
};
use crate::advertisement::header_refs;
use crate::base::{Bases, ordinary_remotes};
use crate::fetch_plan::FetchPlanner;
use crate::pack::{PackError, build_bundle};
use crate::pins;
use crate::repository::{Repository, RepositoryError, Resolved};
use crate::room::{Room, RoomError};
use crate::room_state::{RoomBundle, RoomState};

mod job;
mod rounds;

/// A chain of this many bundles is remarked upon, and again each time it has grown by as many.
const LONG_CHAIN_BUNDLES: usize = 50;

pub(super) fn push(
    pusher: &Pusher<'_>,
    request: &PushRequest<'_>,
    target: RoomLookup,
) -> Result<PushReport, PushError> {
    let (room, must_create) = pusher.open(target)?;
    let ours = pusher.repository.object_format();
    if let Some(theirs) = room.state.object_format().filter(|theirs| *theirs != ours) {
        return Err(PushError::ObjectFormat {
            room: room.state.room().clone(),
            theirs,
            ours,
        });
    }
    let report = PushReport {
        room: room.state.room().clone(),
        refs: Vec::new(),
        posted: None,
        replayed: false,
        bundle: None,
        pins: Vec::new(),
        bundle_id: None,
        room_created: false,
        cut_off: None,
        notes: Vec::new(),
    };
    let mut push = Push {
        pusher,
        request,
        room,
        report,
        must_create,
        outcomes: HashMap::new(),
        moves: Vec::new(),
        named: Vec::new(),
        work: None,
        held: None,
        rounds: 0,
    };
    push.decide()?;
    push.make_way();
    push.refuse_directory_conflicts();
    push.refuse_the_rest();
    let loose = push.loose_tips()?;
    push.send(&loose)?;
    Ok(push.into_report())
}

/// A ref that is going to move.
struct Move {
    update: RefUpdate,
    new: Option<Resolved>,
    force: Force,
}

struct Push<'a, 'r> {
    pusher: &'a Pusher<'a>,
    request: &'a PushRequest<'r>,
    room: Room,
    must_create: bool,
    report: PushReport,
    outcomes: HashMap<RefName, RefOutcome>,
    moves: Vec<Move>,
    /// Refs that are up to date and wanted in a bundle.
    named: Vec<Tip>,
    /// What a handoff that rides along brings.
    work: Option<Work>,
    /// A bundle of the room that the message names although it does not bring it.
    held: Option<BundlePart>,
    /// How often a job was posted in vain.
    rounds: u32,
}

impl Push<'_, '_> {
    fn repository(&self) -> &Repository {
        self.pusher.repository
    }

    fn state(&self) -> &RoomState {
        &self.room.state
    }

    fn refuse(&mut self, name: &RefName, why: Refusal) {
        self.outcomes.insert(name.clone(), RefOutcome::Refused(why));
    }

    fn decide(&mut self) -> Result<(), PushError> {
        let mut seen = HashSet::new();
        for change in &self.request.changes {
            let name = &change.destination;
            if !seen.insert(name) {
                self.refuse(name, Refusal::Other("it is pushed to twice".to_owned()));
                self.moves.retain(|planned| planned.update.name != *name);
                continue;
            }
            let new = match change
                .source
                .as_deref()
                .map(|source| self.repository().resolve(source))
                .transpose()
            {
                Ok(new) => new,
                Err(RepositoryError::UnknownRevision { revision, .. }) => {
                    self.refuse(
                        name,
                        Refusal::Other(format!("src refspec {revision} does not match any")),
                    );
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let called = self.called(name);
            let wish = Wish {
                name: &called,
                current: self.state().refs().get(name).map(|found| found.oid),
                new,
                force: change.force,
                is_head: self.state().head_ref() == Some(name),
            };
            let decision = match decide(&wish, |current, new| relation(self.repository(), current, new))? {
                // A job is one more each time, and says where its ref is.
                Decision::UpToDate if self.request.is_job => Decision::Move { rewinds: false },
                decision => decision,
            };
            let outcome = match decision {
                Decision::Move { rewinds } => {
                    let peeled = new.and_then(|new| new.commit.filter(|commit| *commit != new.oid));
                    let (old, new_oid) = (wish.current, new.map(|new| new.oid));
                    let update = RefUpdate {
                        name: name.clone(),
                        old,
                        new: new_oid,
                        forced: rewinds,
                        peeled,
                    };
                    self.moves.push(Move {
                        update,
                        new,
                        force: change.force,
                    });
                    continue;
                }
                Decision::UpToDate => {
                    // It may still be without a bundle of the kind that is asked for.
                    if self.request.full || self.request.name_every_tip {
                        self.named.extend(wish.new.and_then(|object| Tip::of(name, object)));
                    }
                    RefOutcome::UpToDate
                }
                Decision::NothingToDelete => RefOutcome::NothingToDelete,
                Decision::Refuse(why) => RefOutcome::Refused(why),
            };
            self.outcomes.insert(name.clone(), outcome);
        }
        Ok(())
    }

    fn refuse_directory_conflicts(&mut self) {
        let deleted: HashSet<&RefName> = self
            .moves
            .iter()
            .filter(|planned| planned.update.new.is_none())
            .map(|planned| &planned.update.name)
            .collect();
        let there = self.state().refs().keys().filter(|name| !deleted.contains(name));
        let created: Vec<&RefName> = self
            .moves
            .iter()
            .filter(|planned| planned.update.old.is_none() && planned.update.new.is_some())
            .map(|planned| &planned.update.name)
            .collect();
        let conflicts: Vec<(RefName, RefName)> = directory_conflicts(there, &created)
            .into_iter()
            .map(|(position, other)| (created[position].clone(), other))
            .collect();
        for (name, other) in conflicts {
            self.refuse(
                &name,
                Refusal::Other(format!("'{other}' exists; cannot create '{name}'")),
            );
            self.moves.retain(|planned| planned.update.name != name);
        }
    }

    /// The tips that are sent without moving a ref.
    fn loose_tips(&mut self) -> Result<Vec<Tip>, PushError> {
        let mut tips = std::mem::take(&mut self.named);
        for loose in &self.request.loose {
            let object = self.repository().resolve(&loose.revision)?;
            let commit = object.commit.ok_or_else(|| PushError::NotACommit {
                revision: loose.revision.clone(),
            })?;
            tips.push(Tip {
                name: loose.name.clone(),
                object,
                commit,
            });
        }
        Ok(tips)
    }

    /// The tips that must be in the room when this push is done.
    fn tips(&self, loose: &[Tip]) -> Vec<Tip> {
        let moved = self
            .moves
            .iter()
            .filter_map(|planned| Tip::of(&self.called(&planned.update.name), planned.new?));
        moved.chain(loose.iter().cloned()).collect()
    }

    /// Whether a ref of a push that is all or nothing, by itself or for what rides with it, was refused.
    fn has_failed(&self) -> bool {
        (self.request.atomic || self.request.extra.is_some())
            && self
                .outcomes
                .values()
                .any(|outcome| matches!(outcome, RefOutcome::Refused(_)))
    }

    /// Nothing moves where something that had to move as well was refused.
    fn refuse_the_rest(&mut self) {
        if self.has_failed() {
            self.refuse_all(&Refusal::AtomicPush);
        }
    }

    fn is_worth_posting(&self, loose: &[Tip]) -> bool {
        let is_something = !self.moves.is_empty() || !loose.is_empty() || self.request.extra.is_some();
        is_something && !self.has_failed()
    }

    fn send(&mut self, loose: &[Tip]) -> Result<(), PushError> {
        let tips = self.tips(loose);
        let own = self.request.is_job.then(|| self.own_state());
        let state = own.as_ref().unwrap_or(&self.room.state);
        let known = self.known_bundle(state, &tips);
        self.report.bundle_id = known;
        if !self.is_worth_posting(loose) {
            return Ok(());
        }
        let planner = Planner {
            repository: self.repository(),
            state,
            bases: if self.request.full || tips.is_empty() {
                Bases::default()
            } else {
                Bases::find(self.repository(), &self.pusher.policy.base)?
            },
            full: self.request.full,
            own: self.pusher.client.identity().key.id(),
            name_every_tip: self.request.name_every_tip || self.request.is_job || !self.request.loose.is_empty(),
        };
        let plan = match self.plan(&planner, &tips)? {
            Ok(plan) => plan,
            Err(cut_off) => return self.refuse_cut_off(cut_off),
        };
        if (self.request.is_job || !loose.is_empty()) && plan.bundle.is_none() {
            let held = known.and_then(|id| state.bundle(&id)).map(|bundle| bundle.part.clone());
            if held.is_none() {
                // A commit whose parents are not here makes no bundle.
                let commits = tips.iter().map(|tip| tip.commit).collect();
                let cut_off = self.cut_off(commits, None)?;
                return self.refuse_cut_off(cut_off);
            }
            self.held = held.filter(|_| self.request.is_job);
        }
        tell(&plan, &self.moves);
        if self.moves.is_empty() && plan.bundle.is_none() && self.request.extra.is_none() {
            return Ok(());
        }
        if !self.must_create {
            // Before the bundle is made: posting would refuse it.
            self.pusher.client.check_history(self.state().room())?;
        }
        if self.request.dry_run {
            self.moved();
            return Ok(());
        }
        self.work = self.count_work(&plan, &tips);
        let packed = self.pack(&plan)?;
        if self.must_create {
            self.make_room()?;
        }
        self.post_until_decided(&plan, packed.as_ref(), &tips)?;
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), PushError> {
        let (client, name) = (self.pusher.client, self.pusher.room);
        match Room::create(client, name) {
            Ok(room) => {
                self.room = room;
                self.report.room_created = true;
            }
            // Somebody was faster, and may have let us in.
            Err(RoomError::Unknown { .. }) => self.room = Room::read(client, name, self.pusher.cache)?,
            Err(error) => return Err(error.into()),
        }
        self.report.room = self.state().room().clone();
        Ok(())
    }

    /// Plans the push; once more with the history that was missing, where that may be fetched. A dry run fetches nothing.
    fn plan(&self, planner: &Planner<'_>, tips: &[Tip]) -> Result<Result<Plan, CutOff>, PushError> {
        let Unplanned::CutOff(commits) = match planner.plan(tips)? {
            Ok(plan) => return Ok(Ok(plan)),
            Err(unplanned) => unplanned,
        };
        let deepens = self.pusher.policy.deepen == DeepenPolicy::Auto;
        if !deepens || self.request.dry_run {
            return Ok(Err(self.cut_off(commits, None)?));
        }
        let tried = bring_history(self.repository(), &commits, self.pusher.notice)?;
        Ok(match planner.plan(tips)? {
            Ok(plan) => Ok(plan),
            Err(Unplanned::CutOff(commits)) => Err(self.cut_off(commits, tried)?),
        })
    }

    fn cut_off(&self, commits: Vec<Oid>, tried: Option<String>) -> Result<CutOff, PushError> {
        let remotes = ordinary_remotes(self.repository())?;
        let remote = remotes.first().map_or("", |remote| remote.name.as_str());
        let command = format!("git fetch --unshallow {remote}");
        Ok(CutOff {
            room: self.report.room.clone(),
            commits,
            tried,
            command: command.trim_end().to_owned(),
        })
    }

    fn refuse_cut_off(&mut self, cut_off: CutOff) -> Result<(), PushError> {
        if self.moves.is_empty() {
            return Err(cut_off.into());
        }
        self.report.cut_off = Some(cut_off);
        for planned in std::mem::take(&mut self.moves) {
            let why = match planned.update.new {
                Some(_) => Refusal::Other("shallow update not allowed".to_owned()),
                None => Refusal::AtomicPush,
            };
            self.refuse(&planned.update.name, why);
        }
        Ok(())
    }

    fn pack(&self, plan: &Plan) -> Result<Option<Packed>, PushError> {
        let Some(bundle) = &plan.bundle else { return Ok(None) };
        let spool_dir = self.repository().parler_dir();
        let most = self.pusher.client.blob_limit();
        let built = match build_bundle(self.repository(), &bundle.header, bundle.commits, &spool_dir, most) {
            Err(error @ PackError::TooLarge { .. }) => {
                let nearer = nearer_base(self.repository(), &bundle.header, bundle.commits)?;
                return Err(PushError::TooLarge { error, nearer });
            }
            built => built?,
        };
        let tip = self.repository().resolve(&bundle.header.refs[0].oid.to_string())?;
        let summary = tip.commit.and_then(|commit| self.repository().subject(&commit).ok());
        Ok(Some(Packed::new(
            built,
            bundle,
            summary.filter(|summary| !summary.is_empty()),
        )))
    }

    /// What the handoff brings that rides along. Nothing is counted where none does, and nothing where several branches
    /// come at once: one difference cannot be of all of them.
    fn count_work(&self, plan: &Plan, tips: &[Tip]) -> Option<Work> {
        let parts = self.request.extra?(None);
        if !parts.iter().any(|part| matches!(part, Part::Handoff(_))) {
            return None;
        }
        let Some(bundle) = &plan.bundle else {
            // The room has it from before.
            return work::of_bundle(self.repository(), self.state(), self.report.bundle_id.as_ref()?, true);
        };
        let base = bundle.base.as_ref().map(|base| base.label.clone());
        let tip = tips.first().map(|first| first.commit)?;
        if tips.iter().any(|other| other.commit != tip) {
            return None;
        }
        let prerequisites = &bundle.header.prerequisites;
        let base = base.or_else(|| work::base_in_room(self.state(), prerequisites));
        work::count(self.repository(), &tip, prerequisites, bundle.commits, base, true)
    }

    fn refuse_all(&mut self, why: &Refusal) {
        for planned in std::mem::take(&mut self.moves) {
            self.refuse(&planned.update.name, why.clone());
        }
    }

    fn moved(&mut self) {
        for planned in std::mem::take(&mut self.moves) {
            self.outcomes
                .insert(planned.update.name.clone(), RefOutcome::Moved(planned.update));
        }
    }

    fn done(&mut self, posted: Posted, packed: Option<&Packed>, tips: &[Tip]) {
        self.moved();
        self.report.posted = Some(posted);
        let Some(packed) = packed else { return };
        self.report.bundle = Some(PushedBundle {
            id: packed.part.blob,
            size: packed.part.size,
            commits: packed.part.commits.unwrap_or_default(),
            objects: u64::from(packed.built.objects),
            prerequisites: packed.part.prerequisites.clone(),
        });
        let first = tips.first().map(|tip| tip.object.oid);
        if packed.part.refs.iter().any(|tip| Some(tip.oid) == first) || self.report.bundle_id.is_none() {
            self.report.bundle_id = Some(packed.part.blob);
        }
        self.pin(packed);
        self.hint_at_long_chain(packed);
    }

    /// Whoever joins later imports the whole chain that a bundle builds on.
    fn hint_at_long_chain(&mut self, packed: &Packed) {
        let absent = |oids: &[Oid]| Ok::<_, Infallible>(vec![false; oids.len()]);
        let planner = FetchPlanner {
            state: self.state(),
            present: &absent,
            distrusted: &HashSet::new(),
            excluded: &HashSet::new(),
        };
        let Ok(chain) = planner.plan(&packed.part.needs);
        let length = chain.bundles.len() + 1;
        if length >= LONG_CHAIN_BUNDLES && length.is_multiple_of(LONG_CHAIN_BUNDLES) {
            self.report.notes.push(format!(
                "this bundle builds on {} others: git parler push --full makes one that stands alone",
                chain.bundles.len()
            ));
        }
    }

    /// Names the bundle here as it is named where it is fetched. The push has happened: a failure is a remark.
    fn pin(&mut self, packed: &Packed) {
        let id = packed.part.blob;
        let is_other = |bundle: &RoomBundle| *bundle.id() != id && bundle.id().short() == id.short();
        let short = !self.state().bundles().iter().any(is_other);
        match pins::pin(self.repository(), &id, &header_refs(&packed.part.refs), short) {
            Ok(pins) => self.report.pins = pins,
            Err(error) => self
                .report
                .notes
                .push(format!("bundle {} is not pinned here: {error}", id.short())),
        }
    }

    /// A bundle of the room with the first tip, or with the first ref that is up to date: the one that a ref was moved
    /// there by, else the oldest. Anybody can post a newer one that says the same.
    fn known_bundle(&self, state: &RoomState, tips: &[Tip]) -> Option<BundleId> {
        let is_up_to_date = |change: &&RefChange| self.outcomes.get(&change.destination) == Some(&RefOutcome::UpToDate);
        let up_to_date = || {
            let change = self.request.changes.iter().find(is_up_to_date)?;
            state.refs().get(&change.destination)
        };
        let oid = tips
            .first()
            .map(|tip| tip.object.oid)
            .or_else(|| up_to_date().map(|found| found.oid))?;
        let (full, own) = (self.request.full, self.pusher.client.identity().key.id());
        let of_kind = move |bundle: &&RoomBundle| is_enough(bundle, full, own);
        let at_tip = || state.bundles_at(&oid).filter(of_kind);
        let moved_there = |bundle: &&RoomBundle| {
            let mut refs = state.refs().values();
            refs.any(|found| found.oid == oid && found.seq == bundle.seq)
        };
        let by_ref = at_tip().find(moved_there);
        by_ref.or_else(|| at_tip().next()).map(|bundle| *bundle.id())
    }

    fn into_report(mut self) -> PushReport {
        let outcome = |name: &RefName| self.outcomes.get(name).cloned();
        let mut reports: Vec<RefReport> = Vec::new();
        for change in &self.request.changes {
            if let Some(outcome) = outcome(&change.destination) {
                reports.push(RefReport {
                    name: change.destination.clone(),
                    outcome,
                });
            }
        }
        self.report.refs = reports;
        self.report
    }
}

/// What is going to be sent, for whoever traces.
fn tell(plan: &Plan, moves: &[Move]) {
    for planned in moves {
        let RefUpdate {
            name, old, new, forced, ..
        } = &planned.update;
        tracing::debug!(%name, ?old, ?new, forced, "push: a ref moves");
    }
    match &plan.bundle {
        Some(bundle) => tracing::debug!(
            tips = bundle.header.refs.len(),
            commits = bundle.commits,
            prerequisites = ?bundle.header.prerequisites,
            needs = ?bundle.needs,
            base = bundle.base.as_ref().map(|base| base.label.as_str()),
            "push: a bundle is made"
        ),
        None => tracing::debug!("push: no bundle is needed"),
    }
}

fn relation(repository: &Repository, current: Oid, new: &Resolved) -> Result<Relation, RepositoryError> {
    if !repository.contains(&[current])?[0] {
        return Ok(Relation::Unknown);
    }
    let current = repository.resolve(&current.to_string())?;
    let (Some(current), Some(new)) = (current.commit, new.commit) else {
        return Ok(Relation::NotCommits);
    };
    Ok(if repository.is_ancestor(&current, &new)? {
        Relation::Ahead
    } else {
        Relation::Diverged
    })
}

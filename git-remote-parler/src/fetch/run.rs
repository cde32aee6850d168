//! One fetch: planned, carried out, and planned again without the bundles that turned out not to be what they said. A
//! member of a room can post a bundle that names anything; it must not keep the others from what the room has.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use parler_client::ClientError;
use parler_protocol::{AgentId, BaseHint, BundleId, Oid, RefName};

use super::downloads::{Downloads, Wanted};
use super::failure::{Failed, is_about_promises, is_about_the_bundle, lacks_objects, more_telling};
use super::{FetchError, Fetched, Fetcher, Want};
use crate::advertisement::header_refs;
use crate::base_fetch::{BaseFetch, MissingBase, is_plain};
use crate::fetch_plan::{External, FetchPlan, FetchPlanner};
use crate::git::one_line;
use crate::import::{ExpectedHeader, Import, ImportError, Imported, Incoming, PinTiming};
use crate::repository::RepositoryError;
use crate::room_state::{RoomBundle, RoomRef, RoomState};

/// How long imports may take, all together, that fail because the remote of a partial clone does not send what bundles
/// build on: it may be that it cannot be reached, and then no other bundle helps.
const PROMISED_PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Run<'a> {
    fetcher: &'a Fetcher<'a>,
    timing: PinTiming,
    pub(super) fetched: Fetched,
    base_fetch: BaseFetch<'a>,
    /// Bundles that did not bring what they announced, or cannot be used here.
    excluded: HashSet<BundleId>,
    /// Bundles whose `needs` did not bring what they expect.
    distrusted: HashSet<BundleId>,
    /// Tips of excluded bundles that, by the word of whoever moved a ref there, are nowhere else.
    unobtainable: HashSet<Oid>,
    /// How many bundles the next import takes: all, until something was wrong. Then half of those that failed, so that
    /// what is right stays and is not downloaded again with each plan, and twice as many after each success.
    together: usize,
    /// Whether commits that are here were asked for again, because something that belongs to them seemed to be missing.
    has_mended: bool,
    /// What is left of [`PROMISED_PATIENCE`].
    promised_left: Duration,
}

/// What wanted objects come down to.
#[derive(Default)]
struct Sorted<'w> {
    bundles: Vec<BundleId>,
    /// Refs whose commits no bundle brings, as their pusher said.
    bare: Vec<External>,
    /// Not the tip of any bundle.
    scattered: Vec<&'w Want>,
}

impl<'a> Run<'a> {
    pub(super) fn new(fetcher: &'a Fetcher<'a>, timing: PinTiming) -> Self {
        let ours = fetcher.repository.object_format();
        let is_foreign = |bundle: &&RoomBundle| !bundle.is_of_format(ours);
        Self {
            fetcher,
            timing,
            fetched: Fetched::default(),
            base_fetch: BaseFetch::new(fetcher.repository, fetcher.policy.fetch_base, fetcher.notice),
            // A room without a ref has no hash of its own yet.
            excluded: fetcher
                .state
                .bundles()
                .iter()
                .filter(is_foreign)
                .map(|bundle| *bundle.id())
                .collect(),
            distrusted: HashSet::new(),
            unobtainable: HashSet::new(),
            together: usize::MAX,
            has_mended: false,
            promised_left: PROMISED_PATIENCE,
        }
    }

    fn state(&self) -> &'a RoomState {
        self.fetcher.state
    }

    pub(super) fn bring_objects(&mut self, wants: &[Want]) -> Result<(), FetchError> {
        let mut first_error = None;
        // Each round that fails has one bundle less to take, or takes fewer at once, or ends the fetch.
        loop {
            let missing = self.missing(wants)?;
            let mut sorted = self.sort(&missing)?;
            if self.fetcher.follows_tags {
                let along = self.plan_with(|planner| planner.tags_along(&sorted.bundles))?;
                sorted.bundles.extend(along);
            }
            if let Some(missing) = self.bring_external(&sorted.bare)? {
                let error = self.base_missing(&sorted.bare, missing);
                return Err(more_telling(first_error, error));
            }
            match self.bring(&sorted.bundles) {
                Ok(()) => {
                    for want in sorted.scattered {
                        self.search(want)
                            .map_err(|error| more_telling(first_error.take(), error))?;
                    }
                    return Ok(());
                }
                Err(Failed {
                    error,
                    can_do_without: true,
                }) => first_error = Some(more_telling(first_error, error)),
                Err(Failed { error, .. }) => return Err(more_telling(first_error, error)),
            }
        }
    }

    pub(super) fn bring_bundles(&mut self, ids: &[BundleId]) -> Result<(), FetchError> {
        let mut first_error = None;
        loop {
            match self.bring(ids) {
                Ok(()) => return Ok(()),
                Err(Failed { error, can_do_without }) => {
                    let is_one_of_them = ids.iter().any(|id| self.excluded.contains(id));
                    let error = more_telling(first_error.take(), error);
                    if !can_do_without || is_one_of_them {
                        return Err(error);
                    }
                    first_error = Some(error);
                }
            }
        }
    }

    fn missing<'w>(&self, wants: &'w [Want]) -> Result<Vec<&'w Want>, FetchError> {
        let mut seen = HashSet::new();
        let distinct: Vec<&Want> = wants.iter().filter(|want| seen.insert(want.oid)).collect();
        let oids: Vec<Oid> = distinct.iter().map(|want| want.oid).collect();
        let here = self.fetcher.repository.contains(&oids)?;
        Ok(distinct
            .into_iter()
            .zip(here)
            .filter(|(_, here)| !*here)
            .map(|(want, _)| want)
            .collect())
    }

    fn sort<'w>(&self, wants: &[&'w Want]) -> Result<Sorted<'w>, FetchError> {
        let tips: Vec<_> = wants.iter().map(|want| (want.oid, self.mover_of(want))).collect();
        let best = self.plan_with(|planner| planner.bundles_for(&tips))?;
        let mut sorted = Sorted::default();
        for (want, best) in wants.iter().zip(best) {
            let naming = || self.state().bundles_at(&want.oid).rev().map(|bundle| *bundle.id());
            let named = || naming().find(|id| !self.excluded.contains(id));
            match best.or_else(named) {
                Some(id) => sorted.bundles.push(id),
                None => match self.hint_of(want) {
                    Some(hint) => sorted.bare.push(External {
                        oid: want.oid,
                        bundle: None,
                        hint: Some(hint),
                    }),
                    None => sorted.scattered.push(want),
                },
            }
        }
        Ok(sorted)
    }

    /// Who moved the wanted ref to where it is wanted.
    fn mover_of(&self, want: &Want) -> Option<AgentId> {
        let found = self.state().refs().get(want.name.as_ref()?)?;
        (found.oid == want.oid).then_some(found.mover)
    }

    fn hint_of(&self, want: &Want) -> Option<BaseHint> {
        let found = self.state().refs().get(want.name.as_ref()?)?;
        found.base_hint.clone().filter(|_| found.oid == want.oid)
    }

    fn plan_with<T>(
        &self,
        ask: impl FnOnce(&FetchPlanner<'_, RepositoryError>) -> Result<T, RepositoryError>,
    ) -> Result<T, FetchError> {
        Ok(ask(&FetchPlanner {
            state: self.state(),
            present: &|oids| self.fetcher.repository.contains(oids),
            distrusted: &self.distrusted,
            excluded: &self.excluded,
        })?)
    }

    /// Imports bundles with all they build on. After a failure that can be done without, those to blame are excluded.
    fn bring(&mut self, ids: &[BundleId]) -> Result<(), Failed> {
        if ids.is_empty() {
            return Ok(());
        }
        let plan = self.plan_with(|planner| planner.plan(ids))?;
        tracing::debug!(
            wanted = ids.len(),
            bundles = ?plan.bundles,
            external = ?plan.external.iter().map(|external| external.oid).collect::<Vec<_>>(),
            "fetch: planned"
        );
        if let Some(missing) = self.bring_external(&plan.external)? {
            let can_do_without = self.exclude_without_base(&plan, &missing.oids)?;
            let error = self.base_missing(&plan.external, missing);
            return Err(Failed { error, can_do_without });
        }
        // What came with an earlier plan of this fetch is here, whether it is asked for by its id or not.
        let came: HashSet<BundleId> = self.fetched.bundles.iter().map(|bundle| bundle.id).collect();
        let mut left: &[BundleId] = &plan
            .bundles
            .iter()
            .filter(|id| !came.contains(id))
            .copied()
            .collect::<Vec<_>>();
        while !left.is_empty() {
            let (batch, rest) = left.split_at(self.together.min(left.len()));
            let began = Instant::now();
            match self.import(batch, self.timing) {
                Ok(imported) => self.fetched.add(batch, imported, self.timing),
                Err(error) => {
                    if is_about_promises(&error) {
                        self.promised_left = self.promised_left.saturating_sub(began.elapsed());
                    }
                    let can_do_without = self.mend_bases(&error, batch)? || self.blame(&error, batch);
                    return Err(Failed { error, can_do_without });
                }
            }
            self.together = self.together.saturating_mul(2);
            left = rest;
        }
        Ok(())
    }

    /// A commit that is here and that no ref leads to may lack some of its objects, and so may what is built on it. Before
    /// a bundle is blamed for that its base is asked for again, once. Gives whether that may have helped.
    fn mend_bases(&mut self, error: &FetchError, batch: &[BundleId]) -> Result<bool, FetchError> {
        let source = match error {
            FetchError::Bundle { source, .. } => source,
            FetchError::Import(source) => source,
            _ => return Ok(false),
        };
        if !lacks_objects(source) || self.has_mended {
            return Ok(false);
        }
        let state = self.state();
        let bundles = batch.iter().filter_map(|id| state.bundle(id));
        let expected: Vec<External> = bundles
            .flat_map(|bundle| {
                let hint = bundle.part.base_hint.as_ref();
                bundle.part.prerequisites.iter().map(move |oid| External {
                    oid: *oid,
                    bundle: Some(*bundle.id()),
                    hint: hint.cloned(),
                })
            })
            .collect();
        let repository = self.fetcher.repository;
        let oids: Vec<Oid> = expected.iter().map(|external| external.oid).collect();
        let here = repository.contains(&oids)?;
        let (mut bases, _): (Vec<_>, Vec<_>) = expected.into_iter().zip(here).partition(|(_, here)| *here);
        // What a ref leads to is whole, or the repository is broken.
        let oids: Vec<Oid> = bases.iter().map(|(base, _)| base.oid).collect();
        let led_to: Vec<Oid> = repository.refs("refs/")?.iter().map(|local| local.oid).collect();
        if let Ok(boundary) = repository.boundary(&oids, &led_to) {
            let mut is_new = boundary.is_new.into_iter();
            bases.retain(|_| is_new.next().unwrap_or(true));
        }
        let bases: Vec<External> = bases.into_iter().map(|(base, _)| base).collect();
        if bases.is_empty() {
            return Ok(false);
        }
        self.has_mended = true;
        Ok(self.base_fetch.bring_whole(&bases)?)
    }

    /// Excludes the bundles that an import failed for, as far as that is known. Gives whether another plan may do better.
    fn blame(&mut self, error: &FetchError, batch: &[BundleId]) -> bool {
        tracing::debug!(%error, batch = batch.len(), "fetch: an import failed");
        let before = (self.excluded.len(), self.distrusted.len());
        match error {
            FetchError::NotSent { id, .. } => _ = self.excluded.insert(*id),
            FetchError::Bundle { id, source, .. } => match &**source {
                ImportError::MissingPrerequisites { oids } => self.blame_for_prerequisites(*id, oids, batch),
                // Any member can build on objects that no remote has.
                ImportError::Promised { .. } if !self.promised_left.is_zero() => _ = self.excluded.insert(*id),
                source if is_about_the_bundle(source) => _ = self.excluded.insert(*id),
                _ => return false,
            },
            // One of them, and it is not said which: fewer at once show it.
            FetchError::Import(source) if is_about_the_bundle(source) => {
                if let [alone] = batch {
                    self.excluded.insert(*alone);
                }
            }
            _ => return false,
        }
        if batch.len() > 1 {
            self.together = batch.len() / 2;
        }
        batch.len() > 1 || before != (self.excluded.len(), self.distrusted.len())
    }

    /// A bundle came too early: the fault of those that were to bring what it expects, or of its own word about them.
    fn blame_for_prerequisites(&mut self, id: BundleId, oids: &[Oid], batch: &[BundleId]) {
        let to_bring = oids.iter().flat_map(|oid| self.state().providers(oid));
        let liars: Vec<BundleId> = to_bring
            .map(|bundle| *bundle.id())
            .filter(|liar| *liar != id && batch.contains(liar))
            .collect();
        let has_needs = self
            .state()
            .bundle(&id)
            .is_some_and(|bundle| !bundle.part.needs.is_empty());
        if !liars.is_empty() {
            self.excluded.extend(liars);
        } else if !has_needs || !self.distrusted.insert(id) {
            self.excluded.insert(id);
        }
    }

    /// Excludes the bundles of a plan that expect what cannot be had, and those that build on them and on nothing else.
    /// Gives whether another plan may do better.
    fn exclude_without_base(&mut self, plan: &FetchPlan, missing: &[Oid]) -> Result<bool, FetchError> {
        let before = self.excluded.len();
        let missing: HashSet<Oid> = missing.iter().copied().collect();
        // In their order, so that one pass goes through a whole chain.
        for id in &plan.bundles {
            let Some(bundle) = self.state().bundle(id) else {
                continue;
            };
            let is_lost = |oid: &Oid| {
                let others = || {
                    self.state()
                        .providers(oid)
                        .any(|other| !self.excluded.contains(other.id()))
                };
                missing.contains(oid) || (self.unobtainable.contains(oid) && !others())
            };
            if !bundle.part.prerequisites.iter().any(is_lost) {
                continue;
            }
            self.excluded.insert(*id);
            let tips: Vec<Oid> = bundle
                .tips()
                .filter(|tip| self.state().is_vouched(bundle, tip))
                .collect();
            let here = self.fetcher.repository.contains(&tips)?;
            let absent = tips.into_iter().zip(here).filter(|(_, here)| !*here);
            self.unobtainable.extend(absent.map(|(tip, _)| tip));
        }
        Ok(self.excluded.len() > before)
    }

    /// Fetches from configured remotes what the room does not hold. Gives what is missing still.
    fn bring_external(&mut self, external: &[External]) -> Result<Option<MissingBase>, FetchError> {
        // Bundles of this room were to bring these, and nobody asks another remote for each of a chain.
        let (lost, open): (Vec<_>, Vec<_>) = external
            .iter()
            .cloned()
            .partition(|external| self.unobtainable.contains(&external.oid));
        match lost.first() {
            Some(first) => Ok(Some(self.base_fetch.without_asking(first)?)),
            None => Ok(self.base_fetch.bring(&open)?),
        }
    }

    fn base_missing(&self, external: &[External], mut missing: MissingBase) -> FetchError {
        let of_missing = external.iter().find(|external| missing.oids.contains(&external.oid));
        let what = match of_missing.map(|external| (external.bundle, external.oid)) {
            Some((Some(id), _)) => format!("bundle {}", id.short()),
            Some((None, oid)) => {
                if missing.command.is_none() || missing.tried.is_some() {
                    missing.command = Some(self.help_for_ref_at(&oid));
                }
                self.ref_at(&oid)
            }
            None => "a ref".to_owned(),
        };
        FetchError::BaseMissing {
            what,
            room: self.fetcher.room(),
            missing: Box::new(missing),
        }
    }

    /// For people: the room's ref at an object, and who moved it there.
    fn ref_at(&self, oid: &Oid) -> String {
        match self.state().refs().iter().find(|(_, found)| found.oid == *oid) {
            Some((name, found)) => format!("{},", set_by(name, found)),
            None => "a ref".to_owned(),
        }
    }

    /// For people: the ref that a bundle's author set to what the bundle brings. Whoever leaves it out needs no such bundle.
    fn ref_of(&self, id: &BundleId) -> Option<String> {
        let bundle = self.state().bundle(id)?;
        let tips: HashSet<Oid> = bundle.tips().collect();
        let leads_to_it = |found: &RoomRef| tips.contains(&found.oid) && found.mover == bundle.author_id;
        let mut refs = self.state().refs().iter();
        refs.find(|(_, found)| leads_to_it(found))
            .map(|(name, found)| set_by(name, found))
    }

    /// What helps against a ref at an object that cannot be had: its author sends it, or, where it exists nowhere, the ref
    /// is taken away.
    fn help_for_ref_at(&self, oid: &Oid) -> String {
        let by_author = "git parler push --full, by its author";
        let refs = self.state().refs();
        match refs
            .iter()
            .find(|(name, found)| found.oid == *oid && is_plain(name.as_str()))
        {
            Some((name, _)) => format!(
                "{by_author}, or else git push parler::room/{} :{name}",
                self.fetcher.room()
            ),
            None => by_author.to_owned(),
        }
    }

    fn import(&self, ids: &[BundleId], timing: PinTiming) -> Result<Imported, FetchError> {
        let (state, room) = (self.state(), || self.fetcher.room());
        let repository = self.fetcher.repository;
        let mut import = Import::begin(repository, self.fetcher.policy.limits)?;
        let not_sent = |id: &BundleId| FetchError::NotSent { id: *id, room: room() };
        let bundles = ids.iter().map(|id| state.bundle(id).ok_or_else(|| not_sent(id)));
        let bundles = bundles.collect::<Result<Vec<_>, _>>()?;
        let wanted = |bundle: &&RoomBundle| Wanted {
            id: *bundle.id(),
            size: bundle.part.size,
        };
        let wanted: Vec<_> = bundles.iter().map(wanted).collect();
        let (client, at_once) = (self.fetcher.client, self.fetcher.policy.downloads);
        let mut downloads = Downloads::begin(client, state.room(), &wanted, at_once, repository.parler_dir());
        // One bundle has the meter of the child that takes it in.
        let mut meter = (ids.len() > 1).then(|| repository.meter("Fetching bundles", ids.len() as u64));
        for (number, bundle) in (1..).zip(bundles) {
            let mut download = downloads.next()?.ok_or_else(|| not_sent(bundle.id()))?;
            let incoming = Incoming {
                id: *bundle.id(),
                size: bundle.part.size,
                expected: expected(bundle),
                short_pin: state.short(bundle.id()).is_some(),
                reader: &mut download,
            };
            let added = import.add(incoming);
            added.map_err(|error| self.naming(error, Some(*bundle.id())))?;
            if let Some(meter) = &mut meter {
                meter.moved(number, downloads.arrived());
            }
        }
        if let Some(meter) = &mut meter {
            meter.done(downloads.arrived());
        }
        drop(downloads);
        let alone = match ids {
            [alone] => Some(*alone),
            _ => None,
        };
        import.finish(timing).map_err(|error| self.naming(error, alone))
    }

    /// An import's error with the bundle that it is about: the one at hand, unless it is about bundles before that. Where
    /// the hub sent no more it is about the hub.
    fn naming(&self, error: ImportError, at_hand: Option<BundleId>) -> FetchError {
        let (id, source) = match error {
            ImportError::Read(error) => match error.downcast::<ClientError>() {
                Ok(error) => return error.into(),
                Err(error) => (at_hand, Box::new(ImportError::Read(error))),
            },
            ImportError::Among { ids, source } if ids.len() == 1 => (ids.first().copied(), source),
            error @ ImportError::Among { .. } => return error.into(),
            error => (at_hand, Box::new(error)),
        };
        match id {
            Some(id) => FetchError::Bundle {
                id,
                room: self.fetcher.room(),
                named: self.ref_of(&id),
                source,
            },
            None => (*source).into(),
        }
    }

    /// The next bundles that may bring something, at most `most` of them.
    fn next_unseen(&self, left: &mut VecDeque<BundleId>, most: usize) -> Result<Vec<BundleId>, FetchError> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(id) = left.pop_front()
        {
            let Some(bundle) = self.state().bundle(&id).filter(|_| !self.excluded.contains(&id)) else {
                continue;
            };
            let tips: Vec<Oid> = bundle.tips().collect();
            if tips.is_empty() || !self.fetcher.repository.contains(&tips)?.iter().all(|here| *here) {
                batch.push(id);
            }
        }
        Ok(batch)
    }

    /// Looks for an object that is no bundle's tip: a branch made in the middle of a bundle. Whoever made it had it from
    /// a bundle older than the message, so the nearest older one is the likeliest.
    fn search(&mut self, want: &Want) -> Result<(), FetchError> {
        if self.fetcher.repository.contains(&[want.oid])?[0] {
            return Ok(());
        }
        let moved_at = want
            .name
            .as_ref()
            .and_then(|name| self.state().refs().get(name))
            .map(|found| found.seq);
        let is_older = |bundle: &&RoomBundle| moved_at.is_none_or(|seq| bundle.seq <= seq);
        let mut left: VecDeque<BundleId> = self
            .state()
            .bundles()
            .iter()
            .rev()
            .filter(is_older)
            .map(|bundle| *bundle.id())
            .collect();
        let mut last_error = None;
        // Twice as many after each that did not have it: most often it is near, and nowhere costs few requests.
        let mut together = 1;
        while !left.is_empty() {
            let batch = self.next_unseen(&mut left, together)?;
            let brought = self.bring_bundles(&batch);
            if self.fetcher.repository.contains(&[want.oid])?[0] {
                return Ok(());
            }
            match brought {
                Ok(()) => together = together.saturating_mul(2),
                // Another bundle may do without what this one misses, or be what it says.
                Err(error) if batch.iter().any(|id| self.excluded.contains(id)) => {
                    // One that is rubbish tells nothing about this commit; one that misses its base may hold it.
                    if matches!(error, FetchError::BaseMissing { .. }) {
                        last_error = Some(error);
                    }
                    for id in batch.into_iter().rev().filter(|id| !self.excluded.contains(id)) {
                        left.push_front(id);
                    }
                    together = (together / 2).max(1);
                }
                Err(error) => return Err(error),
            }
        }
        let (oid, room) = (want.oid, self.fetcher.room());
        let not_in_room = || match want.name {
            Some(_) => FetchError::NotInRoom {
                what: self.ref_at(&oid),
                command: self.help_for_ref_at(&oid),
                room,
                oid,
            },
            None => FetchError::UnknownObject { oid, room },
        };
        Err(last_error.unwrap_or_else(not_in_room))
    }
}

fn set_by(name: &RefName, found: &RoomRef) -> String {
    let mover = one_line(found.mover_name.as_bytes());
    format!("{name}, set by message {} of {mover}", found.seq)
}

fn expected(bundle: &RoomBundle) -> Option<ExpectedHeader> {
    // Other clients sign the id alone.
    (!bundle.refs().is_empty()).then(|| ExpectedHeader {
        refs: header_refs(bundle.refs()),
        prerequisites: bundle.part.prerequisites.clone(),
        object_format: bundle.part.object_format,
    })
}

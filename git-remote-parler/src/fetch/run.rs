//! One fetch: planned, carried out, and planned again without the bundles that turned out not to be what they said. A
//! member of a room can post a bundle that names anything; it must not keep the others from what the room has.

use std::collections::HashSet;

use parler_protocol::limits::MAX_BUNDLES_PER_REQUEST;
use parler_protocol::{BaseHint, BundleId, Oid};

use super::{FetchError, Fetched, Fetcher, Want};
use crate::advertisement::header_refs;
use crate::base_fetch::fetch_external;
use crate::fetch_plan::{External, FetchPlan, FetchPlanner};
use crate::import::{ExpectedHeader, Import, ImportError, Imported, Incoming, PinTiming};
use crate::repository::RepositoryError;
use crate::room_state::{RoomBundle, RoomState};

/// How often a plan is made again before what is wrong is reported.
const MAX_ATTEMPTS: usize = 16;

pub(super) struct Run<'a> {
    fetcher: &'a Fetcher<'a>,
    timing: PinTiming,
    pub(super) fetched: Fetched,
    /// Bundles that did not bring what they announced.
    excluded: HashSet<BundleId>,
    trusts_needs: bool,
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
        Self {
            fetcher,
            timing,
            fetched: Fetched::default(),
            excluded: HashSet::new(),
            trusts_needs: true,
        }
    }

    fn state(&self) -> &'a RoomState {
        self.fetcher.state
    }

    pub(super) fn bring_objects(&mut self, wants: &[Want]) -> Result<(), FetchError> {
        let mut first_error = None;
        for _ in 0..MAX_ATTEMPTS {
            let missing = self.missing(wants)?;
            let sorted = self.sort(&missing)?;
            self.bring_external(&sorted.bare)?;
            match self.bring(&sorted.bundles) {
                Ok(()) => {
                    for want in sorted.scattered {
                        self.search(want).map_err(|error| first_error.take().unwrap_or(error))?;
                    }
                    return Ok(());
                }
                Err(Failed {
                    error,
                    can_do_without: true,
                }) => _ = first_error.get_or_insert(error),
                Err(Failed { error, .. }) => return Err(first_error.unwrap_or(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    pub(super) fn bring_bundles(&mut self, ids: &[BundleId]) -> Result<(), FetchError> {
        let mut first_error = None;
        for _ in 0..MAX_ATTEMPTS {
            match self.bring(ids) {
                Ok(()) => return Ok(()),
                Err(Failed { error, can_do_without }) => {
                    let is_one_of_them = ids.iter().any(|id| self.excluded.contains(id));
                    let error = first_error.take().unwrap_or(error);
                    if !can_do_without || is_one_of_them {
                        return Err(error);
                    }
                    first_error = Some(error);
                }
            }
        }
        first_error.map_or(Ok(()), Err)
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
        let mut sorted = Sorted::default();
        for want in wants {
            let naming = || self.state().bundles_at(&want.oid).rev().map(|bundle| *bundle.id());
            let named = || naming().find(|id| !self.excluded.contains(id));
            match self.plan_with(|planner| planner.bundle_for(&want.oid))?.or_else(named) {
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

    fn hint_of(&self, want: &Want) -> Option<BaseHint> {
        let found = self.state().refs().get(want.name.as_ref()?)?;
        found.base_hint.clone().filter(|_| found.oid == want.oid)
    }

    fn plan_with<T>(
        &self,
        ask: impl FnOnce(&FetchPlanner<'_, RepositoryError>) -> Result<T, RepositoryError>,
    ) -> Result<T, FetchError> {
        let present = |oids: &[Oid]| self.fetcher.repository.contains(oids);
        Ok(ask(&FetchPlanner {
            state: self.state(),
            present: &present,
            trusts_needs: self.trusts_needs,
            excluded: &self.excluded,
        })?)
    }

    /// Imports bundles with all they build on. After a failure that can be done without, those to blame are excluded.
    fn bring(&mut self, ids: &[BundleId]) -> Result<(), Failed> {
        if ids.is_empty() {
            return Ok(());
        }
        let plan = self.plan_with(|planner| planner.plan(ids))?;
        self.bring_external(&plan.external)?;
        match self.import(&plan.bundles, self.timing) {
            Ok(imported) => {
                self.fetched.add(&plan.bundles, imported, self.timing);
                Ok(())
            }
            Err(error) => {
                let can_do_without = self.blame(&error, &plan)?;
                Err(Failed { error, can_do_without })
            }
        }
    }

    /// Excludes the bundles that an import failed for. Gives whether there were any.
    fn blame(&mut self, error: &FetchError, plan: &FetchPlan) -> Result<bool, FetchError> {
        let before = (self.excluded.len(), self.trusts_needs);
        match error {
            FetchError::Bundle { source, .. } if let ImportError::MissingPrerequisites { oids } = &**source => {
                // Not this bundle's fault, but that of those which were to bring them.
                let to_bring = oids
                    .iter()
                    .flat_map(|oid| self.state().providers(oid))
                    .map(|bundle| *bundle.id());
                let liars: Vec<_> = to_bring.filter(|id| plan.bundles.contains(id)).collect();
                if liars.is_empty() && !plan.hoped_for.is_empty() {
                    self.trusts_needs = false;
                }
                self.excluded.extend(liars);
            }
            FetchError::Bundle { id, source, .. } if is_about_the_bundle(source) => {
                self.excluded.insert(*id);
            }
            // All together are incomplete, and it is not said which: one after the other shows it.
            FetchError::Import(ImportError::Incomplete { .. }) => {
                for id in &plan.bundles {
                    match self.import(&[*id], self.timing) {
                        Ok(imported) => self.fetched.add(&[*id], imported, self.timing),
                        Err(FetchError::Import(ImportError::Incomplete { .. }) | FetchError::Bundle { .. }) => {
                            self.excluded.insert(*id);
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            _ => {}
        }
        Ok(before != (self.excluded.len(), self.trusts_needs))
    }

    fn bring_external(&self, external: &[External]) -> Result<(), FetchError> {
        let Fetcher { repository, policy, .. } = self.fetcher;
        let Some(missing) = fetch_external(repository, external, policy.fetch_base)? else {
            return Ok(());
        };
        let of_missing = external.iter().find(|external| missing.oids.contains(&external.oid));
        let bundle = of_missing.and_then(|external| external.bundle);
        let what = bundle.map_or_else(|| "a ref".to_owned(), |id| format!("bundle {}", id.short()));
        Err(FetchError::BaseMissing {
            what,
            room: self.fetcher.room(),
            missing: Box::new(missing),
        })
    }

    fn import(&self, ids: &[BundleId], timing: PinTiming) -> Result<Imported, FetchError> {
        let (state, room) = (self.state(), || self.fetcher.room());
        let mut import = Import::begin(self.fetcher.repository, self.fetcher.policy.limits)?;
        for chunk in ids.chunks(MAX_BUNDLES_PER_REQUEST) {
            let mut stream = self.fetcher.client.bundles(state.room(), chunk)?;
            for id in chunk {
                let not_sent = || FetchError::NotSent { id: *id, room: room() };
                let bundle = state.bundle(id).ok_or_else(not_sent)?;
                let as_signed = stream
                    .next()?
                    .filter(|reader| reader.id == *id && reader.size == bundle.part.size);
                let mut reader = as_signed.ok_or_else(not_sent)?;
                let incoming = Incoming {
                    id: *id,
                    size: bundle.part.size,
                    expected: expected(bundle),
                    short_pin: state.short(id).is_some(),
                    reader: &mut reader,
                };
                import.add(incoming).map_err(|source| FetchError::Bundle {
                    id: *id,
                    room: room(),
                    source: Box::new(source),
                })?;
            }
        }
        Ok(import.finish(timing)?)
    }

    /// Looks for an object that is no bundle's tip: a branch made in the middle of a bundle. Whoever made it had it from
    /// a bundle older than the message, so the nearest older one is the likeliest.
    fn search(&mut self, want: &Want) -> Result<(), FetchError> {
        let repository = self.fetcher.repository;
        let is_here = || Ok::<bool, FetchError>(repository.contains(&[want.oid])?[0]);
        if is_here()? {
            return Ok(());
        }
        let moved_at = want
            .name
            .as_ref()
            .and_then(|name| self.state().refs().get(name))
            .map(|found| found.seq);
        let is_older = |bundle: &&RoomBundle| moved_at.is_none_or(|seq| bundle.seq <= seq);
        let mut last_error = None;
        for bundle in self.state().bundles().iter().rev().filter(is_older) {
            if self.excluded.contains(bundle.id()) {
                continue;
            }
            let tips: Vec<Oid> = bundle.tips().collect();
            if !tips.is_empty() && repository.contains(&tips)?.iter().all(|here| *here) {
                continue;
            }
            match self.bring_bundles(&[*bundle.id()]) {
                Ok(()) if is_here()? => return Ok(()),
                Ok(()) => {}
                // Another bundle may do without the base that this one misses.
                Err(error @ (FetchError::BaseMissing { .. } | FetchError::Bundle { .. })) => last_error = Some(error),
                Err(error) => return Err(error),
            }
        }
        let not_in_room = || FetchError::NotInRoom {
            room: self.fetcher.room(),
            oid: want.oid,
        };
        Err(last_error.unwrap_or_else(not_in_room))
    }
}

/// A failure, and whether another plan may do without what it was for.
struct Failed {
    error: FetchError,
    can_do_without: bool,
}

impl<E: Into<FetchError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            can_do_without: false,
        }
    }
}

/// Whether an import failed for what the bundle is, rather than for this machine or the connection.
fn is_about_the_bundle(error: &ImportError) -> bool {
    matches!(
        error,
        ImportError::Bundle(_)
            | ImportError::NotAsSigned { .. }
            | ImportError::ObjectFormat { .. }
            | ImportError::TooLarge { .. }
            | ImportError::WrongId { .. }
            | ImportError::Refused { .. }
            | ImportError::Incomplete { .. }
    )
}

fn expected(bundle: &RoomBundle) -> Option<ExpectedHeader> {
    // Other clients sign the id alone.
    (!bundle.refs().is_empty()).then(|| ExpectedHeader {
        refs: header_refs(bundle.refs()),
        prerequisites: bundle.part.prerequisites.clone(),
        object_format: bundle.part.object_format,
    })
}

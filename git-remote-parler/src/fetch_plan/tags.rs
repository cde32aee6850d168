//! The annotated tags that git will want once a fetch is over: those at commits that have come by then. Planned together
//! with what was asked for, they cost no round of their own. Only bundles of tags alone are added, never a history that
//! nobody asked for.

use std::collections::HashSet;

use parler_protocol::{BundleId, Oid, RefName};

use super::{FetchPlanner, Known};
use crate::room_state::{RoomBundle, RoomRef};

const TAGS: &str = "refs/tags/";

impl<E> FetchPlanner<'_, E> {
    /// The bundles of tags at commits that these bundles bring, with what they build on. What a member says of a bundle
    /// may be wrong; then its import fails and the plan is made without it.
    pub(crate) fn tags_along(&self, wanted: &[BundleId]) -> Result<Vec<BundleId>, E> {
        let mut known = Known::default();
        let mut carriers = self.carriers_of_tags(&mut known)?;
        if carriers.is_empty() || wanted.is_empty() {
            return Ok(Vec::new());
        }
        // A tag of a tag comes after it.
        carriers.sort_by_key(|bundle| bundle.seq);
        let mut coming: HashSet<BundleId> = self.plan(wanted)?.bundles.into_iter().collect();
        self.learn(
            carriers.iter().flat_map(|bundle| &bundle.part.prerequisites),
            &mut known,
        )?;
        let mut along = Vec::new();
        for bundle in carriers {
            if coming.contains(bundle.id()) {
                continue;
            }
            let is_known =
                |oid: &Oid| known.here[oid] || self.providers(oid).any(|provider| coming.contains(provider.id()));
            let needs = self.needs_of(bundle);
            let is_brought = || !needs.is_empty() && needs.iter().all(|id| coming.contains(id));
            if bundle.part.prerequisites.iter().all(is_known) || is_brought() {
                coming.insert(*bundle.id());
                along.push(*bundle.id());
            }
        }
        Ok(along)
    }

    /// The bundles to take for the tags that are not here. Each expects the tag's commit: it brings the tag alone.
    fn carriers_of_tags(&self, known: &mut Known) -> Result<Vec<&RoomBundle>, E> {
        let is_annotated =
            |(name, found): &(&RefName, &RoomRef)| found.peeled.is_some() && name.as_str().starts_with(TAGS);
        let tags: Vec<&RoomRef> = self
            .state
            .refs()
            .iter()
            .filter(is_annotated)
            .map(|(_, tag)| tag)
            .collect();
        let oids: Vec<Oid> = tags.iter().map(|tag| tag.oid).collect();
        let here = (self.present)(&oids)?;
        let mut carriers: Vec<&RoomBundle> = Vec::new();
        for (tag, _) in tags.iter().zip(here).filter(|(_, here)| !*here) {
            let best = self.best(&tag.oid, Some(&tag.mover), known)?;
            let expects_commit = |bundle: &&RoomBundle| {
                tag.peeled
                    .is_some_and(|commit| bundle.part.prerequisites.contains(&commit))
            };
            carriers.extend(best.and_then(|id| self.state.bundle(&id)).filter(expects_commit));
        }
        Ok(carriers)
    }
}

//! Who holds commits that a push does not send: bundles of the room, what those expect of others, and the base. All
//! questions of one push share a walk, and what is known is not asked again.

use std::collections::HashMap;

use parler_protocol::{BundleId, Oid, Seq};

use super::plan::{Haves, Planner};
use crate::base::BaseTip;
use crate::repository::RepositoryError;

/// Most of a room's tips that are asked whether they contain a commit. Beyond that a push makes a small bundle too many.
const MAX_CONTAINING_TIPS: usize = 32;

/// What is known of the commits asked for so far.
pub(super) struct Kinship<'a> {
    planner: &'a Planner<'a>,
    base: &'a [BaseTip],
    /// Looked up when something is asked: a push on top of the room's newest bundle asks nothing.
    holders: Option<Holders>,
    /// The parties that reach a commit, by their positions.
    known: HashMap<Oid, Vec<usize>>,
}

/// Who may hold a commit.
struct Holders {
    /// The newest bundle that brings each of the room's tips, with the message it came in.
    bundles: Vec<(Seq, BundleId)>,
    /// What bundles expect, then the room's tips, then the base.
    parties: Vec<Vec<Oid>>,
}

impl Holders {
    fn of(planner: &Planner<'_>, base: &[BaseTip]) -> Result<Self, RepositoryError> {
        let external = planner.external_prerequisites();
        let here = planner.repository.contains(&external)?;
        let external = external.into_iter().zip(here).filter(|(_, here)| *here);
        let mut parties: Vec<Vec<Oid>> = vec![external.map(|(oid, _)| oid).collect()];
        let mut bundles = Vec::new();
        let newest = |tip: &Oid| {
            let bringing = planner.state.providers(tip).next_back();
            let bundle = bringing.or_else(|| planner.state.bundles_at(tip).next_back())?;
            Some((*tip, (bundle.seq, *bundle.id())))
        };
        let room = if planner.full { Vec::new() } else { planner.room_tips()? };
        for (tip, bundle) in room.iter().filter_map(newest).take(MAX_CONTAINING_TIPS) {
            parties.push(vec![tip]);
            bundles.push(bundle);
        }
        parties.extend(base.iter().map(|base| vec![base.oid]));
        Ok(Self { bundles, parties })
    }
}

impl<'a> Kinship<'a> {
    /// Nothing is asked yet.
    pub(super) fn of(planner: &'a Planner<'a>, haves: &'a Haves) -> Self {
        Self {
            planner,
            base: &haves.base,
            holders: None,
            known: HashMap::new(),
        }
    }

    /// Finds out about these commits, as far as nothing is known of them.
    pub(super) fn learn(&mut self, commits: &[Oid]) -> Result<(), RepositoryError> {
        let mut asked: Vec<Oid> = commits
            .iter()
            .filter(|oid| !self.known.contains_key(oid))
            .copied()
            .collect();
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            return Ok(());
        }
        let holders = match self.holders.take() {
            Some(holders) => holders,
            None => Holders::of(self.planner, self.base)?,
        };
        let answers = self.planner.repository.reaching(&asked, &holders.parties)?;
        self.holders = Some(holders);
        self.known.extend(asked.into_iter().zip(answers));
        Ok(())
    }

    /// The bundles among the parties, which stand behind the first.
    fn bundles(&self) -> &[(Seq, BundleId)] {
        self.holders.as_ref().map_or(&[], |holders| &holders.bundles)
    }

    fn reaching(&self, commit: &Oid) -> &[usize] {
        self.known.get(commit).map_or(&[], Vec::as_slice)
    }

    /// The oldest bundle whose tip reaches a commit that the external base of the room's bundles does not: what was pushed
    /// on top of it later is not needed for the commit.
    pub(super) fn containing(&self, commit: &Oid) -> Option<BundleId> {
        let reaching = self.reaching(commit);
        if reaching.first() == Some(&0) {
            return None;
        }
        let of_the_room = reaching
            .iter()
            .filter_map(|position| self.bundles().get(position.checked_sub(1)?));
        of_the_room.min().map(|(_, id)| *id)
    }

    /// The most expected commit of the base that reaches a commit.
    pub(super) fn base_of(&self, commit: &Oid) -> Option<&BaseTip> {
        let before = 1 + self.bundles().len();
        let first = self.reaching(commit).iter().find(|position| **position >= before)?;
        self.base.get(first - before)
    }
}

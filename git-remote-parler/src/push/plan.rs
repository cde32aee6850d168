//! What a push has to send besides its refs: which tips the room lacks, what a bundle of them may leave out, and where
//! receivers find what was left out. Reads the repository, changes nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use parler_protocol::limits::{MAX_NEEDS, MAX_REF_UPDATES};
use parler_protocol::{AgentId, BaseHint, BundleId, BundleRefName, Oid, RefName};

use super::kinship::Kinship;
use crate::advertisement::header_ref_name;
use crate::base::{BaseTip, Bases};
use crate::bundle::{BundleHeader, HeaderRef};
use crate::repository::{Boundary, LocalHead, Repository, RepositoryError, Resolved};
use crate::room_state::{RoomBundle, RoomState};

/// Most bundle tips, newest first, that count as commits the room has besides its refs.
const MAX_BUNDLE_TIPS: usize = 1000;
/// Something that is to be in the room.
#[derive(Debug, Clone)]
pub(super) struct Tip {
    /// What the bundle calls it.
    pub(super) name: BundleRefName,
    pub(super) object: Resolved,
    pub(super) commit: Oid,
}

impl Tip {
    /// An object that a ref is to point at; none when it leads to no commit.
    pub(super) fn of(name: &RefName, object: Resolved) -> Option<Self> {
        let commit = object.commit?;
        Some(Self {
            name: BundleRefName::Ref(name.clone()),
            object,
            commit,
        })
    }
}

/// What a push sends besides its refs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// The bundle to make; none when the room has everything.
    pub(super) bundle: Option<BundlePlan>,
    /// Where receivers get tips that no bundle brings.
    pub(super) refs_hint: Option<BaseHint>,
}

/// A bundle to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BundlePlan {
    pub(super) header: BundleHeader,
    pub(super) commits: u64,
    pub(super) needs: Vec<BundleId>,
    pub(super) base: Option<Source>,
}

/// Where commits outside the room come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// For people: `origin/main`.
    pub(super) label: String,
    pub(super) hint: Option<BaseHint>,
}

/// Why a push cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unplanned {
    /// History is cut off here at these commits, and neither the room nor the base holds them.
    CutOff(Vec<Oid>),
}

/// What a plan is made from.
pub(super) struct Planner<'a> {
    pub(super) repository: &'a Repository,
    pub(super) state: &'a RoomState,
    pub(super) bases: Bases,
    /// Leave nothing out.
    pub(super) full: bool,
    /// The key that pushes.
    pub(super) own: AgentId,
    /// Every tip gets a bundle of its own name, also one in the middle of what the room has.
    pub(super) name_every_tip: bool,
}

/// Commits that need not be sent.
pub(super) struct Haves {
    /// Tips of the room that are here, newest bundle first after the refs, without those that another one is built on.
    pub(super) room: Vec<Oid>,
    /// Those, which may be here. A walk that comes to one goes no further; they are not walked from.
    pub(super) below: HashSet<Oid>,
    pub(super) base: Vec<BaseTip>,
}

impl Haves {
    fn all(&self) -> Vec<Oid> {
        self.room
            .iter()
            .copied()
            .chain(self.base.iter().map(|base| base.oid))
            .collect()
    }
}

impl Planner<'_> {
    pub(super) fn plan(&self, tips: &[Tip]) -> Result<Result<Plan, Unplanned>, RepositoryError> {
        let known: HashSet<Oid> = self
            .state
            .refs()
            .values()
            .flat_map(|found| [Some(found.oid), found.peeled])
            .flatten()
            .collect();
        let bundled = |oid: &Oid| {
            self.state
                .bundles_at(oid)
                .any(|bundle| is_enough(bundle, self.full, self.own))
        };
        let refs_count = !self.name_every_tip && !self.full;
        let has = |tip: &Tip| bundled(&tip.object.oid) || (refs_count && known.contains(&tip.object.oid));
        let lacking: Vec<&Tip> = tips.iter().filter(|tip| !has(tip)).collect();
        let refs_hint = self.hint_of_bare_refs(tips);
        if lacking.is_empty() {
            return Ok(Ok(Plan {
                bundle: None,
                refs_hint,
            }));
        }
        let commits: Vec<Oid> = lacking.iter().map(|tip| tip.commit).collect();
        let haves = self.haves(&commits)?;
        let mut new = self.repository.boundary_above(&commits, &haves.all(), &haves.below)?;
        if !new.shallow.is_empty() {
            return Ok(Err(Unplanned::CutOff(new.shallow)));
        }
        let covered: Vec<bool> = new.is_new.iter().map(|is_new| !is_new).collect();
        let mut kinship = Kinship::of(self, &haves);
        let rest = self.add_covered(&lacking, &covered, &mut kinship, &mut new)?;
        let refs: Vec<HeaderRef> = lacking
            .iter()
            .zip(&rest.left_out)
            .filter(|(_, left_out)| !**left_out)
            .map(|(tip, _)| HeaderRef {
                name: header_ref_name(&tip.name),
                oid: tip.object.oid,
            })
            .collect();
        let refs_hint = rest.hint.or(refs_hint);
        if refs.is_empty() {
            return Ok(Ok(Plan {
                bundle: None,
                refs_hint,
            }));
        }
        let header = BundleHeader {
            object_format: self.repository.object_format(),
            prerequisites: new.prerequisites.clone(),
            refs: self.with_head(refs)?,
        };
        let (needs, base) = self.sources(&header.prerequisites, &mut kinship)?;
        Ok(Ok(Plan {
            bundle: Some(BundlePlan {
                header,
                commits: new.commits,
                needs,
                base,
            }),
            refs_hint,
        }))
    }

    /// Puts `HEAD` first where it is one of the tips: whoever clones or fetches the file without a word gets that.
    fn with_head(&self, mut refs: Vec<HeaderRef>) -> Result<Vec<HeaderRef>, RepositoryError> {
        let (LocalHead::Branch { oid, .. } | LocalHead::Detached { oid }) = self.repository.head()? else {
            return Ok(refs);
        };
        let head = header_ref_name(&BundleRefName::Head);
        // A room's `refs/HEAD` cannot stand beside it, nor can what lies below that.
        let is_taken = |tip: &HeaderRef| tip.name.without_refs().split('/').next() == Some(head.as_str());
        let is_tip = refs.iter().any(|tip| tip.oid == oid) && !refs.iter().any(is_taken);
        if is_tip && refs.len() < MAX_REF_UPDATES {
            refs.insert(0, HeaderRef { name: head, oid });
        }
        Ok(refs)
    }

    /// The commits that receivers are expected to have.
    fn haves(&self, commits: &[Oid]) -> Result<Haves, RepositoryError> {
        if self.full {
            return Ok(Haves {
                room: Vec::new(),
                below: HashSet::new(),
                base: Vec::new(),
            });
        }
        let (room, below) = self.newest_room_tips()?;
        let mut base = self.bases.certain.clone();
        base.extend(self.tracking_refs_below(commits, &room, &below)?);
        Ok(Haves { room, below, base })
    }

    /// All of the room's tips that are here: its refs, then its bundles, the newest first.
    pub(super) fn room_tips(&self) -> Result<Vec<Oid>, RepositoryError> {
        let (tips, _) = self.tips_but(|_| false);
        let here = self.repository.contains(&tips)?;
        Ok(tips
            .into_iter()
            .zip(here)
            .filter(|(_, here)| *here)
            .map(|(oid, _)| oid)
            .collect())
    }

    /// Of these the refs, and what no newer bundle says to be built on; and the others, here or not. Who says so wrongly
    /// can make a walk longer.
    fn newest_room_tips(&self) -> Result<(Vec<Oid>, HashSet<Oid>), RepositoryError> {
        // How often a bundle that is not here may lead to others.
        const ROUNDS: usize = 3;
        const ALL_THE_SAME: usize = 16;
        // Where history is cut, a tip may be here without what it is built on; and git must not be told of what is not here.
        if self.repository.is_shallow() || self.repository.asks_git() {
            return Ok((self.room_tips()?, HashSet::new()));
        }
        let mut known: HashMap<Oid, bool> = HashMap::new();
        for _ in 0..ROUNDS {
            let (mut tips, below) = self.tips_but(|tip| known.get(tip) != Some(&false));
            // Some of these as well: dates that run backwards may keep a walk from the others for long.
            tips.extend(below.iter().take(ALL_THE_SAME));
            let asked: Vec<Oid> = tips.iter().filter(|tip| !known.contains_key(tip)).copied().collect();
            let here = self.repository.contains(&asked)?;
            let is_new_absent = here.contains(&false);
            known.extend(asked.into_iter().zip(here));
            if !is_new_absent {
                tips.retain(|tip| known.get(tip) == Some(&true));
                return Ok((tips, below.into_iter().collect()));
            }
        }
        Ok((self.room_tips()?, HashSet::new()))
    }

    /// The room's tips, and those that a newer bundle is built on all of whose tips may be here. Refs first, then the newest.
    fn tips_but(&self, may_be_here: impl Fn(&Oid) -> bool) -> (Vec<Oid>, Vec<Oid>) {
        let format = self.repository.object_format();
        let mut seen = HashSet::new();
        let mut tips: Vec<Oid> = self
            .state
            .refs()
            .values()
            .map(|found| found.peeled.unwrap_or(found.oid))
            .collect();
        tips.retain(|oid| oid.format() == format && seen.insert(*oid));
        let (mut below, mut built_on) = (Vec::new(), HashSet::<&Oid>::new());
        for bundle in self.state.bundles().iter().rev().take(MAX_BUNDLE_TIPS) {
            let of_bundle: Vec<Oid> = bundle.tips().collect();
            for tip in &of_bundle {
                if tip.format() == format && seen.insert(*tip) {
                    let list = if built_on.contains(tip) { &mut below } else { &mut tips };
                    list.push(*tip);
                }
            }
            if !of_bundle.is_empty() && of_bundle.iter().all(&may_be_here) {
                built_on.extend(&bundle.part.prerequisites);
            }
        }
        (tips, below)
    }

    /// The tracking refs that do not contain what is pushed.
    fn tracking_refs_below(
        &self,
        commits: &[Oid],
        room: &[Oid],
        below: &HashSet<Oid>,
    ) -> Result<Vec<BaseTip>, RepositoryError> {
        let mut others: Vec<BaseTip> = self
            .bases
            .unless_pushed
            .iter()
            .filter(|base| !commits.contains(&base.oid))
            .cloned()
            .collect();
        if others.is_empty() {
            return Ok(others);
        }
        let certain: Vec<Oid> = room
            .iter()
            .copied()
            .chain(self.bases.certain.iter().map(|base| base.oid))
            .collect();
        let all: Vec<Oid> = certain
            .iter()
            .copied()
            .chain(others.iter().map(|base| base.oid))
            .collect();
        let new_to_all = self.repository.boundary_above(commits, &all, below)?.is_new;
        if new_to_all.iter().all(|is_new| *is_new) {
            return Ok(others);
        }
        let new_to_certain = self.repository.boundary_above(commits, &certain, below)?.is_new;
        let held: Vec<Oid> = commits
            .iter()
            .zip(new_to_all.iter().zip(new_to_certain))
            .filter(|(_, (new_to_all, new_to_certain))| !**new_to_all && *new_to_certain)
            .map(|(commit, _)| *commit)
            .collect();
        let parties: Vec<Vec<Oid>> = others.iter().map(|base| vec![base.oid]).collect();
        let holders: HashSet<usize> = self
            .repository
            .reaching(&held, &parties)?
            .concat()
            .into_iter()
            .collect();
        let mut position = 0..;
        others.retain(|_| position.next().is_none_or(|position| !holders.contains(&position)));
        Ok(others)
    }

    /// Makes room in the bundle for tips whose commits the haves reach: the room holds them already, and only a tag
    /// object is new, or the base holds them, and they are sent with their parents as prerequisites.
    fn add_covered(
        &self,
        tips: &[&Tip],
        covered: &[bool],
        kinship: &mut Kinship<'_>,
        new: &mut Boundary,
    ) -> Result<Rest, RepositoryError> {
        let mut rest = Rest {
            left_out: vec![false; tips.len()],
            hint: None,
        };
        let mut prerequisites: BTreeSet<Oid> = new.prerequisites.iter().copied().collect();
        let mut of_base = Vec::new();
        let asked: Vec<Oid> = tips
            .iter()
            .zip(covered)
            .filter(|(_, covered)| **covered)
            .map(|(tip, _)| tip.commit)
            .collect();
        kinship.learn(&asked)?;
        for (position, tip) in tips.iter().enumerate().filter(|(position, _)| covered[*position]) {
            let is_tag = tip.object.oid != tip.commit;
            if !self.room_holds(&tip.commit, kinship) || (self.name_every_tip && !is_tag) {
                of_base.push((position, tip.commit));
            } else if is_tag {
                prerequisites.insert(tip.commit);
            } else {
                rest.left_out[position] = true;
            }
        }
        let commits: Vec<Oid> = of_base.iter().map(|(_, commit)| *commit).collect();
        // Against their own parents, not against tips that reach them.
        let mut had: Vec<Oid> = prerequisites.iter().copied().collect();
        for commit in &commits {
            had.extend(self.repository.parents(commit)?);
        }
        let added = self.repository.boundary(&commits, &had)?;
        for ((position, commit), is_new) in of_base.into_iter().zip(&added.is_new) {
            // In the pack, or expected under its own name.
            if (*is_new && !added.shallow.contains(&commit)) || prerequisites.contains(&commit) {
                continue;
            }
            // Its parents are not here, or it lies behind what other tips expect, where a shallow receiver has nothing:
            // a bundle with it would be of no use to some.
            if tips[position].object.oid == commit {
                rest.left_out[position] = true;
                rest.hint = self.source(&commit, kinship).and_then(|source| source.hint);
            } else {
                prerequisites.insert(commit);
            }
        }
        new.commits += added.commits - added.shallow.len() as u64;
        prerequisites.extend(added.prerequisites);
        new.prerequisites = prerequisites.into_iter().collect();
        Ok(rest)
    }

    /// Whether bundles of the room hold a commit that is here.
    fn room_holds(&self, commit: &Oid, kinship: &Kinship<'_>) -> bool {
        self.state.providers(commit).next().is_some() || kinship.containing(commit).is_some()
    }

    /// What the room's bundles expect and no bundle has as its tip.
    pub(super) fn external_prerequisites(&self) -> Vec<Oid> {
        let mut external = BTreeSet::new();
        let format = self.repository.object_format();
        for bundle in self.state.bundles().iter().filter(|bundle| bundle.is_of_format(format)) {
            // With needs and without a hint, the room holds all it expects.
            if !bundle.part.needs.is_empty() && bundle.part.base_hint.is_none() {
                continue;
            }
            for oid in &bundle.part.prerequisites {
                if self.state.providers(oid).next().is_none() {
                    external.insert(*oid);
                }
            }
        }
        external.into_iter().collect()
    }

    /// Where receivers find the prerequisites: bundles of the room, and a branch elsewhere for the others.
    fn sources(
        &self,
        prerequisites: &[Oid],
        kinship: &mut Kinship<'_>,
    ) -> Result<(Vec<BundleId>, Option<Source>), RepositoryError> {
        let mut needs = Vec::new();
        let mut base = None;
        let is_no_tip = |oid: &&Oid| self.provider(oid).is_none();
        let asked: Vec<Oid> = prerequisites.iter().filter(is_no_tip).copied().collect();
        kinship.learn(&asked)?;
        for oid in prerequisites {
            let tip_of = self.provider(oid).map(|bundle| *bundle.id());
            let found = tip_of.or_else(|| kinship.containing(oid));
            // Beyond the cap nobody follows them, and those that have it as their tip are found without.
            if let Some(id) = found.filter(|id| needs.len() < MAX_NEEDS && !needs.contains(id)) {
                needs.push(id);
            }
            // A bundle that contains it may be found wanting; the hint costs nothing.
            if tip_of.is_none() && base.is_none() {
                base = self.source(oid, kinship);
            }
        }
        Ok((needs, base))
    }

    /// The newest bundle with this commit as its tip, of whoever moved a ref there if there is one.
    fn provider(&self, oid: &Oid) -> Option<&RoomBundle> {
        let vouched = |bundle: &&RoomBundle| self.state.is_vouched(bundle, oid);
        let newest = || self.state.providers(oid).next_back();
        self.state.providers(oid).rev().find(vouched).or_else(newest)
    }

    /// Where a commit outside the room can be had.
    fn source(&self, commit: &Oid, kinship: &Kinship<'_>) -> Option<Source> {
        if let Some(base) = kinship.base_of(commit) {
            let (label, hint) = (base.label.clone(), base.hint.clone());
            return Some(Source { label, hint });
        }
        // Somebody who pushed on the same base knew where it is from.
        let same_base = |bundle: &&RoomBundle| bundle.part.prerequisites.contains(commit);
        let hint = self
            .state
            .bundles()
            .iter()
            .rev()
            .find(same_base)
            .and_then(|bundle| bundle.part.base_hint.clone());
        hint.map(|hint| Source {
            label: hint.name.to_string(),
            hint: Some(hint),
        })
    }

    /// Where tips come from that the room has as refs only.
    fn hint_of_bare_refs(&self, tips: &[Tip]) -> Option<BaseHint> {
        let bare = tips
            .iter()
            .filter(|tip| self.state.bundles_at(&tip.object.oid).next().is_none());
        bare.into_iter().find_map(|tip| {
            let same = self.state.refs().values().find(|found| found.oid == tip.object.oid)?;
            same.base_hint.clone()
        })
    }
}

/// Whether a bundle of the room is of the kind that is asked for. Whoever asks for a full one may have found that of another
/// member wanting.
pub(super) fn is_enough(bundle: &RoomBundle, full: bool, own: AgentId) -> bool {
    let is_full = || bundle.part.prerequisites.is_empty() && bundle.author_id == own;
    !full || is_full()
}

/// What became of tips that the haves reach.
struct Rest {
    /// By position: not in the bundle.
    left_out: Vec<bool>,
    hint: Option<BaseHint>,
}

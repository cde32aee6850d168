//! Which bundles of a room bring what is wanted, in an order in which each finds what it expects, and what must come
//! from elsewhere. Nothing is read or fetched here; what a room says of itself may be wrong, and then the plan is.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use parler_protocol::limits::MAX_NEEDS;
use parler_protocol::{AgentId, BaseHint, BundleId, Oid};

use crate::room_state::{RoomBundle, RoomState};

mod tags;

/// A commit that is expected here and that no bundle of the room is known to bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct External {
    pub(crate) oid: Oid,
    /// The bundle that expects it; none when the commit itself is wanted.
    pub(crate) bundle: Option<BundleId>,
    /// Where its pusher had it from.
    pub(crate) hint: Option<BaseHint>,
}

/// What to do to have what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FetchPlan {
    /// The bundles to import, in this order.
    pub(crate) bundles: Vec<BundleId>,
    /// What must be here before that.
    pub(crate) external: Vec<External>,
}

/// Which objects are here, in the same order.
pub(crate) type Present<'a, E> = &'a dyn Fn(&[Oid]) -> Result<Vec<bool>, E>;

/// What a plan is made from.
pub(crate) struct FetchPlanner<'a, E> {
    pub(crate) state: &'a RoomState,
    pub(crate) present: Present<'a, E>,
    /// Bundles whose `needs` were wrong: what they expect and no bundle has as its tip counts as external.
    pub(crate) distrusted: &'a HashSet<BundleId>,
    /// Bundles that are not what they say, and count as absent.
    pub(crate) excluded: &'a HashSet<BundleId>,
}

/// What was found out while planning.
#[derive(Default)]
struct Known {
    here: HashMap<Oid, bool>,
    /// What a bundle expects that is not here: how much of it no bundle brings, and how much in all.
    costs: HashMap<BundleId, (usize, usize)>,
}

/// How far a plan has come.
#[derive(Default)]
struct Growing {
    plan: FetchPlan,
    /// For each chosen bundle those that must come before it, each once.
    after: HashMap<BundleId, Vec<BundleId>>,
    /// In the order of choice.
    chosen: Vec<BundleId>,
    known: Known,
    seen_external: HashSet<Oid>,
}

impl<E> FetchPlanner<'_, E> {
    /// A plan that brings these bundles.
    pub(crate) fn plan(&self, wanted: &[BundleId]) -> Result<FetchPlan, E> {
        let mut growing = Growing::default();
        let mut layer: Vec<BundleId> = Vec::new();
        for id in wanted {
            growing.choose(*id, None, &mut layer);
        }
        // Each round looks at bundles chosen in the round before, and no bundle is chosen twice: the room's size bounds it.
        while !layer.is_empty() {
            layer = self.look_at(&layer, &mut growing)?;
        }
        growing.plan.bundles = growing.in_order();
        Ok(growing.plan)
    }

    /// The bundle to take for each wanted object. With each object comes who moved the wanted ref to it: that member's
    /// bundles come before all others, for any member can name any object.
    pub(crate) fn bundles_for(&self, tips: &[(Oid, Option<AgentId>)]) -> Result<Vec<Option<BundleId>>, E> {
        let mut known = Known::default();
        tips.iter()
            .map(|(tip, mover)| self.best(tip, mover.as_ref(), &mut known))
            .collect()
    }

    fn look_at(&self, layer: &[BundleId], growing: &mut Growing) -> Result<Vec<BundleId>, E> {
        let bundles: Vec<&RoomBundle> = layer.iter().filter_map(|id| self.state.bundle(id)).collect();
        self.learn(
            bundles.iter().flat_map(|bundle| &bundle.part.prerequisites),
            &mut growing.known,
        )?;
        let mut next = Vec::new();
        for bundle in bundles {
            let mut seen = HashSet::new();
            let missing = bundle.part.prerequisites.iter().filter(|oid| seen.insert(**oid));
            let missing: Vec<Oid> = missing.filter(|oid| !growing.known.here[*oid]).copied().collect();
            // Each once, however many of the missing lead to it.
            let mut before = BTreeSet::new();
            let mut lost = Vec::new();
            for oid in missing {
                match self.best(&oid, None, &mut growing.known)? {
                    Some(id) => _ = before.insert(id),
                    None => lost.push(oid),
                }
            }
            let needs = if lost.is_empty() {
                BTreeSet::new()
            } else {
                self.needs_of(bundle)
            };
            if needs.is_empty() {
                for oid in lost {
                    growing.expect(External {
                        oid,
                        bundle: Some(*bundle.id()),
                        hint: bundle.part.base_hint.clone(),
                    });
                }
            }
            before.extend(needs);
            for id in before {
                growing.choose(id, Some(*bundle.id()), &mut next);
            }
        }
        Ok(next)
    }

    /// The bundles that a bundle's author names as holding what it expects. They need not.
    fn needs_of(&self, bundle: &RoomBundle) -> BTreeSet<BundleId> {
        let needs = &bundle.part.needs;
        if needs.len() > MAX_NEEDS || self.distrusted.contains(bundle.id()) {
            return BTreeSet::new();
        }
        let is_good =
            |id: &&BundleId| *id != bundle.id() && self.state.bundle(id).is_some() && !self.excluded.contains(*id);
        needs.iter().filter(is_good).copied().collect()
    }

    fn providers(&self, tip: &Oid) -> impl DoubleEndedIterator<Item = &RoomBundle> {
        let is_good = |bundle: &&RoomBundle| !self.excluded.contains(bundle.id());
        self.state.providers(tip).filter(is_good)
    }

    /// The best bundle for an object: of whoever moved a ref to it if there is one, then the newest of those that expect
    /// least of what is not here.
    fn best(&self, tip: &Oid, mover: Option<&AgentId>, known: &mut Known) -> Result<Option<BundleId>, E> {
        let candidates: Vec<&RoomBundle> = self.providers(tip).collect();
        if candidates.len() > 1 {
            self.weigh(&candidates, known)?;
        }
        let rank = |bundle: &&&RoomBundle| {
            let of_a_stranger = mover != Some(&bundle.author_id);
            let unvouched = !self.state.is_vouched(bundle, tip);
            (
                of_a_stranger,
                unvouched,
                known.costs.get(bundle.id()).copied().unwrap_or_default(),
            )
        };
        // `min_by_key` takes the first of equals, so the newest comes first.
        Ok(candidates.iter().rev().min_by_key(rank).map(|bundle| *bundle.id()))
    }

    fn weigh(&self, bundles: &[&RoomBundle], known: &mut Known) -> Result<(), E> {
        let mut new = bundles.to_vec();
        new.retain(|bundle| !known.costs.contains_key(bundle.id()));
        self.learn(new.iter().flat_map(|bundle| &bundle.part.prerequisites), known)?;
        for bundle in new {
            let prerequisites = bundle.part.prerequisites.iter();
            let absent: Vec<&Oid> = prerequisites.filter(|oid| !known.here[*oid]).collect();
            let outside = absent.iter().filter(|oid| self.providers(oid).next().is_none()).count();
            known.costs.insert(*bundle.id(), (outside, absent.len()));
        }
        Ok(())
    }

    fn learn<'o>(&self, oids: impl Iterator<Item = &'o Oid>, known: &mut Known) -> Result<(), E> {
        let unknown: BTreeSet<Oid> = oids.filter(|oid| !known.here.contains_key(*oid)).copied().collect();
        let unknown: Vec<Oid> = unknown.into_iter().collect();
        if !unknown.is_empty() {
            known
                .here
                .extend(unknown.iter().copied().zip((self.present)(&unknown)?));
        }
        Ok(())
    }
}

impl Growing {
    fn choose(&mut self, id: BundleId, before: Option<BundleId>, next: &mut Vec<BundleId>) {
        if let Entry::Vacant(vacant) = self.after.entry(id) {
            vacant.insert(Vec::new());
            self.chosen.push(id);
            next.push(id);
        }
        if let Some(later) = before.and_then(|later| self.after.get_mut(&later)) {
            later.push(id);
        }
    }

    fn expect(&mut self, external: External) {
        if self.seen_external.insert(external.oid) {
            self.plan.external.push(external);
        }
    }

    /// The chosen bundles, each after those it expects. Where they expect each other in a circle, which no honest room
    /// has, somewhere one comes too early and its import fails.
    fn in_order(&self) -> Vec<BundleId> {
        let mut order = Vec::with_capacity(self.chosen.len());
        let mut entered = HashSet::new();
        for root in &self.chosen {
            if !entered.insert(*root) {
                continue;
            }
            let mut stack = vec![(*root, 0)];
            while let Some((id, position)) = stack.pop() {
                match self.after[&id].get(position) {
                    Some(before) => {
                        stack.push((id, position + 1));
                        if entered.insert(*before) {
                            stack.push((*before, 0));
                        }
                    }
                    None => order.push(id),
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use parler_protocol::{BundlePart, BundleRef, HubId};

    use super::*;

    fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn id(name: &str) -> BundleId {
        BundleId::of(name.as_bytes())
    }

    fn bundle(name: &str, tips: &str, prerequisites: &str, needs: &[&str]) -> BundlePart {
        let refs = tips.chars().map(|tip| BundleRef {
            name: format!("refs/heads/{tip}").parse().unwrap(),
            oid: oid(tip),
        });
        BundlePart {
            blob: id(name),
            vcs: "git".into(),
            size: 1,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: refs.collect(),
            prerequisites: prerequisites.chars().map(oid).collect(),
            object_format: None,
            commits: None,
            objects: None,
            needs: needs.iter().map(|name| id(name)).collect(),
            base_hint: None,
        }
    }

    fn room(parts: &[BundlePart]) -> RoomState {
        let mut state = RoomState::empty(HubId::from_bytes([1; 16]), "x".parse().unwrap());
        state.add_bundles_for_test(parts);
        state
    }

    /// The names of the bundles in order, and the external commits.
    fn planned(parts: &[BundlePart], here: &str, wanted: &[&str], trusts_needs: bool) -> (Vec<String>, String) {
        planned_in(&room(parts), here, wanted, trusts_needs)
    }

    fn planned_in(state: &RoomState, here: &str, wanted: &[&str], trusts_needs: bool) -> (Vec<String>, String) {
        let here: Vec<Oid> = here.chars().map(oid).collect();
        let present = |oids: &[Oid]| Ok::<_, Infallible>(oids.iter().map(|oid| here.contains(oid)).collect());
        let all = state.bundles().iter().map(|bundle| *bundle.id());
        let distrusted = if trusts_needs { HashSet::new() } else { all.collect() };
        let planner = FetchPlanner {
            state,
            present: &present,
            distrusted: &distrusted,
            excluded: &HashSet::new(),
        };
        let plan = planner
            .plan(&wanted.iter().map(|name| id(name)).collect::<Vec<_>>())
            .unwrap();
        let names = ["a", "b", "c", "d", "full"];
        let name = |wanted: &BundleId| names.iter().find(|name| id(name) == *wanted).unwrap().to_string();
        let external = plan
            .external
            .iter()
            .map(|external| external.oid.to_string()[..1].to_owned())
            .collect();
        (plan.bundles.iter().map(name).collect(), external)
    }

    fn order(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_chain_comes_in_order_and_only_as_far_as_needed() {
        let chain = [
            bundle("a", "1", "0", &[]),
            bundle("b", "2", "1", &["a"]),
            bundle("c", "3", "2", &["b"]),
        ];
        assert_eq!(
            planned(&chain, "0", &["c"], true),
            (order(&["a", "b", "c"]), String::new())
        );
        assert_eq!(planned(&chain, "01", &["c"], true), (order(&["b", "c"]), String::new()));
        assert_eq!(planned(&chain, "012", &["c"], true), (order(&["c"]), String::new()));
        assert_eq!(planned(&chain, "", &["c"], true), (order(&["a", "b", "c"]), "0".into()));
        assert_eq!(
            planned(&chain, "0", &["c", "a", "c"], true),
            (order(&["a", "b", "c"]), String::new())
        );
    }

    #[test]
    fn the_bundle_that_expects_least_is_taken() {
        let parts = [
            bundle("a", "1", "0", &[]),
            bundle("full", "2", "", &[]),
            bundle("b", "2", "1", &[]),
            bundle("c", "3", "2", &[]),
        ];
        assert_eq!(
            planned(&parts, "", &["c"], true),
            (order(&["full", "c"]), String::new())
        );
        assert_eq!(planned(&parts, "1", &["c"], true), (order(&["b", "c"]), String::new()));
    }

    #[test]
    fn needs_may_lie_or_loop() {
        let loops = [bundle("a", "1", "8", &["b"]), bundle("b", "2", "9", &["a", "b"])];
        let (bundles, external) = planned(&loops, "", &["a"], true);
        assert_eq!((bundles.len(), external.as_str()), (2, ""));
        assert_eq!(planned(&loops, "", &["a"], false), (order(&["a"]), "8".into()));
        let lies = [bundle("a", "1", "8", &["d"])];
        assert_eq!(planned(&lies, "", &["a"], true), (order(&["a"]), "8".into()));
        let circle = [bundle("a", "1", "2", &[]), bundle("b", "2", "1", &[])];
        assert_eq!(planned(&circle, "", &["a"], true).0.len(), 2);
    }

    #[test]
    fn whoever_moved_a_ref_there_is_asked_first() {
        let parts = [
            bundle("a", "1", "0", &[]),
            bundle("b", "2", "1", &[]),
            bundle("c", "3", "2", &[]),
            bundle("full", "2", "", &[]),
        ];
        let mut state = room(&parts);
        state.give_away_for_test(&id("full"));
        let planned = |state: &RoomState| planned_in(state, "", &["c"], true);
        assert_eq!(planned(&state), (order(&["full", "c"]), String::new()));
        state.move_for_test(oid('2'));
        assert_eq!(planned(&state), (order(&["a", "b", "c"]), "0".into()));
        let (none, other) = (HashSet::new(), state.bundle(&id("full")).unwrap().author_id);
        let planner = FetchPlanner {
            state: &state,
            present: &|oids| Ok::<_, Infallible>(vec![false; oids.len()]),
            distrusted: &none,
            excluded: &none,
        };
        let found = planner.bundles_for(&[(oid('2'), None), (oid('2'), Some(other)), (oid('7'), None)]);
        assert_eq!(found, Ok(vec![Some(id("b")), Some(id("full")), None]));
    }

    #[test]
    fn however_often_needs_are_named_they_count_once() {
        let digits = "23456789";
        let mut greedy = bundle("a", "1", digits, &["b"; 500]);
        assert_eq!(
            planned(&[greedy.clone(), bundle("b", "0", "", &[])], "", &["a"], true).0,
            order(&["b", "a"])
        );
        greedy.needs = vec![id("b"); MAX_NEEDS + 1];
        let (bundles, external) = planned(&[greedy, bundle("b", "0", "", &[])], "", &["a"], true);
        assert_eq!((bundles, external.as_str()), (order(&["a"]), digits));
    }

    #[test]
    fn a_bundle_does_not_bring_what_it_expects() {
        // Pushed together: a branch at the base, and one on top of it.
        let named = [bundle("a", "12", "1", &[]), bundle("b", "13", "1", &[])];
        assert_eq!(planned(&named, "", &["a"], true), (order(&["a"]), "1".into()));
        assert_eq!(planned(&named, "", &["a", "b"], true), (order(&["a", "b"]), "1".into()));
    }

    #[test]
    fn long_chains_need_no_stack() {
        let mut parts = vec![bundle("0", "a", "", &[])];
        let hex = |number: u64| format!("{number:040x}").parse::<Oid>().unwrap();
        for number in 1..3000 {
            let mut part = bundle(&number.to_string(), "", "", &[]);
            part.refs = vec![BundleRef {
                name: "refs/heads/x".parse().unwrap(),
                oid: hex(number),
            }];
            part.prerequisites = vec![hex(number - 1)];
            parts.push(part);
        }
        let state = room(&parts);
        let present = |oids: &[Oid]| Ok::<_, Infallible>(vec![false; oids.len()]);
        let planner = FetchPlanner {
            state: &state,
            present: &present,
            distrusted: &HashSet::new(),
            excluded: &HashSet::new(),
        };
        let plan = planner.plan(&[id("2999")]).unwrap();
        assert_eq!((plan.bundles.len(), plan.external.len()), (2999, 1));
        assert_eq!(plan.bundles[0], id("1"));
    }
}

//! Which of many commits are reached from which of many tips, told by one walk over history for all of them.

use std::collections::{BinaryHeap, HashMap, HashSet};

use parler_protocol::Oid;

use super::history::commit_of;
use super::{Repository, RepositoryError, from_gix, to_gix};
use crate::git::{GitError, Side};

/// How much older than its parent a commit may claim to be without being overlooked.
const CLOCK_SKEW: i64 = 30 * 24 * 3600; // 30 days, in seconds
/// Most commits that one walk asks for: each costs a bit on every commit met.
const MAX_ASKED: usize = 1024;

/// What a walk needs to know of a commit: its date and its parents.
type Commit = (i64, Vec<Oid>);

impl Repository {
    /// For each of the commits asked for, the positions of the parties that reach it: a party is some tips, and reaches
    /// what one of them is or reaches. Tips that are not here, or lead to no commit, reach nothing.
    ///
    /// A walk ends below all that is asked for, and where commits are older than all of it by a month: what hides
    /// behind a clock that was more wrong than that is not found.
    pub fn reaching(&self, asked: &[Oid], parties: &[Vec<Oid>]) -> Result<Vec<Vec<usize>>, RepositoryError> {
        let mut answers = Vec::with_capacity(asked.len());
        if parties.iter().all(Vec::is_empty) {
            return Ok(vec![Vec::new(); asked.len()]);
        }
        for asked in asked.chunks(MAX_ASKED) {
            answers.extend(if self.asks_git {
                self.reaching_by_git(asked, parties)?
            } else {
                self.reaching_by_gix(asked, parties)?
            });
        }
        Ok(answers)
    }

    fn reaching_by_gix(&self, asked: &[Oid], parties: &[Vec<Oid>]) -> Result<Vec<Vec<usize>>, RepositoryError> {
        let local = self.local();
        let peel = |oid: &Oid| commit_of(&local, oid).ok().map(|id| from_gix(&id));
        let asked: Vec<Option<Oid>> = asked.iter().map(peel).collect();
        let parties: Vec<Vec<Oid>> = parties
            .iter()
            .map(|party| party.iter().filter_map(peel).collect())
            .collect();
        let cache = local.commit_graph_if_enabled().ok().flatten();
        let mut walk = self.walk(&local, cache.as_ref())?;
        let mut read = |oid: &Oid| {
            let id = to_gix(oid);
            match walk.mark(id, 0) {
                Ok(_) => Ok(Some((
                    walk.date(&id),
                    walk.parents(&id).iter().map(|id| from_gix(id)).collect(),
                ))),
                Err(RepositoryError::MissingObject { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        paint(&asked, &parties, &mut read)
    }

    fn reaching_by_git(&self, asked: &[Oid], parties: &[Vec<Oid>]) -> Result<Vec<Vec<usize>>, RepositoryError> {
        let asked = self.commits_by_git(asked)?;
        let mut peeled = self.commits_by_git(&parties.concat())?.into_iter();
        let parties: Vec<Vec<Oid>> = parties
            .iter()
            .map(|party| peeled.by_ref().take(party.len()).flatten().collect())
            .collect();
        let from: HashSet<Oid> = asked
            .iter()
            .flatten()
            .chain(parties.iter().flatten())
            .copied()
            .collect();
        let own = self.listed_by_git(&["--no-walk=unsorted"], &from)?;
        let oldest = asked
            .iter()
            .flatten()
            .filter_map(|oid| own.get(oid))
            .map(|commit| commit.0)
            .min();
        let since = oldest.unwrap_or(0).saturating_sub(CLOCK_SKEW).max(0);
        let mut commits = self.listed_by_git(&[&format!("--max-age={since}")], &from)?;
        commits.extend(own);
        paint(&asked, &parties, &mut |oid| Ok(commits.get(oid).cloned()))
    }

    fn listed_by_git(&self, options: &[&str], from: &HashSet<Oid>) -> Result<HashMap<Oid, Commit>, RepositoryError> {
        let input: String = from.iter().map(|oid| format!("{oid}\n")).collect();
        let rev_list = self.command(Side::Push, "rev-list").env("GIT_NO_REPLACE_OBJECTS", "1");
        let rev_list = rev_list.args(["--timestamp", "--parents", "--stdin"]).args(options);
        let listed = rev_list.run_with(input.as_bytes())?;
        let mut commits = HashMap::new();
        for line in listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (oid, commit) = parsed(line).ok_or_else(|| GitError::answer("rev-list", line))?;
            commits.insert(oid, commit);
        }
        Ok(commits)
    }
}

/// `DATE COMMIT PARENT...`
fn parsed(line: &[u8]) -> Option<(Oid, Commit)> {
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let date = words.next()?.parse().ok()?;
    let oid = words.next()?.parse().ok()?;
    let parents = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some((oid, (date, parents)))
}

/// Numbers, a bit each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, position: usize) {
        let word = position / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (position % 64);
    }

    /// Adds those of another. Gives whether one of them was new.
    fn add(&mut self, other: &Self) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut grew = false;
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            grew |= *more & !*own != 0;
            *own |= more;
        }
        grew
    }

    fn positions(&self) -> Vec<usize> {
        let of_word = |(number, word): (usize, &u64)| {
            let word = *word;
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| number * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word).collect()
    }
}

/// A commit as it is painted.
struct Painted {
    date: i64,
    parents: Vec<Oid>,
    /// The parties that reach it.
    parties: Bits,
    /// The commits asked for that reach it, and so are not reached from it.
    below: Bits,
}

/// Paints downwards, newest first, from the parties and from what is asked for, until nothing in the queue can still
/// lead a party to a commit asked for.
fn paint(
    asked: &[Option<Oid>],
    parties: &[Vec<Oid>],
    read: &mut dyn FnMut(&Oid) -> Result<Option<Commit>, RepositoryError>,
) -> Result<Vec<Vec<usize>>, RepositoryError> {
    let mut starts: HashMap<Oid, (Bits, Bits)> = HashMap::new();
    let mut all = Bits::default();
    for (position, oid) in asked.iter().enumerate() {
        if let Some(oid) = oid {
            starts.entry(*oid).or_default().1.set(position);
            all.set(position);
        }
    }
    for (position, party) in parties.iter().enumerate() {
        for oid in party {
            starts.entry(*oid).or_default().0.set(position);
        }
    }
    let mut painted: HashMap<Oid, Painted> = HashMap::new();
    let mut queue = BinaryHeap::new();
    for (oid, (parties, below)) in starts {
        let Some((date, parents)) = read(&oid)? else { continue };
        queue.push((date, oid));
        painted.insert(
            oid,
            Painted {
                date,
                parents,
                parties,
                below,
            },
        );
    }
    let oldest = asked
        .iter()
        .flatten()
        .filter_map(|oid| painted.get(oid))
        .map(|found| found.date)
        .min();
    let Some(oldest) = oldest else {
        return Ok(vec![Vec::new(); asked.len()]);
    };
    let since = oldest.saturating_sub(CLOCK_SKEW);
    let is_promising = |commit: &Painted| commit.date >= since && !commit.parties.0.is_empty() && commit.below != all;
    let mut promising: HashSet<Oid> = painted
        .iter()
        .filter(|(_, commit)| is_promising(commit))
        .map(|(oid, _)| *oid)
        .collect();
    let mut waiting: HashSet<Oid> = painted.keys().copied().collect();
    while !promising.is_empty() {
        let Some((date, oid)) = queue.pop() else { break };
        promising.remove(&oid);
        if !waiting.remove(&oid) || date < since {
            continue;
        }
        let Some(commit) = painted.get(&oid) else { continue };
        let (parents, of_parties, of_below) = (commit.parents.clone(), commit.parties.clone(), commit.below.clone());
        for parent in parents {
            let (commit, grew) = match painted.entry(parent) {
                std::collections::hash_map::Entry::Occupied(entry) => {
                    let commit = entry.into_mut();
                    let grew = commit.parties.add(&of_parties) | commit.below.add(&of_below);
                    (commit, grew)
                }
                std::collections::hash_map::Entry::Vacant(entry) => {
                    // History may end here: cut, or left to be fetched later.
                    let Some((date, parents)) = read(&parent)? else {
                        continue;
                    };
                    let (parties, below) = (of_parties.clone(), of_below.clone());
                    (
                        entry.insert(Painted {
                            date,
                            parents,
                            parties,
                            below,
                        }),
                        true,
                    )
                }
            };
            if !grew {
                continue;
            }
            if waiting.insert(parent) {
                queue.push((commit.date, parent));
            }
            if is_promising(commit) {
                promising.insert(parent);
            } else {
                promising.remove(&parent);
            }
        }
    }
    let parties_of = |oid: &Option<Oid>| oid.as_ref().and_then(|oid| painted.get(oid));
    Ok(asked
        .iter()
        .map(|oid| {
            parties_of(oid)
                .map(|found| found.parties.positions())
                .unwrap_or_default()
        })
        .collect())
}

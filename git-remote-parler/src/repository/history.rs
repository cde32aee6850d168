//! How commits hang together: what is new beyond what somebody has, and who is whose ancestor.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use parler_protocol::Oid;

use super::walk::{Marks, Walk};
use super::{Repository, RepositoryError, from_gix, to_gix};
use crate::git::{GitError, Side};

/// Commits that are not reached from the haves, and the edge between them and the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boundary {
    /// How many commits are new.
    pub commits: u64,
    /// Parents of new commits that are not new themselves, sorted.
    pub prerequisites: Vec<Oid>,
    /// New commits whose parents are cut away in this shallow repository, sorted: nobody could use a bundle of these.
    pub shallow: Vec<Oid>,
    /// Of each tip that was asked about, in order, whether it is new itself.
    pub is_new: Vec<bool>,
}

impl Repository {
    /// What `tips` have that `haves` do not reach. Tags stand for their commits. Haves that are not here, or not
    /// commits, are left out; a tip that leads to no commit is an error.
    pub fn boundary(&self, tips: &[Oid], haves: &[Oid]) -> Result<Boundary, RepositoryError> {
        self.boundary_above(tips, haves, &HashSet::new())
    }

    /// The same, where a walk that comes to a commit of `had` takes it for one of the haves. It does not begin there, so
    /// that these cost nothing; git is not told of them where git is asked.
    pub(crate) fn boundary_above(
        &self,
        tips: &[Oid],
        haves: &[Oid],
        had: &HashSet<Oid>,
    ) -> Result<Boundary, RepositoryError> {
        if self.asks_git {
            self.boundary_by_git(tips, haves)
        } else {
            self.boundary_by_gix(None, tips, haves, had)
        }
    }

    /// [`Repository::boundary`] in-process, for what it reads: it ends early, with a part, once it is not wanted any more.
    pub(super) fn boundary_while(
        &self,
        is_wanted: &AtomicBool,
        tips: &[Oid],
        haves: &[Oid],
    ) -> Result<Boundary, RepositoryError> {
        self.boundary_by_gix(Some(is_wanted), tips, haves, &HashSet::new())
    }

    /// Whether `ancestor` is `descendant` or is reached from it. Tags stand for their commits.
    pub fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, RepositoryError> {
        if self.asks_git {
            self.is_ancestor_by_git(ancestor, descendant)
        } else {
            self.is_ancestor_by_gix(ancestor, descendant)
        }
    }

    /// Whether history ends at one of these commits, in a shallow repository.
    pub(crate) fn is_cut(&self, commits: &[Oid]) -> bool {
        let cut = self.shallow_oids();
        commits.iter().any(|commit| cut.contains(commit))
    }

    /// A walk over the repository as this handle sees it.
    pub(super) fn walk<'a>(
        &self,
        local: &'a gix::Repository,
        cache: Option<&'a gix::commitgraph::Graph>,
    ) -> Result<Walk<'a>, RepositoryError> {
        Ok(Walk::new(
            local.revision_graph(cache),
            &self.read_commits,
            cut_commits(local)?,
        ))
    }

    fn boundary_by_gix(
        &self,
        is_wanted: Option<&AtomicBool>,
        tips: &[Oid],
        haves: &[Oid],
        had: &HashSet<Oid>,
    ) -> Result<Boundary, RepositoryError> {
        let local = self.local();
        let tips = tips
            .iter()
            .map(|oid| commit_of(&local, oid))
            .collect::<Result<Vec<_>, _>>()?;
        let still = || is_wanted.is_none_or(|wanted| wanted.load(Ordering::Relaxed));
        let haves = haves.iter().take_while(|_| still());
        let haves: Vec<_> = haves.filter_map(|oid| commit_of(&local, oid).ok()).collect();
        let cache = local.commit_graph_if_enabled().ok().flatten();
        let mut walk = self.walk(&local, cache.as_ref())?.for_as_long_as(is_wanted);
        let had: HashSet<ObjectId> = had.iter().map(to_gix).collect();
        let new = walk_new(&mut walk, &tips, &haves, &had)?;
        let included: HashSet<_> = new.iter().copied().collect();
        let mut prerequisites: Vec<_> = new.iter().flat_map(|id| walk.parents(id)).collect();
        prerequisites.retain(|id| !included.contains(id));
        let shallow = new.iter().copied().filter(|id| walk.is_cut(id)).collect();
        Ok(Boundary {
            commits: new.len() as u64,
            prerequisites: sorted(prerequisites),
            shallow: sorted(shallow),
            is_new: tips.iter().map(|tip| included.contains(tip)).collect(),
        })
    }

    fn boundary_by_git(&self, tips: &[Oid], haves: &[Oid]) -> Result<Boundary, RepositoryError> {
        let peeled: Vec<_> = self.commits_by_git(&[tips, haves].concat())?;
        let mut input = String::new();
        for (oid, commit) in tips.iter().zip(&peeled) {
            let commit = commit.ok_or(RepositoryError::NotACommit { oid: *oid })?;
            input.push_str(&format!("{commit}\n"));
        }
        for commit in peeled[tips.len()..].iter().flatten() {
            input.push_str(&format!("^{commit}\n"));
        }
        let rev_list = self.command(Side::Push, "rev-list").env("GIT_NO_REPLACE_OBJECTS", "1");
        let listed = rev_list.args(["--boundary", "--stdin"]).run_with(input.as_bytes())?;
        let cut: HashSet<Oid> = self.shallow_oids().into_iter().collect();
        let mut boundary = Boundary::default();
        let mut new = HashSet::new();
        for line in listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let answer = || GitError::answer("rev-list", line);
            let text = str::from_utf8(line).map_err(|_| answer())?;
            let (edge, oid) = text.strip_prefix('-').map_or((false, text), |oid| (true, oid));
            let oid: Oid = oid.parse().map_err(|_| answer())?;
            if edge {
                boundary.prerequisites.push(oid);
                continue;
            }
            boundary.commits += 1;
            new.insert(oid);
            if cut.contains(&oid) {
                boundary.shallow.push(oid);
            }
        }
        boundary.prerequisites.sort_unstable();
        boundary.shallow.sort_unstable();
        let tips = peeled.iter().take(tips.len()).flatten();
        boundary.is_new = tips.map(|tip| new.contains(tip)).collect();
        Ok(boundary)
    }

    fn is_ancestor_by_gix(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, RepositoryError> {
        let local = self.local();
        let (ancestor, descendant) = (commit_of(&local, ancestor)?, commit_of(&local, descendant)?);
        let cache = local.commit_graph_if_enabled().ok().flatten();
        let mut walk = self.walk(&local, cache.as_ref())?;
        reaches(&mut walk, ancestor, descendant)
    }

    fn is_ancestor_by_git(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, RepositoryError> {
        let merge_base = self
            .command(Side::Push, "merge-base")
            .env("GIT_NO_REPLACE_OBJECTS", "1");
        let pair = ["--is-ancestor".to_owned(), ancestor.to_string(), descendant.to_string()];
        let (status, answer) = merge_base.args(pair).run_for_status(&[])?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => {
                for (oid, here) in [ancestor, descendant]
                    .into_iter()
                    .zip(self.contains(&[*ancestor, *descendant])?)
                {
                    if !here {
                        return Err(RepositoryError::MissingObject { oid: *oid });
                    }
                }
                Err(GitError::answer("merge-base", &answer).into())
            }
        }
    }

    /// The commit each object is or leads to, in order.
    pub(super) fn commits_by_git(&self, oids: &[Oid]) -> Result<Vec<Option<Oid>>, RepositoryError> {
        let asked: String = oids.iter().map(|oid| format!("{oid}^{{commit}}\n")).collect();
        let answer = self
            .command(Side::Push, "cat-file")
            .arg("--batch-check=%(objectname)")
            .run_with(asked.as_bytes())?;
        let oid = |line: &[u8]| str::from_utf8(line).ok().and_then(|text| text.parse::<Oid>().ok());
        let mut commits: Vec<_> = answer.split(|byte| *byte == b'\n').take(oids.len()).map(oid).collect();
        commits.resize(oids.len(), None);
        Ok(commits)
    }

    /// The commits at which a shallow repository's history ends.
    pub(crate) fn shallow_oids(&self) -> Vec<Oid> {
        let text = std::fs::read_to_string(self.common_dir().join("shallow")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

fn sorted(ids: Vec<ObjectId>) -> Vec<Oid> {
    let mut oids: Vec<_> = ids.iter().map(|id| from_gix(id)).collect();
    oids.sort_unstable();
    oids.dedup();
    oids
}

pub(super) fn commit_of(local: &gix::Repository, oid: &Oid) -> Result<ObjectId, RepositoryError> {
    let id = to_gix(oid);
    let header = local
        .try_find_header(id)
        .map_err(RepositoryError::reading("an object"))?;
    match header.map(|header| header.kind()) {
        None => Err(RepositoryError::MissingObject { oid: *oid }),
        Some(gix::object::Kind::Commit) => Ok(id),
        Some(gix::object::Kind::Tag) => {
            let object = local.find_object(id).map_err(RepositoryError::reading("a tag"))?;
            let commit = object.peel_to_kind(gix::object::Kind::Commit);
            commit
                .map(|commit| commit.id)
                .map_err(|_| RepositoryError::NotACommit { oid: *oid })
        }
        Some(_) => Err(RepositoryError::NotACommit { oid: *oid }),
    }
}

fn cut_commits(local: &gix::Repository) -> Result<Vec<ObjectId>, RepositoryError> {
    let commits = local
        .shallow_commits()
        .map_err(RepositoryError::reading("the shallow file"))?;
    Ok(commits
        .map(|commits| commits.iter().copied().collect())
        .unwrap_or_default())
}

/// How many commits more are looked at once everything in the queue is known to the other side: dates that run
/// backwards may hide a commit behind a known one. As git's own revision walk does.
const SLOP: u32 = 5;

/// The commits that `tips` reach and `haves` do not. Where dates run backwards by more than the slop sees, a commit
/// that the haves reach may be among them, which makes a bundle larger and never wrong.
///
/// Ends when nothing new is left to look at, not when the two sides have met: thousands of old haves cost nothing.
fn walk_new(
    walk: &mut Walk<'_>,
    tips: &[ObjectId],
    haves: &[ObjectId],
    had: &HashSet<ObjectId>,
) -> Result<Vec<ObjectId>, RepositoryError> {
    const HAVE: Marks = 1;
    const TAKEN: Marks = 2;
    // Commits in the queue that are new as far as is known.
    let mut pending = 0_usize;
    for id in haves {
        if walk.mark(*id, HAVE)?.is_none() {
            walk.push(*id);
        }
    }
    for id in tips {
        let have = if had.contains(id) { HAVE } else { 0 };
        if walk.mark(*id, have)?.is_none() {
            walk.push(*id);
            pending += usize::from(have == 0);
        }
    }
    let mut taken = Vec::new();
    let mut oldest_taken = i64::MAX;
    let mut slop = SLOP;
    while let Some(newest) = walk.newest() {
        if pending == 0 {
            if taken.is_empty() {
                break;
            }
            if newest < oldest_taken {
                if slop == 0 {
                    break;
                }
                slop -= 1;
            }
        } else {
            slop = SLOP;
        }
        let Some(id) = walk.pop() else { break };
        let have = walk.marks(&id) & HAVE;
        if have == 0 {
            pending -= 1;
            oldest_taken = walk.date(&id);
            walk.mark(id, TAKEN)?;
            taken.push(id);
        }
        // A commit that turns out to be had takes with it what was reached before through others.
        let mut stack: Vec<_> = walk.parents(&id).into_iter().map(|parent| (parent, have)).collect();
        while let Some((parent, have)) = stack.pop() {
            let have = if had.contains(&parent) { HAVE } else { have };
            let before = match walk.mark(parent, have) {
                // Beyond a have, history may be missing (a partial repository); nothing new is behind it.
                Err(RepositoryError::MissingObject { .. }) if have != 0 => continue,
                before => before?,
            };
            match before {
                None => {
                    walk.push(parent);
                    pending += usize::from(have == 0);
                }
                Some(before) if have != 0 && before & HAVE == 0 => {
                    pending -= usize::from(before & TAKEN == 0);
                    let parents = walk.parents(&parent).into_iter();
                    stack.extend(parents.filter(|id| walk.marks(id) & HAVE == 0).map(|id| (id, HAVE)));
                }
                Some(_) => {}
            }
        }
    }
    taken.retain(|id| walk.marks(id) & HAVE == 0);
    Ok(taken)
}

/// Whether `descendant` reaches `ancestor`: both are painted downwards, newest first, until the descendant's paint
/// arrives or nothing is left that only the descendant reaches. Exact whatever the dates say.
fn reaches(walk: &mut Walk<'_>, ancestor: ObjectId, descendant: ObjectId) -> Result<bool, RepositoryError> {
    const OF_ANCESTOR: Marks = 1;
    const OF_DESCENDANT: Marks = 2;
    if ancestor == descendant {
        return Ok(true);
    }
    walk.mark(ancestor, OF_ANCESTOR)?;
    walk.mark(descendant, OF_DESCENDANT)?;
    walk.push(ancestor);
    walk.push(descendant);
    // Commits in the queue that could still lead to the ancestor.
    let mut promising = HashSet::from([descendant]);
    while !promising.is_empty() {
        let Some(id) = walk.pop() else { break };
        promising.remove(&id);
        let marks = walk.marks(&id);
        for parent in walk.parents(&id) {
            let before = walk.mark(parent, marks)?;
            let after = before.unwrap_or(0) | marks;
            if parent == ancestor && after & OF_DESCENDANT != 0 {
                return Ok(true);
            }
            if before == Some(after) {
                continue;
            }
            walk.push(parent);
            if after == OF_DESCENDANT {
                promising.insert(parent);
            } else {
                promising.remove(&parent);
            }
        }
    }
    Ok(false)
}

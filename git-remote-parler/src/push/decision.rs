//! What becomes of each ref of a push, decided here as a git server would, because the hub runs no git. In git's words.

use std::collections::BTreeSet;
use std::fmt;

use parler_protocol::{Oid, RefName};

use super::Force;
use crate::repository::{ObjectKind, Resolved};

/// Why a ref does not move. The texts are the ones that git's helper protocol gives a meaning to, so that git prints its
/// own status and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The room's tip is here, and the new one does not contain it.
    NonFastForward,
    /// The room's tip is not here.
    FetchFirst,
    /// A tag of that name is there.
    AlreadyExists,
    /// The old or the new object is not a commit.
    NeedsForce,
    /// The room has it elsewhere than a lease says, or it moved between the look and a forced push.
    StaleInfo,
    /// It could move, and another ref of a push that is all or nothing could not.
    AtomicPush,
    /// Something git has no word of its own for.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            // Git writes "non-fast-forward" for people and reads this.
            Self::NonFastForward => "non-fast forward",
            Self::FetchFirst => "fetch first",
            Self::AlreadyExists => "already exists",
            Self::NeedsForce => "needs force",
            Self::StaleInfo => "stale info",
            Self::AtomicPush => "atomic push failed",
            Self::Other(why) => why,
        })
    }
}

/// How the room's value of a ref and the new one stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The room's is not here.
    Unknown,
    /// One of them is not a commit.
    NotCommits,
    /// The new one contains the room's.
    Ahead,
    /// It does not.
    Diverged,
}

/// One ref that a push wants to move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) name: &'a RefName,
    /// Where the room has it.
    pub(super) current: Option<Oid>,
    /// Where it is to go; none: it is to be deleted.
    pub(super) new: Option<Resolved>,
    pub(super) force: Force,
    /// Whether the room's HEAD points at it.
    pub(super) is_head: bool,
}

/// What is done about a [`Wish`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is sent; `rewinds`: the new value does not contain the old one, and that is meant.
    Move {
        rewinds: bool,
    },
    UpToDate,
    /// It is to be deleted and is not there: done, with a warning, as `git receive-pack` does.
    NothingToDelete,
    Refuse(Refusal),
}

/// Decides one ref. `relation` is asked only where it matters.
pub(super) fn decide<E>(
    wish: &Wish<'_>,
    relation: impl FnOnce(Oid, &Resolved) -> Result<Relation, E>,
) -> Result<Decision, E> {
    let other = |why: String| Ok(Decision::Refuse(Refusal::Other(why)));
    let current = wish.current;
    if wish.new.is_some_and(|new| current == Some(new.oid)) {
        return Ok(Decision::UpToDate);
    }
    let may_rewind = match wish.force {
        Force::No => false,
        Force::Always => true,
        Force::Lease(expected) if expected == current => true,
        Force::Lease(_) => return Ok(Decision::Refuse(Refusal::StaleInfo)),
    };
    let new = match (&wish.new, current) {
        (None, None) => return Ok(Decision::NothingToDelete),
        (None, Some(_)) if wish.is_head => return other("deletion of the current branch prohibited".to_owned()),
        (None, Some(_)) => return Ok(Decision::Move { rewinds: false }),
        (Some(new), _) => new,
    };
    if new.commit.is_none() {
        return other(format!(
            "a room holds commits and tags of commits, and this is a {}",
            new.kind
        ));
    }
    if wish.name.branch().is_some() && new.kind != ObjectKind::Commit {
        return other(format!("a branch points at a commit, and this is a {}", new.kind));
    }
    let Some(current) = current else {
        return Ok(Decision::Move { rewinds: false });
    };
    if may_rewind {
        let rewinds = relation(current, new)? != Relation::Ahead;
        return Ok(Decision::Move { rewinds });
    }
    // The order of git's own checks.
    if wish.name.as_str().starts_with("refs/tags/") {
        return Ok(Decision::Refuse(Refusal::AlreadyExists));
    }
    Ok(match relation(current, new)? {
        Relation::Unknown => Decision::Refuse(Refusal::FetchFirst),
        Relation::NotCommits => Decision::Refuse(Refusal::NeedsForce),
        Relation::Diverged => Decision::Refuse(Refusal::NonFastForward),
        Relation::Ahead => Decision::Move { rewinds: false },
    })
}

/// The refs that would be a directory of another, or the other way round, once a push is done. `there`: the room's refs
/// less those that the push deletes; `created`: the refs it makes, in its order. Gives positions in `created` with the
/// ref that is in the way.
pub(super) fn directory_conflicts<'a>(
    there: impl IntoIterator<Item = &'a RefName>,
    created: &[&'a RefName],
) -> Vec<(usize, RefName)> {
    let mut names: BTreeSet<&str> = there.into_iter().map(RefName::as_str).collect();
    let mut conflicts = Vec::new();
    for (position, name) in created.iter().enumerate() {
        let name = name.as_str();
        let above = name
            .match_indices('/')
            .map(|(slash, _)| &name[..slash])
            .find(|above| names.contains(above));
        let directory = format!("{name}/");
        let below = || {
            names
                .range(directory.as_str()..)
                .next()
                .copied()
                .filter(|found| found.starts_with(&directory))
        };
        match above.or_else(below).and_then(|other| other.parse().ok()) {
            Some(other) => conflicts.push((position, other)),
            None => {
                names.insert(name);
            }
        }
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn commit(digit: char) -> Resolved {
        Resolved {
            oid: oid(digit),
            kind: ObjectKind::Commit,
            commit: Some(oid(digit)),
        }
    }

    fn name(text: &str) -> RefName {
        text.parse().unwrap()
    }

    fn decided(
        ref_name: &str,
        current: Option<char>,
        new: Option<Resolved>,
        force: Force,
        relation: Relation,
    ) -> Decision {
        let name = name(ref_name);
        let wish = Wish {
            name: &name,
            current: current.map(oid),
            new,
            force,
            is_head: ref_name == "refs/heads/head",
        };
        decide(&wish, |_, _| Ok::<_, Infallible>(relation)).unwrap()
    }

    #[test]
    fn refs_are_judged_as_a_git_server_judges_them() {
        use Force::{Always, Lease, No};
        use Relation::{Ahead, Diverged, NotCommits, Unknown};
        let refuse = Decision::Refuse;
        let moved = |rewinds| Decision::Move { rewinds };
        for (ref_name, current, new, force, relation, decision) in [
            ("refs/heads/a", None, Some(commit('b')), No, Unknown, moved(false)),
            ("refs/heads/a", Some('a'), Some(commit('b')), No, Ahead, moved(false)),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('a')),
                No,
                Unknown,
                Decision::UpToDate,
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('a')),
                Always,
                Unknown,
                Decision::UpToDate,
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                No,
                Diverged,
                refuse(Refusal::NonFastForward),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                No,
                Unknown,
                refuse(Refusal::FetchFirst),
            ),
            (
                "refs/notes/a",
                Some('a'),
                Some(commit('b')),
                No,
                NotCommits,
                refuse(Refusal::NeedsForce),
            ),
            (
                "refs/tags/a",
                Some('a'),
                Some(commit('b')),
                No,
                Ahead,
                refuse(Refusal::AlreadyExists),
            ),
            (
                "refs/tags/a",
                Some('a'),
                Some(commit('b')),
                Always,
                Diverged,
                moved(true),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Always,
                Diverged,
                moved(true),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Always,
                Unknown,
                moved(true),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Always,
                Ahead,
                moved(false),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Lease(Some(oid('a'))),
                Diverged,
                moved(true),
            ),
            (
                "refs/tags/a",
                Some('a'),
                Some(commit('b')),
                Lease(Some(oid('a'))),
                Ahead,
                moved(false),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Lease(Some(oid('c'))),
                Ahead,
                refuse(Refusal::StaleInfo),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('b')),
                Lease(None),
                Ahead,
                refuse(Refusal::StaleInfo),
            ),
            (
                "refs/heads/a",
                Some('a'),
                Some(commit('a')),
                Lease(None),
                Ahead,
                Decision::UpToDate,
            ),
            (
                "refs/heads/a",
                None,
                Some(commit('b')),
                Lease(None),
                Unknown,
                moved(false),
            ),
            (
                "refs/heads/a",
                None,
                Some(commit('b')),
                Lease(Some(oid('a'))),
                Unknown,
                refuse(Refusal::StaleInfo),
            ),
            (
                "refs/heads/a",
                Some('a'),
                None,
                Lease(Some(oid('a'))),
                Unknown,
                moved(false),
            ),
            (
                "refs/heads/a",
                Some('a'),
                None,
                Lease(Some(oid('b'))),
                Unknown,
                refuse(Refusal::StaleInfo),
            ),
            (
                "refs/heads/a",
                None,
                None,
                Lease(Some(oid('b'))),
                Unknown,
                refuse(Refusal::StaleInfo),
            ),
            ("refs/heads/a", Some('a'), None, No, Unknown, moved(false)),
            ("refs/heads/a", None, None, No, Unknown, Decision::NothingToDelete),
        ] {
            assert_eq!(
                decided(ref_name, current, new, force, relation),
                decision,
                "{ref_name} {current:?} {force:?}"
            );
        }
    }

    #[test]
    fn what_a_room_cannot_hold_is_refused_even_with_force() {
        let tree = Resolved {
            oid: oid('c'),
            kind: ObjectKind::Tree,
            commit: None,
        };
        let tag = Resolved {
            oid: oid('c'),
            kind: ObjectKind::Tag,
            commit: Some(oid('d')),
        };
        for (ref_name, new) in [
            ("refs/tags/a", Some(tree)),
            ("refs/heads/a", Some(tag)),
            ("refs/heads/head", None),
        ] {
            let decision = decided(ref_name, Some('a'), new, Force::Always, Relation::Ahead);
            assert!(
                matches!(decision, Decision::Refuse(Refusal::Other(_))),
                "{ref_name} {decision:?}"
            );
        }
        assert_eq!(
            decided("refs/tags/a", None, Some(tag), Force::No, Relation::Ahead),
            Decision::Move { rewinds: false }
        );
    }

    #[test]
    fn a_directory_and_a_ref_cannot_share_a_name() {
        let [a, ab, abc, b, ax] = [
            "refs/heads/a",
            "refs/heads/a/b",
            "refs/heads/a/b/c",
            "refs/heads/b",
            "refs/heads/a-x",
        ]
        .map(name);
        let conflicts = |there: &[&RefName], created: &[&RefName]| directory_conflicts(there.iter().copied(), created);
        assert_eq!(conflicts(&[&b, &ax], &[&a]), []);
        assert_eq!(conflicts(&[&a], &[&b, &ab]), [(1, a.clone())]);
        assert_eq!(conflicts(&[&abc, &ax], &[&a]), [(0, abc.clone())]);
        assert_eq!(conflicts(&[], &[&ab, &a, &b]), [(1, ab.clone())]);
        assert_eq!(conflicts(&[], &[&ab, &abc]), [(1, ab)]);
    }
}

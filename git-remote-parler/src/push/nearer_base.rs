//! What to make a bundle against that was too large: a branch of another remote that holds much of it. Looks at the history
//! alone, and suggests; it is the user who says that receivers have it.

use parler_protocol::Oid;

use crate::base::{BasePolicy, BaseTip, Bases};
use crate::bundle::BundleHeader;
use crate::repository::{Repository, RepositoryError};

/// Most branches that are looked at: each costs a walk.
const MAX_BRANCHES: usize = 32;

/// The branch that leaves the fewest of a bundle's `commits` to be sent, as `origin/topic`; none where no branch leaves
/// half of them or fewer.
pub(super) fn nearer_base(
    repository: &Repository,
    header: &BundleHeader,
    commits: u64,
) -> Result<Option<String>, RepositoryError> {
    let mut tips = Vec::new();
    for tip in &header.refs {
        tips.extend(repository.resolve(&tip.oid.to_string())?.commit);
    }
    // `HEAD` and a branch may be at the same one.
    tips.sort_unstable();
    tips.dedup();
    let bases = Bases::find(repository, &BasePolicy::Auto)?;
    let branches = bases.certain.into_iter().chain(bases.unless_pushed);
    let mut best: Option<(u64, String)> = None;
    for branch in branches.filter(|branch| can_be_typed(&branch.label)).take(MAX_BRANCHES) {
        let left = left_by(repository, header, &tips, &branch)?;
        let is_nearer = best.as_ref().is_none_or(|(least, _)| left < *least);
        if left <= commits / 2 && is_nearer {
            best = Some((left, branch.label));
        }
    }
    Ok(best.map(|(_, label)| label))
}

/// How many commits a bundle against this branch brings. A tip that the branch holds is in it all the same.
fn left_by(
    repository: &Repository,
    header: &BundleHeader,
    tips: &[Oid],
    branch: &BaseTip,
) -> Result<u64, RepositoryError> {
    let mut haves = header.prerequisites.clone();
    haves.push(branch.oid);
    let new = repository.boundary(tips, &haves)?;
    let held = new.is_new.iter().filter(|is_new| !**is_new).count() as u64;
    Ok(new.commits + held)
}

/// Whether a name may stand in a command that somebody copies: remote branches are called as others please.
fn can_be_typed(label: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    !label.starts_with('-') && label.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_suggested() {
        for (label, is_plain) in [
            ("origin/main", true),
            ("origin/a.b_c-d/1", true),
            ("origin/$(id)", false),
            ("origin/a;b", false),
            ("-x/y", false),
            ("origin/\u{fc}", false),
        ] {
            assert_eq!(can_be_typed(label), is_plain, "{label}");
        }
    }
}

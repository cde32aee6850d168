//! What a partial clone has left at its remote and a bundle's deltas are made of: fetched from there, as git itself would.
//! Never from a room, and never more than the deltas name.

use std::collections::BTreeSet;
use std::time::Duration;

use gix::odb::pack::data::entry::Header;
use parler_protocol::Oid;

use super::ImportError;
use super::stores::Stores;
use crate::base::ordinary_remotes;
use crate::object_fetch::{Depth, fetch_objects};
use crate::pack::entries::{Budget, PackEntries, PackFlaw};
use crate::repository::{Repository, from_gix};

/// A larger thin pack is not looked through: where a base is missing, git refuses it.
pub(super) const MOST_BYTES: u64 = 64 << 20; // 64 MiB
/// Largest object or delta that is inflated on the way, in bytes.
const ENTRY_BYTES: u64 = 64 << 20; // 64 MiB
/// How long the remote may take for one answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// Most objects asked for at once: they are arguments of one command.
const MOST_AT_ONCE: usize = 1000;

/// Fetches the bases of a pack's deltas that are nowhere here. Gives whether there were any. `promisor` is the name of the
/// remote that the clone was made from.
pub(super) fn bring(
    repository: &Repository,
    promisor: &str,
    pack: &[u8],
    stores: &Stores,
) -> Result<bool, ImportError> {
    let is_missing = |oid: &Oid| !stores.has_come(oid) && !stores.is_here(oid);
    // A pack with a flaw is for git to judge.
    let bases = external_bases(pack, stores).unwrap_or_default();
    let missing: Vec<String> = bases.iter().filter(|oid| is_missing(oid)).map(Oid::to_string).collect();
    if missing.is_empty()
        || !ordinary_remotes(repository)?
            .iter()
            .any(|remote| remote.name == promisor)
    {
        return Ok(false);
    }
    tracing::debug!(
        objects = missing.len(),
        remote = promisor,
        "import: fetching what deltas build on"
    );
    for some in missing.chunks(MOST_AT_ONCE) {
        fetch_objects(repository, promisor, some, Depth::AsHere, PATIENCE).map_err(|source| ImportError::Promised {
            remote: promisor.to_owned(),
            source,
        })?;
    }
    Ok(true)
}

fn external_bases(pack: &[u8], stores: &Stores) -> Result<BTreeSet<Oid>, PackFlaw> {
    let mut entries = PackEntries::of(pack, stores.hash())?;
    let mut bases = BTreeSet::new();
    loop {
        let mut budget = Budget::of(ENTRY_BYTES);
        match entries.next(&mut budget)? {
            // Bases in the pack itself are named by their place.
            Some(entry) => {
                if let Header::RefDelta { base_id } = entry.header {
                    bases.insert(from_gix(&base_id));
                }
            }
            None => return Ok(bases),
        }
    }
}

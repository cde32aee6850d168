//! Which objects a pack makes, found out without git: entries inflated, deltas applied, contents hashed. Nothing is
//! checked of what the objects say; that is git's business.

use std::collections::HashMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::{Kind, oid};
use gix::odb::pack::data::entry::Header;

use super::delta::Delta;
use super::entries::{Budget, PackEntries, PackEntry, PackFlaw};

/// An object, in memory.
#[derive(Debug)]
pub(crate) struct Object {
    /// The hash of kind and content.
    pub(crate) id: ObjectId,
    /// Commit, tree, blob or tag.
    pub(crate) kind: gix::objs::Kind,
    /// What it says.
    pub(crate) content: Vec<u8>,
}

/// An entry and the object that it makes.
#[derive(Debug)]
pub(crate) struct ResolvedEntry<'p> {
    /// Whether it is a delta, and on which object.
    pub(crate) base: Option<ObjectId>,
    /// The size that its header announces.
    pub(crate) inflated_bytes: u64,
    /// What follows its header.
    pub(crate) compressed: &'p [u8],
    /// The object.
    pub(crate) object: Arc<Object>,
}

/// Where a delta finds its base when that is not in its own pack. None where it is not known, or no room for it.
pub(crate) type Bases<'a> = &'a mut dyn FnMut(&oid, &mut Budget) -> Result<Option<Arc<Object>>, PackFlaw>;

/// All entries of a pack, in order. A delta whose base stands behind it counts as one whose base is not known: no pack
/// that git makes for sending has one.
pub(crate) fn resolve<'p>(
    pack: &'p [u8],
    hash: Kind,
    bases: Bases<'_>,
    budget: &mut Budget,
) -> Result<Vec<ResolvedEntry<'p>>, PackFlaw> {
    let mut entries = PackEntries::of(pack, hash)?;
    // In their order, so that one is found by its place.
    let mut places: Vec<(u64, Arc<Object>)> = Vec::new();
    let mut own: HashMap<ObjectId, Arc<Object>> = HashMap::new();
    let mut resolved = Vec::new();
    while let Some(entry) = entries.next(budget)? {
        let base = match entry.header {
            Header::OfsDelta { base_distance } => {
                let at = entry.at.checked_sub(base_distance).ok_or(PackFlaw::UnknownBase)?;
                let found = places.binary_search_by_key(&at, |(place, _)| *place);
                Some(Arc::clone(&places[found.map_err(|_| PackFlaw::UnknownBase)?].1))
            }
            Header::RefDelta { base_id } => match own.get(&base_id) {
                Some(base) => Some(Arc::clone(base)),
                None => Some(bases(&base_id, budget)?.ok_or(PackFlaw::UnknownBase)?),
            },
            _ => None,
        };
        let PackEntry {
            at,
            header,
            compressed,
            inflated,
        } = entry;
        let inflated_bytes = inflated.len() as u64;
        let (kind, content) = match (&base, header.as_kind()) {
            (Some(base), _) => (base.kind, Delta::parse(&inflated)?.apply(&base.content, budget)?),
            (None, Some(kind)) => (kind, inflated),
            (None, None) => return Err(PackFlaw::Entry),
        };
        let id = gix::objs::compute_hash(hash, kind, &content).map_err(|_| PackFlaw::Collision)?;
        let object = Arc::new(Object { id, kind, content });
        places.push((at, Arc::clone(&object)));
        own.entry(id).or_insert_with(|| Arc::clone(&object));
        resolved.push(ResolvedEntry {
            base: base.map(|base| base.id),
            inflated_bytes,
            compressed,
            object,
        });
    }
    Ok(resolved)
}

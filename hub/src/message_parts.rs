//! What a message's parts mean to the hub: which blobs they speak of, and whether they belong to the room's pushes. The same
//! for a message that is posted and for one that is looked at later.

use parler_protocol::{BundleId, Part};

use crate::store::BlobReference;

/// Whether a message of these parts carries refs or a bundle.
pub(crate) fn carries_git(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Refs(_) | Part::Bundle(_)))
}

/// What these parts say of blobs, each word once.
pub(crate) fn blob_references(parts: &[Part]) -> Vec<BlobReference> {
    let sized = |id, size| Some(BlobReference { id, size: Some(size) });
    let of_any_size = |id: Option<BundleId>| id.map(|id| BlobReference { id, size: None });
    let mut blobs: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Bundle(part) => sized(part.blob, part.size),
            Part::File(part) => sized(part.blob, part.size),
            Part::Handoff(part) => of_any_size(part.bundle),
            Part::Task(part) => of_any_size(part.result),
            _ => None,
        })
        .collect();
    blobs.sort_unstable();
    blobs.dedup();
    blobs
}

/// The bundles that those of these parts build on, as their author says, each once.
pub(crate) fn bundles_built_on(parts: &[Part]) -> Vec<BundleId> {
    let needs = parts.iter().filter_map(|part| match part {
        Part::Bundle(part) => Some(&part.needs),
        _ => None,
    });
    let mut bundles: Vec<_> = needs.flatten().copied().collect();
    bundles.sort_unstable();
    bundles.dedup();
    bundles
}

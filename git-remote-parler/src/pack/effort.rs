//! How hard git is to try to make a pack small. What does not get smaller costs its time in deflate and its memory in the
//! search for deltas: a sample of what a push brings tells, before git begins. The user's own settings count for more.
//!
//! Looks only: at the trees of what is sent, at sizes, and at the beginning of some files. Where it cannot tell, or it would
//! take long, git does as it always does.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use gix::objs::tree::EntryKind;
use gix::odb::HeaderExt;
use parler_protocol::Oid;

use crate::bundle::BundleHeader;
use crate::repository::{Repository, RepositoryError, to_gix};

/// A file of at least this size is worth a look.
const LARGE_BYTES: u64 = 1 << 20; // 1 MiB
/// Less than this in large files is packed quickly enough.
const WORTH_BYTES: u64 = 16 << 20; // 16 MiB
/// How much of a push may be small files, for which nothing is known: one part in so many.
const SMALL_SHARE: u64 = 20;
/// How many entries of trees are looked at.
const MOST_ENTRIES: usize = 20_000;
/// How many commits and trees are compared on each side.
const MOST_TIPS: usize = 8;
/// How many files are sampled, the largest first.
const SAMPLES: usize = 4;
/// How much of each.
const SAMPLE_BYTES: usize = 256 << 10; // 256 KiB
/// A sample that stays larger than this part of itself, in percent, does not get smaller.
const INCOMPRESSIBLE_PERCENT: usize = 97;

/// What is said to `pack-objects` where its effort would be in vain, and the setting by which users say it.
const NO_EFFORT: [(&str, &[&str]); 2] = [
    ("pack.compression=0", &["pack.compression", "core.compression"]),
    // No search for deltas in larger files.
    ("core.bigFileThreshold=8m", &["core.bigFileThreshold"]),
];

/// The settings for the pack that this header announces; none for ordinary content.
pub(super) fn settings(repository: &Repository, header: &BundleHeader) -> Result<Vec<&'static str>, RepositoryError> {
    if repository.asks_git() || !is_in_vain(repository, header) {
        return Ok(Vec::new());
    }
    let mut settings = Vec::new();
    for (setting, keys) in NO_EFFORT {
        let mut is_set = false;
        for key in keys {
            is_set |= repository.config_string(key)?.is_some();
        }
        if !is_set {
            settings.push(setting);
        }
    }
    tracing::debug!(?settings, "push: what is sent does not get smaller");
    Ok(settings)
}

/// Whether all effort is in vain, and the user has not said anything else.
pub(super) fn are_all(settings: &[&'static str]) -> bool {
    settings.len() == NO_EFFORT.len()
}

fn is_in_vain(repository: &Repository, header: &BundleHeader) -> bool {
    let Some(news) = News::of(repository, header) else {
        return false;
    };
    let large: u64 = news.large.iter().map(|(size, _)| size).sum();
    large >= WORTH_BYTES
        && news.small <= large / SMALL_SHARE
        && news.large.iter().take(SAMPLES).all(|(_, oid)| {
            let sample = beginning(&repository.objects_dir(), oid);
            // What cannot be read so may lie in a pack, from where git takes it as it is.
            sample.is_ok_and(|sample| is_incompressible(&sample))
        })
}

/// The files that the tips have and the prerequisites have not.
#[derive(Default)]
struct News {
    /// Size and id, the largest first.
    large: Vec<(u64, Oid)>,
    /// How many bytes the others are together.
    small: u64,
}

impl News {
    /// None where there is more than can be looked at quickly, or something cannot be read.
    fn of(repository: &Repository, header: &BundleHeader) -> Option<Self> {
        let local = repository.local();
        let tree_of = |oid: &Oid| {
            let object = local.find_object(to_gix(oid)).ok()?;
            object.peel_to_tree().ok().map(|tree| tree.id)
        };
        if header.refs.len() > MOST_TIPS || header.prerequisites.len() > MOST_TIPS {
            return None;
        }
        let mut entries = 0;
        let mut known = HashSet::new();
        let old: Option<Vec<_>> = header.prerequisites.iter().map(tree_of).collect();
        let new: Option<HashSet<_>> = header.refs.iter().map(|tip| tree_of(&tip.oid)).collect();
        let mut pairs: Vec<(gix::ObjectId, Vec<gix::ObjectId>)> = Vec::new();
        let old = old?;
        pairs.extend(new?.into_iter().map(|tree| (tree, old.clone())));
        let mut news = Self::default();
        while let Some((tree, before)) = pairs.pop() {
            if before.contains(&tree) || !known.insert(tree) {
                continue;
            }
            let mut had: Vec<(Vec<u8>, gix::ObjectId)> = Vec::new();
            for old in &before {
                let old = local.find_tree(*old).ok()?;
                let entries = old.iter().flatten();
                had.extend(entries.map(|entry| (entry.filename().to_vec(), entry.object_id())));
            }
            had.sort_unstable();
            let tree = local.find_tree(tree).ok()?;
            for entry in tree.iter() {
                let entry = entry.ok()?;
                entries += 1;
                if entries > MOST_ENTRIES {
                    return None;
                }
                let id = entry.object_id();
                let name: &[u8] = entry.filename();
                let from = had.partition_point(|(other, _)| other.as_slice() < name);
                let same = had[from..].iter().take_while(|(other, _)| other == name);
                let before: Vec<_> = same.map(|(_, id)| *id).collect();
                match entry.mode().kind() {
                    EntryKind::Tree => pairs.push((id, before)),
                    EntryKind::Blob | EntryKind::BlobExecutable if !before.contains(&id) && known.insert(id) => {
                        let size = local.objects.header(id).ok()?.size();
                        match size >= LARGE_BYTES {
                            true => news.large.push((size, crate::repository::from_gix(&id))),
                            false => news.small += size,
                        }
                    }
                    _ => {}
                }
            }
        }
        news.large.sort_unstable_by_key(|(size, _)| Reverse(*size));
        Some(news)
    }
}

/// An object that is a file of its own, as it is on the disk.
pub(super) fn loose_file(objects: &Path, oid: &Oid) -> io::Result<File> {
    let digits = oid.to_string();
    File::open(objects.join(&digits[..2]).join(&digits[2..]))
}

/// The beginning of an object that is a file of its own. Of it no more is read than is needed.
fn beginning(objects: &Path, oid: &Oid) -> io::Result<Vec<u8>> {
    let file = loose_file(objects, oid)?;
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    ZlibDecoder::new(file)
        .take(SAMPLE_BYTES as u64)
        .read_to_end(&mut sample)?;
    Ok(sample)
}

fn is_incompressible(sample: &[u8]) -> bool {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(sample).and_then(|()| encoder.finish());
    packed.is_ok_and(|packed| packed.len() * 100 > sample.len() * INCOMPRESSIBLE_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_stays_as_it_is_and_text_does_not() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(SAMPLE_BYTES)
        .collect();
        assert!(is_incompressible(&noise));
        assert!(!is_incompressible(
            "some text, and more of it\n".repeat(10_000).as_bytes()
        ));
        let half = [&noise[..SAMPLE_BYTES / 2], &vec![0; SAMPLE_BYTES / 2]].concat();
        assert!(!is_incompressible(&half));
    }
}

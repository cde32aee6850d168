//! Makes a bundle of what a push sends: our header, then the pack. That of a small and ordinary push is made here
//! (`small.rs`), and of one with large files that do not get smaller (`large.rs`), every other by one `git pack-objects` child.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use parler_protocol::Oid;

use crate::bundle::BundleHeader;
use crate::git::{BULK_PATIENCE, GitChild, GitError, Side};
use crate::meter::Meter;
use crate::repository::{Repository, RepositoryError};
use crate::spool::{Spool, SpoolWriter};

mod delta;
mod differences;
mod effort;
pub(crate) mod entries;
mod large;
pub(crate) mod resolve;
pub(crate) mod scan;
mod small;
mod write;

/// One piece of pack on its way into the spool.
const PIECE_BYTES: usize = 128 << 10; // 128 KiB
/// The fixed beginning of a pack: `PACK`, the version, the number of objects.
pub(crate) const PACK_HEADER_BYTES: usize = 12;

/// A bundle that is ready to be sent.
#[derive(Debug, Clone)]
pub struct BuiltBundle {
    /// Its bytes, id and size.
    pub spool: Spool,
    /// How many objects the pack holds. May be 0: the tips were had, and now they have a name.
    pub objects: u32,
}

/// Makes the bundle that this header announces: everything its refs reach and its prerequisites do not, which is so many
/// `commits` and what they bring. A temporary file, if the bundle is large, is made in `spool_dir`. `most` bytes are what
/// the hub takes, where that is known.
///
/// The pack is thin: it may hold differences to objects of the prerequisites.
///
/// # Errors
/// [`PackError::TooLarge`] as soon as the bundle is larger than that; the child is ended then.
pub fn build_bundle(
    repository: &Repository,
    header: &BundleHeader,
    commits: u64,
    spool_dir: &Path,
    most: Option<u64>,
) -> Result<BuiltBundle, PackError> {
    let mut spool = SpoolWriter::new(spool_dir);
    spool.write_all(&header.to_bytes()).map_err(PackError::spool)?;
    let before = spool.size();
    if let Some(pack) = small::pack(repository, header, commits) {
        let bytes = pack.bytes.len() as u64;
        // What is too large is for git to pack better, or to say so.
        if most.is_none_or(|most| before + bytes <= most) {
            tracing::debug!(objects = pack.objects, bytes, "push: a small pack is made in-process");
            spool.write_all(&pack.bytes).map_err(PackError::spool)?;
            show_written(repository, pack.objects, bytes);
            return Ok(BuiltBundle {
                spool: spool.finish(),
                objects: pack.objects,
            });
        }
    }

    let settings = effort::settings(repository, header)?;
    if effort::are_all(&settings)
        && let Some(built) = large::build(repository, header, commits, spool_dir, most)?
    {
        return Ok(built);
    }
    let mut child = start(repository, header, settings)?;
    let mut beginning = Vec::with_capacity(PACK_HEADER_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = child.read_output(&mut piece)?;
        if read == 0 {
            break;
        }
        let wanted = PACK_HEADER_BYTES - beginning.len();
        beginning.extend_from_slice(&piece[..read.min(wanted)]);
        spool.write_all(&piece[..read]).map_err(PackError::spool)?;
        check_size(&spool, most)?;
    }
    child.finish()?;
    let shortest = (PACK_HEADER_BYTES + header.object_format.raw_len()) as u64;
    let objects = object_count(&beginning)
        .filter(|_| spool.size() - before >= shortest)
        .ok_or(PackError::NotAPack)?;
    Ok(BuiltBundle {
        spool: spool.finish(),
        objects,
    })
}

/// As git shows what it has written, which it does however quickly it was over.
fn show_written(repository: &Repository, objects: u32, bytes: u64) {
    if objects == 0 {
        return;
    }
    let terminal = repository.git().meters().clone();
    let mut meter = Meter::delayed(terminal, "Writing objects", objects.into(), Duration::ZERO);
    meter.moved(objects.into(), bytes);
    meter.done(bytes);
}

fn check_size(spool: &SpoolWriter, most: Option<u64>) -> Result<(), PackError> {
    let so_far = spool.size();
    match most.filter(|most| so_far > *most) {
        Some(most) => Err(PackError::TooLarge { most, so_far }),
        None => Ok(()),
    }
}

fn start(repository: &Repository, header: &BundleHeader, settings: Vec<&'static str>) -> Result<GitChild, PackError> {
    let mut revisions: String = header.refs.iter().map(|tip| format!("{}\n", tip.oid)).collect();
    // Exactly the header's prerequisites, so that header and pack agree on what the receiver has.
    revisions.extend(header.prerequisites.iter().map(|oid| format!("^{oid}\n")));
    let mut pack_objects = repository.command(Side::Push, "pack-objects");
    for setting in settings {
        pack_objects = pack_objects.setting(setting);
    }
    let mut pack_objects = pack_objects
        .args(["--revs", "--stdout", "--thin", "--delta-base-offset"])
        .metered(&["--progress", "--all-progress-implied"], &["-q"])
        .patience(BULK_PATIENCE);
    if repository.is_shallow() {
        pack_objects = pack_objects.arg("--shallow");
    }
    if !header.prerequisites.is_empty() {
        // Walking by bitmaps, where a repository has them, git finds no base for its deltas among what the receiver
        // has: bundles of a few commits were 4 to 10 times as large.
        pack_objects = pack_objects.arg("--no-use-bitmap-index");
    }
    let mut child = pack_objects.spawn()?;
    child.feed_while_reading(revisions.into_bytes());
    Ok(child)
}

/// The number of objects that a pack of version 2 announces in its first 12 bytes.
pub(crate) fn object_count(beginning: &[u8]) -> Option<u32> {
    let count = beginning.get(..PACK_HEADER_BYTES)?.strip_prefix(b"PACK\0\0\0\x02")?;
    Some(u32::from_be_bytes(count.try_into().ok()?))
}

/// Why no bundle was made.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The spool could not be written.
    #[error("cannot store the bundle before it is sent: {source}")]
    Spool {
        /// What the system said.
        source: io::Error,
    },
    /// The hub does not take so large a blob. git was ended when that was clear.
    #[error("the bundle is over {most} bytes, the most that the hub takes; packing was stopped at {so_far}")]
    TooLarge {
        /// The hub's limit, in bytes.
        most: u64,
        /// How many bytes there were.
        so_far: u64,
    },
    /// A file of the repository is not what git wrote there.
    #[error("object {oid} is damaged: {source}; what else is: git fsck")]
    Damaged {
        /// The object.
        oid: Oid,
        /// How that was seen.
        source: io::Error,
    },
    /// git ended well and wrote something else than a pack.
    #[error("git pack-objects wrote no pack")]
    NotAPack,
    /// The repository could not be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The child failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl PackError {
    fn spool(source: io::Error) -> Self {
        Self::Spool { source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_whole_headers_of_version_2_only() {
        assert_eq!(object_count(b"PACK\0\0\0\x02\0\0\x01\x02rest"), Some(258));
        assert_eq!(object_count(b"PACK\0\0\0\x02\0\0\0\0"), Some(0));
        for bad in [
            &b"PACK\0\0\0\x02\0\0\0"[..],
            b"PACK\0\0\0\x03\0\0\0\0",
            b"pack\0\0\0\x02\0\0\0\0",
            b"",
        ] {
            assert_eq!(object_count(bad), None);
        }
    }
}

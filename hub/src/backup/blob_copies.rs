//! Blob files copied from one directory to another: as second names where the file system allows, since a blob's file is
//! never written to, else byte by byte. A copy has its name only when it is whole and on the disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parler_protocol::BundleId;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::{BackupError, PIECE_BYTES, at};
use crate::directory::sync_directory;
use crate::store::OpenError;

/// What is added to the name of a copy until it is whole.
const UNFINISHED: &str = "copying";

/// A directory of blobs, and its copy.
#[derive(Debug)]
pub(super) struct BlobCopies {
    from: PathBuf,
    to: PathBuf,
    /// Whether second names are tried.
    link: bool,
    copied: u64,
    /// First-level directories with names that may not be on the disk yet: new ones, and those of a backup that was cut off.
    unsynced: BTreeSet<String>,
}

impl BlobCopies {
    /// Prepares the place, and removes what a copy that was cut off left there.
    pub(super) fn open(from: PathBuf, to: PathBuf, copy: bool) -> Result<Self, BackupError> {
        make_directory(&to)?;
        remove_if_there(&to.join(UNFINISHED))?;
        Ok(Self {
            from,
            to,
            link: !copy,
            copied: 0,
            unsynced: BTreeSet::new(),
        })
    }

    /// How many were copied.
    pub(super) fn copied(&self) -> u64 {
        self.copied
    }

    /// Copies every blob that has a file.
    pub(super) fn copy_all_there_are(&mut self, tell: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        let from = self.from.clone();
        for id in blobs_in(&from)? {
            let id = id?;
            let size = match fs::symlink_metadata(path(&from, &id)) {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                // What is no file is named where it is needed.
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(at(&path(&from, &id))(error)),
            };
            match self.copy(&id, size) {
                // Given up meanwhile, or no blob at all: named where it is needed.
                Err(BackupError::Blob { .. }) => {}
                copied => copied?,
            }
            tell(self.copied);
        }
        Ok(())
    }

    /// Copies a blob that has to be there.
    pub(super) fn need(&mut self, id: &BundleId, size: u64, tell: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        self.copy(id, size)?;
        tell(self.copied);
        Ok(())
    }

    fn copy(&mut self, id: &BundleId, size: u64) -> Result<(), BackupError> {
        let to = path(&self.to, id);
        let fan_out = fan_out(id);
        if !self.unsynced.contains(&fan_out) {
            self.unsynced.insert(fan_out.clone());
        }
        match fs::symlink_metadata(&to) {
            Ok(there) if there.is_file() && there.len() == size => return Ok(()),
            // Of another length, it never was a whole copy.
            Ok(_) => remove_if_there(&to)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&to)(error)),
        }
        make_directory(&self.to.join(&fan_out))?;
        let from = path(&self.from, id);
        let unfinished = self.to.join(UNFINISHED);
        if !(self.link && self.link_to(&from, id, size, &unfinished)?) {
            copy_bytes(&from, id, size, &unfinished)?;
        }
        fs::rename(&unfinished, &to).map_err(at(&to))?;
        self.copied += 1;
        Ok(())
    }

    /// Whether the file has a second name now.
    fn link_to(&mut self, from: &Path, id: &BundleId, size: u64, unfinished: &Path) -> Result<bool, BackupError> {
        match fs::symlink_metadata(from) {
            Ok(metadata) if metadata.is_file() && metadata.len() == size => {}
            found => return Err(unusable(id, size, found)),
        }
        remove_if_there(unfinished)?;
        match fs::hard_link(from, unfinished) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(id)),
            Err(_) => {
                // Another file system, or one without: the next ones need not be tried.
                self.link = false;
                Ok(false)
            }
        }
    }

    /// Returns when all names are on the disk.
    pub(super) fn finish(&mut self) -> Result<(), BackupError> {
        for fan_out in std::mem::take(&mut self.unsynced) {
            let directory = self.to.join(fan_out);
            sync_directory(&directory).map_err(at(&directory))?;
        }
        sync_directory(&self.to).map_err(at(&self.to))
    }

    /// Removes copies that are not needed.
    pub(super) fn remove_others(
        &self,
        mut is_needed: impl FnMut(&BundleId) -> Result<bool, OpenError>,
    ) -> Result<(), BackupError> {
        for id in blobs_in(&self.to)? {
            let id = id?;
            if !is_needed(&id)? {
                remove_if_there(&path(&self.to, &id))?;
            }
        }
        Ok(())
    }
}

fn fan_out(id: &BundleId) -> String {
    format!("{:02x}", id.as_bytes()[0])
}

fn path(directory: &Path, id: &BundleId) -> PathBuf {
    directory.join(fan_out(id)).join(id.to_string())
}

/// The blobs in a directory of blobs, by the names of their files. Those of one first-level directory are held at a time.
fn blobs_in(directory: &Path) -> Result<impl Iterator<Item = Result<BundleId, BackupError>>, BackupError> {
    let mut fan_outs: Vec<String> = names(directory)?
        .into_iter()
        .filter(|name| name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .collect();
    fan_outs.sort_unstable();
    let directory = directory.to_owned();
    Ok(fan_outs.into_iter().flat_map(move |fan_out| {
        let ids: Vec<_> = match names(&directory.join(&fan_out)) {
            Ok(names) => names.iter().filter_map(|name| name.parse().ok()).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        let is_in_its_place =
            move |id: &Result<BundleId, _>| id.as_ref().map_or(true, |id: &BundleId| self::fan_out(id) == fan_out);
        ids.into_iter().filter(is_in_its_place)
    }))
}

fn names(directory: &Path) -> Result<Vec<String>, BackupError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(at(directory))?.file_name().into_string());
    }
    Ok(names)
}

fn make_directory(path: &Path) -> Result<(), BackupError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(at(path)),
    }
}

fn remove_if_there(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(at(path)),
    }
}

fn missing(id: &BundleId) -> BackupError {
    BackupError::Blob {
        what: format!("blob {id} is not there"),
    }
}

fn unusable(id: &BundleId, size: u64, found: io::Result<fs::Metadata>) -> BackupError {
    match found {
        Ok(found) if found.is_file() => BackupError::Blob {
            what: format!("blob {id} has {} bytes in place of {size}", found.len()),
        },
        _ => missing(id),
    }
}

/// Copies a file, whose bytes have to be the blob's, and syncs it.
fn copy_bytes(from: &Path, id: &BundleId, size: u64, to: &Path) -> Result<(), BackupError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut source = match rustix::fs::open(from, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Err(missing(id)),
        Err(error) => return Err(at(from)(error.into())),
    };
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(to)
        .map_err(at(to))?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = source.read(&mut piece).map_err(at(from))?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        length += read as u64;
        file.write_all(&piece[..read]).map_err(at(to))?;
    }
    if length != size || BundleId::from_digest(hash.finalize().into()) != *id {
        return Err(BackupError::Blob {
            what: format!("the bytes of blob {id} are not its own"),
        });
    }
    file.sync_all().map_err(at(to))
}

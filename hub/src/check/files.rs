//! The files of a data directory as files: who may read them, and what is left of work that was under way. Opens none.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use parler_protocol::{BundleId, UploadId};

use super::{CheckError, CheckOptions, FindingKind, Place, Report};
use crate::hub::BLOBS_DIRECTORY;
use crate::store::Inspector;

/// What a hub makes in its data directory besides the blobs.
const OWN_FILES: &[&str] = &[
    "hub.db",
    "hub.db-wal",
    "hub.db-shm",
    "hub.db-new",
    "hub.lock",
    "admin.sock",
];
/// A database that was being made.
const UNFINISHED_DATABASE: &str = "hub.db-new";
/// Where blobs are written that came with a message.
const TEMPORARY: &str = "tmp";
/// Where blobs wait that come in several requests.
const UPLOADS: &str = "uploads";
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Checks them.
pub(super) fn check(inspector: &Inspector, options: &CheckOptions, report: &mut Report<'_>) -> Result<(), CheckError> {
    let mut files = Files {
        directory: inspector.directory(),
        // While a hub runs, what is under way is no leftover.
        is_quiet: !inspector.is_in_use(),
        repair: options.repair,
        report,
    };
    for name in OWN_FILES {
        let path = Path::new(name);
        if let Some(metadata) = files.look(path) {
            files.permissions(path, &metadata);
            if *name == UNFINISHED_DATABASE && files.is_quiet {
                files.leftover(path, metadata.len(), "a database that was never finished");
            }
        }
    }
    let blobs = PathBuf::from(BLOBS_DIRECTORY);
    if let Some(metadata) = files.look(&blobs) {
        files.permissions(&blobs, &metadata);
        files.blobs(&blobs)?;
    }
    Ok(())
}

struct Files<'a, 'r> {
    directory: &'a Path,
    is_quiet: bool,
    repair: bool,
    report: &'a mut Report<'r>,
}

impl Files<'_, '_> {
    fn look(&self, path: &Path) -> Option<Metadata> {
        fs::symlink_metadata(self.directory.join(path)).ok()
    }

    fn entries(&self, path: &Path) -> Result<Vec<DirEntry>, CheckError> {
        let failed = |source: io::Error| CheckError::Io {
            path: path.to_owned(),
            source,
        };
        let entries = fs::read_dir(self.directory.join(path)).map_err(failed)?;
        entries.collect::<Result<_, _>>().map_err(failed)
    }

    fn permissions(&mut self, path: &Path, metadata: &Metadata) {
        let mode = metadata.permissions().mode() & 0o7777;
        if !metadata.is_symlink() && mode & OTHERS != 0 {
            let what = format!("others may use what is the hub's alone (mode {mode:04o})");
            self.report.found(FindingKind::Permissions, Place::file(path), what);
        }
    }

    /// Something that a hub which starts would remove.
    fn leftover(&mut self, path: &Path, size: u64, what: &str) {
        let removed = self.repair && fs::remove_file(self.directory.join(path)).is_ok();
        let outcome = if removed { "; removed" } else { "" };
        self.report.summary.leftover_bytes += size;
        self.report.summary.removed += u64::from(removed);
        let what = format!("{what}, {size} bytes{outcome}");
        self.report.found(FindingKind::Unfinished, Place::file(path), what);
    }

    fn blobs(&mut self, blobs: &Path) -> Result<(), CheckError> {
        for entry in self.entries(blobs)? {
            let path = blobs.join(entry.file_name());
            let Some(metadata) = self.look(&path) else { continue };
            self.permissions(&path, &metadata);
            if !metadata.is_dir() {
                self.stray(&path);
                continue;
            }
            let name = entry.file_name();
            for entry in self.entries(&path)? {
                let path = path.join(entry.file_name());
                let Some(metadata) = self.look(&path) else { continue };
                self.permissions(&path, &metadata);
                match name.to_str() {
                    Some(TEMPORARY) if self.is_quiet => {
                        self.leftover(&path, metadata.len(), "a blob that never came to its end");
                    }
                    Some(TEMPORARY) => {}
                    Some(UPLOADS) => self.upload(&path, &metadata),
                    Some(fan_out) if is_in_its_place(fan_out, &path) => {}
                    _ => self.stray(&path),
                }
            }
        }
        Ok(())
    }

    fn stray(&mut self, path: &Path) {
        let what = "nothing that a hub made: it stays where it is";
        self.report.found(FindingKind::Unfinished, Place::file(path), what);
    }

    /// An upload is its bytes and a note. A hub that starts removes one without the other, and bytes that have become a
    /// blob.
    fn upload(&mut self, path: &Path, metadata: &Metadata) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = name.strip_suffix(".json").unwrap_or(name);
        if id.parse::<UploadId>().is_err() {
            return self.stray(path);
        }
        if !self.is_quiet {
            return;
        }
        let other = match name.ends_with(".json") {
            true => path.with_file_name(id),
            false => path.with_file_name(format!("{id}.json")),
        };
        let bytes = match name.ends_with(".json") {
            true => self.look(&other),
            false => Some(metadata.clone()),
        };
        if self.look(&other).is_none() {
            self.leftover(path, metadata.len(), "half of an upload");
        } else if bytes.is_some_and(|bytes| bytes.nlink() > 1) {
            // Its bytes are a blob's: they take no space of their own.
            self.leftover(path, 0, "an upload that has become a blob");
        }
    }
}

fn is_in_its_place(fan_out: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(fan_out) && fan_out.len() == 2 && name.parse::<BundleId>().is_ok())
}

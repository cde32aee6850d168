//! The directory where a bundle's objects wait until they are proven: beside the real objects, unseen by anybody who is
//! not told of it. Dropping it removes it with everything in it; only [`Quarantine::release`] lets objects out.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::git::{GitCommand, GitEnvironment};
use crate::held::{ATTEMPTS, lock_unless_gone};
use crate::keep::Keep;
use crate::lock_claim;
use crate::packed_refs;

/// Begins as git's own object quarantines do, so that `git prune` clears away what we should ever leave.
const PREFIX: &str = "tmp_objdir-parler-";
/// How long something is removed that is written meanwhile.
const SWEEP_PATIENCE: Duration = Duration::from_millis(500);
/// Between two attempts at it.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// The quarantines of this process that are there. Held while one is made, let out of or removed.
static THERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn there() -> MutexGuard<'static, Vec<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every quarantine of this process and its locks on refs, then does what ends it: for a process that is told to
/// end by a signal. What is being let out just now is let out as a whole before. While `end` runs, no thread makes
/// another quarantine.
pub fn remove_all_and(end: impl FnOnce()) {
    let there = there();
    let _locks = packed_refs::remove_all();
    let _claims = lock_claim::remove_all();
    let began = Instant::now();
    for directory in there.iter() {
        // A git child that has not ended yet may put a file into it, and makes the directory anew where it is gone.
        loop {
            remove_whole(directory);
            std::thread::sleep(SWEEP_PAUSE);
            if !directory.exists() || began.elapsed() > SWEEP_PATIENCE {
                break;
            }
        }
    }
    end();
}

/// A quarantine of this process.
#[derive(Debug)]
pub(crate) struct Quarantine {
    directory: TempDir,
    objects: PathBuf,
    alternates: OsString,
    /// Locked while the quarantine is in use. The kernel lets go of it when the process ends, however it ends.
    _lock: File,
}

impl Quarantine {
    /// Makes a quarantine in the object directory, after removing those of processes that are gone.
    pub(crate) fn new(objects: &Path, environment: &GitEnvironment) -> io::Result<Self> {
        sweep(objects);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        for _ in 0..ATTEMPTS {
            let mut there = there();
            let directory = tempfile::Builder::new()
                .prefix(&prefix)
                .permissions(fs::Permissions::from_mode(0o700))
                .tempdir_in(objects)?;
            if let Some(lock) = lock_unless_gone(directory.path()) {
                fs::create_dir(directory.path().join("pack"))?;
                let alternates = alternates(objects, environment);
                there.push(directory.path().to_owned());
                return Ok(Self {
                    directory,
                    objects: objects.to_owned(),
                    alternates,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other(
            "the quarantine directory vanishes as soon as it is made",
        ))
    }

    /// Lets a command see the quarantine's objects and the real ones, and write into the quarantine.
    pub(crate) fn around(&self, command: GitCommand) -> GitCommand {
        self.beside(command, &self.alternates)
    }

    /// Lets a command see the quarantine's objects and no others.
    pub(crate) fn alone(&self, command: GitCommand) -> GitCommand {
        self.beside(command, OsStr::new(""))
    }

    fn beside(&self, command: GitCommand, alternates: &OsStr) -> GitCommand {
        command
            .env("GIT_OBJECT_DIRECTORY", self.path())
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates)
    }

    /// The object database in the quarantine, to be asked in-process what it holds.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What there is in it, for [`Quarantine::release`] to find again.
    pub(crate) fn contents(&self) -> io::Result<Contents> {
        let mut contents = Contents::default();
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            if is_fan_out(&entry)? {
                contents.loose += fs::read_dir(entry.path())?.count();
            }
        }
        for entry in fs::read_dir(self.path().join("pack"))? {
            let name = entry?.file_name();
            if Path::new(&name).extension() == Some(OsStr::new("idx")) {
                contents.indexes.insert(name);
            }
        }
        Ok(contents)
    }

    /// Moves everything among the real objects. Packs come last and each with a `.keep`, which stays until the result
    /// is dropped: until a ref names the objects, a concurrent repack would take them for garbage.
    ///
    /// When moving fails the packs moved so far are taken back. Loose objects stay: whoever found one there meanwhile
    /// may rely on it, and one that nobody names is harmless. It fails where something of `proven` is gone: `git prune
    /// --expire=now` removes quarantines that are in use, git's own too.
    pub(crate) fn release(self, proven: &Contents) -> io::Result<Released> {
        let mut released = Released::default();
        let mut moved = Vec::new();
        let result = {
            let _there = there();
            self.move_all(&mut released, &mut moved).and_then(|found| {
                let is_whole = found.loose >= proven.loose && found.indexes.is_superset(&proven.indexes);
                is_whole.then_some(()).ok_or_else(removed_meanwhile)
            })
        };
        match result {
            Ok(()) => {
                if !released.doubles.is_empty() {
                    released.quarantine = Some(self);
                }
                Ok(released)
            }
            Err(error) => {
                for path in moved.iter().rev() {
                    let _ = fs::remove_file(path);
                }
                Err(error)
            }
        }
    }

    /// Gives what there was.
    fn move_all(&self, released: &mut Released, moved: &mut Vec<PathBuf>) -> io::Result<Contents> {
        let mut found = Contents::default();
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            if is_fan_out(&entry)? {
                found.loose += self.move_loose(&entry.path(), &entry.file_name())?;
            }
        }
        let target = self.objects.join("pack");
        make_directory(&self.objects, &target)?;
        for entry in fs::read_dir(self.path().join("pack"))? {
            let index = entry?.path();
            if index.extension() == Some(OsStr::new("idx")) {
                let name = index.file_name().unwrap_or_default();
                let here = target.join(name);
                found.indexes.insert(name.to_owned());
                // First, so that there is no moment at which the pack is there and not kept.
                released.keeps.push(Keep::place(here.with_extension("keep"))?);
                if here.exists() {
                    // The same objects came before, perhaps in a pack that a repack is about to remove.
                    released.doubles.push((index, here));
                } else {
                    move_pack(&index, &here, moved)?;
                }
            }
        }
        Ok(found)
    }

    /// Gives how many there were.
    fn move_loose(&self, from: &Path, name: &OsStr) -> io::Result<usize> {
        let to = self.objects.join(name);
        let mut count = 0;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            // A repack that goes on meanwhile removes directories that it finds empty, again and again.
            for attempt in 1.. {
                make_directory(&self.objects, &to)?;
                let name = to.join(entry.file_name());
                match fs::rename(entry.path(), &name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {}
                    moved => {
                        moved.map_err(|error| at(&name, &error))?;
                        break;
                    }
                }
            }
            count += 1;
        }
        Ok(count)
    }
}

/// What was in a quarantine is not there any more.
pub(crate) fn removed_meanwhile() -> io::Error {
    io::Error::other(
        "objects were removed while they were taken in, as git prune --expire=now does, or those that were here are damaged",
    )
}

/// Whether it is a directory of loose objects.
fn is_fan_out(entry: &fs::DirEntry) -> io::Result<bool> {
    Ok(entry.file_name().len() == 2 && entry.file_type()?.is_dir())
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        let mut there = there();
        let _ = fs::remove_dir_all(self.path());
        there.retain(|directory| directory != self.directory.path());
    }
}

/// What a quarantine holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The names of its packs' indexes.
    indexes: BTreeSet<OsString>,
    /// How many loose objects.
    loose: usize,
}

/// Objects that were let out of a quarantine, protected until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// The `.keep` files that protect the packs.
    keeps: Vec<Keep>,
    /// Packs that were there already: ours, and the one in its place.
    doubles: Vec<(PathBuf, PathBuf)>,
    quarantine: Option<Quarantine>,
}

impl Released {
    /// To be called once refs name the objects. Puts back a pack that was there before and has gone since.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        for (ours, here) in self.doubles.drain(..) {
            if !here.exists() {
                move_pack(&ours, &here, &mut Vec::new())?;
            }
        }
        self.quarantine = None;
        Ok(())
    }
}

/// Moves a pack and its companions. The index comes last: it makes the pack visible.
fn move_pack(index: &Path, to: &Path, moved: &mut Vec<PathBuf>) -> io::Result<()> {
    for extension in ["pack", "rev", "idx"] {
        let (from, to) = (index.with_extension(extension), to.with_extension(extension));
        match fs::rename(from, &to) {
            Ok(()) => moved.push(to),
            // Reverse indexes are optional.
            Err(error) if extension == "rev" && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&to, &error)),
        }
    }
    Ok(())
}

/// The error with the path that it is about.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes a directory that whoever may write the object directory may write.
fn make_directory(objects: &Path, directory: &Path) -> io::Result<()> {
    let mode = fs::metadata(objects)?.permissions().mode();
    match fs::DirBuilder::new().mode(mode & 0o777).create(directory) {
        // The umask has taken rights away that a shared repository grants.
        Ok(()) => match fs::set_permissions(directory, fs::Permissions::from_mode(mode & 0o7777)) {
            // Somebody has removed it already, for it is empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            set => set,
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(at(directory, &error)),
    }
}

/// The real object directory, then those that git was told to look into besides, as git writes such lists.
fn alternates(objects: &Path, environment: &GitEnvironment) -> OsString {
    let path = objects.as_os_str().as_bytes();
    let mut list = if path.contains(&b':') || path.first() == Some(&b'"') {
        let mut quoted = vec![b'"'];
        for byte in path {
            if matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(*byte);
        }
        quoted.push(b'"');
        quoted
    } else {
        path.to_vec()
    };
    if let Some(more) = environment.get("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
        list.push(b':');
        list.extend_from_slice(more.as_bytes());
    }
    OsString::from_vec(list)
}

/// Removes quarantines that no process holds. Failures are left for the next time: this is only tidying.
pub(crate) fn sweep(objects: &Path) {
    let Ok(entries) = fs::read_dir(objects) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        if let Some(_lock) = lock_unless_gone(&entry.path()) {
            // A child of the dead process may still work on what it was fed, and would make the directory anew.
            #[cfg(target_os = "linux")]
            crate::git::orphans::end_writers(&entry.path());
            remove_whole(&entry.path());
        }
    }
    Keep::sweep(&objects.join("pack"));
}

/// Removes a directory in which a child of a dead process may still write: for a moment, until it sees that its input
/// has ended.
fn remove_whole(directory: &Path) {
    let began = Instant::now();
    while let Err(error) = fs::remove_dir_all(directory) {
        // The first: a name came after the directory was read. The second: one went that had been read.
        let is_written = matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound);
        if !is_written || !directory.exists() || began.elapsed() > SWEEP_PATIENCE {
            return;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_quarantines_are_removed_and_used_ones_are_not() {
        let objects = tempfile::tempdir().unwrap();
        let dead = objects.path().join(format!("{PREFIX}1-abc"));
        fs::create_dir_all(dead.join("pack")).unwrap();
        fs::write(dead.join("pack/tmp_pack_x"), "x").unwrap();
        fs::create_dir(objects.path().join("tmp_objdir-incoming-x")).unwrap();

        let used = Quarantine::new(objects.path(), &GitEnvironment::default()).unwrap();
        assert!(!dead.exists());
        let other = Quarantine::new(objects.path(), &GitEnvironment::default()).unwrap();
        assert!(used.path().exists() && other.path().exists());
        drop((used, other));
        let left: Vec<_> = fs::read_dir(objects.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["tmp_objdir-incoming-x"], "git's own are git's business");
    }

    #[test]
    fn what_was_proven_and_is_gone_is_not_let_out() {
        let objects = tempfile::tempdir().unwrap();
        let made = || {
            let quarantine = Quarantine::new(objects.path(), &GitEnvironment::default()).unwrap();
            let path = |name: &str| quarantine.path().join(name);
            fs::create_dir(path("ab")).unwrap();
            for name in [
                "ab/cd",
                "pack/pack-1.pack",
                "pack/pack-1.idx",
                "pack/pack-2.pack",
                "pack/pack-2.idx",
            ] {
                fs::write(path(name), name).unwrap();
            }
            let proven = quarantine.contents().unwrap();
            assert_eq!((proven.loose, proven.indexes.len()), (1, 2));
            (quarantine, proven)
        };
        let packs = || match fs::read_dir(objects.path().join("pack")) {
            Ok(entries) => entries.count(),
            Err(_) => 0,
        };
        for gone in ["ab/cd", "pack/pack-1.idx", "pack/pack-2.pack"] {
            let (quarantine, proven) = made();
            fs::remove_file(quarantine.path().join(gone)).unwrap();
            assert!(quarantine.release(&proven).is_err(), "{gone}");
            assert_eq!(packs(), 0, "{gone}");
        }
        let (quarantine, proven) = made();
        fs::remove_dir_all(quarantine.path().join("ab")).unwrap();
        fs::remove_dir_all(quarantine.path().join("pack")).unwrap();
        assert!(quarantine.release(&proven).is_err());

        // What failures may leave: a loose object harms nobody.
        let _ = fs::remove_dir_all(objects.path().join("ab"));
        let (quarantine, proven) = made();
        let released = quarantine.release(&proven).unwrap();
        assert_eq!(packs(), 6);
        drop(released);
        assert_eq!(packs(), 4);
        assert!(objects.path().join("ab/cd").exists());
    }

    #[test]
    fn an_abandoned_quarantine_goes_while_orphans_still_write() {
        const WRITERS: usize = 16;
        let objects = tempfile::tempdir().unwrap();
        let dead = objects.path().join(format!("{PREFIX}1-abc"));
        fs::create_dir_all(dead.join("pack")).unwrap();
        let (started, start) = std::sync::mpsc::channel();
        // Several, so that one of them is quicker than what empties the directory.
        let orphans: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (pack, started) = (dead.join("pack"), started.clone());
                std::thread::spawn(move || {
                    let began = Instant::now();
                    for number in 0.. {
                        // As git does, which makes it anew where it is gone.
                        let made = fs::create_dir(&pack).map_err(|error| error.kind());
                        if made == Err(io::ErrorKind::NotFound) || began.elapsed() > SWEEP_PATIENCE / 5 {
                            break;
                        }
                        let _ = fs::write(pack.join(format!("tmp_pack_{writer}_{number}")), "x");
                        let _ = started.send(());
                    }
                })
            })
            .collect();
        start.recv().unwrap();
        sweep(objects.path());
        orphans.into_iter().for_each(|orphan| orphan.join().unwrap());
        assert!(!dead.exists());
    }

    #[test]
    fn paths_are_listed_as_git_lists_them() {
        let none = GitEnvironment::default();
        assert_eq!(alternates(Path::new("/a/objects"), &none), "/a/objects");
        assert_eq!(alternates(Path::new("/a:b\\\"/o"), &none), "\"/a:b\\\\\\\"/o\"");
        let more = [("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), "/x:/y".into())];
        assert_eq!(alternates(Path::new("/a"), &GitEnvironment::new(more)), "/a:/x:/y");
    }
}

//! The last fold of a room's pushes, kept in the repository so that the next command asks only for what is new. Can be
//! removed at any time; what cannot be read is taken as absent, what cannot be written is not kept.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parler_protocol::{HubId, RoomName};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::held::{self, open_without_waiting, sweep_files};
use crate::room_state::RoomState;

/// Changes whenever a file of the last version would be misread.
const FORMAT: u32 = 5;

/// What a file that is being written begins with; it is locked meanwhile.
const PREFIX: &str = ".new-";

/// Where folds are kept.
#[derive(Debug, Clone, Default)]
pub struct RoomCache {
    directory: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Kept {
    format: u32,
    state: RoomState,
}

#[derive(Serialize)]
struct Keep<'a> {
    format: u32,
    state: &'a RoomState,
}

impl RoomCache {
    /// Keeps folds under our directory in a repository (`Repository::parler_dir`), which is made when needed.
    pub fn in_directory(parler_dir: &Path) -> Self {
        Self {
            directory: Some(parler_dir.join("rooms")),
        }
    }

    /// Keeps nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// The file of one room.
    pub fn file(&self, hub: &HubId, room: &RoomName) -> Option<PathBuf> {
        // Both are made of letters, digits and `._-`, and do not begin with a dot.
        self.directory
            .as_ref()
            .map(|directory| directory.join(format!("{hub}-{}.json", room.key())))
    }

    /// Forgets a room: it is read from its beginning next time.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn forget(&self, hub: &HubId, room: &RoomName) -> io::Result<()> {
        match self.file(hub, room).map(std::fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn load(&self, hub: &HubId, room: &RoomName) -> Option<RoomState> {
        let bytes = read_regular(&self.file(hub, room)?).ok()?;
        let kept: Kept = serde_json::from_slice(checked(&bytes)?).ok()?;
        let state = kept.state;
        if kept.format != FORMAT || state.hub() != hub || state.room().key() != room.key() {
            return None;
        }
        Some(state)
    }

    pub(crate) fn store(&self, state: &RoomState) {
        // A cache: a read-only repository or a full disk costs the next command a longer answer, nothing else.
        let _ = self.try_store(state);
    }

    fn try_store(&self, state: &RoomState) -> std::io::Result<()> {
        let (Some(directory), Some(file)) = (&self.directory, self.file(state.hub(), state.room())) else {
            return Ok(());
        };
        // Never the repository itself: an interrupted clone may just have removed it.
        for made in directory.parent().into_iter().chain([directory.as_path()]) {
            match std::fs::create_dir(made) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        sweep_files(directory, PREFIX);
        let mut new = held::make_file(directory, PREFIX, Permissions::from_mode(0o600))?;
        let json = serde_json::to_vec(&Keep { format: FORMAT, state })?;
        new.write_all(format!("{}\n", digest(&json)).as_bytes())?;
        new.write_all(&json)?;
        new.persist(file)?;
        Ok(())
    }
}

/// The content of a regular file; of anything else, which might keep us waiting, none.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_without_waiting(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What follows the digest in the first line, if it is the digest of that: a fold is not checked against the messages
/// again, so a file that was changed or cut is not believed.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
    (line == digest(rest).as_bytes()).then_some(rest)
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::lock_unless_gone;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_being_written_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let rooms = directory.path().join("rooms");
        std::fs::create_dir(&rooms).unwrap();
        let (left, written) = (rooms.join(".new-left"), rooms.join(".new-written"));
        std::fs::write(&left, "half").unwrap();
        std::fs::write(&written, "half").unwrap();
        let lock = lock_unless_gone(&written).unwrap();
        let state = RoomState::empty(HubId::from_bytes([1; 16]), "build".parse().unwrap());
        RoomCache::in_directory(directory.path()).store(&state);
        assert_eq!((left.exists(), written.exists()), (false, true));
        drop(lock);
        RoomCache::in_directory(directory.path()).store(&state);
        assert_eq!(std::fs::read_dir(&rooms).unwrap().count(), 1);
    }

    #[test]
    fn a_repository_that_has_gone_stays_gone() {
        let directory = tempfile::tempdir().unwrap();
        let git_dir = directory.path().join("copy/.git");
        let state = RoomState::empty(HubId::from_bytes([1; 16]), "build".parse().unwrap());
        RoomCache::in_directory(&git_dir.join("parler")).store(&state);
        assert!(!directory.path().join("copy").exists());
    }

    #[test]
    fn a_fold_comes_back_and_anything_else_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        let cache = RoomCache::in_directory(directory.path());
        let (hub, room) = (HubId::from_bytes([1; 16]), "Build".parse::<RoomName>().unwrap());
        assert_eq!(cache.load(&hub, &room), None);
        let state = RoomState::empty(hub, room.clone());
        cache.store(&state);
        assert_eq!(cache.load(&hub, &"build".parse().unwrap()), Some(state.clone()));
        assert_eq!(cache.load(&HubId::from_bytes([2; 16]), &room), None);

        let file = cache.file(&hub, &room).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let (_, json) = text.split_once('\n').unwrap();
        let with_digest = |json: &str| format!("{}\n{json}", digest(json.as_bytes()));
        for (written, expected) in [
            (with_digest(json), Some(&state)),
            (String::new(), None),
            ("{".to_owned(), None),
            (json.to_owned(), None),
            (text.replace("\"version\":0", "\"version\":1"), None),
            (text[..text.len() - 1].to_owned(), None),
            (with_digest(&json.replace("\"format\":5", "\"format\":4")), None),
            (with_digest(&json.replace("Build", "other")), None),
        ] {
            std::fs::write(&file, &written).unwrap();
            assert_eq!(cache.load(&hub, &room).as_ref(), expected, "{written}");
        }
        std::fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(cache.load(&hub, &room), None, "a pipe that nobody writes to");
        std::fs::remove_file(&file).unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, &text).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_eq!(cache.load(&hub, &room), None, "a link");
        RoomCache::none().store(&state);
        RoomCache::in_directory(&file).store(&state);
    }
}

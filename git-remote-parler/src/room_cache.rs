//! The last fold of a room's pushes, kept in the repository so that the next command asks only for what is new. Can be
//! removed at any time; what cannot be read is taken as absent, what cannot be written is not kept.

use std::io::Write;
use std::path::{Path, PathBuf};

use parler_protocol::{HubId, RoomName};
use serde::{Deserialize, Serialize};

use crate::room_state::RoomState;

/// Changes whenever a file of the last version would be misread.
const FORMAT: u32 = 2;

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

    pub(crate) fn load(&self, hub: &HubId, room: &RoomName) -> Option<RoomState> {
        let bytes = std::fs::read(self.file(hub, room)?).ok()?;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        let mut state = kept.state;
        if kept.format != FORMAT || state.hub() != hub || state.room().key() != room.key() {
            return None;
        }
        state.index_again();
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
        std::fs::create_dir_all(directory)?;
        let mut new = tempfile::NamedTempFile::new_in(directory)?;
        new.write_all(&serde_json::to_vec(&Keep { format: FORMAT, state })?)?;
        new.persist(file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for bad in [
            "",
            "{",
            &text.replace("\"format\":2", "\"format\":1"),
            &text.replace("Build", "other"),
        ] {
            std::fs::write(&file, bad).unwrap();
            assert_eq!(cache.load(&hub, &room), None, "{bad}");
        }
        RoomCache::none().store(&state);
        RoomCache::in_directory(&file).store(&state);
    }
}

//! How much of a file system is free, and how much of that has to stay so. Knows nothing of what is stored.

use std::io;
use std::path::Path;

/// A file system's space, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub(crate) total: u64,
    /// What this process may still write.
    pub(crate) available: u64,
}

impl DiskSpace {
    /// Of the file system that holds this path. A system call without I/O.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(path)?;
        Ok(Self {
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
            available: disk.f_bavail.saturating_mul(disk.f_frsize),
        })
    }

    /// Whether writing so many bytes more leaves as much free as the floor asks for.
    pub(crate) fn has_room(&self, bytes: u64, floor: FreeFloor) -> bool {
        self.available >= floor.bytes_of(self.total).saturating_add(bytes)
    }
}

/// Part of a disk that stays free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeFloor {
    percent: u8,
    at_most: Option<u64>,
}

impl FreeFloor {
    /// So much of the disk, in percent.
    pub fn percent(percent: u8) -> Self {
        Self { percent, at_most: None }
    }

    /// But no more than so many bytes.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        Self {
            at_most: Some(bytes),
            ..self
        }
    }

    fn bytes_of(self, total: u64) -> u64 {
        let bytes = u128::from(total) * u128::from(self.percent) / 100;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.at_most.map_or(bytes, |most| bytes.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_part_of_the_disk_or_less() {
        let disk = DiskSpace {
            total: 1_000,
            available: 60,
        };
        assert!(disk.has_room(10, FreeFloor::percent(5)));
        assert!(!disk.has_room(11, FreeFloor::percent(5)));
        assert!(disk.has_room(40, FreeFloor::percent(5).at_most(20)));
        assert!(!disk.has_room(41, FreeFloor::percent(5).at_most(20)));
        assert!(disk.has_room(60, FreeFloor::default()));
        assert!(!disk.has_room(u64::MAX, FreeFloor::percent(100)));
        assert!(DiskSpace::at(Path::new(".")).unwrap().total > 0);
    }
}

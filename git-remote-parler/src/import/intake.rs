//! The git child that turns a pack into objects in the quarantine and checks each of them.

use std::time::Duration;

use crate::git::{GitChild, GitError, Side, one_line};
use crate::meter::Meter;
use crate::quarantine::Quarantine;
use crate::repository::Repository;

use super::{ImportError, ImportLimits};

/// What old tools wrote into commits, tags and trees of many honest histories; harmless. Everything else that fsck finds
/// is an error: dangerous names above all, and what leaves open what an object says. Git at its strictest takes its own
/// warnings for errors, so those are here too.
const HISTORIC: &str = "badDate=warn,badDateOverflow=warn,badEmail=warn,badFilemode=warn,badName=warn,badTagName=warn,\
badTimezone=warn,missingEmail=warn,missingNameBeforeEmail=warn,missingSpaceBeforeDate=warn,\
missingSpaceBeforeEmail=warn,missingTaggerEntry=warn,multipleAuthors=warn,nulInCommit=warn,zeroPaddedDate=warn,\
zeroPaddedFilemode=warn";

/// A file larger than this that is no delta is checked piece by piece.
const STREAMED_FILES: &str = "core.bigFileThreshold=32m";
/// How git begins to say that it may have no more memory.
const OUT_OF_MEMORY: &str = "Out of memory";
/// What the user can do then.
const MORE_MEMORY: &str = "; it may have more where parler.maxObjectSize is larger";
/// git's exit code for arguments that it does not know.
const USAGE: i32 = 129;
/// Exit code of a pack that is whole and not self-contained.
const NOT_SELF_CONTAINED: i32 = 1;
/// More than a pipe holds: a child that has taken more has read some of it, so it knew its arguments.
const REPLAY_BYTES: usize = 256 << 10; // 256 KiB

/// How a pack is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Loose objects.
    Unpack,
    /// A pack with an index; objects that the sender left out are added from here.
    IndexThin,
    /// A pack with an index that must need nothing from here.
    IndexWhole,
}

/// What is known of a pack before it is taken in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pack {
    pub(super) objects: u32,
    pub(super) bytes: u64,
    /// The size of the largest object that git has to hold as a whole, in bytes, as far as that is known.
    pub(super) largest_held: u64,
    /// Whether it should need nothing from outside.
    pub(super) is_whole: bool,
    /// Whether each of its objects was found to be good before.
    pub(super) is_vouched: bool,
}

/// A child at work.
pub(super) struct Intake<'a> {
    repository: &'a Repository,
    quarantine: &'a Quarantine,
    limits: ImportLimits,
    way: Way,
    pack: Pack,
    child: GitChild,
    /// All bytes fed so far, while they may have to be fed again to a child with older arguments.
    replay: Option<Vec<u8>>,
}

impl<'a> Intake<'a> {
    /// Starts the child that suits a pack. `is_partial` says that the repository may lack objects on purpose.
    pub(super) fn start(
        repository: &'a Repository,
        quarantine: &'a Quarantine,
        limits: &ImportLimits,
        pack: Pack,
        is_partial: bool,
    ) -> Result<Self, ImportError> {
        // Where objects may be missing on purpose, the links of unpacked ones could not be checked.
        let small = limits.are_small(pack.objects.into(), pack.bytes);
        let way = if small && !is_partial {
            Way::Unpack
        } else if pack.is_whole {
            Way::IndexWhole
        } else {
            Way::IndexThin
        };
        let child = spawn(repository, quarantine, limits, way, pack, "--fsck-objects=")?;
        let replay = (way != Way::Unpack).then(Vec::new);
        Ok(Self {
            repository,
            quarantine,
            limits: *limits,
            way,
            pack,
            child,
            replay,
        })
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        match self.child.feed(bytes) {
            Err(GitError::Failed { code: Some(USAGE), .. }) if self.replay.is_some() => self.start_again(bytes)?,
            result => result.map_err(refused)?,
        }
        if let Some(replay) = &mut self.replay {
            replay.extend_from_slice(bytes);
            if replay.len() > REPLAY_BYTES {
                self.replay = None;
            }
        }
        Ok(())
    }

    /// Lets the child hold objects of this size. It begins to when the last byte has come.
    pub(super) fn make_room_for(&mut self, largest_held: u64) -> Result<(), ImportError> {
        if largest_held > self.pack.largest_held {
            self.pack.largest_held = largest_held;
            self.child
                .set_limits(self.limits.of_child(self.pack.bytes, largest_held))?;
        }
        Ok(())
    }

    /// Waits for the verdict. Gives whether the pack is self-contained.
    pub(super) fn finish(mut self) -> Result<bool, ImportError> {
        let also = (self.way == Way::IndexWhole).then_some(NOT_SELF_CONTAINED);
        let (code, answer) = match self.child.finish_with(also) {
            Err(GitError::Failed { code: Some(USAGE), .. }) if self.replay.is_some() => {
                self.start_again(&[])?;
                self.child.finish_with(also).map_err(refused)?
            }
            result => result.map_err(refused)?,
        };
        // Both children pass on to stdout what follows the pack, and index-pack lists there what it could not check.
        let expected = match self.way {
            Way::Unpack => answer.is_empty(),
            Way::IndexThin | Way::IndexWhole => is_index_answer(&answer, 2 * self.repository.object_format().raw_len()),
        };
        if !expected {
            let message = format!("more than a pack: {}", one_line(&answer[..answer.len().min(120)]));
            return Err(ImportError::Refused { message });
        }
        if self.way == Way::Unpack {
            tell_unpacked(self.repository, self.pack.objects.into(), self.pack.bytes);
        }
        Ok(self.way == Way::IndexWhole && code == 0)
    }

    /// Git before 2.44 takes the severities only with the stricter check. Known by its refusal, because asking for the
    /// version would cost a child each time.
    fn start_again(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        let fed = self.replay.take().unwrap_or_default();
        self.child = spawn(
            self.repository,
            self.quarantine,
            &self.limits,
            self.way,
            self.pack,
            "--strict=",
        )?;
        self.child
            .feed(&fed)
            .and_then(|()| self.child.feed(bytes))
            .map_err(refused)
    }
}

/// Says on a terminal what git says of objects that it has unpacked. The child counts only where it sees one itself, and it
/// sees our pipe.
pub(super) fn tell_unpacked(repository: &Repository, objects: u64, pack_bytes: u64) {
    let meters = repository.git().meters();
    if meters.is_screen() {
        let mut meter = Meter::delayed(meters.clone(), "Unpacking objects", objects, Duration::ZERO);
        meter.moved(objects, pack_bytes);
        meter.done(pack_bytes);
    }
}

fn spawn(
    repository: &Repository,
    quarantine: &Quarantine,
    limits: &ImportLimits,
    way: Way,
    pack: Pack,
    fsck: &str,
) -> Result<GitChild, GitError> {
    let command = match way {
        Way::Unpack => repository
            .command(Side::Import, "unpack-objects")
            .setting(STREAMED_FILES)
            .arg("-q")
            .args((!pack.is_vouched).then(|| format!("--strict={HISTORIC}"))),
        Way::IndexThin | Way::IndexWhole => {
            let more = if way == Way::IndexThin {
                "--fix-thin"
            } else {
                "--check-self-contained-and-connected"
            };
            // Each thread holds objects of its own. Without a number git takes all processors.
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let threads = ImportLimits::threads(pack.bytes).map(|most| most.min(processors));
            repository
                .command(Side::Import, "index-pack")
                .setting(STREAMED_FILES)
                .args(["--stdin", more, &format!("{fsck}{HISTORIC}")])
                .args(threads.map(|most| format!("--threads={most}")))
                .metered(&["-v"], &[])
        }
    };
    let command = command.arg(format!("--max-input-size={}", pack.bytes));
    let limited = command
        .limits(limits.of_child(pack.bytes, pack.largest_held))
        .patience(limits.patience)
        .answer_bytes(64 << 10);
    quarantine.around(limited).spawn()
}

fn is_index_answer(answer: &[u8], digits: usize) -> bool {
    let hash = answer.strip_prefix(b"pack\t").and_then(|rest| rest.strip_suffix(b"\n"));
    hash.is_some_and(|hash| hash.len() == digits && hash.iter().all(u8::is_ascii_hexdigit))
}

/// A child that ended with a failure has judged the bundle; everything else is our own trouble.
fn refused(error: GitError) -> ImportError {
    match error {
        GitError::Failed { mut message, .. } => {
            if message.starts_with(OUT_OF_MEMORY) {
                message.push_str(MORE_MEMORY);
            }
            ImportError::Refused { message }
        }
        error => error.into(),
    }
}

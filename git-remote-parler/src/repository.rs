//! A repository on this machine, as far as it is read: where it is, its configuration, refs, objects and history.
//! Never writes anything, and never looks at `HEAD` unless asked to: during `git clone` there is none yet.
//!
//! Questions are answered in-process by gix. Where gix cannot see what git sees (reftable, `git -c`, an object
//! directory of its own), the same questions go to git children and get the same answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parler_protocol::{ObjectFormat, Oid};

use crate::git::{Git, GitCommand, GitError, Side};
use crate::meter::{self, Meter};
use crate::terminal::Terminal;

mod config;
mod history;
mod kinship;
mod parents;
mod place;
mod read_ahead;
mod refs;
mod revision;
mod shared;
mod walk;

pub use config::{RemoteConfig, parse_bool};
pub(crate) use config::{mapped, parse_bytes};
pub use history::Boundary;
pub use place::{Lines, Place, Places};
pub(crate) use read_ahead::ReadAhead;
pub use refs::{LocalHead, LocalRef};
pub use revision::{ObjectKind, Resolved};
pub(crate) use shared::SharedMode;

/// A repository that was found and opened. Cheap to clone, and may be shared between threads.
///
/// What it says of object format and configuration is as of the opening: `git clone` fixes both only after the helper
/// has listed the room's refs, so a session opens the repository again before it fetches.
#[derive(Clone)]
pub struct Repository {
    git: Git,
    gix: gix::ThreadSafeRepository,
    git_dir: PathBuf,
    common_dir: PathBuf,
    object_format: ObjectFormat,
    has_ref_files: bool,
    asks_git: bool,
    is_known: bool,
    config: Arc<OnceLock<config::Config>>,
    read_commits: walk::ReadCommits,
}

impl Repository {
    /// Opens the repository that git named, by `GIT_DIR` or on a command line. As git does with an explicit directory,
    /// who owns it is not asked.
    pub fn open(git: Git, git_dir: &Path) -> Result<Self, RepositoryError> {
        let options = gix::open::Options::default().with(gix::sec::Trust::Full);
        let opened = gix::ThreadSafeRepository::open_opts(git_dir, options);
        let opened = opened.map_err(|error| RepositoryError::opening(git_dir, error))?;
        Self::of(git, opened)
    }

    /// Finds the repository that `directory` lies in: the one `GIT_DIR` names (relative to `directory`), else upwards.
    ///
    /// A repository of another user is refused as git refuses it, unless `safe.directory` allows it.
    pub fn discover(git: Git, directory: &Path) -> Result<Self, RepositoryError> {
        if let Some(git_dir) = git.environment().get("GIT_DIR") {
            let git_dir = directory.join(git_dir);
            return Self::open(git, &git_dir);
        }
        let options = || gix::open::Options::default().bail_if_untrusted(true);
        let trust = gix::sec::trust::Mapping {
            full: options(),
            reduced: options(),
        };
        let opened = gix::ThreadSafeRepository::discover_opts(directory, Default::default(), trust);
        let opened = opened.map_err(|error| {
            // The library takes one that is not there for another user's.
            let named = git.environment().get("GIT_WORK_TREE").map(|tree| directory.join(tree));
            match named.filter(|tree| !tree.exists()) {
                Some(directory) => RepositoryError::NoWorkTree { directory },
                None => RepositoryError::opening(directory, error),
            }
        })?;
        Self::of(git, opened)
    }

    fn of(git: Git, opened: gix::ThreadSafeRepository) -> Result<Self, RepositoryError> {
        let local = opened.to_thread_local();
        let absolute = |path: &Path| std::path::absolute(path).map_err(|source| RepositoryError::Path { source });
        let git_dir = absolute(local.git_dir())?;
        let common_dir = match local.common_dir().canonicalize() {
            // The library joins "..", which means something else behind a symbolic link.
            Ok(path) if local.common_dir() != local.git_dir() => path,
            _ => git_dir.clone(),
        };
        let object_format = match local.object_hash() {
            gix::hash::Kind::Sha1 => ObjectFormat::Sha1,
            gix::hash::Kind::Sha256 => ObjectFormat::Sha256,
            _ => return Err(RepositoryError::UnknownObjectFormat),
        };
        let ref_storage = local.config_snapshot().string("extensions.refStorage");
        let has_ref_files = ref_storage.is_none_or(|storage| storage.to_ascii_lowercase() == b"files");
        let is_known = has_known_format(&local.config_snapshot());
        let asks_git = !has_ref_files || !is_known || git.environment().needs_git();
        drop(local);
        Ok(Self {
            git,
            gix: opened,
            git_dir,
            common_dir,
            object_format,
            has_ref_files: has_ref_files && is_known,
            asks_git,
            is_known,
            config: Arc::default(),
            read_commits: walk::ReadCommits::default(),
        })
    }

    /// The same repository, with meters shown here.
    #[must_use]
    pub fn with_meters(mut self, meters: Terminal) -> Self {
        self.git = self.git.with_meters(meters);
        self
    }

    /// A meter for work on this repository, shown where its children's are, if that takes longer than git waits.
    pub(crate) fn meter(&self, title: &'static str, total: u64) -> Meter {
        let delay = meter::delay(self.git.environment());
        Meter::delayed(self.git.meters().clone(), title, total, delay)
    }

    /// The git directory of this work tree, absolute.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git directory that all work trees share, absolute.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Where new objects go.
    pub fn objects_dir(&self) -> PathBuf {
        match self.git.environment().get("GIT_OBJECT_DIRECTORY") {
            Some(directory) => std::path::absolute(directory).unwrap_or_else(|_| directory.into()),
            None => self.common_dir.join("objects"),
        }
    }

    /// Our directory in the repository, for caches that can be rebuilt. May not exist.
    pub fn parler_dir(&self) -> PathBuf {
        self.common_dir.join("parler")
    }

    /// The work tree's root, if there is a work tree.
    pub fn work_dir(&self) -> Option<PathBuf> {
        self.local()
            .workdir()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// The hash that names the repository's objects.
    pub fn object_format(&self) -> ObjectFormat {
        self.object_format
    }

    /// Whether history is cut: some commits' parents are not here on purpose.
    pub fn is_shallow(&self) -> bool {
        self.common_dir
            .join("shallow")
            .metadata()
            .is_ok_and(|meta| meta.len() > 0)
    }

    /// The git program and environment the repository was opened with.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// A git command on this repository. On either side it sees the objects that git was told to see.
    pub(crate) fn command(&self, side: Side, name: &'static str) -> GitCommand {
        let mut command = self.git.command_in(side, &self.git_dir, name);
        for name in ["GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"] {
            if let Some(value) = self.git.environment().get(name) {
                command = command.env(name, value);
            }
        }
        command
    }

    /// Whether questions go to git children because gix would not see what git sees.
    pub fn asks_git(&self) -> bool {
        self.asks_git
    }

    /// Whether its format is one that is known here. git may refuse every other, and is asked for everything there.
    pub(crate) fn has_known_format(&self) -> bool {
        self.is_known
    }

    /// Whether refs are known to be files, and lines of `packed-refs`.
    pub(crate) fn has_ref_files(&self) -> bool {
        self.has_ref_files
    }

    /// A handle for one thread. Replace refs are not followed: what travels is what the ids say.
    pub(crate) fn local(&self) -> gix::Repository {
        let mut local = self.gix.to_thread_local();
        local.objects.ignore_replacements = true;
        local
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository")
            .field("git_dir", &self.git_dir)
            .field("asks_git", &self.asks_git)
            .finish()
    }
}

/// Whether a repository says of itself what every git that we work with understands (`gitrepository-layout`,
/// `core.repositoryFormatVersion`): the library does not look at it.
fn has_known_format(config: &gix::config::Snapshot<'_>) -> bool {
    const ANYWHERE: [&str; 4] = ["noop", "partialclone", "preciousobjects", "worktreeconfig"];
    const SINCE_1: [&str; 2] = ["objectformat", "refstorage"];
    let is_known = |known: &[&str]| {
        let sections = config.plumbing().sections();
        let mut of_extensions = sections.filter(|section| section.header().name().eq_ignore_ascii_case(b"extensions"));
        of_extensions.all(|section| {
            let body = section.body();
            body.value_names()
                .all(|name| known.contains(&name.to_ascii_lowercase().as_str()))
        })
    };
    const VERSION: &str = "core.repositoryFormatVersion";
    let version = config.string(VERSION).map(|_| config.integer(VERSION));
    match version {
        None | Some(Some(0)) => is_known(&ANYWHERE),
        Some(Some(1)) => is_known(&[ANYWHERE.as_slice(), &SINCE_1].concat()),
        Some(_) => false,
    }
}

/// The hash as the library calls it.
pub(crate) fn kind_of(format: ObjectFormat) -> gix::hash::Kind {
    match format {
        ObjectFormat::Sha1 => gix::hash::Kind::Sha1,
        ObjectFormat::Sha256 => gix::hash::Kind::Sha256,
    }
}

/// The tree of a commit, or of a tag of one, if it is here.
pub(crate) fn tree_of(local: &gix::Repository, oid: &Oid) -> Option<gix::ObjectId> {
    let object = local.find_object(to_gix(oid)).ok()?;
    Some(object.peel_to_kind(gix::object::Kind::Tree).ok()?.id)
}

pub(crate) fn to_gix(oid: &Oid) -> gix::ObjectId {
    gix::ObjectId::try_from(oid.as_bytes()).expect("an oid has 20 or 32 bytes, and both hashes are compiled in")
}

pub(crate) fn from_gix(id: &gix::hash::oid) -> Oid {
    Oid::from_bytes(id.as_bytes()).expect("both hashes have 20 or 32 bytes")
}

/// Why a repository could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is none in the directory, nor above it.
    #[error("not a git repository: {}", directory.display())]
    NotARepository {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// It belongs to another user, and `safe.directory` does not name it.
    #[error("the repository of {} belongs to another user: git config --global --add safe.directory DIR", directory.display())]
    NotOurs {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// `GIT_WORK_TREE` names a directory that is not there.
    #[error("the work tree that GIT_WORK_TREE names is not there: {}", directory.display())]
    NoWorkTree {
        /// The directory.
        directory: PathBuf,
    },
    /// It names its objects by a hash we do not know.
    #[error("the repository uses an unknown object format")]
    UnknownObjectFormat,
    /// A path could not be made absolute.
    #[error("cannot tell where the repository is: {source}")]
    Path {
        /// What the system said.
        source: std::io::Error,
    },
    /// No object is called so.
    #[error("{revision:?} names nothing here: {reason}")]
    UnknownRevision {
        /// As it was asked for.
        revision: String,
        /// Git's words.
        reason: String,
    },
    /// The object is not a commit, nor a tag of one.
    #[error("{oid} is not a commit")]
    NotACommit {
        /// The object.
        oid: Oid,
    },
    /// An object that must be here is not.
    #[error("object {oid} is missing")]
    MissingObject {
        /// The object.
        oid: Oid,
    },
    /// A configuration value is not what the key asks for.
    #[error("{key} is set to {value:?}, which is not a boolean")]
    NotABoolean {
        /// The configuration key.
        key: String,
        /// Its value.
        value: String,
    },
    /// A configuration value is not what the key asks for.
    #[error("{key} is set to {value:?}, which is no number from 1 to {most}")]
    NotACount {
        /// The configuration key.
        key: String,
        /// Its value.
        value: String,
        /// The largest that it takes.
        most: usize,
    },
    /// A key that is a number of bytes has another value.
    #[error("{key} is set to {value:?}, which is no size such as 512m")]
    NotASize {
        /// The configuration key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Reading in-process failed.
    #[error("cannot read the repository: {doing}: {source}")]
    Read {
        /// What was being read.
        doing: &'static str,
        /// The library's words.
        source: Box<gix::Error>,
    },
    /// A git child failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl RepositoryError {
    fn opening(directory: &Path, error: gix::Error) -> Self {
        let directory = directory.to_owned();
        // The library tells these apart only by its words.
        let words = error.to_string();
        if words.contains("is considered unsafe") {
            Self::NotOurs { directory }
        } else if words.contains("configuration") {
            Self::reading("its configuration")(error)
        } else {
            Self::NotARepository { directory }
        }
    }

    fn reading(doing: &'static str) -> impl FnOnce(gix::Error) -> Self {
        move |source| Self::Read {
            doing,
            source: Box::new(source),
        }
    }
}

//! A fresh repository in which a commit from elsewhere is checked out. Nothing of it runs on the way, and nothing that the
//! user's configuration names: no hook, no filter, no submodule, no transport. What is run in it later, by whom and within
//! which bounds, is not decided here.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parler_protocol::{ObjectFormat, Oid, RefName};

use crate::git::{BULK_PATIENCE, Git, GitError, Side};
use crate::repository::{Repository, RepositoryError, tree_of};

/// What the repository's own configuration says, for git commands that are run in it later.
const SETTINGS: &str = "\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tattributesFile = /dev/null
[protocol]
\tallow = never
[credential]
\thelper =
[submodule]
\trecurse = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
";

/// Counts for more than the attributes in a tree. A filter that is named there is none here, in later commands too.
const ATTRIBUTES: &str = "* -filter\n";

/// Most files and directories that are checked out. A few objects can stand for any number of them.
const MOST_ENTRIES: u64 = 1_000_000;
/// Most bytes that are checked out.
const MOST_BYTES: u64 = 16 << 30;

/// Where a repository is that has its objects in common with another.
const ALTERNATES: &str = "objects/info/alternates";

/// Why there is no such repository, or no commit checked out in it.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// A file of it cannot be written or looked at.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its objects are not all its own: reading them could be reading what somebody else may not have.
    #[error("{} leads out of the repository", path.display())]
    NotItsOwn {
        /// What leads out.
        path: PathBuf,
    },
    /// Written out it would fill the disk.
    #[error("{commit} is too large to check out: more than {MOST_ENTRIES} files, or {MOST_BYTES} bytes")]
    TooLarge {
        /// The commit.
        commit: Oid,
    },
    /// It cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A git child failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl CheckoutError {
    fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }
}

/// Makes an empty repository with a work tree in this directory, which is made too.
///
/// # Errors
/// [`CheckoutError`].
pub fn make(git: &Git, directory: &Path, format: ObjectFormat) -> Result<Repository, CheckoutError> {
    init(git, directory, format, &[])?;
    let git_dir = directory.join(".git");
    let config = git_dir.join("config");
    let opened = OpenOptions::new().append(true).open(&config);
    opened
        .and_then(|mut file| file.write_all(SETTINGS.as_bytes()))
        .map_err(CheckoutError::file("write", &config))?;
    let attributes = git_dir.join("info/attributes");
    fs::create_dir_all(git_dir.join("info"))
        .and_then(|()| fs::write(&attributes, ATTRIBUTES))
        .map_err(CheckoutError::file("write", &attributes))?;
    Ok(Repository::open(git.clone(), &git_dir)?)
}

/// Checks a commit that is there out, on a branch of its own. `repository` is one that was made here and has none yet.
///
/// # Errors
/// [`CheckoutError::TooLarge`] where it would be too much to write; [`CheckoutError`].
pub fn check_out(repository: &Repository, branch: &RefName, commit: &Oid) -> Result<(), CheckoutError> {
    if !is_within(&repository.local(), commit, MOST_ENTRIES, MOST_BYTES) {
        return Err(CheckoutError::TooLarge { commit: *commit });
    }
    let head = repository.command(Side::Import, "symbolic-ref");
    head.args(["HEAD", branch.as_str()]).run()?;
    let git_dir = repository.git_dir();
    let work_tree = git_dir.parent().unwrap_or(git_dir);
    // With a branch that is not born yet this makes it.
    let reset = repository.command(Side::Import, "reset").current_dir(work_tree);
    let reset = reset.args(["--quiet", "--hard", &commit.to_string()]);
    reset.patience(BULK_PATIENCE).run()?;
    Ok(())
}

/// Whether a commit written out is at most so many files and directories, and so many bytes. What cannot be read is for git
/// to say.
fn is_within(local: &gix::Repository, commit: &Oid, most_entries: u64, most_bytes: u64) -> bool {
    let mut left: Vec<_> = tree_of(local, commit).into_iter().collect();
    let (mut entries, mut bytes) = (0u64, 0u64);
    while let Some(id) = left.pop() {
        let Ok(tree) = local.find_tree(id) else { continue };
        for entry in tree.iter().filter_map(Result::ok) {
            entries += 1;
            if entry.mode().is_tree() {
                left.push(entry.object_id());
            } else if !entry.mode().is_commit()
                && let Ok(Some(header)) = local.try_find_header(entry.object_id())
            {
                bytes = bytes.saturating_add(header.size());
            }
            if entries > most_entries || bytes > most_bytes {
                return false;
            }
        }
    }
    true
}

/// What `HEAD` of a repository is, in which others may have done anything: nothing that it says is run. None where it is no
/// commit. The path of its git directory holds no link.
///
/// # Errors
/// [`CheckoutError::NotItsOwn`] where its objects are elsewhere, or lead there, or another repository answers for it;
/// [`CheckoutError`] where git cannot be run.
pub fn head(git: &Git, git_dir: &Path) -> Result<Option<Oid>, CheckoutError> {
    require_own(git_dir)?;
    let asked = git.command_in(Side::Import, git_dir, "rev-parse");
    let asked = asked.args(["--verify", "--quiet", "HEAD^{commit}"]);
    match asked.run() {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer).trim().parse().ok()),
        Err(GitError::Failed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a repository without a work tree in `directory` that has the objects of the one whose git directory is `of`, and
/// nothing else of it: no configuration, no refs. To read what others may have made there. `directory` is empty, and where
/// they cannot have put anything; the path `of` holds no link.
///
/// # Errors
/// [`CheckoutError::NotItsOwn`] where the objects are elsewhere, or lead there.
pub fn with_objects_of(
    git: &Git,
    of: &Path,
    directory: &Path,
    format: ObjectFormat,
) -> Result<Repository, CheckoutError> {
    let objects = require_own(of)?;
    init(git, directory, format, &["--bare"])?;
    let alternates = directory.join(ALTERNATES);
    let quoted = quoted(&objects);
    fs::create_dir_all(directory.join("objects/info"))
        .and_then(|()| fs::write(&alternates, quoted))
        .map_err(CheckoutError::file("write", &alternates))?;
    Ok(Repository::open(git.clone(), directory)?)
}

/// A path as a line of `alternates`: as it is, or, where git would read it otherwise, in quotation marks.
fn quoted(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;

    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    if bytes.first() == Some(&b'/') && bytes.iter().all(is_plain) {
        return [bytes, b"\n"].concat();
    }
    let mut line = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            byte if *byte < b' ' => line.extend(format!("\\{byte:03o}").into_bytes()),
            byte => line.push(*byte),
        }
    }
    line.extend(b"\"\n");
    line
}

fn init(git: &Git, directory: &Path, format: ObjectFormat, more: &[&str]) -> Result<(), CheckoutError> {
    let init = git.command(Side::Import, "init");
    // A template has hooks.
    let init = init.args(["--quiet", "--template=", "--initial-branch=unborn"]);
    let init = init.arg(format!("--object-format={format}")).args(more);
    init.arg(directory).run()?;
    Ok(())
}

/// Refuses a repository whose objects are, or lead, anywhere else than in this git directory. Gives where they are.
fn require_own(git_dir: &Path) -> Result<PathBuf, CheckoutError> {
    let not_own = |path: PathBuf| Err(CheckoutError::NotItsOwn { path });
    let looked = |path: &Path| CheckoutError::file("look at", path);
    let objects = git_dir.join("objects");
    // A link anywhere above: what it leads to may be whose files whoever put it there cannot read.
    if objects.canonicalize().map_err(looked(&objects))? != objects {
        return not_own(objects);
    }
    let elsewhere = ["commondir", "objects/info/alternates", "objects/info/http-alternates"];
    for path in elsewhere.map(|name| git_dir.join(name)) {
        if path.symlink_metadata().is_ok() {
            return not_own(path);
        }
    }
    let mut left = vec![objects.clone()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().map_err(looked(&path))?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(looked(&path))? {
                left.push(entry.map_err(looked(&path))?.path());
            }
        } else if !meta.is_file() {
            return not_own(path);
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_with_odd_characters_is_quoted_as_git_reads_it() {
        assert_eq!(quoted(Path::new("/a b/c")), b"/a b/c\n");
        assert_eq!(quoted(Path::new("/a\"b\\c\nd")), b"\"/a\\\"b\\\\c\\012d\"\n");
    }

    #[test]
    fn objects_that_are_or_lead_elsewhere_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let above = directory.path().canonicalize().unwrap();
        let git_dir = above.join("work/.git");
        let objects = git_dir.join("objects");
        let is_refused = |git_dir: &Path| matches!(require_own(git_dir), Err(CheckoutError::NotItsOwn { .. }));
        fs::create_dir_all(objects.join("pack")).unwrap();
        fs::write(objects.join("pack/x.pack"), "").unwrap();
        assert_eq!(require_own(&git_dir).unwrap(), objects);
        symlink("/etc/passwd", objects.join("pack/y.pack")).unwrap();
        assert!(is_refused(&git_dir));
        fs::remove_file(objects.join("pack/y.pack")).unwrap();
        fs::create_dir(objects.join("info")).unwrap();
        fs::write(objects.join("info/alternates"), "/x\n").unwrap();
        assert!(is_refused(&git_dir));
        fs::remove_file(objects.join("info/alternates")).unwrap();
        fs::write(git_dir.join("commondir"), "/x\n").unwrap();
        assert!(is_refused(&git_dir));
        fs::remove_file(git_dir.join("commondir")).unwrap();
        require_own(&git_dir).unwrap();
        // The whole of it, as another's.
        symlink(above.join("work"), above.join("link")).unwrap();
        assert!(is_refused(&above.join("link/.git")));
        fs::rename(&objects, above.join("objects")).unwrap();
        symlink(above.join("objects"), &objects).unwrap();
        assert!(is_refused(&git_dir));
    }
}

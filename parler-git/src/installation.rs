//! Where manual pages and completions go so that they are found, and writing them there. Replaces and removes only what
//! carries our mark: a page that somebody else put there stays.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::cli::CompletionShell;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::manual;
use crate::new_file::NewFile;

/// Among how many first bytes of a file the mark stands.
const MARK_BYTES: usize = 512;

/// What installing a file did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was not there, or said something else.
    Made,
    /// It was there already.
    None,
}

/// The directories that are written to.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Holds `man1`.
    pub(crate) manual: PathBuf,
    /// This user's shared data.
    data: Option<PathBuf>,
}

impl Places {
    /// `chosen`, else beside the directory of the program where `man` looks for it and this user may write, else among
    /// the user's data.
    pub(crate) fn of(environment: &Environment, chosen: Option<&Path>) -> Result<Self> {
        let data = environment.directories.as_ref().map(|user| user.data.clone());
        let manual = match chosen {
            Some(chosen) => Some(environment.directory.join(chosen)),
            None => beside_program(environment).or_else(|| data.as_ref().map(|data| data.join("man"))),
        };
        match manual {
            Some(manual) => Ok(Self { manual, data }),
            None => Err(Error::fatal("this user has no home directory").then("add --dir DIR")),
        }
    }

    /// Where a shell looks for its script.
    pub(crate) fn completion(&self, shell: CompletionShell) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join(shell.place()))
    }

    /// Whether `man` looks for pages here: by `MANPATH`, or because the directory belongs to one of `PATH`.
    pub(crate) fn manual_is_found(&self, environment: &Environment) -> bool {
        let listed: Vec<_> = environment
            .filled("MANPATH")
            .map(|paths| std::env::split_paths(paths).collect())
            .unwrap_or_default();
        // An empty entry stands for what would be looked through without the variable.
        if !listed.is_empty() && !listed.contains(&PathBuf::new()) {
            return listed.contains(&self.manual);
        }
        listed.contains(&self.manual)
            || environment
                .search_path()
                .any(|directory| directory.parent().map(|prefix| prefix.join("share/man")) == Some(self.manual.clone()))
    }

    /// The pages of ours that are there, also those of another version.
    pub(crate) fn own_pages(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.manual.join("man1")) else {
            return Vec::new();
        };
        let is_ours = |name: &str| name.ends_with(".1") && manual::NAMES.iter().any(|begin| name.starts_with(begin));
        let mut pages: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
            .map(|entry| entry.path())
            .collect();
        pages.sort();
        pages
    }
}

/// `PREFIX/share/man` where this program is found in `PREFIX/bin` and this user may write there.
fn beside_program(environment: &Environment) -> Option<PathBuf> {
    let directory = environment
        .search_path()
        .find(|directory| directory.join("git-parler").is_file())?;
    let prefix = directory.parent().filter(|_| directory.ends_with("bin"))?;
    let manual = prefix.join("share/man");
    let nearest = manual.ancestors().find(|path| path.exists())?;
    access(nearest, Access::WRITE_OK).is_ok().then_some(manual)
}

/// Writes a file of ours, and the directories above it, unless it is there already.
pub(crate) fn install(path: &Path, content: &str, mark: &str) -> Result<Change> {
    match fs::read(path) {
        Ok(there) if there == content.as_bytes() => return Ok(Change::None),
        Ok(there) if !has_mark(&there, mark) => {
            let what = format!("{} is there and was not written by this program", path.display());
            return Err(Error::new(ErrorKind::Conflict, what).then("remove it, or add --dir DIR"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(format_args!("read {}", path.display()), &error)),
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)
            .map_err(|error| Error::io(format_args!("make {}", directory.display()), &error))?;
    }
    let mut file = NewFile::begin(path.to_owned(), true)?;
    file.write_all(content.as_bytes())
        .map_err(|error| Error::io(format_args!("write {}", path.display()), &error))?;
    file.finish()?;
    Ok(Change::Made)
}

/// Removes a file of ours. False: there is none.
pub(crate) fn remove(path: &Path, mark: &str) -> Result<bool> {
    match fs::read(path) {
        Ok(there) if has_mark(&there, mark) => {}
        _ => return Ok(false),
    }
    fs::remove_file(path).map_err(|error| Error::io(format_args!("remove {}", path.display()), &error))?;
    Ok(true)
}

fn has_mark(content: &[u8], mark: &str) -> bool {
    let head = &content[..content.len().min(MARK_BYTES)];
    head.windows(mark.len()).any(|window| window == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_replaced_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("man1/git-parler.1");
        assert_eq!(install(&path, "# mark\none", "mark").unwrap(), Change::Made);
        assert_eq!(install(&path, "# mark\none", "mark").unwrap(), Change::None);
        assert_eq!(install(&path, "# mark\ntwo", "mark").unwrap(), Change::Made);
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mark\ntwo");
        fs::write(&path, "somebody's").unwrap();
        assert_eq!(
            install(&path, "# mark\none", "mark").unwrap_err().kind,
            ErrorKind::Conflict
        );
        assert!(!remove(&path, "mark").unwrap());
        fs::write(&path, "# mark\nold").unwrap();
        assert!(remove(&path, "mark").unwrap());
        assert!(!remove(&path, "mark").unwrap());
    }

    #[test]
    fn pages_go_where_man_looks() {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path();
        fs::create_dir(prefix.join("bin")).unwrap();
        let environment = |variables: &[(&str, &str)]| Environment {
            directories: Some(crate::environment::UserDirectories {
                config: "/c".into(),
                state: "/s".into(),
                data: "/d".into(),
            }),
            ..Environment::for_test(variables)
        };
        let path = format!("/usr/bin:{}", prefix.join("bin").display());
        let manual = prefix.join("share/man");
        let of = |variables: &[(&str, &str)]| {
            let environment = environment(variables);
            let places = Places::of(&environment, None).unwrap();
            (places.manual.clone(), places.manual_is_found(&environment))
        };
        // Without the program on PATH they are the user's.
        assert_eq!(of(&[("PATH", &path)]), ("/d/man".into(), false));
        fs::write(prefix.join("bin/git-parler"), "").unwrap();
        assert_eq!(of(&[("PATH", &path)]), (manual.clone(), true));
        assert_eq!(of(&[("PATH", &path), ("MANPATH", "/x")]), (manual.clone(), false));
        assert_eq!(of(&[("PATH", &path), ("MANPATH", "/x:")]), (manual.clone(), true));
        let listed = format!("/x:{}", manual.display());
        assert_eq!(of(&[("PATH", &path), ("MANPATH", &listed)]), (manual, true));
    }
}

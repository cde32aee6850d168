//! A file on its way into a room: opened once, hashed, then read as often as a retry needs. Never held whole, and never
//! anything but a file or what standard input holds.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use git_remote_parler::spool::{Spool, SpoolWriter};
use parler_client::BlobSource;
use parler_protocol::limits::MAX_BLOB_BYTES;
use parler_protocol::{BundleId, FilePart};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::environment::Environment;
use crate::error::{AGAIN, Error, ErrorKind, Result};
use crate::text;

/// Longest name of a file, as file systems have it.
const MAX_NAME_BYTES: usize = 255;
/// One read.
const PIECE_BYTES: usize = 256 << 10; // 256 KiB

/// A file that is ready to be posted.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// What its receivers are told it is called.
    pub(crate) name: String,
    pub(crate) id: BundleId,
    content: Content,
}

#[derive(Debug)]
enum Content {
    File { file: Arc<File>, size: u64 },
    Spool(Spool),
}

impl Outgoing {
    /// Opens and hashes the file at `path`, which stands on the command line as it is; `-` is standard input. `name`:
    /// what it is to be called.
    pub(crate) fn open(environment: &Environment, path: &Path, name: Option<&str>) -> Result<Self> {
        let own = match name {
            Some(name) => Some(name.to_owned()),
            None => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        };
        if path == Path::new("-") {
            let name = name.ok_or_else(|| {
                Error::usage("what standard input holds has no name").then("git parler send --file - --name NAME")
            })?;
            return Self::from_input(environment, name);
        }
        let shown = path.display();
        let failed = |error: &io::Error| Error::io(format_args!("read {shown}"), error);
        // A pipe without a writer would not open otherwise.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(environment.directory.join(path))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format_args!("there is no file {shown}")),
                _ => failed(&error),
            })?;
        let meta = file.metadata().map_err(|error| failed(&error))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            return Err(Error::new(ErrorKind::Refused, format_args!("{shown} is a directory"))
                .then(format!("tar -c {shown} | git parler send --file - --name NAME.tar")));
        }
        if !kind.is_file() {
            let what = if kind.is_fifo() { "a pipe" } else { "not a file" };
            return Err(Error::new(ErrorKind::Refused, format_args!("{shown} is {what}"))
                .then(format!("git parler send --file - --name NAME < {shown}")));
        }
        let size = meta.len();
        check_size(&shown, size)?;
        let name = own.ok_or_else(|| Error::usage(format_args!("{shown} has no name")).then("add --name NAME"))?;
        check_name(&name)?;
        let file = Arc::new(file);
        let (id, read) = hash(FileReader::new(Arc::clone(&file), u64::MAX)).map_err(|error| failed(&error))?;
        if read != size {
            return Err(changed(&shown));
        }
        Ok(Self {
            name,
            id,
            content: Content::File { file, size },
        })
    }

    /// What a program of ours has in memory, under this name.
    pub(crate) fn of_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        check_name(name)?;
        // So small that no file is needed.
        let mut spool = SpoolWriter::new("/");
        spool
            .write_all(bytes)
            .map_err(|error| Error::io(format_args!("keep {name}"), &error))?;
        let spool = spool.finish();
        Ok(Self {
            name: name.to_owned(),
            id: spool.id(),
            content: Content::Spool(spool),
        })
    }

    fn from_input(environment: &Environment, name: &str) -> Result<Self> {
        check_name(name)?;
        let mut spool = SpoolWriter::new(environment.temporary_directory());
        // One byte more than fits shows that it does not fit.
        io::copy(&mut io::stdin().lock().take(MAX_BLOB_BYTES + 1), &mut spool)
            .map_err(|error| Error::io("keep what standard input holds", &error))?;
        let spool = spool.finish();
        check_size("what standard input holds", spool.size())?;
        Ok(Self {
            name: name.to_owned(),
            id: spool.id(),
            content: Content::Spool(spool),
        })
    }

    /// Refuses what is more than the `most` bytes that the hub takes.
    pub(crate) fn check_fits(&self, most: u64) -> Result<()> {
        let size = self.size();
        if size <= most {
            return Ok(());
        }
        let name = text::name(&self.name);
        let what = format_args!("{name} was not sent: it has {size} bytes, over {most}, the most that the hub takes");
        Err(Error::new(ErrorKind::Refused, what).then(format!("split -b {most} FILE, and send the parts")))
    }

    /// The part of a message that brings it.
    pub(crate) fn part(&self) -> FilePart {
        FilePart {
            blob: self.id,
            name: self.name.clone(),
            size: self.size(),
            media_type: None,
            summary: None,
        }
    }
}

impl BlobSource for Outgoing {
    fn size(&self) -> u64 {
        match &self.content {
            Content::File { size, .. } => *size,
            Content::Spool(spool) => spool.size(),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.content {
            Content::File { file, size } => Box::new(FileReader::new(Arc::clone(file), *size)),
            Content::Spool(spool) => Box::new(spool.reader()),
        })
    }

    fn open_at(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.content {
            Content::File { file, size } => Box::new(FileReader::new(Arc::clone(file), *size).behind(offset)),
            Content::Spool(spool) => Box::new(spool.reader_at(offset)),
        })
    }

    fn id(&self) -> Option<BundleId> {
        Some(self.id)
    }
}

/// Reads the first `end` bytes of a file, independently of other readers.
struct FileReader {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl FileReader {
    const fn new(file: Arc<File>, end: u64) -> Self {
        Self { file, position: 0, end }
    }

    fn behind(mut self, position: u64) -> Self {
        self.position = position.min(self.end);
        self
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..most], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

fn hash(mut from: impl Read) -> io::Result<(BundleId, u64)> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut size = 0;
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok((BundleId::from_digest(hash.finalize().into()), size));
        }
        hash.update(&piece[..read]);
        size += read as u64;
    }
}

/// What to say of a file that did not stay what it was.
pub(crate) fn changed(shown: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format_args!("{shown} was changed while it was read"),
    )
    .then(AGAIN)
}

fn check_size(shown: impl std::fmt::Display, size: u64) -> Result<()> {
    if size <= MAX_BLOB_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Refused,
        format_args!("{shown} is longer than {MAX_BLOB_BYTES} bytes"),
    ))
}

fn check_name(name: &str) -> Result<()> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    Err(Error::usage(format_args!(
        "a file's name has 1 to {MAX_NAME_BYTES} bytes"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(directory: &Path) -> Environment {
        Environment {
            directory: directory.to_owned(),
            ..Environment::for_test(&[])
        }
    }

    #[test]
    fn a_file_is_read_again_and_again_and_as_long_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "one two").unwrap();
        let outgoing = Outgoing::open(&environment(directory.path()), Path::new("notes.txt"), None).unwrap();
        assert_eq!((outgoing.name.as_str(), outgoing.size()), ("notes.txt", 7));
        assert_eq!(outgoing.id, BundleId::of(b"one two"));
        std::fs::write(&path, "one two three").unwrap();
        for _ in 0..2 {
            let mut read = String::new();
            BlobSource::open(&outgoing).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, "one two");
        }
    }

    #[test]
    fn only_files_with_names_are_sent() {
        let directory = tempfile::tempdir().unwrap();
        let environment = environment(directory.path());
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("pipe"), 0o600.into()).unwrap();
        std::fs::write(directory.path().join("a"), "").unwrap();
        let open = |path: &str, name: Option<&str>| Outgoing::open(&environment, Path::new(path), name);
        let kind = |path: &str, name| open(path, name).unwrap_err().kind;
        assert_eq!(kind("pipe", None), ErrorKind::Refused);
        assert_eq!(kind(".", None), ErrorKind::Refused);
        assert_eq!(kind("/dev/null", None), ErrorKind::Refused);
        assert_eq!(kind("nosuch", None), ErrorKind::NotFound);
        assert_eq!(kind("-", None), ErrorKind::Usage);
        assert_eq!(kind("a", Some("")), ErrorKind::Usage);
        assert_eq!(kind("a", Some(&"x".repeat(256))), ErrorKind::Usage);
        assert_eq!(open("a", Some("../b")).unwrap().part().name, "../b");
    }
}

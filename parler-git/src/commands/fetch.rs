//! `git parler fetch`: the bytes of a bundle or a file that somebody posted, in a file. Nothing is imported, and what
//! its sender calls it names nothing here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use git_remote_parler::meter::{self, Meter};
use git_remote_parler::spool::SpoolWriter;
use parler_client::Client;
use parler_protocol::{BundleId, RoomName};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::Fetch;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::{Found, Reference, find_blob};
use crate::new_file::NewFile;
use crate::output::Output;
use crate::room_log::in_room;
use crate::text;

/// One read from the hub.
const PIECE_BYTES: usize = 64 << 10; // 64 KiB

/// What is fetched: as much as its author signed.
struct Wanted {
    room: RoomName,
    /// `bundle` or `file`.
    kind: &'static str,
    /// What its meter is called.
    meter: &'static str,
    blob: BundleId,
    size: u64,
    /// What its sender calls it.
    name: Option<String>,
}

impl From<Found> for Wanted {
    fn from(found: Found) -> Self {
        match found {
            Found::Bundle(found) => Self {
                room: found.room.state.room().clone(),
                kind: "bundle",
                meter: "Downloading bundle",
                blob: found.bundle.part.blob,
                size: found.bundle.part.size,
                name: None,
            },
            Found::File(found) => Self {
                room: found.room,
                kind: "file",
                meter: "Downloading file",
                blob: found.part.blob,
                size: found.part.size,
                name: Some(found.part.name),
            },
        }
    }
}

impl Wanted {
    /// What it is called in a line for people.
    fn shown(&self) -> String {
        format!("{} {}", self.kind, self.blob.short())
    }
}

pub(super) fn run(context: &Context, args: &Fetch, output: &mut Output) -> Result<()> {
    let to_output = args.output.as_deref() == Some(Path::new("-"));
    if to_output {
        output.require_open()?;
    }
    let reference = Reference::require(&args.id)?;
    let client = context.client()?;
    let wanted = Wanted::from(find_blob(context, &client, &reference)?);
    if to_output {
        let mut spool = SpoolWriter::new(context.environment.temporary_directory());
        download(context, &client, &wanted, &mut spool)?;
        if output.is_terminal() {
            return show(spool.finish().reader(), output);
        }
        let mut bytes = output.bytes()?;
        let copied = io::copy(&mut spool.finish().reader(), &mut bytes).and_then(|_| bytes.flush());
        return copied.map_err(|error| Error::output(&error));
    }
    // Without a place that was said it is called by its id: the sender's name for it is the sender's.
    let file = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.{}", wanted.blob.short(), wanted.kind)));
    let mut new = NewFile::begin(context.environment.directory.join(&file), args.force)?;
    download(context, &client, &wanted, &mut new)?;
    new.finish()?;
    let called = wanted
        .name
        .as_deref()
        .map(|name| format!(" · {}", text::name(name)))
        .unwrap_or_default();
    output.either(
        &format!(
            "{} · {}{called} · {}",
            wanted.shown(),
            text::size(wanted.size),
            text::one_line(&file.to_string_lossy())
        ),
        &json!({
            "id": wanted.blob,
            "kind": wanted.kind,
            "size": wanted.size,
            "name": wanted.name,
            "file": file.to_string_lossy(),
            "room": wanted.room,
        }),
    )
}

/// Shows bytes that somebody else chose to a person: no byte of theirs says anything to the terminal.
fn show(bytes: impl Read, output: &mut Output) -> Result<()> {
    let mut bytes = BufReader::new(bytes);
    loop {
        let mut piece = Vec::new();
        let read = (&mut bytes).take(PIECE_BYTES as u64).read_until(b'\n', &mut piece);
        match read.map_err(|error| Error::output(&error))? {
            0 => return Ok(()),
            _ => {
                let piece = piece.strip_suffix(b"\n").unwrap_or(&piece);
                output.text(&format!("{}\n", text::continued(&String::from_utf8_lossy(piece))))?;
            }
        }
    }
}

/// Writes the bytes: as many as their author signed for, and all that was written is to be thrown away unless they hash
/// to the id.
fn download(context: &Context, client: &Client, wanted: &Wanted, sink: &mut impl Write) -> Result<()> {
    let shown = wanted.shown();
    let mut blob = client
        .blob(&wanted.room, &wanted.blob)
        .map_err(|error| in_room(&wanted.room, error))?;
    if blob.size != wanted.size {
        let what = format!(
            "the hub offers {} bytes for {shown}, which has {}",
            blob.size, wanted.size
        );
        return Err(Error::new(ErrorKind::Refused, what));
    }
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut meter = Meter::delayed(
        context.git().meters().clone(),
        wanted.meter,
        wanted.size,
        meter::delay(context.git().environment()),
    );
    let mut done = 0;
    loop {
        // The errors of a read from the hub, and of a write to this machine's disk, are told apart.
        let read = blob
            .read(&mut piece)
            .map_err(|error| Error::new(ErrorKind::Unreachable, format_args!("{shown}: {error}")))?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        sink.write_all(&piece[..read])
            .map_err(|error| Error::io(format_args!("keep {shown}"), &error))?;
        done += read as u64;
        meter.moved(done, done);
    }
    meter.done(done);
    let id = BundleId::from_digest(hash.finalize().into());
    if id == wanted.blob {
        return Ok(());
    }
    let what = format!("the hub sent other bytes for {shown}: they hash to {}", id.short());
    Err(Error::new(ErrorKind::Refused, what))
}

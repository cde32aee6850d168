//! `git parler fetch`: the bytes of a bundle, in a file. Nothing is imported.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git_remote_parler::spool::SpoolWriter;
use parler_client::Client;
use parler_protocol::{BundleId, BundlePart, RoomName};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::Fetch;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::{Reference, find_bundle};
use crate::output::Output;
use crate::room_log::in_room;
use crate::text;

/// One read from the hub.
const PIECE_BYTES: usize = 64 << 10; // 64 KiB

pub(super) fn run(context: &Context, args: &Fetch, output: &mut Output) -> Result<()> {
    let reference = Reference::require(&args.id)?;
    let client = context.client()?;
    let found = find_bundle(context, &client, &reference)?;
    let (room, part) = (found.room.state.room(), &found.bundle.part);
    let short = part.blob.short();
    let wanted = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{short}.bundle")));
    if wanted == Path::new("-") {
        let mut spool = SpoolWriter::new(context.environment.temporary_directory());
        download(&client, room, part, &mut spool)?;
        let mut bytes = output.bytes()?;
        let copied = io::copy(&mut spool.finish().reader(), &mut bytes).and_then(|_| bytes.flush());
        return copied.map_err(|error| Error::output(&error));
    }
    let path = context.environment.directory.join(&wanted);
    let writing = |error: &io::Error| Error::io(format_args!("write {}", wanted.display()), error);
    // A rename would put a file in the place of a directory's entry, a device or a pipe.
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(Error::new(
            ErrorKind::Refused,
            format_args!("{} is there and is not a file", wanted.display()),
        ));
    }
    let mut file = tempfile::Builder::new()
        .prefix(".parler-")
        // As any file of the user: the umask takes away what it takes away.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(path.parent().unwrap_or_else(|| Path::new("/")))
        .map_err(|error| writing(&error))?;
    download(&client, room, part, &mut file)?;
    file.as_file().sync_all().map_err(|error| writing(&error))?;
    file.persist(&path).map_err(|error| writing(&error.error))?;
    output.either(
        &format!(
            "bundle {short} · {} · {}",
            text::size(part.size),
            text::one_line(&wanted.to_string_lossy())
        ),
        &json!({ "id": part.blob, "size": part.size, "file": wanted.to_string_lossy(), "room": room }),
    )
}

/// Writes a bundle's bytes: as many as its author signed for, and all that was written is to be thrown away unless they
/// hash to its id.
fn download(client: &Client, room: &RoomName, part: &BundlePart, sink: &mut impl Write) -> Result<()> {
    let short = part.blob.short();
    let mut blob = client.blob(room, &part.blob).map_err(|error| in_room(room, error))?;
    if blob.size != part.size {
        let what = format!(
            "the hub offers {} bytes for bundle {short}, which has {}",
            blob.size, part.size
        );
        return Err(Error::new(ErrorKind::Refused, what));
    }
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // The errors of a read from the hub, and of a write to this machine's disk, are told apart.
        let read = blob
            .read(&mut piece)
            .map_err(|error| Error::new(ErrorKind::Unreachable, format_args!("bundle {short}: {error}")))?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        sink.write_all(&piece[..read])
            .map_err(|error| Error::io("keep the bundle", &error))?;
    }
    let id = BundleId::from_digest(hash.finalize().into());
    if id == part.blob {
        return Ok(());
    }
    let what = format!(
        "the hub sent other bytes for bundle {short}: they hash to {}",
        id.short()
    );
    Err(Error::new(ErrorKind::Refused, what))
}

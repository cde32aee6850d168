//! `git parler fetch`: the bytes of a bundle, in a file. Nothing is imported.

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git_remote_parler::spool::{Spool, SpoolWriter};
use parler_client::Client;
use parler_protocol::{BundleId, RoomName};
use serde_json::json;

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
    let id = *found.bundle.id();
    let spool = download(&client, found.room.state.room(), &id, &context.environment.directory)?;
    let wanted = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.bundle", id.short())));
    if wanted == Path::new("-") {
        let mut bytes = output.bytes()?;
        let copied = io::copy(&mut spool.reader(), &mut bytes).and_then(|_| bytes.flush());
        return copied.map_err(|error| Error::output(&error));
    }
    let path = context.environment.directory.join(&wanted);
    store(&spool, &path).map_err(|error| Error::io(format_args!("write {}", wanted.display()), &error))?;
    output.either(
        &format!(
            "bundle {} · {} · {}",
            id.short(),
            text::size(spool.size()),
            text::one_line(&wanted.to_string_lossy())
        ),
        &json!({ "id": id, "size": spool.size(), "file": wanted.to_string_lossy(), "room": found.room.state.room() }),
    )
}

/// A bundle's bytes, which hash to its id.
pub(super) fn download(client: &Client, room: &RoomName, id: &BundleId, directory: &Path) -> Result<Spool> {
    let mut blob = client.blob(room, id).map_err(|error| in_room(room, error))?;
    let mut spool = SpoolWriter::new(directory);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // The errors of a read from the hub, and of a write to this machine's disk, are told apart.
        let read = blob
            .read(&mut piece)
            .map_err(|error| Error::new(ErrorKind::Unreachable, format_args!("bundle {}: {error}", id.short())))?;
        if read == 0 {
            break;
        }
        spool
            .write_all(&piece[..read])
            .map_err(|error| Error::io("keep the bundle", &error))?;
    }
    let spool = spool.finish();
    if spool.id() != *id {
        return Err(Error::new(
            ErrorKind::Refused,
            format_args!(
                "the hub sent other bytes for bundle {}: they hash to {}",
                id.short(),
                spool.id().short()
            ),
        ));
    }
    Ok(spool)
}

fn store(spool: &Spool, path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    let mut file = tempfile::Builder::new()
        .prefix(".parler-")
        // As any file of the user: the umask takes away what it takes away.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    io::copy(&mut spool.reader(), &mut file)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

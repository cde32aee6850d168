//! `parler-hub prune`: gives up old content of a stopped hub, or says how much it would be.

use std::io::{self, Write};

use anyhow::Context;
use parler_hub::RetentionOptions;

use super::Failure;
use super::arguments::Prune;

/// Does it once.
pub(super) fn prune(arguments: &Prune) -> Result<(), Failure> {
    let options = RetentionOptions {
        messages: arguments.messages.map(|time| time.0),
        blobs: arguments.blobs.map(|time| time.0),
    };
    let pruning = parler_hub::prune(&arguments.data, &options, arguments.dry_run);
    let done = tokio::runtime::Builder::new_current_thread()
        .build()
        .context("cannot start")?
        .block_on(pruning)
        .map_err(|error| Failure::Failed(error.into()))?;
    let mut out = io::stdout();
    writeln!(
        out,
        "{}{} messages of {}, {} blobs of {}",
        if arguments.dry_run {
            "would give up "
        } else {
            "gave up "
        },
        done.messages,
        bytesize::ByteSize(done.message_bytes),
        done.blobs,
        bytesize::ByteSize(done.blob_bytes),
    )?;
    if done.undecided_rooms > 0 {
        writeln!(
            out,
            "{} rooms keep all their blobs: what their refs need cannot be decided",
            done.undecided_rooms
        )?;
    }
    Ok(())
}

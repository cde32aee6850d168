//! `parler-hub prune`: gives up old content of a stopped hub and makes its database smaller, or says how much it would be.

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use parler_hub::store::OpenError;
use parler_hub::{PruneError, RetentionOptions};

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
        .map_err(|error| Failure::Failed(told(error)))?;
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
    if arguments.dry_run {
        return Ok(());
    }
    let smaller = parler_hub::shrink(&arguments.data)
        .map_err(|error| Failure::Failed(anyhow::Error::from(error).context("the database cannot be made smaller")))?;
    if smaller > 0 {
        writeln!(out, "the database is {} smaller", bytesize::ByteSize(smaller))?;
    }
    Ok(())
}

/// What to do where a hub runs.
fn told(error: PruneError) -> anyhow::Error {
    match &error {
        PruneError::Open(OpenError::InUse(data)) => anyhow!(
            "a hub has {} open: stop it first, or let it give up what is old itself, with serve --retain-messages and \
             --retain-blobs",
            data.display()
        ),
        _ => error.into(),
    }
}

//! `parler-hub backup` and `parler-hub restore`. One line on stdout says what was done.

use std::io::{self, Write};

use anyhow::Context;
use parler_hub::{BackupError, BackupOptions, CheckError, CheckEvent, Clock};

use super::Failure;
use super::arguments::{Backup, Restore};
use super::meter::{self, Meter};

/// Copies a hub's data.
pub(super) fn backup(arguments: &Backup) -> Result<(), Failure> {
    let options = BackupOptions {
        copy: arguments.copy,
        now: Clock::system().now_ms(),
    };
    let mut meter = Meter::new();
    let done = parler_hub::backup(&arguments.data, &arguments.to, &options, &mut |copied| {
        meter.show(|| format!("copying: {copied} blobs"));
    });
    meter.clear();
    let done = done.map_err(|error| Failure::Failed(error.into()))?;
    writeln!(
        io::stdout(),
        "backup of hub {} in {}: {} rooms, {} messages, database of {}, {} blob files of {} ({} new)",
        done.hub,
        arguments.to.display(),
        done.rooms,
        done.messages,
        bytesize::ByteSize(done.database_bytes),
        done.blobs,
        bytesize::ByteSize(done.blob_bytes),
        done.new_blobs,
    )?;
    Ok(())
}

/// Brings it back.
pub(super) fn restore(arguments: &Restore) -> Result<(), Failure> {
    let mut meter = Meter::new();
    let mut tell = |event: CheckEvent| match event {
        CheckEvent::Found(finding) => {
            meter.clear();
            // Who cannot be told learns it by the error.
            let _ = writeln!(io::stderr(), "{finding}");
        }
        CheckEvent::Progress(progress) => meter.show(|| meter::checking(&progress)),
    };
    let restoring = parler_hub::restore(&arguments.from, &arguments.data, arguments.copy, &mut tell);
    let done = tokio::runtime::Builder::new_current_thread()
        .build()
        .context("cannot start")?
        .block_on(restoring);
    meter.clear();
    let done = done.map_err(|error| match error {
        BackupError::Check(error @ CheckError::Io { .. }) => super::check::cannot_look(error),
        error => Failure::Failed(error.into()),
    })?;
    writeln!(
        io::stdout(),
        "hub {} is back in {}: {} rooms, {} messages, {} blobs, as they were at {}",
        done.hub,
        arguments.data.display(),
        done.rooms,
        done.messages,
        done.blobs,
        humantime::format_rfc3339_seconds(
            std::time::UNIX_EPOCH + std::time::Duration::from_millis(done.made_at.unsigned_abs())
        ),
    )?;
    Ok(())
}

//! `parler-hub check`: looks at everything a hub keeps. One line for each finding on stdout, then a summary; how far it is
//! on stderr, where that is a terminal.

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use parler_hub::{CheckError, CheckEvent, CheckOptions, CheckSummary, Finding, Severity};
use serde_json::json;

use super::Failure;
use super::arguments::Check;
use super::meter::{self, Meter};

/// Checks, and says whether all is well.
pub(super) fn check(arguments: &Check) -> Result<(), Failure> {
    let options = CheckOptions {
        repair: arguments.repair,
    };
    let mut meter = Meter::new();
    let mut unwritten = None;
    let mut tell = |event: CheckEvent| match event {
        CheckEvent::Found(finding) => {
            meter.clear();
            if let Err(error) = write_finding(&finding, arguments.json) {
                unwritten.get_or_insert(error);
            }
        }
        CheckEvent::Progress(progress) => meter.show(|| meter::checking(&progress)),
    };
    let checking = parler_hub::check(&arguments.data, &options, &mut tell);
    let summary = tokio::runtime::Builder::new_current_thread()
        .build()
        .context("cannot start")?
        .block_on(checking)
        .map_err(cannot_look)?;
    meter.clear();
    if let Some(error) = unwritten {
        return Err(error.into());
    }
    write_summary(&summary, arguments.json)?;
    match summary.damage {
        0 => Ok(()),
        _ => Err(Failure::Found),
    }
}

/// Whatever it is, nothing is known of the data.
pub(super) fn cannot_look(error: CheckError) -> Failure {
    Failure::CannotLook(match error {
        CheckError::InUse(_) => anyhow!("{error}: stop it first, or check without --repair"),
        error => error.into(),
    })
}

fn write_finding(finding: &Finding, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        serde_json::to_writer(&mut out, finding)?;
        return writeln!(out);
    }
    match finding.severity {
        Severity::Damage => writeln!(out, "{finding}"),
        Severity::Leftover => writeln!(out, "{finding} (harmless)"),
    }
}

fn write_summary(summary: &CheckSummary, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        serde_json::to_writer(&mut out, &json!({ "summary": summary }))?;
        return writeln!(out);
    }
    let CheckSummary {
        rooms,
        messages,
        refs,
        blobs,
        damage,
        leftovers,
        ..
    } = summary;
    writeln!(
        out,
        "{rooms} rooms, {messages} messages ({} no longer kept), {refs} refs, {blobs} blobs of {}{}",
        summary.dropped_messages,
        bytesize::ByteSize(summary.blob_bytes),
        if summary.in_use { "; a hub is running" } else { "" }
    )?;
    if summary.unbelieved > 0 {
        writeln!(
            out,
            "{} messages have a signature that does not hold: a hub takes such, and readers are told",
            summary.unbelieved
        )?;
    }
    if *leftovers > 0 {
        let removed = match summary.removed {
            0 => "a hub that starts removes what it made itself".to_owned(),
            removed => format!("{removed} removed"),
        };
        let bytes = bytesize::ByteSize(summary.leftover_bytes);
        writeln!(out, "{leftovers} files that are of no use, {bytes}: {removed}")?;
    }
    match damage {
        0 => writeln!(out, "all is well"),
        1 => writeln!(out, "1 finding"),
        damage => writeln!(out, "{damage} findings"),
    }
}

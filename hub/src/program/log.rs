//! The log of `parler-hub` on stderr. Never a reason to stop, whoever reads it or not.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::Failure;

/// What is logged: `info`, `debug`, or a filter such as `parler_hub=debug,warn`.
const LOG_VARIABLE: &str = "PARLER_HUB_LOG";

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LogForm {
    Text,
    Json,
}

/// Logs from now on.
pub(super) fn start(form: LogForm) -> Result<(), Failure> {
    let filter = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let filter = match filter.trim() {
        "" => "info",
        filter => filter,
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::Usage(format!(
            "{LOG_VARIABLE}: '{}' is no good: {error}",
            filter.escape_debug()
        ))
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // Nobody who reads the log is no reason to stop; telling so on stderr would be one.
    let log = log.log_internal_errors(false);
    match form {
        LogForm::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogForm::Json => log.json().init(),
    }
    Ok(())
}

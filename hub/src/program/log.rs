//! The log of `parler-hub` on stderr. Never a reason to stop, whoever reads it or not.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// What is logged: `info`, `debug`, or a filter such as `parler_hub=debug,warn`.
const LOG_VARIABLE: &str = "PARLER_HUB_LOG";

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LogForm {
    Text,
    Json,
}

/// Logs from now on.
pub(super) fn start(form: LogForm) {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // Nobody who reads the log is no reason to stop; telling so on stderr would be one.
    let log = log.log_internal_errors(false);
    match form {
        LogForm::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogForm::Json => log.json().init(),
    }
}

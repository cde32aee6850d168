//! What a coding agent's host tells `git parler hook`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::hook::install::Scope;

#[derive(Debug, Args)]
#[command(override_usage = "git parler hook HOST EVENT\n       git parler hook install HOST [OPTIONS]")]
pub(crate) struct Hook {
    #[command(subcommand)]
    pub(crate) what: HookVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HookVerb {
    /// Put the lines that call this program into a coding agent's own configuration, or take them out again
    Install(HookInstall),
    /// HOST EVENT: answer a coding agent's hook, whose JSON is read from standard input
    #[command(external_subcommand)]
    Event(Vec<OsString>),
}

#[derive(Debug, Args)]
pub(crate) struct HookInstall {
    /// The coding agent: claude, codex, copilot, cursor, gemini, opencode
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Whose configuration it is
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::User)]
    pub(crate) scope: Scope,
    /// Only show what would stand there
    #[arg(long, conflicts_with = "remove")]
    pub(crate) print: bool,
    /// Take out what was put in
    #[arg(long)]
    pub(crate) remove: bool,
}

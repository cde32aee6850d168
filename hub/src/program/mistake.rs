//! The command line as given, or what is wrong with it in one line: which option, or which variable in its place.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::Failure;
use super::arguments::Arguments;

/// Reads the command line and the variables. Help and the version are printed, and end the program.
pub(super) fn arguments() -> Result<Arguments, Failure> {
    Arguments::try_parse().map_err(|error| {
        let is_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
        match (
            is_value,
            context(&error, ContextKind::InvalidArg),
            context(&error, ContextKind::InvalidValue),
        ) {
            (true, Some(option), Some(value)) if !value.is_empty() => {
                Failure::Usage(invalid_value(&error, &option, &value))
            }
            _ => error.exit(),
        }
    })
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn invalid_value(error: &clap::Error, option: &str, value: &str) -> String {
    let flag = option.split(' ').next().unwrap_or(option);
    let place = variable(flag, value).unwrap_or_else(|| flag.to_owned());
    let why = match (error.get(ContextKind::ValidValue), std::error::Error::source(error)) {
        (Some(ContextValue::Strings(valid)), _) if !valid.is_empty() => format!("one of {}", valid.join(", ")),
        (_, Some(why)) => why.to_string(),
        _ => "it is not one".to_owned(),
    };
    format!("{place}: '{}' is no good: {why}", value.escape_debug())
}

/// The variable that holds this value in place of the option.
fn variable(flag: &str, value: &str) -> Option<String> {
    let command = Arguments::command();
    let flag = flag.trim_start_matches("--");
    let given = std::env::args().any(|argument| argument.trim_start_matches("--").split('=').next() == Some(flag));
    let option = command
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .find(|option| option.get_long() == Some(flag))?;
    let variable = option.get_env()?.to_str()?;
    let holds = std::env::var(variable).is_ok_and(|held| held.split(',').any(|held| held == value) || held == value);
    (!given && holds).then(|| variable.to_owned())
}

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
            _ if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Failure::Usage(misfit(&error))
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

/// What does not fit, and where help is.
fn misfit(error: &clap::Error) -> String {
    let what = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            format!("{} is missing", missing.join(", "))
        }
        _ => {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    };
    let similar = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    let similar = similar.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    });
    let similar = similar.map_or_else(String::new, |similar| format!(": did you mean {similar}?"));
    let command = Arguments::command();
    let verb = std::env::args()
        .nth(1)
        .filter(|verb| command.find_subcommand(verb).is_some());
    let help = verb.map_or_else(|| "--help".to_owned(), |verb| format!("{verb} --help"));
    format!("{what}{similar}; parler-hub {help}")
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

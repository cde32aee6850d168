//! Command lines that do not fit: one line that names what is wrong and where help is, as for every other failure. Help
//! and version are results, and shown as they are.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};

use crate::error::Error;

/// What is wrong with a command line, from what its parser says of it. `arguments` is the whole of it.
pub(crate) fn usage_error(error: &clap::Error, arguments: &[OsString]) -> Error {
    let told = told(error);
    let next = match verb(arguments) {
        Some(verb) => format!("git parler {verb} -h"),
        None => "git parler -h".to_owned(),
    };
    Error::usage(told).then(next)
}

/// Whether the answer was asked for in JSON, as far as can be told of a command line that does not fit.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    options(arguments).any(|argument| argument == "--json")
}

fn told(error: &clap::Error) -> String {
    let one = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::StyledStr(text)) => Some(text.to_string()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let argument = one(ContextKind::InvalidArg);
    let what = match (error.kind(), argument) {
        (ClapKind::MissingRequiredArgument, Some(missing)) => format!("{missing} is missing"),
        (ClapKind::ArgumentConflict, Some(argument)) => match one(ContextKind::PriorArg) {
            Some(other) if other != argument => format!("{argument} does not go with {other}"),
            Some(_) => format!("{argument} is there twice"),
            None => first_line(error),
        },
        (ClapKind::UnknownArgument, Some(argument)) => format!("'{argument}' is not known here"),
        (ClapKind::InvalidSubcommand, _) => match one(ContextKind::InvalidSubcommand) {
            Some(verb) => format!("there is no verb '{verb}'"),
            None => first_line(error),
        },
        (ClapKind::MissingSubcommand, _) => match one(ContextKind::ValidSubcommand) {
            Some(verbs) => format!("which of these is not said: {verbs}"),
            None => first_line(error),
        },
        (ClapKind::InvalidValue, Some(argument)) => match one(ContextKind::InvalidValue) {
            Some(value) if !value.is_empty() => match one(ContextKind::ValidValue) {
                Some(valid) => format!("{argument}: '{value}' is none of {valid}"),
                None => format!("{argument}: '{value}' is not of its form"),
            },
            _ => format!("{argument} has no value"),
        },
        _ => first_line(error),
    };
    let similar = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    match similar.into_iter().find_map(one) {
        Some(similar) => format!("{what}: did you mean {similar}?"),
        None => what,
    }
}

/// The parser's own words, up to where its usage begins.
fn first_line(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let first = rendered.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

/// The verb of a command line, and the verb below it, as far as both can be told without knowing which options take a value.
fn verb(arguments: &[OsString]) -> Option<String> {
    let program = <crate::cli::Cli as clap::CommandFactory>::command();
    let mut words = options(arguments);
    let verb = words.find_map(|word| program.find_subcommand(word))?;
    let below = words.find_map(|word| verb.find_subcommand(word));
    let below = below.map(|below| format!(" {}", below.get_name())).unwrap_or_default();
    Some(format!("{}{below}", verb.get_name()))
}

/// What stands before a `--`, without the program's name.
fn options(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let rest = arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    rest.take_while(|argument| *argument != "--")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn line(arguments: &str) -> String {
        let all: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&all).unwrap_err();
        usage_error(&error, &all).line()
    }

    #[test]
    fn each_is_one_line_that_names_the_thing_and_where_help_is() {
        for (arguments, said) in [
            ("git-parler frobnicate", "there is no verb 'frobnicate'; git parler -h"),
            (
                "git-parler recv --colour",
                "'--colour' is not known here: did you mean --color?; git parler recv -h",
            ),
            ("git-parler handoff", "--next <TEXT> is missing; git parler handoff -h"),
            (
                "git-parler recv --all --since 3",
                "--all does not go with --since <N>; git parler recv -h",
            ),
            (
                "git-parler --room x recv --limit many",
                "invalid value 'many' for '--limit <N>': invalid digit found in string; git parler recv -h",
            ),
            (
                "git-parler rooms --color=blue",
                "--color[=<WHEN>]: 'blue' is none of always, auto, never; git parler rooms -h",
            ),
            (
                "git-parler rooms --hub",
                "--hub <URL> has no value; git parler rooms -h",
            ),
            ("git-parler rooms x", "'x' is not known here; git parler rooms -h"),
            ("git-parler join A B", "'B' is not known here; git parler join -h"),
            (
                "git-parler ci --room x post --json",
                "--status <STATUS> is missing; git parler ci post -h",
            ),
            (
                "git-parler ci annotate --format html",
                "--format <FORMAT>: 'html' is none of github, gitlab, junit, sarif; git parler ci annotate -h",
            ),
        ] {
            assert_eq!(line(arguments), said);
        }
    }

    #[test]
    fn what_stands_behind_two_dashes_is_no_option() {
        let arguments = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&arguments("git-parler send x --json y z")));
        assert!(!wants_json(&arguments("git-parler send -- --json")));
    }
}

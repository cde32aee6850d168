//! What a page says of a command by itself: synopsis and options, from the definitions of the command line.

use clap::{Arg, Command};

use super::markup::Writer;

/// `git parler recv [--since N] [--all] ..`: the options of this command alone.
pub(super) fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = format!("`{name}`");
    for arg in own_arguments(command) {
        let shown = match (arg.is_positional(), arg.is_required_set()) {
            (_, true) => signature(arg),
            (_, false) => format!("[{}]", signature(arg)),
        };
        let repeated = if is_repeated(arg) { ".." } else { "" };
        line.push_str(&format!(" {shown}{repeated}"));
    }
    if command.has_subcommands() {
        line.push_str(" _VERB_ ..");
    }
    line
}

/// The options and values of this command, each with its help.
pub(super) fn options(writer: &mut Writer, command: &Command) {
    for arg in own_arguments(command) {
        option(writer, arg);
    }
}

/// The options that every verb has.
pub(super) fn global_options(writer: &mut Writer, command: &Command) {
    for arg in command.get_arguments().filter(|arg| arg.is_global_set()) {
        option(writer, arg);
    }
}

/// Whether the command has options or values of its own.
pub(super) fn has_options(command: &Command) -> bool {
    own_arguments(command).next().is_some()
}

/// The commands below this one, each with its synopsis and options.
pub(super) fn subcommands(writer: &mut Writer, command: &Command) {
    for sub in visible(command) {
        writer.term(&synopsis(sub), &about(sub));
        if has_options(sub) {
            writer.indent();
            options(writer, sub);
            writer.outdent();
        }
    }
}

/// The commands below this one that people are to know of.
pub(super) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let is_shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    command.get_subcommands().filter(is_shown)
}

/// What a command is for, in one line.
pub(super) fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn option(writer: &mut Writer, arg: &Arg) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut meaning = help;
    let values: Vec<_> = arg.get_possible_values();
    if !values.is_empty() && arg.get_action().takes_values() {
        let names: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        meaning.push_str(&format!(" ({})", names.join(", ")));
    }
    let defaults = arg.get_default_values();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let shown: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        meaning.push_str(&format!(" [default: {}]", shown.join(", ")));
    }
    writer.term(&signature(arg), &meaning);
}

fn own_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own =
        |arg: &&Arg| !arg.is_hide_set() && !arg.is_global_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let (values, options): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter(is_own)
        .partition(|arg| arg.is_positional());
    options.into_iter().chain(values)
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
        || arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

/// `-o _FILE_, --output _FILE_`, `[--color[=_WHEN_]]`, `_TEXT_`.
fn signature(arg: &Arg) -> String {
    let value = value(arg);
    let takes_value = arg.get_action().takes_values();
    let with = |option: String, sign: &str| match takes_value {
        _ if arg.is_positional() => option,
        false => format!("`{option}`"),
        true if arg.get_num_args().is_some_and(|range| range.min_values() == 0) => format!("`{option}`[{sign}{value}]"),
        true => format!("`{option}`{sign}{value}"),
    };
    let sign = if arg.is_require_equals_set() { "=" } else { " " };
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!(
            "{}, {}",
            with(format!("-{short}"), sign),
            with(format!("--{long}"), sign)
        ),
        (Some(short), None) => with(format!("-{short}"), sign),
        (None, Some(long)) => with(format!("--{long}"), sign),
        (None, None) => value,
    }
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let shown: Vec<_> = names.iter().map(|name| format!("_{name}_")).collect();
    match shown.is_empty() {
        true => format!("_{}_", arg.get_id().as_str().to_uppercase()),
        false => shown.join(" "),
    }
}

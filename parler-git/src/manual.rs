//! The manual pages: what the definitions of the command line say of themselves, and what they cannot. One page for the
//! program, one for each verb, one for git's helper.

use clap::{Command, CommandFactory};

use self::markup::Writer;
use crate::cli::Cli;
use crate::settings::{KEYS, VARIABLES};

#[cfg(feature = "mcp")]
mod agents;
mod ci;
mod generated;
mod helper;
mod markup;
mod membership;
mod program;
mod verbs;

/// When the words of the pages were last looked at as a whole.
const DATE: &str = "2026-11-29";
/// Stands in every page that is ours.
pub(crate) const MARK: &str = "Written by git parler man --install.";
/// How the names of our pages begin.
pub(crate) const NAMES: [&str; 2] = ["git-parler", "git-remote-parler"];

/// A page of section 1.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// `git-parler-recv`
    pub(crate) name: String,
    /// Its text in roff.
    pub(crate) roff: String,
}

impl Page {
    fn new(name: impl Into<String>, writer: &Writer) -> Self {
        Self {
            name: name.into(),
            roff: format!(".\\\" {MARK}\n{}", writer.finish()),
        }
    }

    /// The page's file.
    pub(crate) fn file(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// All pages, the program's first.
pub(crate) fn pages() -> Vec<Page> {
    let mut command = Cli::command();
    command.build();
    let verbs = generated::visible(&command).map(verb_page);
    let mut pages = vec![program_page(&command)];
    pages.extend(verbs);
    pages.push(helper_page());
    pages
}

/// The page that somebody means: by a verb, or by its name.
pub(crate) fn page(named: &str) -> Option<Page> {
    let full = format!("git-parler-{named}");
    pages().into_iter().find(|page| page.name == named || page.name == full)
}

fn program_page(command: &Command) -> Page {
    let name = "git-parler";
    let mut writer = Writer::default();
    writer.title(name, DATE);
    writer.name(name, &generated::about(command));
    writer.heading("SYNOPSIS");
    writer.line("`git parler` _VERB_ [_OPTIONS_]");
    writer.section(&program::DESCRIPTION);
    writer.heading("VERBS");
    for verb in generated::visible(command) {
        writer.term(&format!("`git-parler-{}`(1)", verb.get_name()), &generated::about(verb));
    }
    writer.heading("OPTIONS OF EVERY VERB");
    generated::global_options(&mut writer, command);
    writer.term("`-h`", "Print a short help. Git keeps `--help` for this page.");
    writer.section(&program::DIRECT_ROOMS);
    writer.section(&program::EXAMPLES);
    writer.section(&program::EXIT_STATUS);
    meanings(&mut writer, "CONFIGURATION", program::CONFIGURATION, KEYS);
    meanings(&mut writer, "ENVIRONMENT", program::ENVIRONMENT, VARIABLES);
    writer.section(&program::FILES);
    writer.heading("SEE ALSO");
    writer.line("`git-remote-parler`(1), `parler-hub`(1), `git-push`(1), `git-fetch`(1), `gitremote-helpers`(7)");
    Page::new(name, &writer)
}

fn verb_page(verb: &Command) -> Page {
    let name = format!("git-parler-{}", verb.get_name());
    let mut writer = Writer::default();
    writer.title(&name, DATE);
    writer.name(&name, &generated::about(verb));
    writer.heading("SYNOPSIS");
    if verb.has_subcommands() {
        for (index, sub) in generated::visible(verb).enumerate() {
            match index {
                0 => writer.line(&generated::synopsis(sub)),
                _ => writer.text(&generated::synopsis(sub)),
            }
        }
    } else {
        writer.line(&generated::synopsis(verb));
    }
    let sections = verbs::sections(verb.get_name());
    let (description, further): (Vec<_>, Vec<_>) = sections.iter().partition(|(heading, _)| *heading == "DESCRIPTION");
    match description.first() {
        Some(section) => writer.section(section),
        None => {
            writer.heading("DESCRIPTION");
            writer.line(&format!("{}.", generated::about(verb)));
        }
    }
    if generated::has_options(verb) {
        writer.heading("OPTIONS");
        generated::options(&mut writer, verb);
        writer.text("The options of every verb are in `git-parler`(1).");
    }
    if verb.has_subcommands() {
        writer.heading("VERBS");
        generated::subcommands(&mut writer, verb);
    }
    for section in &further {
        writer.section(section);
    }
    if !further.iter().any(|(heading, _)| *heading == "EXIT STATUS") {
        writer.heading("EXIT STATUS");
        writer.line("As in `git-parler`(1).");
    }
    writer.heading("SEE ALSO");
    writer.line("`git-parler`(1), `git-remote-parler`(1)");
    Page::new(name, &writer)
}

fn helper_page() -> Page {
    let name = "git-remote-parler";
    let mut writer = Writer::default();
    writer.title(name, DATE);
    writer.name(name, "Git remotes that are rooms on a Parler hub");
    for section in helper::SECTIONS {
        writer.section(section);
    }
    meanings(&mut writer, "CONFIGURATION", program::CONFIGURATION, KEYS);
    meanings(&mut writer, "ENVIRONMENT", program::ENVIRONMENT, VARIABLES);
    writer.heading("SEE ALSO");
    writer.line("`git-parler`(1), `git-push`(1), `git-fetch`(1), `git-clone`(1), `gitremote-helpers`(7)");
    Page::new(name, &writer)
}

fn meanings(writer: &mut Writer, heading: &str, before: &str, list: &[crate::settings::Meaning]) {
    writer.heading(heading);
    writer.line(before);
    for (name, meaning) in list {
        let names: Vec<_> = name.split(", ").map(|name| format!("`{name}`")).collect();
        writer.term(&names.join(", "), meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_and_option_has_its_place() {
        let mut command = Cli::command();
        command.build();
        for verb in generated::visible(&command) {
            let page = page(verb.get_name()).unwrap_or_else(|| panic!("no page of {}", verb.get_name()));
            let flat = page.roff.replace('\\', "");
            for arg in verb
                .get_arguments()
                .filter(|arg| !arg.is_global_set() && !arg.is_hide_set())
            {
                if let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) {
                    assert!(flat.contains(&format!("--{long}")), "{} --{long}", verb.get_name());
                }
            }
            assert!(
                super::page("git-parler")
                    .unwrap()
                    .roff
                    .replace('\\', "")
                    .contains(&page.name)
            );
        }
        assert!(page("nosuch").is_none());
        assert!(page("git-remote-parler").unwrap().roff.contains("refs/parler/"));
    }

    #[test]
    fn what_was_written_by_hand_is_about_a_verb_that_is_there() {
        let names: Vec<_> = pages().into_iter().map(|page| page.name).collect();
        for verb in verbs::NAMES {
            assert!(names.contains(&format!("git-parler-{verb}")), "{verb}");
        }
    }

    #[test]
    fn every_exit_code_is_in_the_manual() {
        use crate::error::ErrorKind::*;
        let page = page("git-parler").unwrap().roff;
        for kind in [
            Negative,
            Usage,
            NotFound,
            NotAuthorised,
            Unreachable,
            Conflict,
            Refused,
            BaseMissing,
            Fatal,
            Interrupted,
        ] {
            assert!(
                page.contains(&format!("\\fB{}\\fR", kind.exit_code())),
                "{}",
                kind.name()
            );
        }
    }
}

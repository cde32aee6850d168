//! `parler-hub man`: this program's manual page, in roff. Its options speak for themselves; the rest is said here.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::arguments::Arguments;

/// When the words of the page were last looked at as a whole.
const DATE: &str = "2026-11-29";

/// What stands behind the options: a heading, and paragraphs.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "EXIT STATUS",
        &[
            "0 when told to end by SIGINT or SIGTERM, or where what was asked for is done; 1 where it could not do its work, or check found something wrong; 2 for a command line that is no good; 3 where check cannot look.",
        ],
    ),
    (
        "FILES",
        &[
            "Everything the hub knows is in the directory of --data: the database hub.db and the blobs. One hub at a time uses it.",
        ],
    ),
    ("SEE ALSO", &["git-parler(1), git-remote-parler(1)"]),
];

/// Prints the page.
pub(super) fn print() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(page()?.as_bytes())?;
    out.flush()
}

fn page() -> io::Result<String> {
    let mut command = Arguments::command();
    command.build();
    let version = format!("Parler {}", command.get_version().unwrap_or_default());
    let man = Man::new(command.clone())
        .title("PARLER-HUB")
        .date(DATE)
        .source(version)
        .manual("Parler Manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]);
    for (index, verb) in visible(&command).enumerate() {
        if index > 0 {
            synopsis.control("br", []);
        }
        synopsis.text([bold(format!("parler-hub {}", verb.get_name())), roman(" [options]")]);
    }
    synopsis.control("SH", ["DESCRIPTION"]);
    synopsis.text([roman(
        "A hub keeps rooms: logs of signed messages, members, refs and blobs. It runs no git. \
         For one user's own machine git parler starts a hub by itself; this program is for a hub that others reach.",
    )]);
    synopsis.to_writer(&mut page)?;
    for verb in visible(&command) {
        let mut about = Roff::new();
        about.control(
            "SH",
            [format!("PARLER-HUB {}", verb.get_name().to_uppercase()).as_str()],
        );
        about.text([roman(verb.get_about().map(ToString::to_string).unwrap_or_default())]);
        about.to_writer(&mut page)?;
        let mut options = Vec::new();
        Man::new(verb.clone()).render_options_section(&mut options)?;
        // One level below the verb's own heading.
        let options = String::from_utf8_lossy(&options).replace(".SH ", ".SS ");
        page.extend_from_slice(options.as_bytes());
    }
    let mut rest = Roff::new();
    for (heading, paragraphs) in SECTIONS {
        rest.control("SH", [*heading]);
        for paragraph in *paragraphs {
            rest.text([roman(*paragraph)]);
        }
    }
    rest.to_writer(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let is_shown = |verb: &&clap::Command| !verb.is_hide_set() && verb.get_name() != "help";
    command.get_subcommands().filter(is_shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_on_the_page() {
        let page = page().unwrap().replace('\\', "");
        let mut command = Arguments::command();
        command.build();
        for verb in visible(&command) {
            let heading = format!("PARLER-HUB {}", verb.get_name().to_uppercase());
            assert!(page.contains(&heading), "{heading}");
            for option in verb.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{option}")), "--{option}");
            }
        }
    }
}

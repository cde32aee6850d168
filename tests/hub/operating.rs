//! `docs/operating.md` against the program.

use std::collections::BTreeMap;

use crate::support::program;

const DOCUMENT: &str = include_str!("../../docs/operating.md");

/// Options as `--help` has them: with the value's name, the variable and the default.
fn options_of_the_program() -> BTreeMap<String, (String, String)> {
    let output = program().args(["serve", "-h"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let between = |text: &str, begin: &str, end: char| {
        let rest = text.split_once(begin).map_or("", |(_, rest)| rest);
        rest.split(end).next().unwrap_or_default().to_owned()
    };
    let mut entries: Vec<String> = Vec::new();
    for line in help.lines().map(str::trim) {
        match entries.last_mut() {
            _ if line.starts_with("--") => entries.push(format!("{line}  ")),
            // The explanation of a long option begins on the next line.
            Some(entry) => entry.push_str(line),
            None => {}
        }
    }
    entries
        .iter()
        .map(|line| {
            let option = line.split("  ").next().unwrap().replace(['<', '>'], "");
            let variable = between(line, "[env: ", '=');
            (option, (variable, between(line, "[default: ", ']')))
        })
        .collect()
}

#[test]
fn every_option_is_documented_with_its_variable_and_default() {
    let section = DOCUMENT
        .split_once("## Options")
        .unwrap()
        .1
        .split("\n## ")
        .next()
        .unwrap();
    // | `--option VALUE` | `VARIABLE` | default | what |
    let documented: BTreeMap<_, _> = section
        .lines()
        .filter(|line| line.starts_with("| `--"))
        .map(|line| {
            let line = line.replace("\\|", "\u{0}");
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
            let plain = |cell: &str| cell.trim_matches('`').to_owned();
            (plain(&cells[1]), (plain(&cells[2]), cells[3].clone()))
        })
        .collect();
    assert!(documented.len() > 20);
    assert_eq!(options_of_the_program(), documented);
}

#[test]
fn every_way_inside_the_page_leads_somewhere() {
    let headings: Vec<_> = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    for link in DOCUMENT.split("](#").skip(1) {
        let link = link.split(')').next().unwrap();
        assert!(headings.iter().any(|heading| heading == link), "#{link}");
    }
}

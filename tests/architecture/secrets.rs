//! What holds a secret as text is printed by no derived `Debug`.

use std::fs;

use super::quiet_libraries::{LIBRARIES, sources};
use super::root;

/// Fields with these names and types are secrets.
const SECRET_FIELDS: [&str; 3] = ["secret", "seed", "token"];
const TEXTS: [&str; 2] = ["String", "Option<String>"];

/// The structs that hold a secret and derive `Debug`.
fn printable(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for item in source.split("#[derive(").skip(1) {
        let Some((derived, rest)) = item.split_once(")]") else {
            continue;
        };
        let Some((head, fields)) = rest.split_once("{\n") else {
            continue;
        };
        let Some((_, name)) = head.split_once("struct ") else {
            continue;
        };
        let fields = fields.split("\n}").next().unwrap_or_default();
        let is_secret = |line: &str| {
            let field = line.trim().trim_end_matches(',').rsplit_once(": ");
            field.is_some_and(|(name, of)| {
                SECRET_FIELDS.contains(&name.rsplit(' ').next().unwrap_or_default()) && TEXTS.contains(&of)
            })
        };
        if derived.split(", ").any(|name| name == "Debug") && fields.lines().any(is_secret) {
            found.push(name.trim());
        }
    }
    found
}

#[test]
fn secrets_are_in_no_derived_debug() {
    let root = root();
    let mut files = Vec::new();
    for library in LIBRARIES {
        sources(&root.join(library), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        found.extend(
            printable(&source)
                .into_iter()
                .map(|name| format!("{}: {name}", file.display())),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_prints_a_secret_is_found() {
    let source = "#[derive(Clone, Debug)]\n#[serde(x)]\npub struct A {\n    /// It.\n    pub(crate) token: String,\n}\n\
                  #[derive(Debug)]\nstruct B {\n    token: TokenName,\n}\n#[derive(Clone)]\nstruct C {\n    seed: String,\n}\n\
                  #[derive(Debug)]\nstruct D {\n    secret: Option<String>,\n}\n";
    assert_eq!(printable(source), ["A", "D"]);
}

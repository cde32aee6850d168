//! Every case of `docs/threat-cases.md` has tests, and they are there: one test here for each case, so that a list of all
//! tests lists the cases.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::root;

/// Where the tests of a suite are.
const SUITES: [(&str, &str); 9] = [
    ("end_to_end", "tests/end_to_end"),
    ("hub", "tests/hub"),
    ("hub_store", "tests/hub_store"),
    ("import", "git-remote-parler/tests/import"),
    ("session", "git-remote-parler/tests/session"),
    ("git_remote_parler", "git-remote-parler/src"),
    ("parler_git", "parler-git/src"),
    ("parler_hub", "hub/src"),
    ("parler_protocol", "hub/protocol/src"),
];

macro_rules! cases {
    ($($test:ident $case:literal,)*) => {
        const CASES: &[&str] = &[$($case),*];
        $(
            #[test]
            fn $test() {
                is_shown($case);
            }
        )*
    };
}

cases! {
    i01 "I1", i02 "I2", i03 "I3", i04 "I4", i05 "I5", i06 "I6", i07 "I7", i08 "I8", i09 "I9", i10 "I10", i11 "I11",
    i12 "I12", i13 "I13", i14 "I14", i15 "I15", i16 "I16", i17 "I17", i18 "I18", i19 "I19", i20 "I20", i21 "I21",
    i22 "I22",
    h01 "H1", h02 "H2", h03 "H3", h04 "H4", h05 "H5", h06 "H6", h07 "H7", h08 "H8", h09 "H9", h10 "H10", h11 "H11",
    h12 "H12", h13 "H13", h14 "H14", h15 "H15", h16 "H16", h17 "H17", h18 "H18",
    c01 "C1", c02 "C2", c03 "C3", c04 "C4", c06 "C6", c07 "C7", c08 "C8", c09 "C9", c10 "C10", c12 "C12", c13 "C13",
    c24 "C24", c27 "C27", c28 "C28",
    s01 "S1", s02 "S2", s03 "S3", s04 "S4", s05 "S5", s06 "S6", s07 "S7", s08 "S8", s10 "S10", s11 "S11", s12 "S12",
    s13 "S13", s14 "S14", s15 "S15", s16 "S16", s18 "S18", s19 "S19", s20 "S20", s21 "S21", s22 "S22", s23 "S23",
    s24 "S24", s25 "S25", s26 "S26", s27 "S27", s28 "S28", s29 "S29",
}

fn document() -> String {
    fs::read_to_string(root().join("docs/threat-cases.md")).unwrap()
}

/// The rows of the document: a case, and what shows it.
fn rows(document: &str) -> Vec<(&str, &str)> {
    let cells = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        match cells.as_slice() {
            ["", case, what, shown, ""] if !what.is_empty() => Some((*case, *shown)),
            _ => None,
        }
    };
    let is_case = |(case, _): &(&str, &str)| case.ends_with(|last: char| last.is_ascii_digit());
    document.lines().filter_map(cells).filter(is_case).collect()
}

/// The tests that a text names.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.contains("::"))
}

#[track_caller]
fn is_shown(case: &str) {
    let document = document();
    let shown: Vec<_> = rows(&document).into_iter().filter(|(of, _)| *of == case).collect();
    let [(_, shown)] = shown.as_slice() else {
        panic!("{case} has {} rows", shown.len());
    };
    if let Some(reason) = shown.strip_prefix("none: ") {
        assert!(!reason.is_empty() && !reason.contains('`'), "{case}: {reason}");
        return;
    }
    let tests: Vec<_> = named(shown).collect();
    assert!(!tests.is_empty(), "{case} is shown by nothing");
    for test in tests {
        if let Err(missing) = find(test) {
            panic!("{case}: {test}: {missing}");
        }
    }
}

/// Looks a test up by its name.
fn find(test: &str) -> Result<(), String> {
    let (suite, rest) = test.split_once("::").ok_or("names no suite")?;
    let (modules, name) = rest.rsplit_once("::").ok_or("names no module")?;
    let (_, directory) = SUITES
        .iter()
        .find(|(known, _)| *known == suite)
        .ok_or("no such suite")?;
    let file = |modules: &str| -> PathBuf {
        root()
            .join(directory)
            .join(format!("{}.rs", modules.replace("::", "/")))
    };
    let mut path = file(modules);
    if !path.exists() {
        path = file(modules.strip_suffix("::tests").unwrap_or(modules));
    }
    let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begins = |line: &&str| {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        signature
            .strip_prefix("fn ")
            .is_some_and(|rest| rest.starts_with(&format!("{name}(")))
    };
    let at = lines
        .iter()
        .position(begins)
        .ok_or_else(|| format!("not in {}", path.display()))?;
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let attributes: Vec<_> = attributes.collect();
    let is_test = attributes
        .iter()
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    let is_run = attributes.iter().all(|line| !line.starts_with("#[ignore"));
    (is_test && is_run)
        .then_some(())
        .ok_or_else(|| "no test that is run".to_owned())
}

#[test]
fn the_document_has_these_cases_and_no_others() {
    let document = document();
    let listed: Vec<_> = rows(&document).into_iter().map(|(case, _)| case).collect();
    assert_eq!(listed, CASES);
    // What stands beside the tables too.
    for test in named(&document) {
        find(test).unwrap_or_else(|missing| panic!("{test}: {missing}"));
    }
}

#[test]
fn tests_that_are_called_after_a_case_stand_in_its_row() {
    let document = document();
    let named: BTreeSet<_> = named(&document)
        .map(|test| test.rsplit("::").next().unwrap_or_default())
        .collect();
    let mut found = 0;
    for entry in fs::read_dir(root().join("tests/end_to_end/catalogue")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        for name in source
            .split("#[test]\nfn ")
            .skip(1)
            .filter_map(|rest| rest.split('(').next())
        {
            found += 1;
            assert!(named.contains(name), "{name} is in no row");
        }
    }
    assert!(found > 30, "only {found} tests found");
}

#[test]
fn a_test_that_is_gone_is_noticed() {
    for missing in [
        "end_to_end::catalogue::imports::no_such_test",
        "end_to_end::no_such_module::x",
        "nowhere::x::y",
        // There, and no test.
        "end_to_end::untouched::prepared",
        "end_to_end::hub_server::serve_for_another_test",
    ] {
        assert!(find(missing).is_err(), "{missing}");
    }
    assert_eq!(find("end_to_end::untouched::a_lost_pin_comes_back_with_apply"), Ok(()));
}

//! Arrows point down only: who depends on whom is listed here, and nothing else is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::root;

/// Each crate of ours with those of ours that it may use when it is built for somebody, and in its tests besides.
const ARROWS: [(&str, &[&str], &[&str]); 6] = [
    ("parler-protocol", &[], &["parler-harness"]),
    ("parler-client", &["parler-protocol"], &["parler-harness", "parler-hub"]),
    ("parler-hub", &["parler-protocol"], &["parler-client", "parler-harness"]),
    (
        "git-remote-parler",
        &["parler-client", "parler-protocol"],
        &["parler-hub", "parler-harness"],
    ),
    (
        "parler-git",
        &["git-remote-parler", "parler-client", "parler-hub", "parler-protocol"],
        &["parler-harness"],
    ),
    ("parler-harness", &["parler-client", "parler-protocol"], &[]),
];

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn crates_use_only_what_is_below_them() {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let known: BTreeSet<&str> = ARROWS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(ours, known, "a crate without arrows");

    let mut wrong = Vec::new();
    for (name, allowed, in_tests) in ARROWS {
        let package = packages.iter().find(|package| package["name"] == name).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let target = dependency["name"].as_str().unwrap();
            let is_for_tests = dependency["kind"] == "dev";
            if ours.contains(target) && !allowed.contains(&target) && !(is_for_tests && in_tests.contains(&target)) {
                wrong.push(format!("{name} -> {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point up: {wrong:?}");
}

/// What a crate is built from on this machine, without tests.
fn built_from(package: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    tree.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_hub_knows_nothing_of_git() {
    let crates = built_from("parler-hub");
    assert!(crates.contains("rusqlite"), "not the crates of the hub: {crates:?}");
    let git: Vec<_> = crates
        .iter()
        .filter(|name| name.contains("git") || name.starts_with("gix"))
        .collect();
    assert!(git.is_empty(), "{git:?}");
}

#[test]
fn the_client_and_the_protocol_stay_small() {
    let unwanted = BTreeMap::from([
        ("parler-protocol", ["tokio", "reqwest", "rusqlite", "gix"]),
        ("parler-client", ["axum", "rusqlite", "gix", "clap"]),
        ("git-remote-parler", ["axum", "rusqlite", "clap", "tracing-subscriber"]),
    ]);
    for (package, unwanted) in unwanted {
        let crates = built_from(package);
        let found: Vec<_> = unwanted.iter().filter(|name| crates.contains(**name)).collect();
        assert!(found.is_empty(), "{package} is built from {found:?}");
    }
}

#[test]
fn nothing_is_built_twice_over_from_what_the_design_keeps_out() {
    let crates = built_from("parler-git");
    let kept_out = [
        "sqlx",
        "aws-lc-sys",
        "aws-lc-rs",
        "openssl",
        "openssl-sys",
        "native-tls",
        "directories",
        "dirs",
        "nkeys",
    ];
    let found: Vec<_> = kept_out.iter().filter(|name| crates.contains(**name)).collect();
    assert!(found.is_empty(), "{found:?}");
}

//! Group C: what somebody may type or say, where no other test shows it.

use std::fs;

use parler_harness::Snapshot;

use super::stage::{Stage, assert_visible};
use crate::world;

#[test]
fn c12_revisions_and_names_that_look_like_something_else() {
    let world = world();
    let stage = Stage::new(&world);
    let user = stage.sender.user().with("PARLER_ROOM", "x");
    user.git("push --quiet parler::room/x HEAD:refs/heads/topic").success();
    let inside = |name: &str| world.temporary().join(name).to_str().unwrap().to_owned();
    let canary = inside("canary");
    let before = Snapshot::of(&stage.sender);
    let hostile = [
        format!("--output={canary}"),
        format!("--upload-pack=touch {canary}"),
        format!("HEAD;touch {canary}"),
        format!("$(touch {canary})"),
        format!("`touch {canary}`"),
        "HEAD@{u}..--exec=x".into(),
        "@{upstream}".into(),
        ":(glob)*".into(),
        ":/".into(),
        "HEAD\nHEAD".into(),
        "HEAD\u{1b}[2J".into(),
        "-".into(),
        "--".into(),
        "--all".into(),
        "^HEAD".into(),
        "HEAD..HEAD~1".into(),
        "\u{e9}\u{e9}\u{e9}\u{e9}".into(),
    ];
    for word in &hostile {
        let bundle = format!("--bundle={word}");
        let base = format!("--base={word}");
        let to = format!("HEAD:{word}");
        for arguments in [
            vec!["handoff", "--for=bob", "--next=look", bundle.as_str()],
            vec!["push", base.as_str(), "HEAD:refs/heads/other"],
            vec!["push", "--", to.as_str()],
        ] {
            let arguments: Vec<std::ffi::OsString> = arguments.into_iter().map(Into::into).collect();
            let shown = format!("{arguments:?}");
            let answer = user.parler(arguments).either();
            // A base that is none is told, or what it means is what it leaves out.
            assert!(answer.exit_code().is_some(), "{shown}: {answer:?}");
            if !answer.is_success() {
                answer.one_error_line();
            }
            assert_visible(&answer, &shown);
        }
        assert!(!std::path::Path::new(&canary).exists(), "{word}");
    }
    // Through git, whose configuration a URL cannot set.
    for word in [
        "ext::sh -c touch%20canary",
        "-c core.pager=touch",
        "--upload-pack=touch",
    ] {
        let arguments: Vec<std::ffi::OsString> = ["push", "--room", word, "HEAD:refs/heads/x"].map(Into::into).into();
        let answer = user.parler(arguments).failure();
        answer.one_error_line();
    }
    let allowed = [
        "ref refs/parler/",
        ".git/refs/parler",
        ".git/logs",
        ".git/parler",
        ".git/packed-refs",
    ];
    Snapshot::of(&stage.sender).assert_same_as(&before, &allowed);
    assert!(fs::read_dir(world.temporary()).unwrap().next().is_none());
}

#[test]
fn c13_ids_that_are_none() {
    let world = world();
    let stage = Stage::new(&world);
    let user = stage.sender.user().with("PARLER_ROOM", "x");
    user.git("push --quiet parler::room/x HEAD:refs/heads/topic").success();
    let pins: Vec<String> = stage.sender.pins().into_keys().collect();
    let full = pins
        .iter()
        .map(|name| &name["refs/parler/".len()..])
        .find(|id| id.len() == 64)
        .unwrap();
    let before = Snapshot::of(&stage.receiver);
    let user = stage.receiver.user().with("PARLER_ROOM", "x");
    let outside = world.path().join("outside.bundle");
    fs::write(&outside, "x").unwrap();
    for id in [
        "../../outside",
        "../outside",
        "refs/parler/x",
        &full[..3],
        &format!("{full}0"),
        &full[..63].to_uppercase(),
        &format!("{}\u{e9}", &full[..11]),
        &format!("{}\u{e9}", &full[..3]),
        "\u{1f600}\u{1f600}\u{1f600}",
        &format!("{}\n", &full[..12]),
        &format!("{}\u{1b}[2J", &full[..12]),
        "-1",
        "0",
        "18446744073709551616",
        "99999999999999999999999999",
        "--",
        "",
        " ",
        ".",
        "/",
    ] {
        for verb in ["apply", "show", "fetch"] {
            let answer = user.parler([verb, "--", id]).either();
            assert!(
                matches!(answer.exit_code(), Some(2 | 3 | 7 | 128)),
                "{verb} {id:?}: {answer:?}"
            );
            answer.one_error_line();
            assert_visible(&answer, id);
        }
    }
    Snapshot::of(&stage.receiver).assert_same_as(&before, &[".git/parler"]);
    // In capitals it is the same id, or none.
    user.parler(["apply", &full.to_uppercase()]).either();
    user.parler(["apply", full]).success();
}

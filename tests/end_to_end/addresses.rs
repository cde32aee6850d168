//! Addresses that are none: refused before anything is opened, made or sent.

use std::fs;

use super::world;

#[test]
fn what_is_no_address_is_refused_in_one_line_and_starts_nothing() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let bad = [
        "parler::--help",
        "parler::-room/x",
        "parler::",
        "parler::room",
        "parler::room/",
        "parler::room/a/b",
        "parler::room/../x",
        "parler::room/.x",
        "parler::room/-x",
        "parler::room/a b",
        "parler::room/a\nb",
        "parler::room/a\u{1b}[2J",
        "parler::room/é",
        "parler::room/a%2fb",
        "parler::room/x?y=z",
        "parler::house/x",
        "parler://alice:secret@127.0.0.1:1/room/x",
        "parler::http://alice@127.0.0.1:1/room/x",
        "parler::http://hub.example/room/x",
        "parler::ftp://hub.example/room/x",
        "parler://-oProxy/room/x",
        "parler:///room/x",
        "parler://127.0.0.1:99999/room/x",
        &format!("parler::room/{}", "x".repeat(65)),
        &format!("parler::room/{}", "x".repeat(5000)),
    ];
    for url in bad {
        for arguments in [
            vec!["ls-remote", url],
            vec!["fetch", url],
            vec!["push", url, "HEAD:refs/heads/x"],
        ] {
            let refused = work
                .git(arguments.into_iter().map(Into::into).collect::<Vec<_>>())
                .code(128);
            // Some forms git itself refuses, in lines of its own, before any helper runs.
            assert!(
                refused.err().starts_with("fatal: ") || refused.err().starts_with("error: "),
                "{url:?}: {refused:?}"
            );
            assert!(!refused.err().contains("secret"), "{url:?}: {refused:?}");
            assert!(!refused.err().contains('\u{1b}'), "{url:?}: {refused:?}");
            assert!(refused.out().is_empty(), "{url:?}: {refused:?}");
        }
    }
    assert_eq!(
        fs::read_dir(world.parler_home()).unwrap().count(),
        0,
        "something was made"
    );
    assert!(world.processes().is_empty());
    assert!(!work.path().join(".git/parler").exists());
}

#[test]
fn the_helper_called_by_hand_says_what_it_is() {
    let world = world();
    let user = world.user();
    for arguments in ["", "--help", "origin"] {
        let answer = user.run("git-remote-parler", arguments).failure();
        assert!(!answer.err().is_empty(), "{answer:?}");
        assert!(!answer.err().contains("panicked"), "{answer:?}");
    }
}

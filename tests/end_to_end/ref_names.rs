//! Names and kinds of refs at the edges of what git takes, and what `ls-remote` and `clone` make of a room: each beside
//! the same with a plain repository over smart HTTP.

use super::side_by_side::SideBySide;
use super::world;

/// A tag object with a signature as git has them, which nobody here can check and nobody may change.
const SIGNED_TAG: &str = "type commit\ntag signed\ntagger Somebody <somebody@example.com> 1700000000 +0000\n\nSigned\n\
    -----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg\n-----END SSH SIGNATURE-----\n";

#[test]
fn a_signed_tag_arrives_byte_for_byte() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        let work = side.clone("origin", "work", "");
        let object = format!("object {}\n{SIGNED_TAG}", work.rev("HEAD"));
        let tag = side
            .at("work")
            .feed("git", "hash-object -t tag -w --stdin", object.as_bytes())
            .success();
        work.git(["update-ref", "refs/tags/signed", tag.word()]).success();
    });
    both.alike(|side| side.at("work").git(["push", &side.url, "main", "signed"]));
    both.alike(|side| {
        let copy = side.clone(&side.url, "copy", "--bare");
        copy.fsck();
        copy.git("cat-file tag signed")
    })
    .says("-----END SSH SIGNATURE-----\n");
    let [copy, work] = ["copy", "work"].map(|name| {
        let read = both.room.at(name).git("cat-file tag signed").success();
        read.out_bytes().to_vec()
    });
    assert_eq!(copy, work);
}

#[test]
fn names_at_the_limits_travel() {
    let world = world();
    let both = SideBySide::new(&world);
    let long = format!("refs/heads/{}", "n".repeat(240));
    let deep = format!("refs/heads/{}", vec!["d"; 120].join("/"));
    let wide = format!("refs/heads/{}", vec!["w".repeat(200); 4].join("/"));
    let names = [
        long.as_str(),
        &deep,
        &wide,
        "refs/heads/e\u{301}",
        "refs/heads/\u{e9}",
        "refs/heads/\u{65e5}\u{672c}/\u{1f980}",
        "refs/heads/case",
        "refs/heads/Case",
        "refs/heads/CASE/below",
        "refs/heads/-dash",
        "refs/heads/a'b\"c;$(d)|e&f%g",
        "refs/heads/HEAD",
        "refs/heads/refs/heads/main",
        "refs/heads/@",
        "refs/heads/{}",
        "refs/heads/x.y",
        "refs/notes/\u{fc}",
        "refs/x/y",
    ];
    both.both(|side| {
        side.clone("origin", "work", "");
    });
    for name in names {
        both.alike(|side| side.at("work").git(["push", &side.url, &format!("HEAD:{name}")]));
    }
    both.alike(|side| {
        let again = side.at("work").git(["push", &side.url, &format!("HEAD:{}", names[0])]);
        side.clone(&side.url, "copy", "--mirror");
        again
    });
    for name in names {
        let copy = both.room.repository("copy");
        assert_eq!(copy.rev(name), both.room.repository("work").rev("HEAD"), "{name}");
    }
    // And they can go again, all of them at once.
    both.alike(|side| {
        let mut delete = vec!["push".into(), side.url.clone().into()];
        delete.extend(names[1..].iter().map(|name| format!(":{name}").into()));
        side.at("work").git(delete)
    });
}

/// As far as a path can go: 240 levels, 3,600 bytes.
#[test]
fn names_as_deep_and_as_long_as_git_can_have_them_travel() {
    let world = world();
    let both = SideBySide::new(&world);
    let deep = format!("refs/heads/{}", vec!["fourteen-bytes"; 240].join("/"));
    both.both(|side| {
        side.clone("origin", "work", "");
    });
    both.alike(|side| side.at("work").git(["push", &side.url, &format!("HEAD:{deep}")]));
    both.alike(|side| {
        let copy = side.clone(&side.url, "copy", "--mirror");
        copy.fsck();
        copy.git(["rev-parse", &deep])
    });
    both.both(|side| {
        let fetch = side.at("work").git(["fetch", &side.url, &format!("{deep}:refs/x/y")]);
        fetch.success();
        let work = side.repository("work");
        assert_eq!(work.rev("refs/x/y"), work.rev("HEAD"));
    });
    // What no file can be called git cannot have either.
    let longer = format!("refs/heads/{}", vec!["fourteen-bytes"; 300].join("/"));
    both.both(|side| {
        let push = side.at("work").git(["push", &side.url, &format!("HEAD:{longer}")]);
        push.failure();
    });
    both.alike(|side| side.at("work").git(["push", &side.url, &format!(":{deep}")]));
}

/// Nothing but an address is known there.
#[test]
fn ls_remote_outside_any_repository_shows_what_it_shows_in_one() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        let work = side.clone("origin", "work", "");
        work.git("tag --annotate v1 --message one").success();
    });
    both.alike(|side| side.at("work").git(["push", &side.url, "main", "main:topic", "v1"]));
    for options in ["", "--symref", "--exit-code --tags"] {
        for pattern in ["", "HEAD", "t*"] {
            let [inside, outside] = ["work", "."].map(|place| {
                both.alike(|side| {
                    let command = format!("ls-remote {options} {} {pattern}", side.url);
                    side.agent.within(side.directory.join(place)).git(command)
                })
            });
            let shown = |answer: &parler_harness::Answer| (answer.exit_code(), answer.out().to_owned());
            assert_eq!(shown(&outside), shown(&inside), "{options} {pattern}");
        }
    }
}

#[test]
fn a_room_takes_names_of_one_level_and_changes_of_directories_as_a_whole() {
    // A plain server refuses both: `funny refname`, and its files when all is to move at once.
    let world = world();
    let both = SideBySide::new(&world);
    let room = &both.room;
    let work = room.clone("origin", "work", "");
    work.write("README.md", "kept for later\n");
    room.at("work").git("stash").success();
    room.at("work").git(["push", &room.url, "refs/stash"]).success();
    let copy = room.clone("origin", "copy", "");
    copy.git(["fetch", "--quiet", &room.url, "refs/stash"]).success();
    copy.git("stash apply --quiet FETCH_HEAD").success();
    assert_eq!(
        std::fs::read_to_string(copy.path().join("README.md")).unwrap(),
        "kept for later\n"
    );

    let push = |refs: &[&str]| {
        let arguments = [["push", "--atomic", &room.url].as_slice(), refs].concat();
        room.at("work")
            .git(arguments.iter().map(Into::into).collect::<Vec<_>>())
            .success();
        let shown = room
            .agent
            .git(["ls-remote", "--heads", &room.url])
            .success()
            .listed_refs();
        shown.into_keys().collect::<Vec<_>>()
    };
    let main = "refs/heads/main";
    assert_eq!(push(&["main:refs/heads/a"]), ["refs/heads/a", main]);
    assert_eq!(
        push(&[":refs/heads/a", "main:refs/heads/a/b"]),
        ["refs/heads/a/b", main]
    );
    assert_eq!(push(&["main:refs/heads/a", ":refs/heads/a/b"]), ["refs/heads/a", main]);
}

#[test]
fn heads_of_rooms_are_listed_and_cloned_as_elsewhere() {
    let world = world();
    let both = SideBySide::empty(&world);
    both.alike(|side| side.agent.git(["ls-remote", &side.url]));
    both.alike(|side| side.agent.git(["ls-remote", "--exit-code", &side.url]));
    both.alike(|side| side.agent.git(["clone", &side.url, "empty"]))
        .warns("warning: You appear to have cloned an empty repository.");
    both.both(|side| {
        side.clone("origin", "work", "");
        let work = side.at("work");
        // Clones need all of it.
        work.git("config parler.base none").success();
        work.git("branch topic HEAD~1").success();
        work.git("tag -a -m one v1 HEAD~1").success();
        work.git("tag v2").success();
        work.git("notes add -m noted").success();
    });
    both.alike(|side| {
        let refs = ["main", "topic", "v1", "v2", "refs/notes/commits"];
        side.at("work").git(
            [["push", &side.url].as_slice(), &refs]
                .concat()
                .iter()
                .map(Into::into)
                .collect::<Vec<_>>(),
        )
    });
    for options in [
        "",
        "--symref",
        "--heads",
        "--tags",
        "--refs",
        "--heads --tags",
        "--sort=-refname --refs",
        "--sort=version:refname --tags",
        "--quiet",
        "--exit-code --heads",
        "--get-url",
    ] {
        both.alike(|side| side.agent.git(format!("ls-remote {options} {}", side.url)));
    }
    for patterns in [
        "main",
        "HEAD",
        "v*",
        "refs/heads/*",
        "heads/topic v1",
        "nowhere",
        "*opi*",
        "refs/heads/main HEAD",
    ] {
        both.alike(|side| side.agent.git(format!("ls-remote --symref {} {patterns}", side.url)));
        both.alike(|side| side.agent.git(format!("ls-remote --exit-code {} {patterns}", side.url)));
    }
    let missing = both
        .room
        .agent
        .git(["ls-remote", "--exit-code", &both.room.url, "nowhere"]);
    missing.code(2);
    both.alike(|side| side.agent.git(["clone", &side.url, "copy"]));
    both.alike(|side| side.at("copy").git("symbolic-ref refs/remotes/origin/HEAD"));
    both.alike(|side| side.at("copy").git("log --format=%H%d"));
    both.alike(|side| side.at("copy").git("remote show origin"));
}

#[test]
fn mirrors_are_equal_after_the_second_push() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        side.clone("origin", "work", "--bare");
        let work = side.at("work");
        // Without tracking refs, which the mirror would hold, too.
        work.git(["config", "remote.there.url", &side.url]).success();
        work.git("branch topic HEAD~1").success();
        work.git("tag v2").success();
    });
    both.alike(|side| side.at("work").git("push --mirror there"));
    both.alike(|side| side.at("work").git("push --mirror there"))
        .warns("Everything up-to-date");
    both.both(|side| {
        side.at("work").git("branch -D topic").success();
        side.at("work").git("update-ref refs/changes/1 HEAD~1").success();
    });
    both.alike(|side| side.at("work").git("push --prune there refs/heads/*"));
    both.alike(|side| side.at("work").git("push --prune there refs/heads/*"));
    both.alike(|side| side.at("work").git("push --mirror --dry-run there"));
    both.alike(|side| side.at("work").git("push --mirror --atomic there"));
    both.alike(|side| side.at("work").git("push --mirror there"))
        .warns("Everything up-to-date");
}

#[test]
fn push_options_are_refused_with_a_new_line_and_otherwise_kept() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        side.clone("origin", "work", "");
    });
    both.alike(|side| side.at("work").git(["push", "-o", "next=one\ntwo", &side.url, "main"]))
        .warns("new line");
    let hook = "#!/bin/sh\nprintf %s \"$GIT_PUSH_OPTION_0\" >option\n";
    let server = world.path().join("there.git");
    parler_harness::write_executable(&server.join("hooks/post-receive"), hook);
    for (number, text) in [
        "say \"it\" \\n, 'then' go",
        "\u{e9}\u{65e5}\u{1f980}",
        " blanks at the ends ",
        "\ttab = equals; $(date) `id` %s",
        "\u{1b}[2J",
    ]
    .into_iter()
    .enumerate()
    {
        let option = format!("next={text}");
        let branch = format!("HEAD:refs/heads/b{number}");
        both.alike(|side| {
            let work = side.at("work");
            match number % 2 {
                0 => work.git(["push", "-o", &option, &side.url, &branch]),
                _ => {
                    work.git(["config", "push.pushOption", &option]).success();
                    let push = work.git(["push", &side.url, &branch]);
                    work.git("config --unset push.pushOption").success();
                    push
                }
            }
        });
        assert_eq!(std::fs::read_to_string(server.join("option")).unwrap(), option);
        let read = both
            .room
            .agent
            .parler("recv --room there --all --json")
            .success()
            .json();
        let newest = read["messages"].as_array().unwrap().last().unwrap()["parts"].clone();
        let handed = newest
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["kind"] == "com.parler.handoff");
        assert_eq!(handed.unwrap()["next"], text);
    }
}

//! The plain server that rooms are compared with does what git's own protocol over HTTP asks of one.

use parler_harness::{SmartHttp, look_for, write_executable};

use super::world;

#[test]
fn a_plain_server_serves_clones_pushes_and_what_hooks_say() {
    let world = world();
    let origin = world.origin();
    let server = SmartHttp::serve(&world);
    let url = server.url(origin.path());
    let work = world.clone_with(&url, "work", "");
    assert_eq!(work.refs()["refs/remotes/origin/main"], origin.rev("main"));

    // Larger than git's buffer, so that it comes in chunks; and options, which the repository must want.
    origin.git("config receive.advertisePushOptions true").success();
    let hook = "#!/bin/sh\necho \"told $GIT_PUSH_OPTION_0 by $REMOTE_USER\"\n";
    write_executable(&origin.path().join("hooks/post-receive"), hook);
    let noise: String = (0..200_000_u32)
        .map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)))
        .collect();
    let tip = work.commit("noise.txt", &noise);
    let push = work
        .git([
            "-c",
            "http.postBuffer=65536",
            "push",
            "-o",
            "an option",
            "origin",
            "main",
        ])
        .success();
    push.warns("remote: told an option by somebody");
    assert_eq!(origin.rev("main"), tip);
    origin.fsck();

    // A request that names many refs is compressed.
    let mut stream = String::new();
    for number in 0..200 {
        let head =
            format!("commit refs/heads/many/{number}\ncommitter Somebody <somebody@example.com> 1700000000 +0000");
        stream.push_str(&format!("{head}\ndata <<.\n{number}\n.\n\n"));
    }
    work.import(stream.as_bytes());
    work.git("push --quiet --all origin").success();
    let copy = world.clone_with(&url, "copy", "");
    assert_eq!(
        copy.git("branch --remotes --list origin/many/*")
            .success()
            .out()
            .lines()
            .count(),
        200
    );
    let refused = work.git(["push", &server.url("nowhere.git"), "main"]).code(128);
    refused.warns("not found");
    let complaint = format!("Not a git repository: '{}'", world.path().join("nowhere.git").display());
    assert_eq!(server.complaints().trim_end(), complaint);
}

#[test]
fn a_plain_server_leaves_no_process() {
    let world = world();
    let origin = world.origin();
    let server = SmartHttp::serve(&world);
    let work = world.clone_with(server.url("origin.git"), "work", "");
    work.commit("a.txt", "one\n");
    let hook = "#!/bin/sh\necho waiting\nexec sleep 1000\n";
    write_executable(&origin.path().join("hooks/pre-receive"), hook);
    let push = work.user().start_git("push origin main");
    push.wait_for_errors(|said| said.contains("remote: waiting"));
    drop(server);
    push.wait().code(1);
    // They are ended and go when the kernel has time for it.
    look_for(
        || world.processes().is_empty().then_some(()),
        || format!("{:?}", world.processes()),
    );
}

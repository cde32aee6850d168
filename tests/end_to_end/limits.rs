//! What a hub takes at most: it says so to whoever asks what is new, so that a bundle that is too large is not even made
//! to its end, and nothing of it is sent.

use parler_harness::Answer;

use super::{hub_server, noise, room_refs, world};

/// What the hub takes.
const MOST: u64 = 1 << 20; // 1 MiB
/// What one read of a pack may bring.
const PIECE: u64 = 256 << 10; // 256 KiB

/// Whether a request brings a room something.
fn is_post(request: &str) -> bool {
    request.starts_with("POST /v1/rooms/")
}

/// How many bytes there were when packing was stopped.
fn stopped_at(answer: &Answer) -> u64 {
    let (_, rest) = answer.err().split_once("packing was stopped at ").unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{answer:?}"))
}

#[test]
fn packing_stops_at_what_the_hub_takes_and_nothing_is_sent() {
    let world = world();
    let hub = hub_server::start_for_small_blobs(&world, MOST);
    let work = world.clone_of(&world.origin(), "work");
    let alice = world.stranger("alice").on(&hub).at(&work);
    alice.parler("invite --group build").success();
    let before = work.commit("small.txt", "small\n");
    work.write("large.bin", noise(24 << 20, 1));
    work.git("add large.bin").success();
    work.git("commit --quiet --message large").success();

    let mark = hub.log().mark();
    let push = alice.git("push parler::room/build HEAD:refs/heads/x").code(1);
    push.warns("[remote rejected]")
        .warns(&format!("over {MOST} bytes, the most that the hub takes"))
        .warns("parler: a nearer base makes a smaller bundle: git push -o base=REV");
    assert!((MOST..MOST + PIECE).contains(&stopped_at(&push)), "{push:?}");
    let of_pushes = |request: &String| request.starts_with("GET /v1/rooms/{room}/pushes ");
    let requests: Vec<_> = hub.log().since(mark);
    let others: Vec<_> = requests.iter().filter(|request| !of_pushes(request)).collect();
    assert!(
        others.iter().all(|request| request.contains("/session")),
        "{requests:#?}"
    );

    // So too by the other command, from what it remembers of the room, with the code for what a policy refuses.
    alice
        .git([
            "push",
            "--quiet",
            "parler::room/build",
            &format!("{before}:refs/heads/x"),
        ])
        .success();
    let mark = hub.log().mark();
    let push = alice.parler("push --room build HEAD:refs/heads/x").code(7);
    assert!(push.one_error_line().contains("git parler push --base REV"), "{push:?}");
    assert!((MOST..MOST + PIECE).contains(&stopped_at(&push)), "{push:?}");
    let requests = hub.log().since(mark);
    assert!(requests.iter().all(of_pushes), "{requests:#?}");
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert_eq!(room_refs(&alice, "build")["refs/heads/x"], before);
}

#[test]
fn a_file_that_the_hub_does_not_take_is_refused_before_any_of_it_is_sent() {
    let world = world();
    let hub = hub_server::start_for_small_blobs(&world, MOST);
    let place = world.directory("place");
    let alice = world.stranger("alice").on(&hub).within(&place);
    alice.parler("invite --group build").success();
    std::fs::write(place.join("small.txt"), "small").unwrap();
    std::fs::write(place.join("fits.bin"), noise(MOST as usize, 1)).unwrap();
    std::fs::write(place.join("large.bin"), noise(MOST as usize + 1, 2)).unwrap();

    // The one before it is not sent, either.
    let mark = hub.log().mark();
    let send = alice
        .parler("send --room build --file small.txt --file large.bin look")
        .code(7);
    let line = send.one_error_line();
    let size = MOST + 1;
    for word in [
        "large.bin was not sent",
        &format!("it has {size} bytes, over {MOST}, the most that the hub takes"),
        &format!("split -b {MOST} FILE"),
    ] {
        assert!(line.contains(word), "{line}");
    }
    let requests = hub.log().since(mark);
    assert!(
        !requests.iter().any(|request| request.starts_with("POST /v1/rooms")),
        "{requests:#?}"
    );

    alice
        .parler("send --room build --file small.txt --file fits.bin")
        .success();
    let work = world.clone_of(&world.origin(), "work");
    work.write("large.bin", noise(3 << 20, 3));
    work.git("add large.bin").success();
    work.git("commit --quiet --message large").success();
    let mark = hub.log().mark();
    let handoff = alice
        .at(&work)
        .parler("handoff --room build --bundle HEAD --next review")
        .code(7);
    assert!(
        handoff.one_error_line().contains("the most that the hub takes"),
        "{handoff:?}"
    );
    assert!(
        !hub.log().since(mark).iter().any(|request| is_post(request)),
        "{handoff:?}"
    );
}

#[test]
fn a_branch_that_holds_much_of_what_is_too_large_is_named() {
    let world = world();
    let hub = hub_server::start_for_small_blobs(&world, MOST);
    let work = world.clone_of(&world.origin(), "work");
    let alice = world.stranger("alice").on(&hub).at(&work);
    alice.parler("invite --group build").success();
    work.write("large.bin", noise(2 << 20, 1));
    work.git("add large.bin").success();
    work.git("commit --quiet --message large").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet origin HEAD:refs/heads/topic HEAD~2:refs/heads/older")
        .success();

    let push = alice.git("push parler::room/build HEAD:refs/heads/x").code(1);
    push.warns("parler: origin/topic has much of it")
        .warns("git push -o base=origin/topic");
    let push = alice.parler("push --room build HEAD:refs/heads/x").code(7);
    let line = push.one_error_line();
    assert!(line.contains("git parler push --base origin/topic"), "{line}");
    // It does help.
    alice
        .parler("push --room build --base origin/topic HEAD:refs/heads/x")
        .success();
    assert_eq!(room_refs(&alice, "build")["refs/heads/x"], work.rev("HEAD"));

    // What nobody else has is not to be had from anybody.
    work.write("larger.bin", noise(2 << 20, 2));
    work.git("add larger.bin").success();
    work.git("commit --quiet --message larger").success();
    let push = alice.git("push parler::room/build HEAD:refs/heads/y").code(1);
    push.warns("git push -o base=REV");
}

//! Rooms of two: addressed by the other one's name, as a room and as a git remote.

use parler_harness::LocalHub;
use parler_protocol::TextPart;

use super::world;

#[test]
fn a_branch_and_words_go_to_one_agent() {
    let world = world();
    let origin = world.origin();
    let alices = world.clone_of(&origin, "alices");
    let bobs = world.clone_of(&origin, "bobs");
    let (alice, bob) = (world.agent("alice").at(&alices), world.agent("bob").at(&bobs));
    alice.parler("connect --local --role planner").success();
    bob.parler("connect --local --role reviewer").success();
    alices.git("switch --quiet --create feature").success();
    let tip = alices.commit("checkout.txt", "a new checkout\n");

    alice
        .parler(["send", "--to", "BOB", "look at this"])
        .success()
        .says("sent as message 1 of 'dm/bob'");
    alice
        .git("push parler::dm/bob feature")
        .success()
        .warns("message 2 in room dm/bob")
        .warns_no("dm.");
    alice
        .parler([
            "handoff",
            "--to",
            "reviewer",
            "--next",
            "review it",
            "--bundle",
            "feature",
        ])
        .success()
        .says("'dm/bob'");

    let rooms = bob.parler("rooms").success();
    rooms.says("dm/alice").says_no("dm.");
    let inbox = bob.parler("inbox").success();
    inbox.says("dm/alice · message 3").says_no("dm.");
    let recv = bob.parler("recv --room dm/alice").success();
    assert!(
        recv.out()
            .starts_with("HANDOFF TO YOU from alice (planner) · message 3"),
        "{recv:?}"
    );
    recv.says("look at this").says("--room dm/alice").says_no("dm.");
    bob.git("fetch parler::dm/alice feature").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
    // The other way, in the same room; its name in the place of the label leads there, too.
    bob.parler(["send", "--room", "dm/alice", "done"])
        .success()
        .says("'dm/alice'");
    let list = alice.parler("rooms --json").success().json();
    let room = list["rooms"][0]["room"].as_str().unwrap().to_owned();
    assert!(
        room.starts_with("dm.") && list["rooms"][0]["with"]["name"] == "bob",
        "{list}"
    );
    alice
        .parler(["recv", "--room", &room])
        .success()
        .says("done")
        .says_no("dm.");
    let third = world.agent("carol").parler(["recv", "--room", &room]).code(3);
    assert!(third.one_error_line().contains("that you belong to"), "{third:?}");
}

/// Only where the program names a room itself it goes by its label.
#[test]
fn what_others_say_of_a_direct_room_stays_as_they_said_it() {
    let world = world();
    let [alice, bob] = ["alice", "bob"].map(|name| world.agent(name));
    bob.parler("connect --local").success();
    alice.parler("send --to bob hello").success();
    let rooms = alice.parler("rooms --json").success().json();
    let name = rooms["rooms"][0]["room"].as_str().unwrap().to_owned();
    let words = format!("the room is {name}, at parler::room/{name}\nand {name}");
    alice.parler(["send", "--to", "bob", &words]).success();
    alice
        .parler(["handoff", "--to", "bob", "--next", &words, "--for", &name])
        .success()
        .says(&format!("handed over to {name} as message 3 of 'dm/bob'"))
        .warns(&format!("nobody in 'dm/bob' has the name or role {name} by now"));
    let recv = bob.parler("recv --room dm/alice").success();
    recv.says(&format!("│ the room is {name}, at parler::room/{name}\n│ and {name}\n"));
    recv.says(&format!("  handoff: to {name}\n"));
    bob.parler("show 9 --room dm/alice")
        .code(3)
        .warns("no message 9 in room 'dm/alice'");
    let status = bob.parler("status --room dm/alice --json").success();
    assert_eq!(status.json()["others"], 1);
    // Also in what programs read of a failure, and in a trace.
    let failed = bob
        .parler(["accept", "3", "--room", "dm/alice", "--json"])
        .code(7)
        .json();
    let message = failed["error"]["message"].as_str().unwrap();
    assert_eq!(message, format!("message 3 is for {name}, and you are bob"));
}

#[test]
fn a_name_that_does_not_tell_one_agent_is_refused() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let alice = world.agent("alice").at(&work);
    alice.parler("connect --local").success();
    for (name, role) in [("bob", "reviewer"), ("carol", "reviewer")] {
        world
            .agent(name)
            .parler(["connect", "--local", "--role", role])
            .success();
    }
    let several = alice.parler(["send", "--to", "reviewer", "x"]).code(6);
    for part in ["bob (reviewer)", "carol (reviewer)", "key U"] {
        assert!(several.one_error_line().contains(part), "{several:?}");
    }
    let nobody = alice.parler(["send", "--to", "mallory", "x"]).code(3);
    assert!(nobody.one_error_line().contains("no agent mallory"), "{nobody:?}");
    alice.parler(["send", "--to", "alice", "x"]).code(2);
    alice.parler(["send", "--to", "bob", "--room", "build", "x"]).code(2);
    let pushed = alice.git("push parler::dm/reviewer main").code(128);
    pushed.warns("carol (reviewer)");
    // Nothing was made by any of it.
    assert_eq!(
        alice.parler("rooms --json").success().json()["rooms"],
        serde_json::json!([])
    );
}

#[test]
fn a_name_means_the_key_that_it_is_known_by() {
    let world = world();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.agent(name));
    alice.parler("invite --group talk").success();
    bob.parler("send --room talk hello").success();
    alice.parler("recv --room talk").success();
    // Somebody else who goes by that name.
    let hub = LocalHub::of(&alice);
    let says = |name: &str, room: &str| {
        let words = TextPart { text: "hello".into() };
        let other = hub.raw_client(name);
        other.post(&room.parse().unwrap(), vec![words.into()]).unwrap();
    };
    says("Bob", "talk");
    alice
        .parler("send --to bob you")
        .success()
        .warns("so looks the name of key");
    let rooms = bob.parler("rooms --json").success().json();
    let direct = rooms["rooms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|room| room["kind"] == "dm");
    assert_eq!(direct.unwrap()["with"]["name"], "alice", "{rooms}");
    // Who has read nothing of either does not know which.
    let several = carol.parler("send --to bob you").code(6);
    assert!(several.one_error_line().contains("2 are called bob"), "{several:?}");
    // One room in which the name is another's is enough to ask, whoever is known by it elsewhere.
    alice.parler("invite --group side").success();
    says("BOB", "side");
    alice.parler("recv --room side").success();
    bob.parler("recv --room side").success();
    let several = alice.parler("send --to bob you").code(6);
    assert!(several.one_error_line().contains("3 are called bob"), "{several:?}");
}

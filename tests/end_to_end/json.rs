//! What `--json` says: names that exist, values that are what was written, and nothing that steers a terminal.

use serde_json::json;

use super::world;

#[test]
fn a_push_names_the_pins_that_it_made() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.git("branch --quiet other").success();
    let push = |refs: &str| {
        work.user()
            .parler(format!("push --room try {refs} --json"))
            .success()
            .json()
    };
    let two = push("main:refs/heads/a other:refs/heads/b");
    assert_eq!(two["pins"].as_array().unwrap().len(), 4, "{two}");
    assert!(two["ref"].as_str().unwrap().ends_with("/heads/a"), "{two}");
    // A short name that is taken is not told.
    let tip = work.commit("b.txt", "two\n");
    let one = push("main:refs/heads/c");
    assert_eq!(one["ref"], one["pins"][0]["name"]);
    for pin in [&two["pins"], &one["pins"]]
        .into_iter()
        .flat_map(|pins| pins.as_array().unwrap())
    {
        assert_eq!(work.rev(pin["name"].as_str().unwrap()), pin["oid"].as_str().unwrap());
    }
    assert_eq!(one["pins"][0]["oid"], json!(tip));
    // Nothing new: nothing was pinned.
    let none = push("main:refs/heads/c");
    assert_eq!((&none["ref"], &none["pins"]), (&json!(null), &json!([])));
}

#[test]
fn hidden_characters_are_escaped_and_the_value_is_what_was_said() {
    let world = world();
    let alice = world.agent("alice");
    alice.parler("invite --group talk").success();
    let text = "a\u{9b}31mb\u{202e}c\u{200b}d\u{7f}e\u{e0041}\u{feff} é 漢 😀";
    alice.parler(["send", "--room", "talk", text]).success();
    let bob = world.agent("bob");
    let answers = [
        bob.parler("recv --room talk --json").success(),
        bob.parler("show 1 --room talk --json").success(),
    ];
    for answer in &answers {
        let hidden: Vec<_> = answer
            .out()
            .chars()
            .filter(|c| *c != '\n' && parler_protocol::is_hidden(*c))
            .collect();
        assert!(hidden.is_empty(), "{hidden:?} in {answer:?}");
        answer.says("é 漢 😀").says("\\u202e").says("\\udb40\\udc41");
    }
    assert_eq!(answers[0].json()["messages"][0]["parts"][0]["text"], text);
    assert_eq!(answers[1].json()["parts"][0]["text"], text);
    let refused = bob.parler(["recv", "--room", "a\u{202e}b", "--json"]).code(2);
    refused.says_no("\u{202e}").warns_no("\u{202e}");
}

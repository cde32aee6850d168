//! A hub that several people share and that lets in only whom it knows: the steps of README, who is who afterwards, and
//! that nothing goes there in the clear.

use std::fs;

use parler_harness::Agent;

use super::{hub_server, world};

const README: &str = include_str!("../../README.md");

/// The commands of README's section on several machines, without their comments.
fn readme_steps() -> Vec<String> {
    let section = README.split_once("### Several machines").unwrap().1;
    let block = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    block
        .lines()
        .map(|line| line.split("  #").next().unwrap().trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn the_steps_of_the_readme_work_against_a_closed_hub() {
    let world = world();
    let origin = world.origin();
    let places = ["alice", "bob"].map(|name| {
        let clone = world.clone_of(&origin, &format!("{name}s"));
        let home = world.path().join(format!("parler-of-{name}"));
        (clone.user().with("PARLER_HOME", home), clone)
    });
    let (mut hub, mut key, mut code) = (None, String::new(), String::new());
    let mut person = &places[0].0;
    for step in readme_steps() {
        if step.starts_with('#') {
            person = if step.contains("bob") {
                &places[1].0
            } else {
                &places[0].0
            };
            continue;
        }
        if let Some(options) = step.strip_prefix("parler-hub serve ") {
            assert!(options.contains("--owner KEY"), "{step}");
            hub = Some(hub_server::start_closed(&world, &key));
            continue;
        }
        let url = hub.as_ref().map(parler_harness::HubProcess::url).unwrap_or_default();
        let command = step.replace("https://hub.example", &url).replace("CODE", &code);
        let answer = person.git(command.strip_prefix("git ").unwrap()).success();
        if step.contains("whoami") {
            let line = answer.out().lines().find(|line| line.contains("key:")).unwrap();
            key = line.split_whitespace().last().unwrap().to_owned();
        } else if step.contains("invite") {
            code = answer.word().to_owned();
        }
    }
    // What was chosen once holds: nobody is told again who they are and where the hub is.
    let [(alice, work), (bob, bobs)] = &places;
    let commit = work.commit("a.txt", "new\n");
    alice
        .at(work)
        .git("push parler::room/feature-checkout HEAD:refs/heads/feature")
        .success();
    alice
        .parler("handoff --room feature-checkout --for reviewer --next look")
        .success();
    bob.parler("recv --room feature-checkout")
        .success()
        .says("HANDOFF TO YOU from alice (planner)");
    bob.git("fetch --quiet parler::room/feature-checkout feature").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), commit);
    let members = alice.parler("roster --room feature-checkout").success();
    members.says("alice (planner)").says("bob (reviewer)");
    for home in [alice.parler_home(), bob.parler_home()] {
        assert!(!home.join("data/hub").exists(), "a local hub was asked");
    }
}

/// A closed hub, alice who is let in, and a code for the room `team`.
fn closed_hub(world: &parler_harness::World) -> (parler_harness::HubProcess, Agent<'_>, String) {
    let alice = world.stranger("alice");
    let id = alice.parler("whoami --json").success().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let hub = hub_server::start_closed(world, &id);
    let alice = alice.on(&hub);
    let code = alice
        .parler("invite --group team --max-uses 9")
        .success()
        .word()
        .to_owned();
    (hub, alice, code)
}

#[test]
fn connecting_before_being_let_in_is_kept_and_said() {
    let world = world();
    let (hub, _, code) = closed_hub(&world);
    let clone = world.clone_of(&world.origin(), "work");
    let bob = clone.user();
    let answer = bob.parler(format!("connect --hub {} --as bob --role reviewer --json", hub.url()));
    let answer = answer.success();
    answer.warns("git parler join CODE");
    assert_eq!(answer.json()["admitted"], false);
    assert_eq!(answer.json()["hub"]["id"], serde_json::Value::Null);
    let who = bob.parler("whoami --json").success().json();
    assert_eq!((&who["name"], &who["role"]), (&"bob".into(), &"reviewer".into()));
    assert_eq!(who["hub"]["choice"], hub.url());
    // Still outside, and told who it is that is outside.
    let refused = bob.parler("rooms").code(4);
    assert!(refused.one_error_line().contains("agent bob"), "{refused:?}");
    bob.parler(format!("join {code}")).success();
    bob.parler("rooms").success().says("team");
    let again = bob.parler("connect --json").success().json();
    assert_eq!(again["admitted"], true);
}

#[test]
fn joining_keeps_who_joined_and_where() {
    let world = world();
    let (hub, alice, code) = closed_hub(&world);
    let origin = world.origin();
    let link = alice.parler("invite --group team --max-uses 9 --json").success().json()["link"].clone();
    let link = link.as_str().unwrap();
    for (name, command) in [
        ("linked", format!("join {link} --as linked --role reviewer")),
        (
            "coded",
            format!("join {code} --hub {} --as coded --role reviewer", hub.url()),
        ),
    ] {
        let clone = world.clone_of(&origin, &format!("{name}-work"));
        clone.user().parler(command).success().warns("from now on");
        clone.user().parler("send --room team hello").success();
        alice
            .parler("recv --room team")
            .success()
            .says(&format!("from {name} (reviewer)"));
    }
    // A code that is refused changes nothing.
    let clone = world.clone_of(&origin, "refused");
    let wrong = format!("join ABCDEFGHJKMN --hub {} --as nobody", hub.url());
    clone.user().parler(wrong).code(3);
    let who = clone.user().parler("whoami --json").success().json();
    assert_eq!(
        (&who["source"], &who["hub"]["choice"]),
        (&"default".into(), &"local".into())
    );
    // A hub that was chosen before stays, and it is said.
    clone.user().parler("connect --hub local").success();
    clone
        .user()
        .parler(format!("join {link}"))
        .success()
        .warns("connect --hub");
    assert_eq!(clone.ask("config parler.hub"), "local");
    let two = format!("join {link} --hub https://hub.invalid");
    clone.user().parler(two).code(2).warns("different hubs");
}

#[test]
fn a_clone_is_a_new_agent_and_the_refusal_says_how_to_be_another() {
    let world = world();
    let (hub, alice, _) = closed_hub(&world);
    let whole = world.init("whole", "");
    let tip = whole.commit("a.txt", "one\n");
    alice.at(&whole).git("push --quiet parler::room/team main").success();
    let user = alice.without("PARLER_AGENT").without("PARLER_HUB");
    let url = format!("parler://{}/room/team", hub.authority());
    let refused = user.git(format!("clone {url} copy")).code(128);
    refused
        .warns("/copy, by default)")
        .warns("git clone -c parler.agent=NAME");
    assert!(!world.path().join("copy").exists());
    let options = format!(
        "clone --quiet -c parler.agent=alice -c parler.hub={} parler::room/team copy",
        hub.url()
    );
    user.git(options).success();
    let copy = world.repository(world.path().join("copy"));
    assert_eq!(copy.rev("HEAD"), tip);
    user.at(&copy).parler("recv --room team").success();
    user.at(&copy).git("fetch").success();
}

#[test]
fn nothing_goes_to_another_machine_in_the_clear() {
    let world = world();
    let clone = world.clone_of(&world.origin(), "work");
    // Whatever is sent after all goes no further than a port where nobody listens.
    let user = clone.user().with("http_proxy", "http://127.0.0.1:1");
    let hub = "http://hub.invalid:7777";
    let by_variable = user.with("PARLER_HUB", hub);
    let configured = |command: &str| user.git(format!("-c parler.hub={hub} {command}"));
    let refused = [
        user.parler(format!("rooms --hub {hub}")).code(7),
        user.parler(format!("connect --hub {hub} --as bob")).code(7),
        user.parler(format!("join {hub}/join/ABCDEFGHJKMN")).code(7),
        user.parler(format!("join ABCDEFGHJKMN --hub {hub}")).code(7),
        by_variable.parler("recv --room team").code(7),
        by_variable.git("fetch parler::room/team").code(128),
        configured("parler push --room team").code(7),
        configured("push parler::room/team HEAD").code(128),
        user.git(format!("fetch parler::{hub}/room/team")).code(128),
    ];
    for answer in refused {
        answer
            .warns("hub.invalid:7777 is not on this machine, and plain http is not allowed there")
            .warns("parler.hub.invalid:7777.insecure");
    }
    assert_eq!(user.parler("whoami --json").success().json()["hub"]["choice"], "local");
    // Where it is allowed it is tried.
    user.git("config parler.hub.invalid:7777.insecure true").success();
    user.parler(format!("rooms --hub {hub}")).code(5);
    user.parler("join parler://hub.invalid:7777/join/ABCDEFGHJKMN")
        .code(5)
        .warns("http://hub.invalid:7777");
}

#[test]
fn a_configuration_that_cannot_be_read_is_not_an_empty_one() {
    let world = world();
    let outside = world.user().within(world.directory("elsewhere"));
    let inside = world.init("inside", "").user();
    let broken = world.path().join("home/.gitconfig");
    let config = fs::read_to_string(&broken).unwrap();
    fs::write(
        &broken,
        format!("{config}[parler]\n\thub = https://hub.invalid\n[broken\n"),
    )
    .unwrap();
    for command in ["rooms", "whoami", "join ABCDEFGHJKMN"] {
        // By its own name: git would not come so far.
        for user in [&outside, &inside] {
            let refused = user.run("git-parler", command).code(128);
            assert!(refused.one_error_line().contains(".gitconfig"), "{refused:?}");
        }
    }
    assert!(world.processes().is_empty(), "the local hub was asked instead");
}

//! Hooks of coding agents: each host's documented input is replayed to the real program, and what it prints is compared
//! with the form that the host takes (`hooks/HOST.json`). Nobody pastes anything.

use std::ffi::OsString;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{Agent, LocalHub, Output, RawClient, Repository, Running, World, look_for, wait_for_end_of};
use parler_protocol::{HandoffPart, Part, RoomName, TextPart};
use serde_json::{Value, json};

use super::handoff_life::Desk;
use super::{hub_server, world};

/// Every host with its events: the input that it documents, the form of what it takes, and where in that the text is.
const HOSTS: [(&str, &str); 6] = [
    ("claude", include_str!("hooks/claude.json")),
    ("codex", include_str!("hooks/codex.json")),
    ("copilot", include_str!("hooks/copilot.json")),
    ("cursor", include_str!("hooks/cursor.json")),
    ("gemini", include_str!("hooks/gemini.json")),
    ("opencode", include_str!("hooks/opencode.json")),
];

/// How many post at the same time.
const SENDERS: usize = 8;

/// Longest that a hook may take on a machine that is as busy as can be.
const LONGEST: Duration = Duration::from_secs(30);

/// What a host says and takes at one event.
pub(super) struct Event {
    host: &'static str,
    event: String,
    /// `input`, `output`, `text`.
    form: Value,
}

pub(super) fn event(host: &str, event: &str) -> Event {
    let (host, forms) = HOSTS.into_iter().find(|(name, _)| *name == host).unwrap();
    let mut forms: Value = serde_json::from_str(forms).unwrap();
    Event {
        host,
        event: event.to_owned(),
        form: forms[event].take(),
    }
}

impl Event {
    /// The input, of this session in this directory.
    fn input(&self, session: &str, directory: &Path) -> String {
        let input = self.form["input"].to_string();
        let directory = directory.to_str().unwrap();
        input.replace("SESSION", session).replace("CWD", directory)
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.form["input"][field] = value.into();
        self
    }

    /// Calls the hook as the host does, from a directory that is not the agent's.
    fn start(&self, agent: &Agent<'_>, session: &str) -> Running {
        let input = self.input(session, agent.directory());
        let elsewhere = agent.within("/");
        match self.event.as_str() {
            "notify" => elsewhere.start("git-parler", ["hook", self.host, "notify", &input]),
            event => {
                let mut command = elsewhere.command("git-parler", ["hook", self.host, event]);
                Running::start(&mut command, input.as_bytes())
            }
        }
    }

    fn call(&self, agent: &Agent<'_>, session: &str) -> Output {
        self.start(agent, session).wait()
    }

    /// What it puts into the conversation: of the form that the host takes, and nothing else.
    #[track_caller]
    pub(super) fn says(&self, agent: &Agent<'_>, session: &str) -> String {
        let answer = self.call(agent, session).success();
        assert_eq!(answer.err(), "", "{answer:?}");
        let output = answer.json();
        let form = jsonschema::validator_for(&self.form["output"]).unwrap();
        if let Err(error) = form.validate(&output) {
            panic!("{} {}: {error}: {output:#}", self.host, self.event);
        }
        let text = output.pointer(self.form["text"].as_str().unwrap()).unwrap();
        text.as_str().unwrap().to_owned()
    }

    /// It says nothing, and that all is well.
    #[track_caller]
    pub(super) fn is_silent(&self, agent: &Agent<'_>, session: &str) {
        let answer = self.call(agent, session).success();
        assert_eq!((answer.out(), answer.err()), ("", ""), "{} {}", self.host, self.event);
    }
}

/// A desk whose agents are in its room.
fn desk(world: &World) -> Desk<'_> {
    let desk = Desk::new(world);
    // However busy the machine is.
    desk.alices.git("config parler.hook.wait 10000").success();
    desk.alice.parler("invite --group try").success();
    // The local hub lets its user's agents in.
    desk.bob.parler("recv").success();
    desk
}

/// Hands over from one agent to another without code, and gives the number.
#[track_caller]
fn hand_over(agent: &Agent<'_>, to: &str, next: &str) -> String {
    let handoff = ["handoff", "--room", "try", "--for", to, "--next", next, "--json"];
    agent.parler(handoff).success().json()["seq"].to_string()
}

/// The command in a hook's text that begins so, as an agent would run it.
#[track_caller]
fn command(text: &str, verb: &str) -> Vec<OsString> {
    let begin = format!("  git parler {verb} ");
    let line = text
        .lines()
        .find(|line| line.starts_with(&begin))
        .unwrap_or_else(|| panic!("no {verb}: {text}"));
    let command = line.trim_start().split("    ").next().unwrap();
    command.split(' ').skip(2).map(OsString::from).collect()
}

#[test]
fn two_agents_hand_a_branch_back_and_forth_through_hooks_alone() {
    let world = world();
    let desk = desk(&world);
    // Alice is in Claude Code, which can be woken; bob in Codex, which goes on when a turn ends.
    let (wait, stop, start) = (
        event("claude", "wait"),
        event("codex", "stop"),
        event("codex", "session-start"),
    );
    let push = |from: (&Agent<'_>, &Repository<'_>), to: &str, round: usize| {
        let (agent, tree) = from;
        tree.commit(&format!("for-{to}-{round}.txt"), "x\n");
        let push = [
            "push",
            "--for",
            to,
            "--next",
            &format!("look at round {round}"),
            "HEAD:refs/heads/feature",
        ];
        agent.parler(push).success();
        tree.rev("HEAD")
    };
    let take = |agent: &Agent<'_>, tree: &Repository<'_>, text: &str, tip: &str| {
        agent.parler(command(text, "apply")).success();
        agent.parler(command(text, "accept")).success();
        tree.git(["switch", "--quiet", "--detach", tip]).success();
        agent.parler(command(text, "done")).success();
    };
    for round in 1..=3 {
        let tip = push((&desk.alice, &desk.alices), "bob", round);
        let parked = wait.start(&desk.alice, "a");
        let text = match round {
            1 => start.says(&desk.bob, "b"),
            _ => stop.says(&desk.bob, "b"),
        };
        assert!(text.contains(&format!("look at round {round}")), "{text}");
        take(&desk.bob, &desk.bobs, &text, &tip);
        stop.is_silent(&desk.bob, "b");

        let tip = push((&desk.bob, &desk.bobs), "alice", round);
        let woken = parked.wait().code(2);
        assert_eq!(woken.out(), "");
        assert!(woken.err().contains(&format!("look at round {round}")), "{woken:?}");
        take(&desk.alice, &desk.alices, woken.err(), &tip);
        event("claude", "stop").is_silent(&desk.alice, "a");
    }
}

#[test]
fn every_host_is_answered_in_its_own_form() {
    let world = world();
    let desk = desk(&world);
    for (host, forms) in HOSTS {
        let forms: Value = serde_json::from_str(forms).unwrap();
        for (name, form) in forms.as_object().unwrap() {
            if form["output"].is_null() {
                continue;
            }
            let number = hand_over(&desk.alice, "bob", &format!("{host} {name}"));
            let text = event(host, name).says(&desk.bob, host);
            assert!(text.contains(&format!("next: {host} {name}\n")), "{text}");
            desk.bob.parler(["accept", &number, "--room", "try"]).success();
            event(host, name).is_silent(&desk.bob, host);
        }
    }
}

#[test]
fn what_was_told_is_told_again_after_a_crash_and_not_after_a_turn_or_a_word() {
    let world = world();
    let desk = desk(&world);
    let (start, prompt, stop) = (
        event("claude", "session-start"),
        event("claude", "prompt"),
        event("claude", "stop"),
    );
    start.is_silent(&desk.bob, "s");
    hand_over(&desk.alice, "bob", "look at the first");
    prompt.says(&desk.bob, "s");
    prompt.is_silent(&desk.bob, "s");
    // The host was killed: the same conversation, or another one.
    start.says(&desk.bob, "s");
    prompt.says(&desk.bob, "t");
    // Of another conversation, of a subagent, of one that hooks have made already.
    stop.is_silent(&desk.bob, "other");
    event("claude", "stop").with("agent_id", "a").is_silent(&desk.bob, "t");
    start.says(&desk.bob, "t");
    stop.is_silent(&desk.bob, "t");
    start.is_silent(&desk.bob, "t");

    let accepted = hand_over(&desk.alice, "bob", "look at the second");
    prompt.says(&desk.bob, "t");
    desk.bob.parler(["accept", &accepted]).success();
    start.is_silent(&desk.bob, "t");
    // Read by somebody at a terminal.
    hand_over(&desk.alice, "bob", "look at the third");
    prompt.says(&desk.bob, "t");
    desk.bob.parler("recv").success();
    start.is_silent(&desk.bob, "t");
    // For somebody else, and what was called off.
    hand_over(&desk.alice, "carol", "not for bob");
    let off = hand_over(&desk.alice, "bob", "called off");
    desk.alice.parler(["cancel", &off]).success();
    start.is_silent(&desk.bob, "t");

    let active = event("claude", "stop").with("stop_hook_active", true);
    let fourth = hand_over(&desk.alice, "bob", "look at the fourth");
    active.is_silent(&desk.bob, "t");
    // Only the newest revision.
    let next = [
        "handoff",
        "--for",
        "bob",
        "--next",
        "look at the fifth",
        "--revises",
        &fourth,
    ];
    desk.alice.parler(next).success();
    let text = stop.says(&desk.bob, "t");
    assert!(
        text.contains("look at the fifth") && !text.contains("look at the fourth"),
        "{text}"
    );
    // The hub knows of nothing that bob has not read himself.
    let unread = desk.bob.parler("recv --json").success().json();
    assert_eq!(unread["messages"].as_array().unwrap().len(), 5, "{unread:#}");
}

#[test]
fn the_sender_sees_what_would_wake_the_reader() {
    let world = world();
    let desk = desk(&world);
    let number = hand_over(&desk.alice, "bob", "look at it");
    let wake = || {
        let status = desk.alice.parler(["status", &number, "--json"]).success().json();
        status["readers"][0]["wake"].as_str().unwrap().to_owned()
    };
    assert_eq!(wake(), "none");
    event("claude", "prompt").says(&desk.bob, "s");
    assert_eq!(wake(), "turn");
    desk.alice
        .parler(["status", &number])
        .success()
        .says("next turn begins with it");
    let parked = event("claude", "wait").start(&desk.bob, "s");
    look_for(|| (wake() == "session").then_some(()), || "nobody waits".to_owned());
    desk.alice.parler(["status", &number]).success().says("would be woken");
    desk.alice.parler("roster").success().says("woken by what comes");
    drop(parked);
}

#[test]
fn an_hour_has_so_many_turns_of_hooks() {
    let world = world();
    let desk = desk(&world);
    desk.bobs.git("config parler.hook.maxPerHour 1").success();
    let (stop, prompt) = (event("gemini", "after-agent"), event("gemini", "before-agent"));
    hand_over(&desk.alice, "bob", "the first");
    stop.says(&desk.bob, "s");
    hand_over(&desk.alice, "bob", "the second");
    stop.is_silent(&desk.bob, "s");
    assert!(prompt.says(&desk.bob, "s").contains("the second"));
}

#[test]
fn a_session_is_waited_for_once_and_no_longer_than_its_host_lives() {
    let world = world();
    let desk = desk(&world);
    let wait = event("claude", "wait");
    let first = wait.start(&desk.alice, "s");
    let hub = LocalHub::of(&desk.alice);
    let parked = |times: usize| {
        let is_there = || hub.log().text().matches("/v1/events").count() >= times;
        look_for(|| is_there().then_some(()), || "nobody waits".to_owned());
    };
    parked(1);
    wait.is_silent(&desk.alice, "s");
    hand_over(&desk.bob, "alice", "wake up");
    assert!(first.wait().code(2).err().contains("wake up"));
    // Another handoff, another wait; this time its host ends first.
    let input = wait.input("s", desk.alice.directory());
    let script = "git-parler hook claude wait <\"$1\" & echo $!; read -r _";
    let file = desk.alices.write("../input.json", input);
    let mut command = desk.alice.command("sh", ["-c", script, "sh", file.to_str().unwrap()]);
    let host = Running::start_with(&mut command, std::process::Stdio::piped());
    let waiter = host.wait_for_output(|output| output.ends_with('\n'));
    // It knows its host by now.
    parked(2);
    host.signal(rustix::process::Signal::KILL);
    wait_for_end_of(waiter.trim().parse().unwrap());
    drop(host);
}

/// A hub that takes connections and does this with them.
fn bad_hub(deed: fn(&mut std::net::TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || deed(&mut stream));
        }
    });
    url
}

fn silent(stream: &mut std::net::TcpStream) {
    // Until the client has gone.
    while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
}

fn garbage(stream: &mut std::net::TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{x}");
}

#[test]
fn a_hub_that_is_away_silent_or_none_is_no_trouble() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hubs = [format!("http://{nobody}"), bad_hub(silent), bad_hub(garbage)];
    thread::scope(|scope| {
        for (number, hub) in hubs.iter().enumerate() {
            let agent = world
                .stranger(&format!("bob{number}"))
                .with("PARLER_HUB", hub)
                .at(&work);
            scope.spawn(move || {
                // It has a key from now on, and knows nothing.
                agent.parler("whoami").either();
                for (host, forms) in HOSTS {
                    let forms: Value = serde_json::from_str(forms).unwrap();
                    for name in forms.as_object().unwrap().keys().filter(|name| *name != "wait") {
                        let begun = Instant::now();
                        event(host, name).is_silent(&agent, "s");
                        // Other commands wait 60 s for a hub that says nothing.
                        assert!(begun.elapsed() < LONGEST, "{hub} {host} {name}: {:?}", begun.elapsed());
                    }
                }
            });
        }
    });
}

#[test]
fn what_is_known_is_said_when_the_hub_is_away() {
    let world = world();
    let desk = desk(&world);
    let (start, prompt) = (event("claude", "session-start"), event("claude", "prompt"));
    hand_over(&desk.alice, "bob", "look at it");
    assert!(prompt.says(&desk.bob, "s").contains("look at it"));
    desk.alice.parler("hub stop").success();
    assert!(start.says(&desk.bob, "s").contains("look at it"));
    // And no hook starts it.
    assert!(LocalHub::if_any(&desk.alice.parler_home()).is_none_or(|hub| !hub.runs(&world)));
}

/// What may stand in a file before: of the user's, with comments, and nothing at all.
fn files_before(host: &str) -> Vec<Option<String>> {
    let list = match host {
        "cursor" => "stop",
        "copilot" => "agentStop",
        "gemini" => "AfterAgent",
        _ => "Stop",
    };
    let foreign = r#"{"hooks": [{"type": "command", "command": "mine"}]}"#;
    vec![
        None,
        Some("{}\n".to_owned()),
        Some(format!(
            "{{\n  // mine\n  \"model\": \"x\",\n  \"hooks\": {{\n    \"{list}\": [\n      {foreign} // keep\n    ],\n  }},\n}}\n"
        )),
        Some(format!("{{\"hooks\":{{\"{list}\":[{foreign}]}},\r\n\t\"z\":1}}")),
    ]
}

#[test]
fn what_is_installed_is_taken_out_byte_for_byte() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let home = world.directory("home");
    let user = work.user().with("HOME", &home).without("XDG_CONFIG_HOME");
    for (host, scope) in HOSTS.iter().map(|(host, _)| (*host, "user")).chain([
        ("claude", "project"),
        ("claude", "local"),
        ("codex", "project"),
        ("opencode", "project"),
    ]) {
        let install = |option: &str| {
            let words = format!("hook install {host} --scope {scope} --json {option}");
            user.parler(words.trim()).success().json()
        };
        let print = install("--print");
        let file = std::path::PathBuf::from(print["file"].as_str().unwrap());
        assert!(file.starts_with(&home) || file.starts_with(work.path()), "{print}");
        let befores = if host == "opencode" {
            vec![None]
        } else {
            files_before(host)
        };
        for before in befores {
            if let Some(before) = &before {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, before).unwrap();
                std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            }
            assert_eq!(install("")["changed"], true);
            let installed = std::fs::read_to_string(&file).unwrap();
            if before.is_none() {
                assert_eq!(installed, print["content"].as_str().unwrap());
            } else {
                let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
                assert_eq!(mode & 0o777, 0o600);
                assert!(
                    installed.contains("mine") || before.as_deref() == Some("{}\n"),
                    "{installed}"
                );
            }
            for event in serde_json::from_str::<Value>(HOSTS.iter().find(|(name, _)| *name == host).unwrap().1)
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .filter(|event| *event != "notify")
            {
                assert!(installed.contains(event), "{host} {event}: {installed}");
            }
            assert_eq!(install("")["changed"], false);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), installed);
            assert_eq!(install("--remove")["changed"], true);
            assert_eq!(
                std::fs::read_to_string(&file).ok(),
                before,
                "{host} {scope}: {installed}"
            );
            assert_eq!(install("--remove")["changed"], false);
            let _ = std::fs::remove_file(&file);
        }
    }
}

#[test]
fn a_file_that_cannot_be_edited_is_named_and_left_alone() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    let settings = work.write(".claude/settings.json", "{\n  \"a\": 1\n  \"b\": 2\n}\n");
    let refused = user.parler("hook install claude --scope project").code(7);
    assert!(refused.one_error_line().contains("line 2"), "{refused:?}");
    user.parler("hook install claude --scope project --remove").code(7);
    assert_eq!(
        std::fs::read_to_string(&settings).unwrap(),
        "{\n  \"a\": 1\n  \"b\": 2\n}\n"
    );
    user.parler("hook install codex --scope local").code(2);
    user.parler("hook install vim").code(2);
    // No hook: whoever installs is told.
    user.parler("hook install claude --scope x").code(2);
    user.parler("hook install claude --remove --print").code(2);
    work.write(".opencode/plugins/parler.js", "mine");
    user.parler("hook install opencode --scope project").code(7);
    // Through a link, and with an agent for the work tree.
    let dotfiles = work.write("../dotfiles.json", "{}");
    std::fs::remove_file(&settings).unwrap();
    std::os::unix::fs::symlink(&dotfiles, &settings).unwrap();
    user.parler("hook install claude --scope project --as reviewer-1")
        .success();
    assert!(settings.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&dotfiles).unwrap().contains("git-parler"));
    let whoami = user.parler("whoami --json").success().json();
    assert_eq!(whoami["name"], "reviewer-1", "{whoami}");
}

#[test]
fn the_hosts_that_are_installed_are_found_and_wired() {
    let world = world();
    let (home, programs) = (world.directory("home"), world.directory("programs"));
    for name in ["claude", "gemini"] {
        parler_harness::write_executable(&programs.join(name), "#!/bin/sh\n");
    }
    // No other programs than these: some of the hosts may be on this machine.
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join("git"));
    let git = places.find(|git| git.exists()).unwrap();
    let user = world.user().with("HOME", &home).without("XDG_CONFIG_HOME");
    let user = user.with("PATH", &programs).with("PARLER_GIT", git);
    let connect = |options: &str| user.run(world.program(), format!("connect --hosts {options}"));
    std::fs::create_dir(home.join(".gemini")).unwrap();
    std::fs::write(home.join(".gemini/settings.json"), "{").unwrap();
    let told = connect("").code(7);
    told.says("claude: its hooks are in ")
        .says("codex: not installed here")
        .says("gemini: ");
    assert!(
        std::fs::read_to_string(home.join(".claude/settings.json"))
            .unwrap()
            .contains("asyncRewake")
    );
    assert_eq!(
        std::fs::read_to_string(home.join(".gemini/settings.json")).unwrap(),
        "{"
    );
    assert!(!home.join(".codex").exists());
    std::fs::remove_file(home.join(".gemini/settings.json")).unwrap();
    let hosts = connect("--json").success().json()["hosts"].clone();
    let of = |name: &str| {
        hosts
            .as_array()
            .unwrap()
            .iter()
            .find(|host| host["host"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of("claude")["hooks"]["changed"], &of("gemini")["hooks"]["changed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(of("codex")["installed"], false);
}

#[test]
fn calls_that_are_none_say_nothing() {
    let world = world();
    let desk = desk(&world);
    hand_over(&desk.alice, "bob", "look at it");
    let call = |words: &[&str], input: &str| {
        let words: Vec<_> = ["hook"].iter().chain(words).map(OsString::from).collect();
        let answer = desk.bob.feed("git-parler", words, input.as_bytes()).success();
        assert_eq!((answer.out(), answer.err()), ("", ""));
    };
    call(&[], "{}");
    call(&["--unknown", "claude", "prompt"], "{}");
    call(&["vim", "prompt"], "{}");
    call(&["claude", "later"], "{}");
    call(&["claude"], "{}");
    call(&["claude", "prompt"], "{");
    call(&["claude", "prompt"], "{}");
    call(&["claude", "prompt", "--unknown"], "[]");
    call(&["codex", "notify", "garbage"], "");
    // What is no token ends no turn.
    event("claude", "prompt").is_silent(&desk.bob.with("PARLER_TOKEN", "x"), "s");
    event("claude", "prompt").is_silent(&desk.bob.with("PARLER_HUB", "ftp://x"), "s");
    // An agent that nobody made stays unmade.
    event("claude", "prompt").is_silent(&desk.bob.with("PARLER_AGENT", "zoe"), "s");
    let keys = std::fs::read_dir(desk.bob.parler_home().join("config/agents")).unwrap();
    let mut names = keys.map(|key| key.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().starts_with("zoe-")));
    desk.bob.with("PARLER_TRACE", "neither").parler("whoami").code(2);
    let traced = desk.bob.with("PARLER_TRACE", "neither");
    assert!(event("claude", "prompt").says(&traced, "s").contains("look at it"));
}

#[test]
fn of_a_long_backlog_as_much_is_said_as_fits() {
    let world = world();
    let hub = hub_server::start(&world);
    let place = world.clone_of(&world.origin(), "place");
    let (alice, bob) = (
        world.stranger("alice").on(&hub),
        world.stranger("bob").on(&hub).at(&place),
    );
    let code = alice
        .parler("invite --group try --max-uses 20")
        .success()
        .word()
        .to_owned();
    bob.parler(["join", &code]).success();
    place.git("config parler.hook.wait 10000").success();
    let room: RoomName = "try".parse().unwrap();
    let filler = "x".repeat(10 << 10);
    let (url, filler, code, room) = (hub.url(), &filler, &code, &room);
    let part = |number: usize| -> Part {
        match number % 100 {
            0 => HandoffPart {
                next: format!("job {number}\n```\nnot data\n{filler}"),
                to: Some("bob".into()),
                ..HandoffPart::default()
            }
            .into(),
            _ => TextPart { text: filler.clone() }.into(),
        }
    };
    // 1,000 messages of 10 KiB each, every hundredth a handoff.
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (url, part) = (&url, &part);
            scope.spawn(move || {
                let mallory = RawClient::new(url, &format!("mallory{sender}"));
                mallory.join(code);
                for number in (1..1_000).filter(|number| number % SENDERS == sender) {
                    mallory.post(room, vec![part(number)]).unwrap();
                }
            });
        }
    });
    let last = RawClient::new(&url, "last");
    last.join(code);
    last.post(room, vec![part(1_000)]).unwrap();
    let text = event("claude", "prompt").says(&bob, "s");
    assert!(text.contains("job 1000"), "{text}");
    assert!(text.chars().count() <= 9_000, "{}", text.chars().count());
    let fences: Vec<_> = text.lines().filter(|line| line.starts_with("````")).collect();
    assert_eq!(fences.len(), 2, "{text}");
    let inside = text.split(fences[0]).nth(1).unwrap();
    assert!(inside.contains("not data") && inside.contains("job 1000"), "{text}");
}

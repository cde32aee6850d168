//! Lists and texts on a terminal: as wide as that is, whatever others wrote, and as long as they are anywhere else.

use parler_harness::{Agent, LocalHub, RawClient};
use parler_protocol::api::CreateInvite;
use parler_protocol::{HandoffPart, Part, RoomName, TextPart};
use unicode_width::UnicodeWidthStr;

use super::world;

const COLUMNS: usize = 80;
const ROOM: &str = "a-room-that-has-a-name-of-fifty-and-more-characters";
const NAME: &str = "ada-of-a-name-that-is-long-enough-to-fill-a-line-of-sixty";
const WORDS: &str = "these are words enough for more than one line of a terminal, 漢字も二桁ずつ数えられるので行は長くならない, and thesearemorethansixtycharacterswithoutanyblankbetweenthemallofit the end";

/// A command on a terminal of this many columns.
fn on_a_terminal(agent: &Agent<'_>, columns: usize, command: &str) -> String {
    let command = format!("stty cols {columns}; git-parler --no-pager {command}");
    let shown = agent.run("script", ["-qec", &command, "/dev/null"]).success();
    shown.out().replace('\r', "")
}

/// What a text's lines say, without what marks them as such.
fn joined(shown: &str) -> String {
    let lines = shown.lines().map(|line| line.strip_prefix("│ ").unwrap_or(line).trim());
    lines.collect::<String>().replace(' ', "")
}

fn post(from: &RawClient, parts: Vec<Part>) {
    from.post(&ROOM.parse::<RoomName>().unwrap(), parts).unwrap();
}

#[test]
fn every_list_fits_the_terminal_and_no_text_is_lost() {
    let world = world();
    let bob = world.agent("bob").without("COLUMNS").with("PARLER_ROOM", ROOM);
    bob.parler(["invite", "--group", ROOM]).success();
    let ada = LocalHub::of(&bob).raw_client(NAME);
    let handoff = |to: &str| HandoffPart {
        next: WORDS.into(),
        summary: Some(format!("{WORDS}\n{WORDS}")),
        to: Some(to.into()),
        ..HandoffPart::default()
    };
    post(&ada, vec![TextPart { text: WORDS.into() }.into()]);
    post(&ada, vec![handoff("bob").into()]);
    post(&ada, vec![handoff(NAME).into()]);
    let room = ROOM.parse::<RoomName>().unwrap();
    let invite = CreateInvite {
        room,
        ttl_secs: None,
        max_uses: None,
        approve: true,
    };
    let invite = ada.calls.create_invite(&invite).unwrap();
    let asking = LocalHub::of(&bob).raw_client(&format!("x{NAME}"));
    asking.calls.join(&invite.code).unwrap();
    let away = bob.with("PARLER_HUB", "http://127.0.0.1:1");
    away.parler(["send", "--queue", WORDS]).success();

    let inbox = on_a_terminal(&bob, COLUMNS, "inbox");
    assert!(
        inbox.contains('…') && inbox.contains(&format!("git parler show 2 --room {ROOM}\n")),
        "{inbox}"
    );
    for (command, texts) in [
        ("inbox", 0),
        ("recv --since 0", 6),
        ("log", 7),
        ("log --reverse -n 1", 1),
        ("show 2", 6),
        ("status", 0),
        ("status 2", 1),
        ("rooms", 0),
        ("roster", 0),
        ("invite --list", 0),
        ("trust", 0),
        ("outbox", 1),
    ] {
        let agent = if command == "outbox" { &away } else { &bob };
        let shown = on_a_terminal(agent, COLUMNS, command);
        assert!(!shown.is_empty(), "{command}");
        for line in shown.lines().filter(|line| !line.contains("git parler ")) {
            assert!(
                line.width() <= COLUMNS,
                "{command}: {} columns: {line}\n{shown}",
                line.width()
            );
            // A text that goes on cannot be taken for a line of ours.
            assert!(!line.starts_with("the end"), "{command}: {shown}");
        }
        // Nothing is taken away from a text.
        let words = WORDS.replace(' ', "");
        assert!(joined(&shown).matches(&words).count() >= texts, "{command}: {shown}");
        // Where nobody looks on every line is whole.
        let piped = agent
            .run("sh", ["-c", &format!("COLUMNS={COLUMNS} git-parler {command}")])
            .success();
        assert!(!piped.out().contains('…'), "{command}: {piped:?}");
        let texts_in_pipe = piped.out().matches(WORDS).count();
        assert!(texts_in_pipe >= texts, "{command}: {piped:?}");
    }
    let roster = on_a_terminal(&bob, COLUMNS, "roster");
    let request = roster.lines().find(|line| line.contains(" asks to come in "));
    assert!(request.is_some_and(|line| line.contains('…')), "{roster}");
    let header = on_a_terminal(&bob, COLUMNS, "log -n 1");
    let header = header.lines().next().unwrap();
    assert!(
        header.ends_with(" · signature valid") && header.contains('…'),
        "{header}"
    );
    // What was said of the width counts more than the terminal's own.
    let said = on_a_terminal(&bob.with("COLUMNS", "200"), COLUMNS, "roster");
    assert!(said.contains(NAME), "{said}");
    // A digest keeps within its lines, however narrow.
    post(&ada, vec![handoff("bob").into()]);
    for _ in 0..40 {
        post(&ada, vec![TextPart { text: WORDS.into() }.into()]);
    }
    let digest = on_a_terminal(&bob, 20, "recv");
    assert!(
        digest.lines().count() < 200 && digest.contains("left out: "),
        "{digest}"
    );
    assert!(digest.starts_with("HANDOFF TO YOU from "), "{digest}");
}

//! Group C: what somebody may type or say, where no other test shows it.

use std::fs;
use std::sync::{Arc, Mutex};

use parler_harness::{Lie, LyingProxy, Snapshot, Told};
use parler_protocol::Head;

use super::stage::{Stage, assert_visible};
use crate::{hub_server, world};

/// With a log whose hashes are all right, in which the signature of both holds.
#[test]
fn c07_a_message_that_the_hub_tells_again_is_not_acted_on_again() {
    let world = world();
    let proxy = LyingProxy::listen();
    let hub = hub_server::start_known_as(&world, proxy.authority());
    proxy.lead_to(hub.authority());
    let agent = |name: &str| world.stranger(name).with("PARLER_HUB", proxy.url());
    let (alice, bob, carol) = (agent("alice"), agent("bob"), agent("carol"));
    for reader in [&bob, &carol] {
        let code = alice.parler("invite --group x").success().word().to_owned();
        reader.parler(["join", &code]).success();
    }
    alice.parler("handoff --room x --next review").success();

    // What the log is and how it ends, as the hub tells it.
    let log = Arc::new(Mutex::new((String::new(), String::new())));
    let noted = Arc::clone(&log);
    proxy.tell(move |asked, told| {
        let body = String::from_utf8_lossy(&told.body).into_owned();
        if asked.line.contains("/messages")
            && let Some((_, rest)) = body.split_once("\"messages\":[{")
            && let Some((message, _)) = rest.split_once("}],\"cursor\"")
            && let Some(head) = told.head.lines().find_map(|line| line.strip_prefix("parler-head: "))
        {
            *noted.lock().unwrap() = (format!("{{{message}}}"), head.to_owned());
        }
        Lie::Truth
    });
    bob.parler("recv --room x").success().says("HANDOFF TO YOU from alice");
    let (message, head) = log.lock().unwrap().clone();
    let head: Head = head.parse().unwrap_or_else(|error| panic!("{error}: {message}"));
    let (first, second) = (head.seq.get(), head.seq.get() + 1);

    // The same once more, as the next message.
    let again = message.replacen(&format!("\"seq\":{first},"), &format!("\"seq\":{second},"), 1);
    assert_ne!(again, message);
    let h = head.h.next(again.as_bytes());
    proxy.tell(move |asked, told| {
        let mut body = String::from_utf8_lossy(&told.body).into_owned();
        if asked.line.contains("/messages") && !asked.line.contains("limit=0") {
            body = match body.contains("\"messages\":[]") {
                true => body.replacen("\"messages\":[", &format!("\"messages\":[{again}"), 1),
                false => body.replacen("],\"cursor\"", &format!(",{again}],\"cursor\""), 1),
            };
        }
        let h = h.to_string();
        body = body.replace(&head.h.to_string(), &h);
        let ends = |seq: u64| format!("\"head\":{{\"seq\":{seq}");
        body = body.replace(&ends(first), &ends(second));
        let head = told.head.replace(&head.to_string(), &format!("{second} {h}"));
        Told { head, body: Vec::new() }.with_body(body.as_bytes())
    });
    let marked = format!("said again by the hub: the same as message {first}");
    // Who has read the first asks for it once more, and no more than that.
    let shown = bob.parler("recv --room x").success();
    shown.says_no("HANDOFF TO YOU").says(&marked);
    assert_visible(&shown, "told again");
    let reads = proxy
        .asked()
        .iter()
        .filter(|asked| asked.line.contains("/messages?"))
        .count();
    assert_eq!(reads, 2, "{:?}", proxy.asked());
    let read = bob.parler("recv --room x --json").success().json();
    assert_eq!(read["handoffs"], serde_json::json!([]), "{read:#}");
    assert_eq!(read["messages"][0]["signature"], "valid", "{read:#}");
    assert_eq!(read["messages"][0]["saidBefore"]["seq"], first, "{read:#}");
    bob.parler(["show", "--room", "x", &second.to_string()])
        .success()
        .says_no("HANDOFF TO YOU")
        .says(&marked);
    bob.parler("log --room x").success().says(&marked);
    let open = bob.parler("status --room x --json").success().json();
    assert_eq!(open["toMe"].as_array().map(Vec::len), Some(1), "{open:#}");
    // Who reads both at once is led by the first.
    let both = carol.parler("recv --room x").success();
    both.says("HANDOFF TO YOU from alice").says(&marked);
    assert_eq!(both.out().matches("HANDOFF TO YOU").count(), 1, "{both:?}");
}

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
    let capitals = user.parler(["apply", &full.to_uppercase()]).either();
    assert!(matches!(capitals.exit_code(), Some(0 | 2 | 3 | 128)), "{capitals:?}");
    user.parler(["apply", full]).success();
}

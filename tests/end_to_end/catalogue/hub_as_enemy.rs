//! A hub that lies about bundles and logs, and sends its clients elsewhere: nothing is imported, it is said plainly, and no
//! token goes anywhere else.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parler_harness::{Agent, Answer, Asked, HubProcess, Lie, LyingProxy, RawClient, Repository, Snapshot, Told, World};
use parler_protocol::{Part, TextPart};
use serde_json::{Value, json};

use super::stage::assert_visible;
use crate::{hub_server, noise, world};

const FETCH: &str = "fetch parler::room/x topic";

/// A room that alice has pushed to, and bob's repository, before whom a proxy stands.
struct Stage<'w> {
    proxy: LyingProxy,
    _hub: HubProcess,
    alice: Agent<'w>,
    work: Repository<'w>,
    bob: Agent<'w>,
    bobs: Repository<'w>,
    tip: String,
}

impl<'w> Stage<'w> {
    fn new(world: &'w World) -> Self {
        let proxy = LyingProxy::listen();
        let hub = hub_server::start_known_as(world, proxy.authority());
        proxy.lead_to(hub.authority());
        let origin = world.origin();
        let (work, bobs) = (world.clone_of(&origin, "work"), world.clone_of(&origin, "bobs"));
        let agent = |name: &str, place: &Repository<'_>| {
            let agent = world.stranger(name).at(place);
            agent.with("PARLER_HUB", proxy.url()).with("PARLER_TIMEOUT", "1")
        };
        let (alice, bob) = (agent("alice", &work), agent("bob", &bobs));
        let code = alice.parler("invite --group x").success().word().to_owned();
        bob.parler(["join", &code]).success();
        std::fs::write(work.path().join("noise"), noise(40_000, 7)).unwrap();
        work.git("add noise").success();
        let tip = work.commit("a.txt", "one\n");
        alice.git("push --quiet parler::room/x HEAD:refs/heads/topic").success();
        Self {
            proxy,
            _hub: hub,
            alice,
            work,
            bob,
            bobs,
            tip,
        }
    }

    /// Bob's fetch fails and leaves nothing; what was asked meanwhile.
    #[track_caller]
    fn refuses(&self, what: &str, rule: impl Fn(&Asked, &Told) -> Lie + Send + Sync + 'static) -> (Answer, Vec<Asked>) {
        let _ = std::fs::remove_dir_all(self.bobs.path().join(".git/parler"));
        let before = Snapshot::of(&self.bobs);
        self.proxy.tell(rule);
        let answer = self.bob.git(FETCH).either();
        assert_eq!(answer.exit_code(), Some(128), "{what}: {answer:?}");
        let said = answer
            .err()
            .lines()
            .filter(|line| !line.starts_with("warning: "))
            .count();
        assert!(said > 0 && said < 4, "{what}: {answer:?}");
        assert_visible(&answer, what);
        println!("{what}: {}", answer.err());
        let asked = self.proxy.asked();
        Snapshot::of(&self.bobs).assert_same_as(&before, &[".git/FETCH_HEAD", ".git/parler"]);
        assert!(!self.bobs.has(&self.tip), "{what}");
        (answer, asked)
    }

    /// All is as it should be again.
    #[track_caller]
    fn succeeds(&self) {
        self.proxy.tell(|_, _| Lie::Truth);
        self.bob.git(FETCH).success();
        assert_eq!(self.bobs.rev("FETCH_HEAD"), self.tip);
        self.bobs.fsck();
    }
}

fn is_bundle(asked: &Asked) -> bool {
    asked.line.contains("/bundles") || asked.line.contains("/blobs/")
}

/// An address that counts who comes to it.
fn elsewhere() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counting.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    (authority, count)
}

#[test]
fn h12_nobody_is_sent_elsewhere() {
    let world = world();
    let stage = Stage::new(&world);
    let (other, visits) = elsewhere();
    let mut cases: Vec<_> = [301, 302, 303, 307, 308]
        .into_iter()
        .flat_map(|status| ["/pushes", "/bundles"].map(|place| (status, format!("http://{other}/v1/x"), place)))
        .collect();
    cases.extend(
        ["file:///etc/passwd", "/v1/rooms", "//127.0.0.1:1/"].map(|target| (302, target.to_owned(), "/bundles")),
    );
    for (status, target, place) in cases {
        let answer = format!("HTTP/1.1 {status} Elsewhere\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        let (_, asked) = stage.refuses(&format!("{status} to {target} at {place}"), move |asked, _| {
            if asked.line.contains(place) || (place == "/bundles" && is_bundle(asked)) {
                Lie::Instead(answer.clone().into_bytes())
            } else {
                Lie::Truth
            }
        });
        let lines: Vec<_> = asked.iter().map(|asked| asked.line.as_str()).collect();
        assert!(
            lines
                .iter()
                .all(|line| !line.ends_with("/v1/x") && !line.ends_with("/v1/rooms")),
            "{lines:?}"
        );
    }
    assert_eq!(visits.load(Ordering::SeqCst), 0, "somebody went elsewhere");
    stage.succeeds();
}

#[test]
fn h05_a_token_goes_to_the_hub_that_gave_it() {
    let world = world();
    let stage = Stage::new(&world);
    stage.succeeds();
    // Another hub at another address: it is asked for a session, and shown none.
    let other = LyingProxy::listen();
    let elsewhere = crate::world();
    let hub = hub_server::start_known_as(&elsewhere, other.authority());
    other.lead_to(hub.authority());
    let address = format!("parler::{}/room/x", other.url());
    stage
        .bob
        .git(["fetch", &address])
        .code(128)
        .warns("no room 'x' that you belong to");
    let asked = other.asked();
    assert!(!asked.is_empty());
    let sessions = asked.iter().position(|asked| asked.header("authorization").is_some());
    let proved = asked.iter().position(|asked| asked.line.ends_with("/v1/session"));
    assert!(
        proved.is_some() && sessions.is_none_or(|first| proved.unwrap() < first),
        "{asked:?}"
    );
    let here: Vec<String> = stage
        .proxy
        .asked()
        .iter()
        .filter_map(|asked| asked.header("authorization").map(str::to_owned))
        .collect();
    for asked in &asked {
        let shown = asked.header("authorization");
        assert!(!here.iter().any(|token| Some(token.as_str()) == shown), "{asked:?}");
    }
}

#[test]
fn h11_bytes_that_are_not_the_bundle_are_not_imported() {
    let world = world();
    let stage = Stage::new(&world);
    // Into the body, however it is framed: into the noise, which is most of it.
    let flipped = |told: &Told| {
        let mut body = told.body.clone();
        let middle = body.len() / 2;
        body[middle] ^= 1;
        Lie::Instead([told.head.as_bytes(), b"\r\n\r\n", &body].concat())
    };
    stage.refuses("a flipped bit", move |asked, told| {
        if is_bundle(asked) { flipped(told) } else { Lie::Truth }
    });
    stage.refuses("half of it, each time", |asked, told| {
        if is_bundle(asked) {
            told.said_to_be(told.body.len(), &told.body[..told.body.len() / 2])
        } else {
            Lie::Truth
        }
    });
    stage.refuses("half of it, said to be all", |asked, told| {
        if is_bundle(asked) {
            told.with_body(&told.body[..told.body.len() / 2])
        } else {
            Lie::Truth
        }
    });
    stage.refuses("nothing", |asked, told| {
        if is_bundle(asked) {
            told.with_body(b"")
        } else {
            Lie::Truth
        }
    });
    stage.refuses("a web page", |asked, told| {
        if is_bundle(asked) {
            told.with_body(b"<!DOCTYPE html>\n<title>Sign in\x1b[2J</title>\n")
        } else {
            Lie::Truth
        }
    });
    stage.refuses("an end that never comes", |asked, told| {
        if is_bundle(asked) {
            let mut other = told.body.clone();
            let middle = other.len() / 2;
            other[middle] ^= 1;
            let head = told.head.lines().filter(|line| {
                let line = line.to_ascii_lowercase();
                !line.starts_with("content-length") && !line.starts_with("transfer-encoding")
            });
            let head = format!("{}\r\n\r\n", head.collect::<Vec<_>>().join("\r\n"));
            Lie::Endless([head.as_bytes(), &other].concat(), vec![b'x'; 1 << 16])
        } else {
            Lie::Truth
        }
    });
    // What was cut is asked for from where it was, and answered with something else.
    for range in ["bytes 0-9/999999", "bytes 7-99/50000", "none", ""] {
        stage.refuses(&format!("another range: {range:?}"), move |asked, told| {
            if !is_bundle(asked) {
                Lie::Truth
            } else if asked.header("range").is_none() {
                told.said_to_be(told.body.len(), &told.body[..told.body.len() / 2])
            } else {
                let body = vec![b'z'; 20_000];
                let head = format!(
                    "HTTP/1.1 206 Partial\r\nContent-Range: {range}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                Lie::Instead([head.as_bytes(), &body].concat())
            }
        });
    }
    stage.succeeds();
}

/// The log as the hub tells it, with something done to its messages.
fn changed(told: &Told, change: impl FnOnce(&mut serde_json::Value)) -> Lie {
    let Ok(mut value) = serde_json::from_slice(&told.body) else {
        return Lie::Truth;
    };
    change(&mut value);
    told.with_body(value.to_string().as_bytes())
}

/// A member signs refs of such names. A hub keeps none of them; where it does, the log is not believed.
#[test]
fn h09_refs_that_no_clone_could_hold_are_neither_kept_nor_shown() {
    let world = world();
    let stage = Stage::new(&world);
    let code = stage.alice.parler("invite --group x").success().word().to_owned();
    let mallory = RawClient::new(&stage.proxy.url(), "mallory");
    let room = mallory.join(&code);
    // Messages that a reader of refs is not told: one of them can be another, signed before it.
    let before = mallory.head(&room);
    let said = mallory.post(&room, vec![text("one")]).unwrap();
    mallory.post(&room, vec![text("two")]).unwrap();
    let moves = |name: &str| -> Part {
        let update = json!({ "name": name, "old": null, "new": stage.tip, "forced": false });
        let refs = json!({ "kind": "com.parler.refs", "updates": [update], "atomic": false, "objectFormat": "sha1" });
        Part::from_value(&refs)
    };
    let stored = |name: &str| {
        let signed = mallory.sign(&room, &before, vec![moves(name)]);
        let mut message: Value = serde_json::from_slice(&signed.body).unwrap();
        let identity = mallory.calls.identity();
        message["seq"] = json!(said.seq);
        message["room"] = json!("x");
        message["from"] = json!({ "id": identity.key.id(), "name": identity.name });
        message["ts"] = json!(1);
        message
    };
    let tells = |message: Value| {
        move |asked: &Asked, told: &Told| {
            let change = |log: &mut Value| {
                log["messages"].as_array_mut().unwrap().push(message.clone());
                log["version"] = message["seq"].clone();
            };
            if asked.line.contains("/pushes") {
                changed(told, change)
            } else {
                Lie::Truth
            }
        }
    };
    let long = format!("refs/heads/{}", "x".repeat(5_000));
    for name in [
        "../x",
        "-x",
        "HEAD",
        "refs/heads/../../x",
        "refs/heads/a.lock",
        "refs/heads/\u{1b}[2J",
        "refs/heads/a b",
        "refs/heads/x\nrefs/heads/y",
        "refs/parler/x",
        &"7".repeat(40),
        &long,
    ] {
        assert!(mallory.post(&room, vec![moves(name)]).is_err(), "{name}");
        let (answer, asked) = stage.refuses(name, tells(stored(name)));
        assert!(answer.err().contains("message"), "{name}: {answer:?}");
        assert!(!asked.iter().any(is_bundle), "{name}: {asked:?}");
    }
    // Where a ref is, none can be below it.
    let below = mallory.post(&room, vec![moves("refs/heads/topic/below")]);
    assert!(below.is_err(), "{below:?}");
    // It is the names that are refused: a proper one is believed, told in the same way.
    stage.proxy.tell(tells(stored("refs/heads/proper")));
    let shown = stage.bob.git("ls-remote parler::room/x").success().out().to_owned();
    assert!(
        shown.contains(&format!("{}\trefs/heads/proper\n", stage.tip)),
        "{shown}"
    );
    let _ = std::fs::remove_dir_all(stage.bobs.path().join(".git/parler"));
    stage.succeeds();
}

fn text(words: &str) -> Part {
    TextPart { text: words.into() }.into()
}

#[test]
fn h18_a_log_that_contradicts_itself_is_not_believed() {
    let world = world();
    let stage = Stage::new(&world);
    for number in 0..3 {
        stage.work.commit("a.txt", &format!("more {number}\n"));
        stage
            .alice
            .git("push --quiet parler::room/x HEAD:refs/heads/topic")
            .success();
    }
    type Change = fn(&mut serde_json::Value);
    let cases: [(&str, Change); 9] = [
        ("a message in another room", |log| {
            log["messages"][1]["room"] = "y".into()
        }),
        ("the log of another room", |log| log["room"] = "y".into()),
        ("the log of another hub", |log| log["hub"] = "7".repeat(32).into()),
        ("a ref that nobody moved", |log| {
            let text = log["messages"][3]
                .to_string()
                .replace("refs/heads/topic", "refs/heads/other");
            log["messages"][3] = serde_json::from_str(&text).unwrap();
        }),
        ("messages in another order", |log| {
            log["messages"].as_array_mut().unwrap().swap(1, 2)
        }),
        ("a message twice", |log| {
            let twice = log["messages"][1].clone();
            log["messages"].as_array_mut().unwrap().insert(2, twice);
        }),
        ("a message less", |log| {
            _ = log["messages"].as_array_mut().unwrap().remove(1)
        }),
        ("another number", |log| log["messages"][1]["seq"] = 900.into()),
        ("another sender", |log| {
            log["messages"][1]["from"]["name"] = "mallory".into()
        }),
    ];
    for (what, change) in cases {
        let (answer, asked) = stage.refuses(what, move |asked, told| {
            if asked.line.contains("/pushes") {
                changed(told, change)
            } else {
                Lie::Truth
            }
        });
        assert!(!asked.iter().any(is_bundle), "{what}: {asked:?}");
        assert!(answer.err().contains("room"), "{what}: {answer:?}");
    }
    // No body at all, JSON that has two meanings, and JSON without an end.
    for (what, body) in [
        ("nothing", String::new()),
        ("deep", "[".repeat(100_000)),
        ("twice", "{\"room\":\"x\",\"room\":\"x\"}".into()),
        ("numbers", "{\"version\":1e400}".into()),
        ("escapes", "\u{1b}[2J".into()),
    ] {
        stage.refuses(what, move |asked, told| {
            if asked.line.contains("/pushes") {
                told.with_body(body.as_bytes())
            } else {
                Lie::Truth
            }
        });
    }
    // The same, written in another way, is the same.
    stage.proxy.tell(|asked, told| {
        if asked.line.contains("/pushes") {
            changed(told, |_| ())
        } else {
            Lie::Truth
        }
    });
    stage.bob.git(FETCH).success();
}

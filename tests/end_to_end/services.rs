//! Jobs for services, as those ask for them who have some: by push and by send. Who works on them is here a client that is
//! steered by hand.

use std::ffi::OsString;
use std::time::Duration;

use parler_client::ReadFrom;
use parler_harness::{Agent, GitCounter, LocalHub, RawClient, Repository, World};
use parler_protocol::api::ClaimedJob;
use parler_protocol::{Fence, Part, Seq, ServiceName, TaskPart, TaskStatus};
use serde_json::{Value, json};

use super::{hub_server, noise, world};

mod cut;
mod following;
mod page;
mod token;

/// A service of the local hub, whoever serves it, and a repository whose agent has jobs.
struct Desk<'w> {
    work: Repository<'w>,
    alice: Agent<'w>,
    worker: RawClient,
    service: ServiceName,
}

impl<'w> Desk<'w> {
    fn new(world: &'w World) -> Self {
        let work = world.clone_of(&world.origin(), "work");
        let alice = work.user();
        alice.parler("connect --as alice").success();
        let worker = LocalHub::of(&alice).raw_client("worker");
        let service: ServiceName = "review".parse().unwrap();
        worker.calls.serve(&service).unwrap();
        work.git("remote add review parler::service/review").success();
        work.git("switch --quiet -c feature").success();
        Self {
            work,
            alice,
            worker,
            service,
        }
    }

    /// The messages of the service's room, as the worker reads them.
    fn log(&self) -> Vec<Value> {
        log_of(&self.worker, &self.service)
    }

    fn last(&self) -> Value {
        self.log().pop().unwrap()
    }

    /// The worker takes the next job.
    #[track_caller]
    fn claim(&self) -> ClaimedJob {
        let claimed = self
            .worker
            .calls
            .claim_job(&self.service, Duration::from_secs(60), Duration::ZERO);
        claimed.unwrap().expect("a job")
    }

    /// The worker says how a job that it has stands.
    #[track_caller]
    fn say(&self, job: &ClaimedJob, status: TaskStatus, note: &str) {
        let message: Value = serde_json::from_str(job.job.get()).unwrap();
        let part = TaskPart {
            status,
            task: Some(message["id"].as_str().unwrap().to_owned()),
            note: (!note.is_empty()).then(|| note.to_owned()),
            result: None,
            tokens: None,
            elapsed_ms: None,
        };
        let room = self.service.room();
        let signed = self
            .worker
            .sign(&room, &self.worker.head(&room), vec![Part::from(part)]);
        let fence = Fence {
            seq: job.seq,
            number: job.fence,
        };
        self.worker
            .calls
            .post_with_fence(&self.service.room(), fence, &signed, None, None)
            .unwrap();
    }

    fn status(&self, number: &str) -> Value {
        let told = self.alice.parler(["status", number, "--service", "review", "--json"]);
        told.success().json()
    }
}

fn log_of(worker: &RawClient, service: &ServiceName) -> Vec<Value> {
    let from = ReadFrom {
        after: Some(Seq::ZERO),
        ..ReadFrom::default()
    };
    let page = worker.calls.messages(&service.room(), &from).unwrap();
    let messages = page.messages.iter();
    messages.map(|raw| serde_json::from_str(raw.get()).unwrap()).collect()
}

fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

/// The one part of this kind.
#[track_caller]
fn part<'m>(message: &'m Value, kind: &str) -> &'m Value {
    let parts = message["parts"].as_array().unwrap();
    let mut those = parts.iter().filter(|part| part["kind"] == kind);
    let one = those.next().unwrap_or_else(|| panic!("no {kind}: {message:#}"));
    assert!(those.next().is_none(), "{message:#}");
    one
}

fn texts(message: &Value) -> Vec<&str> {
    let parts = message["parts"].as_array().unwrap();
    let texts = parts.iter().filter(|part| part["kind"] == "text");
    texts.map(|part| part["text"].as_str().unwrap()).collect()
}

/// What a job's message says of its ref: place, old and new.
fn place(message: &Value) -> (String, Value, Value) {
    let updates = part(message, "com.parler.refs")["updates"].as_array().unwrap();
    let mut made = updates.iter().filter(|update| !update["new"].is_null());
    let update = made.next().unwrap();
    assert!(made.next().is_none(), "{message:#}");
    (
        update["name"].as_str().unwrap().to_owned(),
        update["old"].clone(),
        update["new"].clone(),
    )
}

#[test]
fn a_push_to_a_service_is_a_job_that_needs_nothing_else() {
    let world = world();
    let desk = Desk::new(&world);
    let tip = desk.work.commit("a.txt", "one\n");
    let pushed = desk.work.git(arguments(&[
        "push",
        "-o",
        "next=look at it",
        "-o",
        "note=please",
        "review",
        "feature",
    ]));
    let pushed = pushed.success();
    pushed
        .warns("feature -> feature")
        .warns("git parler status 1 --service review --wait done");
    let job = desk.last();
    assert_eq!(job["from"]["name"], "alice");
    assert_eq!(
        part(&job, "com.parler.dispatch"),
        &json!({ "kind": "com.parler.dispatch", "role": "review" })
    );
    assert_eq!(texts(&job), ["please", "look at it"]);
    let own = || "refs/requests/alice/heads/feature".to_owned();
    assert_eq!(place(&job), (own(), Value::Null, json!(tip)));
    let bundle = part(&job, "com.parler.bundle");
    // A worker has no other remote: what origin has is in it, too.
    assert_eq!(bundle["prerequisites"], Value::Null, "{bundle:#}");
    let names: Vec<_> = bundle["refs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tip| &tip["name"])
        .collect();
    assert_eq!(names, ["HEAD", "refs/heads/feature"]);
    let is_handoff = |part: &Value| part["kind"] == "com.parler.handoff";
    assert!(!job["parts"].as_array().unwrap().iter().any(is_handoff), "{job:#}");

    // What the next job has new is all it brings, and it says what it builds on.
    let next = desk.work.commit("b.txt", "two\n");
    desk.work.git("push --quiet review feature").success();
    let second = desk.last();
    assert_eq!(place(&second), (own(), json!(tip), json!(next)));
    let thin = part(&second, "com.parler.bundle");
    assert_eq!(thin["prerequisites"], json!([tip]));
    assert_eq!(thin["needs"], json!([bundle["blob"]]));

    // git has the branch where it pushed it to, and anybody who is there reads the room.
    assert_eq!(desk.work.rev("review/feature"), next);
    let listed = desk.work.git("ls-remote review").success().listed_refs();
    assert_eq!(listed[&own()], next);
    let empty = world.init("empty", "");
    let alice = desk.alice.at(&empty);
    alice.parler("apply 2 --service review --as alice").success();
    assert!(empty.has(&next));
    empty.fsck();
}

#[test]
fn every_push_is_a_job_also_where_nothing_has_changed() {
    let world = world();
    let desk = Desk::new(&world);
    let tip = desk.work.commit("a.txt", "one\n");
    for _ in 0..2 {
        desk.work.git("push --quiet review feature").success();
    }
    desk.alice.parler("push --service review").success();
    desk.work.git("push --quiet review feature:other").success();
    let log = desk.log();
    assert_eq!(log.len(), 4);
    let [first, second, third, other] = log.as_slice() else {
        panic!()
    };
    for again in [second, third] {
        assert_eq!(
            place(again),
            ("refs/requests/alice/heads/feature".into(), json!(tip), json!(tip))
        );
        assert_eq!(part(again, "com.parler.bundle"), part(first, "com.parler.bundle"));
    }
    // The bundle is the one that was there; what it is called now the message says.
    assert_eq!(
        place(other),
        ("refs/requests/alice/heads/other".into(), Value::Null, json!(tip))
    );
    assert_eq!(part(other, "com.parler.bundle"), part(first, "com.parler.bundle"));

    // A branch that went back is a job as well, and so is a commit in the middle of what was there.
    desk.work.commit("b.txt", "two\n");
    desk.work.git("push --quiet review feature").success();
    desk.work.git(["reset", "--quiet", "--hard", "HEAD~2"]).success();
    let back = desk.work.rev("HEAD");
    desk.work.git("push --quiet review feature").success();
    let rewound = desk.last();
    assert_eq!(place(&rewound).2, json!(back));
    assert_eq!(part(&rewound, "com.parler.refs")["updates"][0]["forced"], true);
    let bundle = part(&rewound, "com.parler.bundle");
    assert!(
        bundle["refs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tip| tip["oid"] == json!(back)),
        "{bundle:#}"
    );
    let empty = world.init("empty", "");
    desk.alice
        .at(&empty)
        .parler("apply 6 --service review --as alice")
        .success();
    assert!(empty.has(&back));
}

#[test]
fn requesters_are_in_nobodys_way_and_build_on_nobody() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    desk.work.git("push --quiet review feature").success();
    let bobs = world.clone_of(&world.origin(), "bobs");
    let bob = bobs.user();
    bob.parler("connect --as bob/heads").success();
    // What alice has pushed is here, and in the room: bob's job does without it all the same.
    bobs.git(["fetch", "--quiet", desk.work.path().to_str().unwrap(), "feature"])
        .success();
    bobs.git("switch --quiet -c feature FETCH_HEAD").success();
    bobs.commit("b.txt", "bob\n");
    bobs.git("push --quiet parler::service/review feature").success();
    let job = desk.last();
    assert_eq!(place(&job).0, "refs/requests/bob%2fheads/heads/feature");
    let bundle = part(&job, "com.parler.bundle");
    assert_eq!(
        (&bundle["prerequisites"], &bundle["needs"]),
        (&Value::Null, &Value::Null),
        "{bundle:#}"
    );
    let listed = desk.work.git("ls-remote review").success().listed_refs();
    assert_eq!(listed["refs/requests/alice/heads/feature"], desk.work.rev("feature"));

    // What was once made against another remote is nothing to build on either.
    let service: ServiceName = "second".parse().unwrap();
    desk.worker.calls.serve(&service).unwrap();
    desk.work
        .git("push --quiet -o base=origin/main parler::service/second feature")
        .success();
    desk.work.commit("c.txt", "more\n");
    desk.work.git("push --quiet parler::service/second feature").success();
    let log = log_of(&desk.worker, &service);
    let prerequisites = |job: &Value| part(job, "com.parler.bundle")["prerequisites"].clone();
    assert_eq!(prerequisites(&log[0]), json!([desk.work.rev("origin/main")]));
    assert_eq!(prerequisites(&log[1]), Value::Null);

    // A name that becomes a directory: what had it gives way.
    desk.work.git("branch --quiet -m feature feature/one").success();
    desk.work.git("push --quiet review feature/one").success();
    let listed = desk.work.git("ls-remote review").success().listed_refs();
    assert!(
        listed.contains_key("refs/requests/alice/heads/feature/one"),
        "{listed:?}"
    );
    assert!(!listed.contains_key("refs/requests/alice/heads/feature"), "{listed:?}");
}

#[test]
fn one_push_is_one_branch_or_tag() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    for (arguments, words) in [
        ("push review feature main", "one push to a service is one job"),
        ("push --atomic review feature main", "one push to a service is one job"),
        ("push review HEAD:refs/notes/x", "a job is a branch or a tag"),
        ("push -o for=bob review feature", "push option 'for' is for a handoff"),
        (
            "push -o next=x -o summary=y review feature",
            "push option 'summary' is for a handoff",
        ),
    ] {
        desk.work.git(arguments).failure().warns(words);
    }
    // git knows of no such ref there; told that there is one it is our turn.
    desk.work.git("push review :feature").failure();
    for (arguments, words) in [
        ("push --service review feature main", "one push to a service is one job"),
        ("push --service review HEAD:refs/notes/x", "a job is a branch or a tag"),
        ("push --service review :feature", "nothing is deleted at a service"),
        (
            "push --service review --delete feature",
            "--delete is for a room's refs",
        ),
        (
            "push --service review --force-with-lease feature",
            "--force-with-lease is for a room's refs",
        ),
        ("push --service review --next x --for bob", "--for is for a handoff"),
        (
            "push --service review --room try",
            "--service and --room name two rooms",
        ),
        ("send --service review --to bob x", "--to and --service name two rooms"),
        ("push --service a/b", "service name \"a/b\""),
    ] {
        let refused = desk.alice.parler(arguments).code(2);
        assert!(refused.one_error_line().contains(words), "{arguments}: {refused:?}");
    }
    assert!(desk.log().is_empty());
    // A tag is a job, and so is a branch of another name; a dry run is none.
    desk.work.git("tag -a -m one v1").success();
    desk.work.git("push --quiet --dry-run review v1").success();
    desk.alice
        .parler("push --service review --dry-run")
        .success()
        .says("nothing was sent");
    assert!(desk.log().is_empty());
    desk.work.git("push --quiet review v1").success();
    assert_eq!(place(&desk.last()).0, "refs/requests/alice/tags/v1");
    let told = desk
        .alice
        .parler("push --service review --json HEAD:refs/heads/x")
        .success()
        .json();
    assert_eq!(
        (&told["seq"], &told["service"]),
        (&json!(2), &json!("review")),
        "{told:#}"
    );
    assert_eq!(told["refs"][0]["name"], "refs/requests/alice/heads/x");
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    let words = "no service 'nosuch' on this hub, or none for you";
    for command in ["push", "fetch", "ls-remote"] {
        let refspec = if command == "push" { "feature" } else { "" };
        let refused = desk
            .work
            .git(format!("{command} parler::service/nosuch {refspec}"))
            .failure();
        refused
            .warns(&format!("fatal: {words}"))
            .warns("git parler serve nosuch");
    }
    for command in [
        "push",
        "send x",
        "send --queue x",
        "recv",
        "log",
        "status",
        "status 1",
        "cancel 1",
        "show 1",
        "roster",
    ] {
        let refused = desk.alice.parler(format!("{command} --service nosuch")).code(3);
        assert!(refused.one_error_line().contains(words), "{command}: {refused:?}");
    }
    assert!(
        desk.alice.parler("outbox --json").success().json()["waiting"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Also where its bundle is uploaded before its message.
#[test]
fn who_was_never_there_may_begin_with_a_large_job() {
    let world = world();
    let hub = hub_server::start(&world);
    let worker = RawClient::new(&hub.url(), "worker");
    let service: ServiceName = "build".parse().unwrap();
    worker.calls.serve(&service).unwrap();
    let work = world.clone_of(&world.origin(), "work");
    let alice = world.stranger("alice").on(&hub).at(&work);
    work.write("large.bin", noise(9 << 20, 1));
    work.git("add large.bin").success();
    let tip = work.commit("a.txt", "one\n");
    alice.git("push --quiet parler::service/build main").success();
    let log = log_of(&worker, &service);
    assert_eq!(log.len(), 1);
    assert_eq!(place(&log[0]).2, json!(tip));
    assert!(part(&log[0], "com.parler.bundle")["size"].as_u64().unwrap() > 9 << 20);
    // A service that is not there takes no bytes.
    let refused = alice.git("push parler::service/nosuch main").failure();
    refused.warns("no service 'nosuch' on this hub");
}

#[test]
fn a_job_may_be_without_code() {
    let world = world();
    let desk = Desk::new(&world);
    let sent = desk.alice.parler("send --service Review look").success();
    sent.says("job 1 for service review");
    desk.work.write("notes.txt", "notes\n");
    let words = [
        "send",
        "--service",
        "review",
        "--file",
        "notes.txt",
        "--json",
        "with this",
    ];
    let told = desk.alice.parler(arguments(&words)).success().json();
    assert_eq!(
        (&told["seq"], &told["service"], &told["room"]),
        (&json!(2), &json!("review"), &json!("svc.review"))
    );
    desk.alice.parler("send --service review --queue later").success();
    let log = desk.log();
    assert_eq!(
        log.iter().map(texts).collect::<Vec<_>>(),
        [["look"], ["with this"], ["later"]]
    );
    assert_eq!(part(&log[1], "com.parler.file")["name"], "notes.txt");
    for job in &log {
        assert_eq!(part(job, "com.parler.dispatch")["role"], "review");
    }
    let two = [
        "send",
        "--service",
        "review",
        "--file",
        "notes.txt",
        "--file",
        "notes.txt",
    ];
    let refused = desk.alice.parler(arguments(&two)).code(2);
    assert!(
        refused.one_error_line().contains("a job brings one file"),
        "{refused:?}"
    );
    // All are there to be taken.
    for seq in 1..=3 {
        let job = desk
            .worker
            .calls
            .claim_job(&desk.service, Duration::from_secs(60), Duration::ZERO);
        assert_eq!(job.unwrap().unwrap().seq, Seq::new(seq));
    }
}

#[test]
fn a_job_asked_for_in_a_job_says_so_and_goes_in_no_circle() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    let within = |chain: &str, room: &str| {
        let agent = desk.alice.with("PARLER_JOB_ROOM", room);
        agent.with("PARLER_JOB_SEQ", "4").with("PARLER_JOB_CHAIN", chain)
    };
    within("build,test", "svc.test")
        .parler("send --service review x")
        .success();
    within("build,test", "svc.test")
        .git("push --quiet review feature")
        .success();
    for job in desk.log() {
        let dispatch = part(&job, "com.parler.dispatch");
        assert_eq!(dispatch["causedBy"], json!({ "room": "svc.test", "seq": 4 }));
        assert_eq!(dispatch["chain"], json!(["build", "test"]));
    }
    for (chain, room, words) in [
        ("review,test", "svc.test", "the job comes back to review"),
        ("a,b,c,d", "svc.d", "more than 3 jobs stand above this one"),
    ] {
        let agent = within(chain, room);
        let refused = agent.parler("send --service review x").code(7);
        assert!(refused.one_error_line().contains(words), "{refused:?}");
        agent.git("push review feature").failure().warns(words);
    }
    for (chain, room, name) in [
        ("", "svc.test", "PARLER_JOB_CHAIN"),
        ("a b", "svc.test", "PARLER_JOB_CHAIN"),
        ("test", "a b", "PARLER_JOB_ROOM"),
    ] {
        let agent = within(chain, room);
        for refused in [
            agent.parler("send --service review x").code(2),
            agent.parler("push --service review").code(2),
            agent.git("push review feature").failure(),
        ] {
            refused.warns(name);
        }
    }
    assert_eq!(desk.log().len(), 2);
}

#[test]
fn a_job_costs_what_a_push_costs() {
    let world = world();
    let desk = Desk::new(&world);
    let counter = GitCounter::new(&world);
    let agent = desk.alice.counted_by(&counter);
    let hub = LocalHub::of(&agent);
    let cost = || {
        counter.take();
        let mark = hub.log().mark();
        agent.git("push --quiet review feature").success();
        (hub.log().since(mark), counter.take())
    };
    // The first brings all of the history, which git packs.
    for (number, status, packed) in [(1, "404", 1), (2, "200", 0)] {
        desk.work.commit("a.txt", &format!("{number}\n"));
        let (requests, children) = cost();
        let expected = [
            format!("GET /v1/rooms/{{room}}/pushes {status}"),
            "POST /v1/rooms/{room}/messages 201".to_owned(),
        ];
        assert_eq!(requests, expected);
        assert_eq!(children.len(), packed, "{children:#?}");
    }
    // One that brings nothing new needs nothing packed.
    let (requests, children) = cost();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!(children, [""; 0]);
}

/// Several programs of one agent, as its hooks might start them: none of them is refused for another.
#[test]
fn the_same_branch_may_be_asked_for_by_several_at_once() {
    let world = world();
    let desk = Desk::new(&world);
    let tip = desk.work.commit("a.txt", "one\n");
    desk.work.git("push --quiet review feature").success();
    desk.work.git("branch --quiet older HEAD~1").success();
    let pushes: Vec<_> = ["feature", "older:feature", "feature", "older:feature"]
        .iter()
        .map(|refspec| {
            desk.alice
                .start_git(["push", "--quiet", "parler::service/review", refspec])
        })
        .collect();
    for push in pushes {
        push.wait().success();
    }
    let log = desk.log();
    assert_eq!(log.len(), 5);
    for pair in log.windows(2) {
        assert_eq!(place(&pair[1]).1, place(&pair[0]).2, "{pair:#?}");
    }
    assert_eq!(log.iter().filter(|job| place(job).2 == json!(tip)).count(), 3);
}

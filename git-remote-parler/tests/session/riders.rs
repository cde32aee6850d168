//! The library's push and fetch as the command line uses them: parts that ride along, bundles without refs, bundles by id.

use git_remote_parler::fetch::{FetchError, FetchPolicy, Fetcher};
use git_remote_parler::push::{
    Force, LooseTip, PushPolicy, PushReport, PushRequest, Pusher, RefChange, RefOutcome, RoomLookup,
};
use git_remote_parler::repository::Repository;
use git_remote_parler::room::Room;
use git_remote_parler::room_cache::RoomCache;
use parler_client::ReadFrom;
use parler_protocol::{BundleId, HandoffPart, Message, Part, RoomName, Seq, Verdict, verify};

use crate::sandbox::Repo;
use crate::world::{Agent, World, is_complete, refs};

fn room() -> RoomName {
    "x".parse().unwrap()
}

fn run(agent: &Agent, repository: &Repo<'_>, request: &PushRequest<'_>) -> PushReport {
    let opened = Repository::open(agent.git.clone(), &repository.git_dir()).unwrap();
    let policy = PushPolicy {
        create_room: true,
        ..PushPolicy::default()
    };
    let (client, room, cache) = (agent.client(), room(), RoomCache::none());
    let pusher = Pusher::new(&opened, &client, &room, &policy, &cache);
    pusher.push(request, RoomLookup::Unread).unwrap()
}

fn change(refspec: &str) -> RefChange {
    let (source, destination) = refspec.split_once(':').unwrap();
    RefChange {
        destination: destination.parse().unwrap(),
        source: Some(source.to_owned()),
        force: Force::No,
    }
}

fn handoff(bundle: Option<BundleId>) -> Vec<Part> {
    vec![
        HandoffPart {
            next: "review".into(),
            summary: None,
            to: None,
            bundle,
            ..HandoffPart::default()
        }
        .into(),
    ]
}

/// The newest message of the room, whose signature must be valid.
fn newest(agent: &Agent) -> Message {
    let client = agent.client();
    let all = ReadFrom {
        after: Some(Seq::ZERO),
        ..ReadFrom::default()
    };
    let page = client.messages(&room(), &all).unwrap();
    let message = Message::parse(page.messages.last().unwrap().get().as_bytes()).unwrap();
    assert_eq!(verify(&message, &client.hub_id().unwrap()), Verdict::Valid);
    message
}

fn kinds(message: &Message) -> Vec<&str> {
    message
        .parts
        .iter()
        .map(|part| part.kind().trim_start_matches("com.parler."))
        .collect()
}

#[test]
fn code_refs_and_instruction_are_one_message_or_none() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    repository.commit("a", "2\n");
    let extra = &handoff;
    let request = |changes: &[&str]| PushRequest {
        changes: changes.iter().map(|refspec| change(refspec)).collect(),
        extra: Some(extra),
        mentions: vec!["bob".into()],
        ..PushRequest::default()
    };
    let report = run(&agent, &repository, &request(&["HEAD:refs/heads/main"]));
    let message = newest(&agent);
    assert_eq!(kinds(&message), ["bundle", "refs", "handoff", "seen", "sig"]);
    assert_eq!(message.mentions, ["bob"]);
    let Part::Handoff(handed) = &message.parts[2] else {
        panic!("{message:?}")
    };
    assert_eq!(handed.bundle, report.bundle_id);
    assert!(report.bundle_id.is_some() && report.room_created);
    assert_eq!(report.pins.len(), 2);

    // Nothing new: the instruction is posted all the same, about the bundle that the room has.
    let again = run(&agent, &repository, &request(&["HEAD:refs/heads/main"]));
    assert_eq!(again.refs[0].outcome, RefOutcome::UpToDate);
    assert_eq!((again.bundle_id, again.bundle), (report.bundle_id, None));
    assert_eq!(kinds(&newest(&agent)), ["handoff", "seen", "sig"]);

    // One ref refused: no message, and the other ref stays where it was.
    repository.commit("b", "1\n");
    let refused = run(
        &agent,
        &repository,
        &request(&["HEAD~2:refs/heads/main", "HEAD:refs/heads/other"]),
    );
    assert_eq!(refused.posted, None);
    assert!(
        refused
            .refs
            .iter()
            .all(|found| matches!(found.outcome, RefOutcome::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(newest(&agent).seq, Seq::new(2));
}

#[test]
fn a_bundle_without_refs_is_posted_applied_and_pinned() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    let middle = ours.commit("a", "2\n");
    ours.commit("a", "3\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let loose = PushRequest {
        loose: vec![LooseTip {
            name: "HEAD".parse().unwrap(),
            revision: "HEAD~1".into(),
        }],
        extra: Some(&handoff),
        ..PushRequest::default()
    };
    // In the middle of what the room has: it gets a name of its own.
    let report = run(&alice, &ours, &loose);
    assert_eq!(kinds(&newest(&alice)), ["bundle", "handoff", "seen", "sig"]);
    let id = report.bundle_id.unwrap();
    assert_eq!(report.bundle.as_ref().unwrap().commits, 1);
    assert_eq!(run(&alice, &ours, &loose).bundle_id, Some(id));

    let theirs = world.sandbox.init("theirs", &[]);
    let opened = Repository::open(bob.git.clone(), &theirs.git_dir()).unwrap();
    let (client, policy) = (bob.client(), FetchPolicy::default());
    let found = Room::read(&client, &room(), &RoomCache::none()).unwrap();
    let fetcher = Fetcher::new(&opened, &client, &found.state, &policy);
    // It builds on a commit in the middle of the first bundle, which is therefore fetched too.
    let fetched = fetcher.apply(&[id]).unwrap();
    assert_eq!(fetched.bundles.len(), 2, "{fetched:?}");
    assert_eq!(fetched.bundles[1].pins[0].name, format!("refs/parler/{}", id.short()));
    assert!(is_complete(&theirs, &[middle]));
    assert_eq!(refs(&theirs, "refs/parler/").len(), 4);
    // Again, and after a pin was lost.
    fetcher.apply(&[id]).unwrap();
    theirs.git(&["update-ref", "-d", &format!("refs/parler/{}", id.short())]);
    fetcher.apply(&[id]).unwrap();
    assert_eq!(refs(&theirs, "refs/parler/").len(), 4);
    let unknown = fetcher.apply(&[BundleId::of(b"nothing")]).unwrap_err();
    assert!(matches!(unknown, FetchError::UnknownBundle { .. }));
}

#[test]
fn a_full_push_stands_alone() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (_, ours) = world.origin_and_clone("ours");
    let tip = ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let request = PushRequest {
        loose: vec![LooseTip {
            name: "refs/heads/topic".parse().unwrap(),
            revision: "HEAD".into(),
        }],
        full: true,
        ..PushRequest::default()
    };
    let report = run(&alice, &ours, &request);
    assert_eq!(report.bundle.unwrap().prerequisites, []);
    let empty = world.sandbox.init("empty", &[]);
    bob.fetches(&empty, &["refs/heads/topic"]);
    assert!(is_complete(&empty, &[tip]));
}

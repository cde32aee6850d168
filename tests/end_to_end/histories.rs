//! Real pushes and messages posted by hand race for one branch while others read: what all of them saw has one order, and it
//! is the log's (`parler_harness::History`).

use std::collections::BTreeMap;
use std::thread;

use parler_client::ClientError;
use parler_harness::{Agent, Event, History, PlainHttp, RawClient, Repository, audit_room, read_log};
use parler_protocol::api::RefList;
use parler_protocol::{ErrorCode, Head, ObjectFormat, Oid, RefName, RefUpdate, RefsPart, RoomName, paths};

use super::{hub_server, world};

const PUSHERS: usize = 2;
/// Pushes that each tries.
const PUSHES: usize = 10;

/// The branch that all want to move.
fn shared() -> RefName {
    "refs/heads/shared".parse().unwrap()
}

/// Puts commits on the shared branch, each on what it has just fetched.
fn push(place: &Repository<'_>, agent: &Agent<'_>, history: &History, number: usize) {
    for round in 0..PUSHES {
        agent.git("fetch --quiet parler::room/history shared").success();
        let base = place.rev("FETCH_HEAD");
        let message = format!("round {round} of {number}");
        let tree = format!("{base}^{{tree}}");
        let commit = place.ask(["commit-tree", "-p", &base, "-m", &message, &tree]);
        history.record(|| {
            let pushed = agent
                .git(format!("push parler::room/history {commit}:refs/heads/shared"))
                .either();
            let event = if pushed.is_success() {
                Event::Moved {
                    name: shared(),
                    to: commit.parse().unwrap(),
                }
            } else {
                assert!(pushed.err().contains("rejected]"), "{pushed:?}");
                Event::Refused {
                    name: shared(),
                    expected: Some(base.parse().unwrap()),
                    actual: None,
                }
            };
            ((), Some(event))
        });
    }
}

fn read_refs(http: &PlainHttp, history: &History, room: &RoomName) -> BTreeMap<RefName, Oid> {
    history.record(|| {
        let answer = http.get(&paths::refs(room));
        let list: RefList = serde_json::from_slice(&answer.body).unwrap();
        let refs: BTreeMap<_, _> = list.refs.into_iter().map(|entry| (entry.name, entry.oid)).collect();
        let head: Head = answer.field(paths::HEAD_HEADER).unwrap().parse().unwrap();
        let event = Event::SawRefs {
            seq: head.seq.get(),
            refs: refs.clone(),
        };
        (refs, Some(event))
    })
}

/// Sets the branch back to where it began, unless somebody has moved it meanwhile.
fn set_back(poster: &RawClient, history: &History, room: &RoomName, from: Oid, to: Oid) {
    let update = RefUpdate {
        name: shared(),
        old: Some(from),
        new: Some(to),
        forced: true,
        peeled: None,
    };
    let part = RefsPart {
        updates: vec![update],
        atomic: false,
        object_format: ObjectFormat::Sha1,
        head: None,
        base_hint: None,
    };
    let signed = poster.sign(room, &poster.head(room), vec![part.into()]);
    history.record(|| {
        let event = match poster.calls.post(room, &signed, None, None) {
            Ok(posted) => Event::Stored {
                id: posted.id,
                seq: posted.seq.get(),
            },
            Err(ClientError::Problem(problem)) if problem.code == ErrorCode::RefMoved => Event::Refused {
                name: shared(),
                expected: Some(from),
                actual: Some(problem.conflicts[0].actual),
            },
            Err(error) => panic!("{error:?}"),
        };
        ((), Some(event))
    });
}

#[test]
fn what_pushers_posters_and_readers_saw_has_one_order() {
    let world = world();
    let hub = hub_server::start(&world);
    let origin = world.origin();
    let owner = world.stranger("owner").on(&hub);
    let code = owner.parler("invite --group history").success().word().to_owned();
    let places: Vec<_> = (0..PUSHERS)
        .map(|number| {
            let place = world.clone_of(&origin, &format!("place{number}"));
            let agent = world.stranger(&format!("agent{number}")).on(&hub).at(&place);
            agent.parler(["join", &code]).success();
            (place, agent)
        })
        .collect();
    let room: RoomName = "history".parse().unwrap();
    let (place, agent) = &places[0];
    agent
        .git("push --quiet parler::room/history HEAD:refs/heads/shared")
        .success();
    let start: Oid = place.rev("HEAD").parse().unwrap();

    let poster = RawClient::new(&hub.url(), "poster");
    poster.join(&code);
    let http = PlainHttp {
        authority: hub.authority().to_owned(),
        token: poster.calls.open_session().unwrap().token,
    };
    let id = poster.calls.hub_id().unwrap();
    let before = read_log(&poster.calls, &id, &room).messages.len();
    let history = History::default();
    thread::scope(|scope| {
        let pushing: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(number, (place, agent))| {
                let history = &history;
                scope.spawn(move || push(place, agent, history, number))
            })
            .collect();
        // Each time that somebody has moved the branch, as long as they do.
        while pushing.iter().any(|pusher| !pusher.is_finished()) {
            let at = read_refs(&http, &history, &room)[&shared()];
            if at != start {
                set_back(&poster, &history, &room, at, start);
            }
        }
    });

    let log = audit_room(&poster.calls, &http, &room);
    if let Err(anomaly) = history.check(&log, before) {
        panic!("{anomaly}");
    }
    let moved = log.messages.len() - before;
    assert!(
        moved > PUSHES && history.len() > moved,
        "{moved} moves: this showed nothing"
    );
}

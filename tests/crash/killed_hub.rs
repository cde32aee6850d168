//! A hub is ended again and again while agents post and push, and started again on the same data.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{DEADLINE, HubProcess, RawClient, SetOnDrop, World, read_log};
use parler_protocol::api::{CreateInvite, RefList};
use parler_protocol::{BundleId, Oid, RefName, RoomName};

use super::busy_agent::BusyAgent;
use super::memory::Memory;

const AGENTS: u64 = 6;
const KILLS: u64 = 40;
/// However slow the machine: after this long the hub has been ended often enough.
const LONGEST: Duration = Duration::from_secs(60);

#[test]
fn what_was_acknowledged_is_there_once_and_in_order() {
    let world = World::new("/no/program/is/needed");
    let mut hub = HubProcess::start(&world, "hub", HubProcess::program(env!("CARGO_BIN_EXE_parler-hub")));
    let room: RoomName = "crash".parse().unwrap();
    let owner = RawClient::new(&hub.url(), "owner");
    let invite = CreateInvite {
        room: room.clone(),
        ttl_secs: None,
        max_uses: None,
        approve: false,
    };
    let code = owner.calls.create_invite(&invite).unwrap().code.to_string();
    let id = owner.calls.hub_id().unwrap();

    // What all agents together were told, and would hold against the hub.
    let memory = Arc::new(Memory::default());
    let before = hub.log().mark();
    let stop = AtomicBool::new(false);
    let (progress, acknowledgements) = mpsc::channel();
    let worked: Vec<_> = thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|number| {
                let (stop, progress, memory) = (&stop, progress.clone(), &memory);
                let (url, code, room) = (hub.url(), code.clone(), room.clone());
                scope.spawn(move || {
                    let mut client = RawClient::new(&url, &format!("agent{number}"));
                    client.calls = client.calls.seen_by(memory.clone());
                    client.join(&code);
                    let agent = BusyAgent::new(client, room, number);
                    progress.send(()).unwrap();
                    agent.work(stop, &progress)
                })
            })
            .collect();
        let end = SetOnDrop(&stop);
        for _ in 0..AGENTS {
            acknowledgements.recv_timeout(DEADLINE).expect("every agent joins");
        }
        let began = Instant::now();
        for kill in 0..KILLS {
            // Sometimes at once, sometimes in full swing.
            for _ in 0..kill * 37 % 101 {
                acknowledgements
                    .recv_timeout(DEADLINE)
                    .expect("the agents make progress");
            }
            hub.kill();
            hub.restart();
            if began.elapsed() > LONGEST {
                break;
            }
        }
        acknowledgements
            .recv_timeout(DEADLINE)
            .expect("the agents make progress after the last start");
        drop(end);
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });

    let log = read_log(&owner.calls, &id, &room);
    memory.assert_agrees_with(&log);
    let mut acknowledged = 0;
    let mut branches: BTreeMap<RefName, Oid> = BTreeMap::new();
    for work in worked {
        let mut last = None;
        for post in work.acknowledged {
            assert_eq!(log.seq_of(post.id), Some(post.seq));
            assert!(last < Some(post.seq), "an agent's messages keep their order");
            last = Some(post.seq);
            if let Some(id) = &post.blob {
                let mut bytes = Vec::new();
                owner.calls.blob(&room, id).unwrap().read_to_end(&mut bytes).unwrap();
                assert_eq!(BundleId::of(&bytes), *id);
            }
            acknowledged += 1;
        }
        branches.extend(work.at.map(|oid| (work.branch, oid)));
    }
    assert_eq!(
        log.messages.len() as u64,
        acknowledged,
        "every message was acknowledged in the end, so there are no more"
    );
    assert_eq!(log.refs, branches);
    assert!(acknowledged > 100, "only {acknowledged} messages: this showed nothing");
    let answers = hub.log().since(before);
    let repetitions = answers
        .iter()
        .filter(|answer| *answer == "POST /v1/rooms/{room}/messages 200")
        .count();
    println!("{acknowledged} messages, of which {repetitions} were there already when they were repeated");

    // What the hub folded itself is what its log folds to.
    let token = owner.calls.open_session().unwrap().token;
    let answer = hub.get(&format!("/v1/rooms/{room}/refs"), &token);
    let list: RefList = serde_json::from_slice(&answer).unwrap();
    let folded: BTreeMap<RefName, Oid> = list.refs.into_iter().map(|entry| (entry.name, entry.oid)).collect();
    assert_eq!(folded, log.refs);
}

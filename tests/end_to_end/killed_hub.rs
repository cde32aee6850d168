//! Real pushes and sends while the hub is ended again and again: what git and the command line called done is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{DEADLINE, Gate, LocalHub, RawClient, SetOnDrop, read_log};
use parler_protocol::Part;

use super::{hub_server, no_doubts, world};

const AGENTS: usize = 3;
const KILLS: usize = 8;
/// However slow the machine: after this long the hub has been ended often enough.
const LONGEST: Duration = Duration::from_secs(40);

#[test]
fn what_git_called_pushed_is_in_the_room() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let origin = world.origin();
    let owner = world.stranger("owner").on(&hub);
    let code = owner.parler("invite --group crash").success().word().to_owned();
    let places: Vec<_> = (0..AGENTS)
        .map(|number| {
            let place = world.clone_of(&origin, &format!("place{number}"));
            let agent = world.stranger(&format!("agent{number}")).on(&hub).at(&place);
            agent.parler(["join", &code]).success();
            agent
                .git(format!("push --quiet parler::room/crash HEAD:refs/heads/agent{number}"))
                .success();
            (place, agent)
        })
        .collect();

    let stop = AtomicBool::new(false);
    let (progress, rounds) = mpsc::channel();
    let done: Vec<(Vec<String>, Vec<String>)> = thread::scope(|scope| {
        let working: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(number, (place, agent))| {
                let (stop, progress) = (&stop, progress.clone());
                scope.spawn(move || {
                    let (mut pushed, mut sent) = (Vec::new(), Vec::new());
                    for round in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let commit = place.commit("work.txt", &format!("round {round} of {number}\n"));
                        let push = agent
                            .git(format!("push parler::room/crash HEAD:refs/heads/agent{number}"))
                            .either();
                        if push.is_success() {
                            pushed.push(commit);
                        }
                        let text = format!("text {round} of {number}");
                        let send = agent.parler(["send", "--room", "crash", &text]).either();
                        if send.is_success() {
                            sent.push(text);
                        } else {
                            assert_eq!(send.exit_code(), Some(5), "{send:?}");
                        }
                        // The test that listens may be at its end already.
                        let _ = progress.send(());
                    }
                    (pushed, sent)
                })
            })
            .collect();
        let end = SetOnDrop(&stop);
        let began = Instant::now();
        for kill in 0..KILLS {
            // Some work between two ends, more or less of it.
            for _ in 0..=kill % AGENTS {
                rounds.recv_timeout(DEADLINE).expect("the agents make progress");
            }
            if began.elapsed() > LONGEST {
                break;
            }
            hub.kill();
            hub.restart();
        }
        drop(end);
        working.into_iter().map(|agent| agent.join().unwrap()).collect()
    });

    let reader = RawClient::new(&hub.url(), "reader");
    let room = reader.join(&code);
    let log = read_log(&reader.calls, &reader.calls.hub_id().unwrap(), &room);
    let moves: Vec<String> = log
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| if let Part::Refs(refs) = part { Some(refs) } else { None })
        .flat_map(|refs| refs.updates.iter().filter_map(|update| update.new))
        .map(|oid| oid.to_string())
        .collect();
    let texts: Vec<&str> = log
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| {
            if let Part::Text(text) = part {
                Some(text.text.as_str())
            } else {
                None
            }
        })
        .collect();
    let once = |found: usize, what: &str| assert_eq!(found, 1, "{what}");
    for (number, (pushed, sent)) in done.iter().enumerate() {
        assert!(
            !pushed.is_empty() && !sent.is_empty(),
            "agent {number} got nothing done"
        );
        for commit in pushed {
            once(moves.iter().filter(|new| *new == commit).count(), commit);
        }
        for text in sent {
            once(texts.iter().filter(|other| *other == text).count(), text);
        }
        // Whatever the last outcome was, the next push goes through, and everything can be fetched.
        let (place, agent) = &places[number];
        agent
            .git(format!("push --quiet parler::room/crash HEAD:refs/heads/agent{number}"))
            .success();
        let copy = world.clone_of(&origin, &format!("copy{number}"));
        agent
            .at(&copy)
            .git(format!("fetch --quiet parler::room/crash agent{number}"))
            .success();
        assert_eq!(copy.rev("FETCH_HEAD"), place.rev("HEAD"));
        copy.fsck();
        no_doubts(agent);
    }
}

#[test]
fn a_local_hub_that_ends_in_the_middle_of_a_push_is_there_for_the_next() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    let first = LocalHub::of(&work.user());
    let tip = work.commit("a.txt", "one\n");
    let mut gate = Gate::before_pushes(&world, &work);
    let push = gate
        .holds_pushes_of(&work.user())
        .start_git("push parler::room/try HEAD:refs/heads/x");
    gate.wait_for_arrival();
    first.kill(&world);
    gate.open();
    let push = push.wait().either();
    if !push.is_success() {
        // The port is the hub's, which nobody serves at the moment.
        push.warns(&first.url).warns("run the same git command again");
    }
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    assert_eq!(super::room_refs(&work.user(), "try")["refs/heads/x"], tip);
    assert_eq!(LocalHub::of(&work.user()).id, first.id);
}

//! Two agents push to one branch at the same moment: exactly one wins, every time.

use parler_harness::{Gate, LocalHub, Repository, read_log};
use parler_protocol::{Oid, Part};

use super::{no_doubts, world};

const ROUNDS: usize = 100;

struct Racer<'w> {
    place: Repository<'w>,
    gate: Gate,
}

#[test]
fn of_two_pushes_at_one_moment_one_wins_and_one_is_told_in_gits_words() {
    let world = world();
    let origin = world.origin();
    let mut racers = ["one", "two"].map(|name| {
        let place = world.clone_of(&origin, name);
        place.git("remote add team parler::room/race").success();
        let gate = Gate::before_pushes(&world, &place);
        Racer { place, gate }
    });
    racers[0].place.git("push --quiet team HEAD:refs/heads/main").success();

    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        for (number, racer) in racers.iter().enumerate() {
            racer.place.git("fetch --quiet team").success();
            racer.place.git("reset --quiet --hard team/main").success();
            racer.place.commit("turn.txt", &format!("round {round} of {number}\n"));
        }
        let running: Vec<_> = racers
            .iter_mut()
            .map(|racer| {
                // In every other round both have seen the room before either goes on.
                let agent = match round % 2 {
                    0 => racer.gate.holds_pushes_of(&racer.place.user()),
                    _ => racer.place.user(),
                };
                agent.start_git("push team HEAD:refs/heads/main")
            })
            .collect();
        if round % 2 == 0 {
            for racer in &mut racers {
                racer.gate.wait_for_arrival();
            }
            racers.iter_mut().for_each(|racer| racer.gate.open());
        }
        let answers: Vec<_> = running.into_iter().map(|push| push.wait().either()).collect();
        let won: Vec<_> = answers.iter().map(parler_harness::Answer::is_success).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "round {round}: {answers:#?}");
        let winner = won.iter().position(|won| *won).unwrap();
        let loser = &answers[1 - winner];
        assert_eq!(loser.exit_code(), Some(1), "{loser:?}");
        let told = ["(fetch first)", "(non-fast-forward)", "(stale info)"];
        assert!(told.iter().any(|words| loser.err().contains(words)), "{loser:?}");
        loser.warns("rejected]").warns("error: failed to push some refs");
        answers.iter().for_each(|answer| {
            answer.warns_no("warning: the history");
        });
        winners.push(racers[winner].place.rev("HEAD"));
    }

    racers.iter().for_each(|racer| no_doubts(&racer.place.user()));
    let hub = LocalHub::of(&racers[0].place.user());
    let reader = hub.raw_client("reader");
    let room = "race".parse().unwrap();
    // Checks that each change began where the one before it ended.
    let log = read_log(&reader.calls, &hub.id, &room);
    let moved: Vec<String> = log
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| if let Part::Refs(refs) = part { Some(refs) } else { None })
        .flat_map(|refs| &refs.updates)
        .map(|update| update.new.map(|oid: Oid| oid.to_string()).unwrap())
        .collect();
    assert_eq!(moved[1..], winners[..], "the log is the winners in their order");
}

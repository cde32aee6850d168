//! Agents that race for two refs while others read: what all of them saw has one order, and it is the log's
//! (`parler_harness::History`). One hub, which nobody ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parler_harness::{Event, History, PlainAnswer, PlainHttp, RawClient, audit_room};
use parler_protocol::api::{Posted, RefList};
use parler_protocol::{Head, Oid, Problem, RefName, TextPart, paths};

use super::stage::{Seat, Stage, forget, move_of};

/// Moves that each agent tries.
const MOVES: u64 = 60;
const READERS: usize = 2;

struct Racer<'a> {
    stage: &'a Stage,
    seat: &'a Seat,
    http: PlainHttp,
    history: &'a History,
    number: u64,
    head: Head,
}

impl Racer<'_> {
    fn race(mut self) {
        // Where it saw the refs before: an agent that has not looked for some time is wrong more often.
        let mut seen = BTreeMap::new();
        for round in 0..MOVES {
            let name: RefName = format!("refs/heads/{}", ["a", "b"][round as usize % 2])
                .parse()
                .unwrap();
            if round % 5 != 4 {
                seen = read_refs(&self.http, self.history, self.stage);
            }
            let to: Oid = format!("{:020x}{round:020x}", self.number + 1).parse().unwrap();
            self.move_ref(&name, seen.get(&name).copied(), to);
            if round % 3 == 0 {
                self.say(round);
            }
        }
    }

    fn move_ref(&mut self, name: &RefName, from: Option<Oid>, to: Oid) {
        let parts = vec![move_of(name.clone(), from, to)];
        let message = self.stage.sign(self.seat, &self.head, parts);
        let answer = self.history.record(|| {
            let answer = self.post(&message.body);
            let event = match answer.status {
                201 => stored(&answer),
                409 => {
                    let problem: Problem = serde_json::from_slice(&answer.body).unwrap();
                    Event::Refused {
                        name: name.clone(),
                        expected: from,
                        actual: Some(problem.conflicts[0].actual),
                    }
                }
                _ => panic!("{answer:?}"),
            };
            (answer, Some(event))
        });
        if answer.status == 201 {
            self.head = posted(&answer).head;
        }
    }

    fn say(&mut self, round: u64) {
        let text = format!("{round} of {}", self.number);
        let message = self.stage.sign(self.seat, &self.head, vec![TextPart { text }.into()]);
        self.history.record(|| {
            let answer = self.post(&message.body);
            let event = stored(&answer);
            (answer, Some(event))
        });
    }

    fn post(&self, body: &[u8]) -> PlainAnswer {
        let fields = [("content-type", "application/json")];
        let path = paths::messages(&self.stage.room);
        self.http.ask("POST", &path, &fields, body).unwrap()
    }
}

fn posted(answer: &PlainAnswer) -> Posted {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
}

fn stored(answer: &PlainAnswer) -> Event {
    let posted = posted(answer);
    Event::Stored {
        id: posted.id,
        seq: posted.seq.get(),
    }
}

fn read_refs(http: &PlainHttp, history: &History, stage: &Stage) -> BTreeMap<RefName, Oid> {
    history.record(|| {
        let answer = http.get(&paths::refs(&stage.room));
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

fn read_head(http: &PlainHttp, history: &History, stage: &Stage) {
    history.record(|| {
        let answer = http.get(&format!("{}?limit=0", paths::messages(&stage.room)));
        let seq = answer.json()["head"]["seq"].as_u64().unwrap();
        ((), Some(Event::SawHead { seq }))
    });
}

#[test]
fn what_everybody_saw_has_one_order() {
    let stage = Stage::new();
    let mut hub = stage.hub("histories");
    hub.restart();
    let http = |seat: &Seat| PlainHttp {
        authority: hub.authority().to_owned(),
        token: seat.token.clone(),
    };
    let (history, over) = (History::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let racers: Vec<_> = stage
            .seats
            .iter()
            .zip(0..)
            .map(|(seat, number)| {
                let racer = Racer {
                    stage: &stage,
                    seat,
                    http: http(seat),
                    history: &history,
                    number,
                    head: stage.head,
                };
                scope.spawn(move || racer.race())
            })
            .collect();
        for seat in stage.seats.iter().take(READERS) {
            let (http, history, over, stage) = (http(seat), &history, &over, &stage);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    read_head(&http, history, stage);
                    read_refs(&http, history, stage);
                }
            });
        }
        let raced: Vec<_> = racers.into_iter().map(|racer| racer.join()).collect();
        over.store(true, Ordering::Relaxed);
        raced.into_iter().for_each(|raced| raced.unwrap());
    });
    let reader = RawClient::new(&hub.url(), "reader");
    reader.join(stage.code());
    let log = audit_room(&reader.calls, &http(&stage.seats[0]), &stage.room);
    if let Err(anomaly) = history.check(&log, 0) {
        panic!("{anomaly}");
    }
    let refused = history.len() - log.messages.len();
    println!("{} operations, {} messages", history.len(), log.messages.len());
    assert!(log.messages.len() > 80 && refused > 80, "this showed nothing");
    forget(hub);
}

//! Twenty workers, two hundred jobs, and workers that are killed at random: each job is done once, and its receipts say by
//! whom.

use std::collections::BTreeMap;

use parler_harness::{LocalHub, RawClient, Running, look_for};
use parler_protocol::api::{JobState, JobSummary};
use parler_protocol::{
    ChainHash, DispatchPart, Head, Message, Part, Seq, ServiceName, TaskStatus, TextPart, limits::MAX_PAGE_MESSAGES,
};
use rustix::process::Signal;

use super::serve::{script, stage};
use super::world;

const WORKERS: usize = 20;
const JOBS: usize = 200;
const KILLS: usize = 25;
/// Jobs that are done between one kill and the next.
const BETWEEN_KILLS: usize = 6;

fn jobs(requester: &RawClient, service: &ServiceName) -> Vec<JobSummary> {
    let list = requester.calls.jobs(service, Seq::ZERO).unwrap();
    assert!(list.next.is_none() || list.jobs.len() == JOBS);
    list.jobs
}

fn ended(requester: &RawClient, service: &ServiceName) -> usize {
    jobs(requester, service)
        .iter()
        .filter(|job| !job.state.is_open())
        .count()
}

fn log(requester: &RawClient, service: &ServiceName) -> Vec<Message> {
    let mut read: Vec<Message> = Vec::new();
    loop {
        let from = parler_client::ReadFrom {
            after: Some(read.last().map_or(Seq::ZERO, |last| last.seq)),
            limit: Some(MAX_PAGE_MESSAGES),
            wait: None,
        };
        let page = requester.calls.messages(&service.room(), &from).unwrap();
        if page.messages.is_empty() {
            return read;
        }
        read.extend(
            page.messages
                .iter()
                .map(|raw| Message::parse(raw.get().as_bytes()).unwrap()),
        );
    }
}

#[test]
fn each_job_is_done_once_whoever_is_killed() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let command = script(&world, "short", "sleep 0.1");
    let service: ServiceName = "test".parse().unwrap();
    let room = service.room();
    let requesters = ["carol", "dave"].map(|name| LocalHub::of(&stage.alice).raw_client(name));
    let unseen = Head {
        seq: Seq::ZERO,
        h: ChainHash::start(&requesters[0].calls.hub_id().unwrap(), &room),
    };
    for number in 0..JOBS {
        let requester = &requesters[number % 2];
        let parts: Vec<Part> = vec![
            DispatchPart {
                role: service.to_string(),
                ..DispatchPart::default()
            }
            .into(),
            TextPart {
                text: format!("job {number}"),
            }
            .into(),
        ];
        let signed = requester.sign(&room, &unseen, parts);
        requester.calls.post(&room, &signed, None, None).unwrap();
    }
    let workdir = world.directory("work");
    let start = |number: usize| -> Running {
        let worker = world.agent(&format!("worker-{number}"));
        let workdir = workdir.to_str().unwrap();
        worker.start(
            world.program(),
            ["serve", "test", "--lease", "15s", "--workdir", workdir, "--", &command],
        )
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(start).collect();
    let requester = &requesters[0];
    // The same each time, but who is at work then is not.
    let mut random: u64 = 88_172_645_463_325_252;
    for kill in 0..KILLS {
        look_for(
            || (ended(requester, &service) >= kill * BETWEEN_KILLS).then_some(()),
            || format!("no further job was done after {kill} kills"),
        );
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let hit = random as usize % WORKERS;
        workers[hit].signal_group(Signal::KILL);
        workers[hit] = start(hit);
    }
    look_for(
        || (ended(requester, &service) == JOBS).then_some(()),
        || format!("not all jobs came to an end: {:#?}", jobs(requester, &service)),
    );
    for worker in &workers {
        worker.signal_group(Signal::TERM);
    }
    for worker in workers {
        let worker = worker.wait().either();
        assert_eq!(worker.signal(), Some(15), "{}{}", worker.out(), worker.err());
    }

    let states = jobs(requester, &service);
    assert_eq!(states.len(), JOBS);
    assert!(states.iter().all(|job| job.state == JobState::Done));
    // What was said of each, in order.
    let mut said: BTreeMap<String, Vec<(TaskStatus, String)>> = BTreeMap::new();
    for message in log(requester, &service) {
        for part in &message.parts {
            if let Part::Task(task) = part {
                let told = (task.status, message.from.name.clone());
                said.entry(task.task.clone().unwrap()).or_default().push(told);
            }
        }
    }
    assert_eq!(said.len(), JOBS);
    let mut again = 0;
    for job in &states {
        let said = &said[&job.id.to_string()];
        let done: Vec<_> = said.iter().filter(|(status, _)| *status == TaskStatus::Done).collect();
        assert_eq!(done.len(), 1, "job {}: {said:?}", job.seq);
        let (last, by) = said.last().unwrap();
        let before: Vec<_> = said
            .iter()
            .filter(|(_, who)| who == by)
            .map(|(status, _)| *status)
            .collect();
        assert_eq!(*last, TaskStatus::Done);
        assert!(
            before.ends_with(&[TaskStatus::Accepted, TaskStatus::Working, TaskStatus::Done]),
            "job {}: {said:?}",
            job.seq
        );
        again += usize::from(job.attempts > 0);
    }
    println!("{again} jobs were offered again");
    // What the killed ones left is gone with the next.
    stage.ask("one more");
    stage.start(&stage.bob, &["--once"], &["true"]).wait().success();
    assert_eq!(stage.left(), [""; 0]);
}

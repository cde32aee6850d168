//! `parler-hub check` on the jobs of a service: what was done to them by hand is named, and nothing else is.

use parler_protocol::{TaskStatus, paths};
use rustix::process::Signal;

use crate::check::{assert_clean, copy, found, sql};
use crate::services::{claim, dispatch, fence, id, post, receipt, serve, service};
use crate::support::RunningProgram;

#[tokio::test]
async fn jobs_that_do_not_stand_as_the_log_says_are_named() {
    let directory = tempfile::TempDir::new().unwrap();
    let whole = directory.path().join("data");
    let hub = RunningProgram::start(&whole);
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    for _ in 0..3 {
        dispatch(&alice).await;
    }
    let job = claim(&worker).await;
    let done = receipt(&worker, id(&job), TaskStatus::Done);
    post(&worker, &done, Some(fence(&job))).await.expect(201).head();
    claim(&worker).await;
    // What is given up because its requester has left is in no message either, and nothing to find.
    let carol = hub.agent("carol").await;
    assert_eq!(dispatch(&carol).await.seq.get(), 5);
    let left = paths::member(&service().room(), &carol.id());
    assert_eq!(carol.delete(&left).await.status, 204);
    assert!(hub.end(Signal::TERM).0);
    assert_clean(&whole);
    for (statement, message, words) in [
        ("DELETE FROM jobs WHERE seq = 3", 3, "nobody is offered it"),
        (
            "UPDATE jobs SET state = 'waiting' WHERE seq = 1",
            1,
            "the job is waiting, and by the log done",
        ),
        ("UPDATE jobs SET state = 'failed' WHERE seq = 1", 1, "by the log done"),
        ("UPDATE jobs SET state = 'cancelled' WHERE seq = 2", 2, "not at an end"),
        (
            "UPDATE jobs SET requester = owner WHERE seq = 2",
            2,
            "of another than its author",
        ),
        (
            "INSERT INTO jobs (message, room, seq, requester, state)
             SELECT message, room, seq, agent, 'waiting' FROM messages WHERE seq = 4",
            4,
            "is no job",
        ),
    ] {
        let place = tempfile::TempDir::new().unwrap();
        let data = place.path().join("data");
        copy(&whole, &data);
        sql(&data, statement);
        let (found, code, _) = found(&data, &[]);
        assert_eq!((found.len(), code), (1, Some(1)), "{statement}: {found:#?}");
        let (kind, line) = &found[0];
        assert_eq!(
            (kind.as_str(), &line["message"]),
            ("job", &message.into()),
            "{statement}"
        );
        assert!(line["what"].as_str().unwrap().contains(words), "{statement}: {line}");
    }
}

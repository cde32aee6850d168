//! What the calls about jobs cost in a room that has had very many: no more than in a young one. Counted in steps of SQLite's
//! machine, which no other load changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parler_protocol::api::JobFilter;
use parler_protocol::{AgentId, AgentKey, AgentName, HubId, MessageId, RoomKind, RoomName, Seq};
use rusqlite::Connection;
use tempfile::TempDir;

use super::batch::{Batch, Memory};
use super::failure::Failure;
use super::{agents, connection, job_list, jobs, members, rooms, schema, services};
use crate::store::{Claim, MayServe, Principal};

/// Jobs that have ended, and as many that wait and are the worker's own.
const JOBS: u32 = 10_000;
/// Far more than any of the calls takes, and far less than a look at each job.
const MOST_STEPS: u64 = 3_000;
const NOW: i64 = 1_800_000_000_000;

struct Bench {
    connection: Connection,
    memory: Memory,
    steps: Arc<AtomicU64>,
    _directory: TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("hub.db");
        std::fs::File::create(&path).unwrap();
        let mut connection = connection::open_new(&path).unwrap();
        schema::migrate(&connection).unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(count)).unwrap();
        Self {
            connection,
            memory: Memory::default(),
            steps,
            _directory: directory,
        }
    }

    fn run<T>(&mut self, call: impl FnOnce(&mut Batch<'_>) -> Result<T, Failure>) -> T {
        let done = call(&mut Batch::new(&self.connection, &mut self.memory, true));
        done.unwrap_or_else(|failure| panic!("{}", failure.into_store_error()))
    }

    /// Does it, and says when it took too much.
    fn cheap<T>(&mut self, what: &str, call: impl FnOnce(&mut Batch<'_>) -> Result<T, Failure>) -> T {
        let before = self.steps.load(Ordering::Relaxed);
        let done = self.run(call);
        let taken = self.steps.load(Ordering::Relaxed) - before;
        assert!(taken < MOST_STEPS, "{what} takes {taken} steps");
        done
    }

    fn agent(&mut self, name: &str) -> AgentId {
        let name: AgentName = name.parse().unwrap();
        let mut seed = [0; 32];
        seed[..name.as_str().len()].copy_from_slice(name.as_str().as_bytes());
        let agent = AgentKey::from_random(seed).id();
        let principal = Principal {
            agent,
            name,
            role: None,
        };
        self.run(|batch| agents::note(batch.connection, &principal, NOW));
        agent
    }

    /// Jobs of this agent, in this state.
    fn jobs(&mut self, of: &AgentId, first: u32, count: u32, state: &str) {
        let agent = self.run(|batch| agents::find(batch.connection, of)).unwrap();
        let (first, last) = (i64::from(first), i64::from(first + count - 1));
        for statement in [
            "WITH RECURSIVE n (seq) AS (SELECT ?1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ?2)
             INSERT INTO messages (message, room, seq, id, agent, digest, h, is_push, body)
             SELECT seq, 1, seq, CAST(printf('%016d', seq) AS BLOB), ?3, zeroblob(32), zeroblob(32), 0, x'7b7d' FROM n",
            "INSERT INTO jobs (message, room, seq, requester, state, fence, owner, claim)
             SELECT seq, 1, seq, ?3, ?4, iif(?4 = 'done', seq, 0), iif(?4 = 'done', 1, NULL), NULL
             FROM messages WHERE seq BETWEEN ?1 AND ?2 AND ?3 > 0",
        ] {
            let mut statement = self.connection.prepare(statement).unwrap();
            let given: [&dyn rusqlite::ToSql; 4] = [&first, &last, &agent, &state];
            statement.execute(&given[..statement.parameter_count()]).unwrap();
        }
    }
}

#[test]
fn a_room_that_has_had_many_jobs_is_as_quick_as_a_new_one() {
    let mut bench = Bench::new();
    let room: RoomName = "svc.review".parse().unwrap();
    let [alice, worker, zoe] = ["alice", "worker", "zoe"].map(|name| bench.agent(name));
    let hub = HubId::from_bytes([0; 16]);
    bench.run(|batch| services::serve(batch, &hub, &room, &worker, MayServe::First, NOW));
    for requester in [&alice, &zoe] {
        bench.run(|batch| services::enter(batch, &room, requester, false, NOW));
    }
    bench.jobs(&alice, 1, JOBS, "done");
    let claim = |id, own| Claim {
        by: worker,
        room: room.clone(),
        id,
        lease_ms: 60_000,
        own,
        now: NOW,
    };
    let id = MessageId::generate();
    let nothing = |bench: &mut Bench, what: &str, own| {
        bench.cheap(what, |batch| jobs::nothing_to_claim(batch.connection, &claim(id, own)))
    };
    assert!(nothing(&mut bench, "finding none", true).is_some());
    let none = bench.cheap("claiming none", |batch| jobs::claim(batch, &claim(id, true)));
    assert!(none.job.is_none());
    // Its own jobs are in nobody's way.
    bench.jobs(&worker, JOBS + 1, JOBS, "waiting");
    assert!(nothing(&mut bench, "finding none but its own", false).is_some());
    let none = bench.cheap("claiming none but its own", |batch| {
        jobs::claim(batch, &claim(id, false))
    });
    assert!(none.job.is_none());
    assert!(nothing(&mut bench, "finding its own", true).is_none());
    bench.jobs(&alice, 2 * JOBS + 1, 5, "waiting");
    bench.jobs(&zoe, 2 * JOBS + 6, 5, "waiting");
    assert!(nothing(&mut bench, "finding a job", false).is_none());
    let mut held = Vec::new();
    for id in [id, MessageId::generate(), MessageId::generate()] {
        let claimed = bench.cheap("claiming", |batch| jobs::claim(batch, &claim(id, false)));
        held.push(claimed.job.unwrap());
    }
    let again = bench.cheap("claiming again", |batch| jobs::claim(batch, &claim(id, false)));
    assert_eq!(again.job.as_ref(), Some(&held[0]));
    let (first, second) = (held[0].fence, held[1].fence);
    bench.cheap("renewing", |batch| {
        jobs::renew(batch, &room, &worker, first, 60_000, NOW)
    });
    bench.cheap("giving back", |batch| jobs::release(batch, &room, &worker, second, NOW));
    bench.cheap("listing", |batch| {
        job_list::list(
            batch.connection,
            &room,
            &worker,
            Seq::new(u64::from(JOBS)),
            5,
            None,
            NOW,
        )
    });
    for only in [JobFilter::Open, JobFilter::Dead] {
        bench.cheap("listing some", |batch| {
            job_list::list(batch.connection, &room, &worker, Seq::ZERO, 5, Some(only), NOW)
        });
    }
    let agent = bench.run(|batch| agents::find(batch.connection, &zoe)).unwrap();
    bench
        .connection
        .execute_batch(&format!(
            "INSERT INTO tokens (agent, key, name, hash, created_by, created_at, expires_at)
             VALUES ({agent}, 'x', 'x', zeroblob(32), 1, 0, 0);
             INSERT INTO token_rooms (agent, room, can_post, can_read, can_claim) VALUES ({agent}, 1, 1, 1, 1);"
        ))
        .unwrap();
    bench.cheap("ending a token", |batch| {
        jobs::forget_token(batch.connection, agent, NOW)
    });
    bench.cheap("going", |batch| jobs::forget_member(batch.connection, 1, agent, NOW));
    let (found, _) = bench
        .run(|batch| rooms::find(batch.connection, &room, Some(agent)))
        .unwrap();
    assert_eq!((found.row, found.kind), (1, RoomKind::Service));
    assert!(bench.run(|batch| members::is_member(batch.connection, 1, agent)));
}

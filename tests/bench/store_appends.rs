//! Measures durable appends: `cargo bench -p parler-hub --bench store_appends`. Prints messages a second, latencies and
//! processor time a message, at several concurrencies, in one room and in a thousand. Gates nothing: the numbers are
//! the machine's as much as the program's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program that prints what it measured"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use parler_hub::store::{Append, NewSession, Principal, QueueWord, SqliteOptions, SqliteStore, Store};
use parler_protocol::{AgentKey, MessageId, RoomKind, RoomName};
use tokio::task::JoinSet;

const ROUND: Duration = Duration::from_secs(3);
const MESSAGE_BYTES: usize = 300;
const NOW: i64 = 1_800_000_000_000;
/// What the kernel counts processor time in.
const TICK_MICROSECONDS: f64 = 10_000.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    println!(
        "{:>6} {:>8} {:>9} {:>8} {:>8} {:>8}",
        "rooms", "clients", "msg/s", "p50 ms", "p99 ms", "CPU us"
    );
    for rooms in [1, 1000] {
        for clients in [1, 8, 64, 256] {
            runtime.block_on(round(rooms, clients));
        }
    }
}

async fn round(rooms: usize, clients: usize) {
    let directory = tempfile::TempDir::new_in(".").unwrap();
    let store = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let author = Principal {
        agent: AgentKey::from_random([1; 32]).id(),
        name: "author".parse().unwrap(),
        role: None,
    };
    let session = NewSession {
        principal: author.clone(),
        token: [0; 32],
        expires_at: NOW + 1,
        admit: true,
        invite: None,
        now: NOW,
    };
    store.open_session(session).await.unwrap();
    let names: Arc<Vec<RoomName>> = Arc::new(
        (0..rooms)
            .map(|number| format!("room{number}").parse().unwrap())
            .collect(),
    );
    for name in names.iter() {
        store
            .create_room(name, RoomKind::Channel, author.agent, NOW)
            .await
            .unwrap();
    }
    let (started, ticks) = (Instant::now(), processor_ticks());
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let (store, author, names) = (Arc::clone(&store), author.clone(), Arc::clone(&names));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut next = client * 7919;
            while started.elapsed() < ROUND {
                next += 31;
                let append = message(&author, &names[next % names.len()]);
                let sent = Instant::now();
                store.append(append).await.unwrap();
                latencies.push(sent.elapsed());
            }
            latencies
        });
    }
    let mut latencies = tasks.join_all().await.concat();
    let (elapsed, ticks) = (started.elapsed(), processor_ticks() - ticks);
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |percent: usize| latencies[(count * percent / 100).min(count - 1)].as_secs_f64() * 1e3;
    println!(
        "{rooms:>6} {clients:>8} {:>9.0} {:>8.2} {:>8.2} {:>8.1}",
        count as f64 / elapsed.as_secs_f64(),
        at(50),
        at(99),
        ticks * TICK_MICROSECONDS / count as f64,
    );
    store.close().await.unwrap();
}

fn message(author: &Principal, room: &RoomName) -> Append {
    let id = MessageId::generate();
    Append {
        by: author.clone(),
        signed_by: None,
        room: room.clone(),
        id,
        key: id.to_string(),
        digest: [0; 32],
        parts: format!(r#"[{{"kind":"text","text":"{}"}}]"#, "x".repeat(MESSAGE_BYTES)).into(),
        mentions: Vec::new(),
        reply_to: None,
        refs: None,
        is_push: false,
        refers_to: Vec::new(),
        builds_on: Vec::new(),
        blob: None,
        queue: QueueWord::default(),
        now: NOW,
    }
}

/// Processor time of this process, user and system.
fn processor_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field is a name in parentheses that may hold blanks; 14 and 15 are the times.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split_whitespace().collect();
    fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()
}

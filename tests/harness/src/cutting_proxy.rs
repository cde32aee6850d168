//! A TCP proxy before a hub that cuts connections where it is told to, and counts what goes through it. Knows nothing of
//! HTTP.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Where to cut a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// After so many bytes from the client; none behind them arrives.
    Up(u64),
    /// After so many bytes from the hub; `Down(0)` loses an answer whole.
    Down(u64),
    /// Nowhere.
    Never,
}

/// What was carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Bytes from clients to the hub.
    pub up: u64,
    /// Bytes from the hub to clients.
    pub down: u64,
    /// Connections that were cut.
    pub cuts: u64,
}

/// The proxy. Gone when dropped.
#[derive(Debug)]
pub struct CuttingProxy {
    authority: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Where the hub is.
    hub: Mutex<String>,
    /// One for each connection to come; then `Never`.
    plan: Mutex<VecDeque<Cut>>,
    /// Both ends of each connection.
    open: Mutex<Vec<TcpStream>>,
    up: AtomicU64,
    down: AtomicU64,
    cuts: AtomicU64,
    is_over: AtomicBool,
}

impl CuttingProxy {
    /// Listens at a port that the kernel chooses. A hub has to be told of this authority before it serves behind it.
    #[track_caller]
    pub fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("just bound").to_string();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(Ordering::SeqCst) {
                    break;
                }
                accepting.serve(stream);
            }
        });
        Self { authority, shared }
    }

    /// Whom to lead to, `127.0.0.1:PORT`.
    pub fn lead_to(&self, hub: &str) {
        hub.clone_into(&mut lock(&self.shared.hub));
    }

    /// `127.0.0.1:PORT`
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// Cuts the connections to come, one after the other, and forgets what was planned and counted before.
    pub fn cut(&self, plan: impl IntoIterator<Item = Cut>) {
        self.end_all();
        *lock(&self.shared.plan) = plan.into_iter().collect();
        for counter in [&self.shared.up, &self.shared.down, &self.shared.cuts] {
            counter.store(0, Ordering::SeqCst);
        }
    }

    /// What was carried since the plan was made.
    pub fn carried(&self) -> Carried {
        Carried {
            up: self.shared.up.load(Ordering::SeqCst),
            down: self.shared.down.load(Ordering::SeqCst),
            cuts: self.shared.cuts.load(Ordering::SeqCst),
        }
    }

    /// Returns when so many bytes have come from clients.
    pub fn wait_for_up(&self, bytes: u64) {
        let deadline = std::time::Instant::now() + crate::DEADLINE;
        while self.shared.up.load(Ordering::SeqCst) < bytes {
            assert!(std::time::Instant::now() < deadline, "{:?}", self.carried());
            thread::yield_now();
        }
    }

    fn end_all(&self) {
        for stream in lock(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.authority);
        self.end_all();
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let cut = lock(&self.plan).pop_front().unwrap_or(Cut::Never);
        let address = lock(&self.hub).clone();
        let Ok(hub) = TcpStream::connect(address) else {
            return; // The hub is away: so are we.
        };
        let ends = [&client, &hub].map(|stream| stream.try_clone().expect("a descriptor"));
        lock(&self.open).extend(ends);
        let (up, down) = match cut {
            Cut::Up(bytes) => (bytes, u64::MAX),
            Cut::Down(bytes) => (u64::MAX, bytes),
            Cut::Never => (u64::MAX, u64::MAX),
        };
        let (from_hub, to_client) = (
            hub.try_clone().expect("a descriptor"),
            client.try_clone().expect("a descriptor"),
        );
        let shared = Arc::clone(self);
        thread::spawn(move || shared.carry(client, hub, up, &shared.up));
        let shared = Arc::clone(self);
        thread::spawn(move || shared.carry(from_hub, to_client, down, &shared.down));
    }

    /// Hands on what comes, at most so many bytes of it.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, mut left: u64, count: &AtomicU64) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let most = usize::try_from(left).map_or(read, |left| left.min(read));
            if to.write_all(&buffer[..most]).is_err() {
                break;
            }
            count.fetch_add(most as u64, Ordering::SeqCst);
            left -= most as u64;
            if most < read {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

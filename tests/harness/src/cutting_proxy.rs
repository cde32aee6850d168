//! A TCP proxy before a hub that cuts connections where it is told to, and counts what goes through it. Knows nothing of
//! HTTP but that an answer comes after its request.

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
    /// Where the hub answers a request that begins with these words: it has been acted on, and nobody is told.
    AnswerTo(&'static str),
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
    /// The first line of each answer that was cut off by [`Cut::AnswerTo`], and not waited for.
    lost: Mutex<VecDeque<String>>,
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
        lock(&self.shared.lost).clear();
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
    #[track_caller]
    pub fn wait_for_up(&self, bytes: u64) {
        self.wait_for(|| (self.shared.up.load(Ordering::SeqCst) >= bytes).then_some(()));
    }

    /// Returns when so many bytes have come from the hub.
    #[track_caller]
    pub fn wait_for_down(&self, bytes: u64) {
        self.wait_for(|| (self.shared.down.load(Ordering::SeqCst) >= bytes).then_some(()));
    }

    /// Waits until an answer has been cut off by [`Cut::AnswerTo`], and returns its first line.
    #[track_caller]
    pub fn wait_for_lost_answer(&self) -> String {
        self.wait_for(|| lock(&self.shared.lost).pop_front())
    }

    #[track_caller]
    fn wait_for<T>(&self, found: impl Fn() -> Option<T>) -> T {
        let deadline = std::time::Instant::now() + crate::DEADLINE;
        loop {
            if let Some(found) = found() {
                return found;
            }
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
        let (up, down, lose) = match cut {
            Cut::Up(bytes) => (bytes, u64::MAX, None),
            Cut::Down(bytes) => (u64::MAX, bytes, None),
            Cut::AnswerTo(request) => (u64::MAX, u64::MAX, Some(request)),
            Cut::Never => (u64::MAX, u64::MAX, None),
        };
        let (from_hub, to_client) = (
            hub.try_clone().expect("a descriptor"),
            client.try_clone().expect("a descriptor"),
        );
        let is_asked = Arc::new(AtomicBool::new(false));
        let (shared, asked) = (Arc::clone(self), Arc::clone(&is_asked));
        thread::spawn(move || {
            shared.carry(client, hub, up, &shared.up, |bytes| {
                if lose.is_some_and(|request| bytes.starts_with(request.as_bytes())) {
                    asked.store(true, Ordering::SeqCst);
                }
                true
            });
        });
        let shared = Arc::clone(self);
        thread::spawn(move || {
            shared.carry(from_hub, to_client, down, &shared.down, |bytes| {
                let is_lost = is_asked.load(Ordering::SeqCst);
                if is_lost {
                    let line = String::from_utf8_lossy(bytes).lines().next().map(str::to_owned);
                    lock(&shared.lost).push_back(line.unwrap_or_default());
                }
                !is_lost
            });
        });
    }

    /// Hands on what comes, at most so many bytes of it, and while that may pass.
    fn carry(
        &self,
        mut from: TcpStream,
        mut to: TcpStream,
        mut left: u64,
        count: &AtomicU64,
        may_pass: impl Fn(&[u8]) -> bool,
    ) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let most = match may_pass(&buffer[..read]) {
                true => usize::try_from(left).map_or(read, |left| left.min(read)),
                false => 0,
            };
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

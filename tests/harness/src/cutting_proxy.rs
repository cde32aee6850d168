//! A TCP proxy before a hub that cuts connections where it is told to, holds them, or brings what they carry twice, and
//! counts what goes through it. Knows nothing of HTTP but that an answer comes after its request and how its first line
//! begins.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Running, look_for};

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

/// A place in what passes, with all connections since the plan was made counted as one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Behind so many bytes from clients.
    Up(u64),
    /// Behind so many bytes from the hub.
    Down(u64),
}

/// What happens where the next byte would pass a [`Point`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The connection is cut. Those that come after it are served.
    Cut,
    /// Every connection is cut, and those that come after it before a byte has passed.
    Gone,
    /// The connection goes on in this direction at some 50 bytes a second, as does every one after it.
    Drip,
    /// The connection stands still in this direction, and nobody is told, until [`CuttingProxy::release`]. Those that
    /// come after it are served.
    Stall,
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
    /// What is to happen to all connections together.
    trouble: Mutex<Trouble>,
    /// Told when what stands still may go on.
    released: Condvar,
    /// Whether each connection is brought to the hub twice.
    doubles: AtomicBool,
    /// What clients sent, by connection, where it may be wanted again.
    sent: Mutex<Vec<Vec<u8>>>,
    /// The first lines of the answers that nobody asked for.
    doubled: Mutex<Vec<String>>,
    up: AtomicU64,
    down: AtomicU64,
    cuts: AtomicU64,
    /// The first line of each answer that was cut off by [`Cut::AnswerTo`], and not waited for.
    lost: Mutex<VecDeque<String>>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Which plan this is of.
    plan: u64,
    /// Where it begins, what is left till there, and what it is.
    ahead: Option<(Point, Mishap)>,
    /// Whether no connection is served any more.
    is_gone: bool,
    /// The direction in which all goes slowly.
    dripping: Option<Way>,
    /// Whether what stands still may go on.
    is_released: bool,
}

/// Between two bytes that go slowly.
const DRIP: Duration = Duration::from_millis(20);

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
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
        self.shared.end_all();
        *lock(&self.shared.plan) = plan.into_iter().collect();
        {
            let mut trouble = lock(&self.shared.trouble);
            *trouble = Trouble {
                plan: trouble.plan + 1,
                ..Trouble::default()
            };
        }
        self.shared.released.notify_all();
        self.shared.doubles.store(false, Ordering::SeqCst);
        lock(&self.shared.sent).clear();
        lock(&self.shared.doubled).clear();
        lock(&self.shared.lost).clear();
        for counter in [&self.shared.up, &self.shared.down, &self.shared.cuts] {
            counter.store(0, Ordering::SeqCst);
        }
    }

    /// Lets this happen once to the connections to come, all of them counted as one, and forgets what was planned and
    /// counted before.
    pub fn break_at(&self, point: Point, fault: Mishap) {
        self.cut([]);
        lock(&self.shared.trouble).ahead = Some((point, fault));
    }

    /// Whether what was to happen has happened.
    pub fn has_broken(&self) -> bool {
        lock(&self.shared.trouble).ahead.is_none()
    }

    /// Waits until what was to happen has happened. False: the command has ended before.
    #[track_caller]
    pub fn breaks_before_end_of(&self, command: &Running) -> bool {
        let either = || match self.has_broken() {
            true => Some(true),
            false => command.has_ended().then(|| self.has_broken()),
        };
        look_for(either, || {
            let ahead = lock(&self.shared.trouble).ahead;
            format!("neither {ahead:?} is reached nor does the command end")
        })
    }

    /// Lets what stands still go on, also to a hub whose client has gone.
    pub fn release(&self) {
        lock(&self.shared.trouble).is_released = true;
        self.shared.released.notify_all();
    }

    /// Brings each connection to come to the hub twice at the same moment, and forgets what was planned and counted
    /// before.
    pub fn double(&self) {
        self.cut([]);
        self.shared.doubles.store(true, Ordering::SeqCst);
    }

    /// Brings everything that clients have sent since [`CuttingProxy::double`] to the hub once more, connection by
    /// connection, and waits for the answers.
    #[track_caller]
    pub fn replay(&self) {
        for bytes in lock(&self.shared.sent).clone() {
            let mut hub = TcpStream::connect(lock(&self.shared.hub).clone()).expect("a hub that listens");
            hub.set_read_timeout(Some(crate::DEADLINE))
                .expect("a deadline that is not zero");
            hub.write_all(&bytes).expect("a hub that listens");
            let requests = count(&bytes, REQUEST_END);
            self.shared.note_answers(hub, requests);
        }
    }

    /// The first lines of the answers to what was brought twice, once there are so many.
    #[track_caller]
    pub fn wait_for_doubled(&self, answers: usize) -> Vec<String> {
        self.wait_for(|| {
            let doubled = lock(&self.shared.doubled);
            (doubled.len() >= answers).then(|| doubled.clone())
        })
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
        look_for(found, || format!("{:?}", self.carried()))
    }
}

/// How the first line of a request ends.
const REQUEST_END: &[u8] = b" HTTP/1.1\r\n";
/// How the first line of an answer begins.
const ANSWER_BEGINNING: &[u8] = b"HTTP/1.1 ";

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.authority);
        self.shared.end_all();
        lock(&self.shared.trouble).plan += 1;
        self.shared.released.notify_all();
    }
}

impl Shared {
    fn end_all(&self) {
        for stream in lock(&self.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(self: &Arc<Self>, client: TcpStream) {
        let cut = lock(&self.plan).pop_front().unwrap_or(Cut::Never);
        let plan = {
            let trouble = lock(&self.trouble);
            if trouble.is_gone {
                return;
            }
            trouble.plan
        };
        let address = lock(&self.hub).clone();
        let Ok(hub) = TcpStream::connect(&address) else {
            return; // The hub is away: so are we.
        };
        let twin = (self.doubles.load(Ordering::SeqCst)).then(|| self.twin(&address));
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
            let mut line = Line {
                way: Way::Up,
                plan,
                left: up,
                twin: twin.flatten(),
            };
            shared.carry(client, hub, &mut line, |bytes| {
                if lose.is_some_and(|request| bytes.starts_with(request.as_bytes())) {
                    asked.store(true, Ordering::SeqCst);
                }
                true
            });
        });
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let mut line = Line {
                way: Way::Down,
                plan,
                left: down,
                twin: None,
            };
            shared.carry(from_hub, to_client, &mut line, |bytes| {
                let is_lost = is_asked.load(Ordering::SeqCst);
                if is_lost {
                    let line = String::from_utf8_lossy(bytes).lines().next().map(str::to_owned);
                    lock(&shared.lost).push_back(line.unwrap_or_default());
                }
                !is_lost
            });
        });
    }

    /// A second connection to the hub, whose answers are noted. With a place for what is sent on it.
    fn twin(self: &Arc<Self>, address: &str) -> Option<(TcpStream, usize)> {
        let twin = TcpStream::connect(address).ok()?;
        let answers = twin.try_clone().ok()?;
        lock(&self.open).push(twin.try_clone().ok()?);
        let shared = Arc::clone(self);
        thread::spawn(move || shared.note_answers(answers, usize::MAX));
        let mut sent = lock(&self.sent);
        sent.push(Vec::new());
        Some((twin, sent.len() - 1))
    }

    /// Notes the first lines of so many answers.
    fn note_answers(&self, mut from: TcpStream, answers: usize) {
        let (mut read, mut noted) = (Vec::new(), 0);
        let mut buffer = vec![0; 64 << 10];
        while noted < answers {
            let Ok(more @ 1..) = from.read(&mut buffer) else { return };
            read.extend_from_slice(&buffer[..more]);
            // A line that is not whole yet is looked at again.
            while let Some(begin) = find(&read, ANSWER_BEGINNING)
                && let Some(length) = find(&read[begin..], b"\r\n")
            {
                let line = String::from_utf8_lossy(&read[begin..begin + length]).into_owned();
                read.drain(..begin + length);
                lock(&self.doubled).push(line);
                noted += 1;
            }
        }
    }

    /// How many of these bytes may pass before trouble begins, and which.
    fn trouble_within(&self, line: &Line, read: usize) -> Option<(usize, Mishap)> {
        let mut trouble = lock(&self.trouble);
        if trouble.plan != line.plan {
            return None;
        }
        let (left, fault) = match (&mut trouble.ahead, line.way) {
            (Some((Point::Up(left), fault)), Way::Up) | (Some((Point::Down(left), fault)), Way::Down) => (left, *fault),
            _ => return None,
        };
        if *left >= read as u64 {
            *left -= read as u64;
            return None;
        }
        let passing = usize::try_from(*left).unwrap_or(read);
        trouble.ahead = None;
        trouble.is_gone = fault == Mishap::Gone;
        trouble.dripping = (fault == Mishap::Drip).then_some(line.way);
        Some((passing, fault))
    }

    fn is_dripping(&self, line: &Line) -> bool {
        let trouble = lock(&self.trouble);
        trouble.plan == line.plan && trouble.dripping == Some(line.way)
    }

    /// Hands on byte by byte. False: there is nobody to hand on to, or something else is planned.
    fn drip(&self, bytes: &[u8], to: &mut TcpStream, line: &Line, counter: &AtomicU64) -> bool {
        bytes.iter().all(|byte| {
            thread::sleep(DRIP);
            counter.fetch_add(1, Ordering::SeqCst);
            to.write_all(&[*byte]).is_ok() && self.is_dripping(line)
        })
    }

    /// Waits until what stands still may go on. False: the plan it stood still for is over.
    fn stand_still(&self, plan: u64) -> bool {
        let trouble = lock(&self.trouble);
        let waits = |trouble: &mut Trouble| trouble.plan == plan && !trouble.is_released;
        let woken = self.released.wait_while(trouble, waits);
        woken.unwrap_or_else(PoisonError::into_inner).plan == plan
    }

    /// Hands on what comes, at most so many bytes of it, and while that may pass.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, line: &mut Line, may_pass: impl Fn(&[u8]) -> bool) {
        let counter = match line.way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        };
        let mut buffer = vec![0; 64 << 10];
        let mut was_held = false;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let mut most = match may_pass(&buffer[..read]) {
                true => usize::try_from(line.left).map_or(read, |left| left.min(read)),
                false => 0,
            };
            let trouble = self.trouble_within(line, most);
            let mut begin = 0;
            match trouble {
                Some((passing, Mishap::Cut | Mishap::Gone)) => most = passing,
                Some((passing, Mishap::Drip)) => {
                    let passed = to.write_all(&buffer[..passing]);
                    counter.fetch_add(passing as u64, Ordering::SeqCst);
                    begin = passing;
                    if passed.is_err() {
                        break;
                    }
                }
                Some((passing, Mishap::Stall)) => {
                    let passed = to.write_all(&buffer[..passing]);
                    counter.fetch_add(passing as u64, Ordering::SeqCst);
                    if passed.is_err() || !self.stand_still(line.plan) {
                        break;
                    }
                    was_held = true;
                    begin = passing;
                }
                None => {}
            }
            if let Some((twin, place)) = &mut line.twin {
                // The second may end before the first; that is nobody's loss.
                let _ = twin.write_all(&buffer[begin..most]);
                if let Some(sent) = lock(&self.sent).get_mut(*place) {
                    sent.extend_from_slice(&buffer[begin..most]);
                }
            }
            if self.is_dripping(line) {
                if !self.drip(&buffer[begin..most], &mut to, line, counter) {
                    break;
                }
            } else if to.write_all(&buffer[begin..most]).is_err() {
                break;
            } else {
                counter.fetch_add((most - begin) as u64, Ordering::SeqCst);
            }
            line.left -= most as u64;
            if most < read {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                if trouble.is_some_and(|(_, fault)| fault == Mishap::Gone) {
                    self.end_all();
                }
                break;
            }
        }
        if was_held && line.way == Way::Up {
            // Its client may have gone long ago: the hub is to answer all the same. The answer's way ends the connection.
            return;
        }
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// One direction of a connection.
struct Line {
    way: Way,
    /// Under which plan it began.
    plan: u64,
    /// How many bytes may pass.
    left: u64,
    /// Where else its bytes go, and the place of the note of them.
    twin: Option<(TcpStream, usize)>,
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

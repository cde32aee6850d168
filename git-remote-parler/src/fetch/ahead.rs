//! Bundles that are downloaded before their turn, by threads with connections of their own, into nameless files. They
//! keep a small distance from what is imported, so that as little of the disk is taken. Judges nothing but whether the
//! hub sends what was asked for.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parler_client::{Client, ClientError, Stopper};
use parler_protocol::RoomName;

use super::downloads::Leg;

/// So much waits on the disk for its turn, at most. What is larger comes when it is its turn.
const WAITING_BYTES: u64 = 2 << 30; // 2 GiB
/// One piece of a download.
const PIECE_BYTES: usize = 128 << 10; // 128 KiB

/// Downloads of the legs that are not imported yet. All of them end when it is dropped.
pub(super) struct Ahead {
    shared: Arc<Shared>,
    workers: Vec<(Stopper, JoinHandle<()>)>,
}

struct Shared {
    room: RoomName,
    legs: Arc<[Leg]>,
    /// How many answers are read at once, at most, with the one that is imported as it comes.
    at_once: usize,
    /// Where the files are made.
    directory: PathBuf,
    board: Mutex<Board>,
    /// Told when a leg may be begun, or none any more.
    news: Condvar,
    /// Bytes that have come.
    arrived: AtomicU64,
}

/// Who does what.
#[derive(Default)]
struct Board {
    /// The leg that is imported.
    present: usize,
    /// The first one that nobody has begun.
    next: usize,
    begun: HashMap<usize, Arc<Spool>>,
    /// How many answers are read ahead just now.
    reading: usize,
    /// Whether the present leg comes straight from the hub.
    is_direct: bool,
    is_over: bool,
}

impl Ahead {
    /// Begins with the second leg, with clients beside this one.
    pub(super) fn begin(
        client: &Client,
        room: &RoomName,
        legs: Arc<[Leg]>,
        at_once: usize,
        directory: PathBuf,
    ) -> Self {
        // One more than may read while the first leg comes straight from the hub.
        let most = at_once.min(legs.len() - 1);
        let shared = Arc::new(Shared {
            room: room.clone(),
            legs,
            at_once,
            directory,
            board: Mutex::new(Board {
                next: 1,
                is_direct: true,
                ..Board::default()
            }),
            news: Condvar::new(),
            arrived: AtomicU64::new(0),
        });
        let mut workers = Vec::new();
        client.share_line(most + 1);
        // With fewer of them, or none, it only takes longer.
        while workers.len() < most
            && let Ok((client, stopper)) = client.beside()
        {
            client.share_line(most + 1);
            let work = Arc::clone(&shared);
            let thread = thread::Builder::new().name("download".to_owned());
            match thread.spawn(move || work.work(&client)) {
                Ok(handle) => workers.push((stopper, handle)),
                Err(_) => break,
            }
        }
        Self { shared, workers }
    }

    /// It is the turn of this leg. Gives where it is downloaded to, unless nobody has begun it: then it is the caller's.
    pub(super) fn turn_of(&self, leg: usize) -> Option<Arc<Spool>> {
        let mut board = self.shared.board();
        board.present = leg;
        board.next = board.next.max(leg + 1);
        let begun = board.begun.remove(&leg);
        board.is_direct = begun.is_none();
        drop(board);
        self.shared.news.notify_all();
        begun
    }

    /// What went wrong with a leg whose turn has not come, for good.
    pub(super) fn failure(&self) -> Option<ClientError> {
        let board = self.shared.board();
        board.begun.values().find_map(|spool| spool.failure())
    }

    /// Bytes that have come ahead of their turn.
    pub(super) fn arrived(&self) -> u64 {
        self.shared.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.board().is_over = true;
        self.shared.news.notify_all();
        for (stopper, _) in &self.workers {
            stopper.stop();
        }
        for (_, handle) in self.workers.drain(..) {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one thread does.
    fn work(&self, client: &Client) {
        while let Some((leg, spool)) = self.begin_next() {
            let end = self.download(client, leg, &spool);
            tracing::debug!(leg, %end, "fetch: a download ahead of its turn has ended");
            let is_well = matches!(end, End::Whole);
            spool.end(end);
            self.board().reading -= 1;
            self.news.notify_all();
            if !is_well {
                // Others may do better, and the one whose turn it is decides.
                return;
            }
        }
    }

    /// The next leg, once it is near enough. None: there is no more to do.
    fn begin_next(&self) -> Option<(usize, Arc<Spool>)> {
        let may_not_begin = |board: &mut Board| {
            let is_near = board.next - board.present < self.at_once;
            let has_turn = board.reading + usize::from(board.is_direct) < self.at_once;
            let waiting = self.legs.get(board.present..=board.next).unwrap_or_default();
            let bytes = waiting.iter().fold(0, |sum: u64, leg| sum.saturating_add(leg.bytes));
            let may = has_turn && is_near && bytes <= WAITING_BYTES;
            !board.is_over && board.next < self.legs.len() && !may
        };
        let board = self.news.wait_while(self.board(), may_not_begin);
        let mut board = board.unwrap_or_else(PoisonError::into_inner);
        if board.is_over || board.next >= self.legs.len() {
            return None;
        }
        let (leg, spool) = (board.next, Arc::new(Spool::default()));
        board.next += 1;
        board.reading += 1;
        board.begun.insert(leg, Arc::clone(&spool));
        Some((leg, spool))
    }

    fn download(&self, client: &Client, leg: usize, spool: &Spool) -> End {
        // Whatever happens in here, nobody waits for it for ever.
        let _ended = Ended(spool);
        let wanted = &self.legs[leg].bundles;
        let Ok(file) = nameless(&self.directory) else {
            return End::LeftOff;
        };
        let file = spool.keep(file);
        if !has_room(&file, self.legs[leg].bytes) {
            return End::LeftOff;
        }
        let ids: Vec<_> = wanted.iter().map(|wanted| wanted.id).collect();
        // A hub, or what is before it, may serve less at once.
        let Ok(mut stream) = client.bundles(&self.room, &ids) else {
            return End::LeftOff;
        };
        let mut piece = vec![0; PIECE_BYTES];
        for wanted in wanted {
            let reader = match stream.next() {
                Ok(reader) => reader,
                Err(failure) => return End::Failed(Some(failure)),
            };
            let Some(mut reader) = reader.filter(|reader| wanted.is(reader)) else {
                return End::NotSent;
            };
            spool.begin_bundle();
            loop {
                let read = match reader.read(&mut piece) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) => return End::Failed(error.downcast().ok()),
                };
                if (&*file).write_all(&piece[..read]).is_err() {
                    return End::LeftOff;
                }
                self.arrived.fetch_add(read as u64, Ordering::Relaxed);
                spool.advance(read as u64);
            }
        }
        End::Whole
    }
}

/// Whether this much fits on the disk and leaves room for what is being imported: git needs about as much again for it, and
/// does not do without as a download can.
fn has_room(file: &File, bytes: u64) -> bool {
    let disk = rustix::fs::fstatvfs(file);
    disk.map_or(true, |disk| {
        disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes.saturating_mul(3)
    })
}

/// A file that vanishes with the process.
fn nameless(directory: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    tempfile::tempfile_in(directory)
}

/// Sees to it that a download has an end.
struct Ended<'s>(&'s Spool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end(End::LeftOff);
        }
    }
}

/// How a download ended.
#[derive(Debug)]
enum End {
    /// All of it is here.
    Whole,
    /// The hub sent something else.
    NotSent,
    /// It may go on where it was left: there is no room for it here, or it could not begin.
    LeftOff,
    /// It cannot be had. Taken by whoever tells it.
    Failed(Option<ClientError>),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::NotSent => f.write_str("not what was asked for"),
            Self::LeftOff => f.write_str("left off"),
            Self::Failed(Some(failure)) => failure.fmt(f),
            Self::Failed(None) => f.write_str("failed"),
        }
    }
}

/// One leg on the disk, while it comes.
#[derive(Default)]
pub(super) struct Spool {
    progress: Mutex<Progress>,
    moved: Condvar,
}

#[derive(Default)]
struct Progress {
    file: Option<Arc<File>>,
    /// Bundles whose beginning has come.
    bundles: usize,
    bytes: u64,
    end: Option<End>,
}

/// What is there of something that was waited for.
pub(super) enum Found {
    /// It is there; so many bytes of it, where it is about bytes.
    Here(usize),
    /// It will not come by itself: the caller goes on where it was left.
    LeftOff,
    /// The hub sent something else.
    NotSent,
}

impl Spool {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, file: File) -> Arc<File> {
        let file = Arc::new(file);
        self.progress().file = Some(Arc::clone(&file));
        file
    }

    fn begin_bundle(&self) {
        self.progress().bundles += 1;
        self.moved.notify_all();
    }

    fn advance(&self, bytes: u64) {
        self.progress().bytes += bytes;
        self.moved.notify_all();
    }

    fn end(&self, end: End) {
        self.progress().end.get_or_insert(end);
        self.moved.notify_all();
    }

    fn failure(&self) -> Option<ClientError> {
        match &mut self.progress().end {
            Some(End::Failed(failure)) => failure.take(),
            _ => None,
        }
    }

    /// Waits until the bundle of this number in the leg, from 0, has begun.
    ///
    /// # Errors
    /// The download failed before.
    pub(super) fn bundle(&self, number: usize) -> Result<Found, ClientError> {
        self.wait(|progress| progress.bundles > number).map(|(found, _)| found)
    }

    /// Reads what has come behind this many bytes of the leg, once there is something.
    ///
    /// # Errors
    /// The download failed before, or the file cannot be read.
    pub(super) fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<Found> {
        let found = self.wait(|progress| progress.bytes > position);
        let (found, progress) = found.map_err(io::Error::other)?;
        let there = usize::try_from(progress.bytes.saturating_sub(position)).unwrap_or(usize::MAX);
        let (Found::Here(_), Some(file)) = (&found, progress.file.clone()) else {
            return Ok(found);
        };
        drop(progress);
        let most = there.min(buffer.len());
        file.read_at(&mut buffer[..most], position).map(Found::Here)
    }

    fn wait(&self, is_there: impl Fn(&Progress) -> bool) -> Result<(Found, MutexGuard<'_, Progress>), ClientError> {
        let waits = |progress: &mut Progress| !is_there(progress) && progress.end.is_none();
        let progress = self.moved.wait_while(self.progress(), waits);
        let mut progress = progress.unwrap_or_else(PoisonError::into_inner);
        if is_there(&progress) {
            return Ok((Found::Here(0), progress));
        }
        let found = match &mut progress.end {
            Some(End::Failed(failure)) => return Err(failure.take().unwrap_or(ClientError::ToldToStop)),
            Some(End::NotSent) => Found::NotSent,
            // A whole one has nothing behind its end that anybody asks for.
            Some(End::LeftOff | End::Whole) | None => Found::LeftOff,
        };
        Ok((found, progress))
    }
}

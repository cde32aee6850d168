//! The thread that writes. Whatever queued up while it committed is its next batch: one transaction, one fsync. Nobody
//! is answered before the commit has returned. After an error that leaves in doubt what the disk holds it writes
//! nothing more, and tries no fsync again: a second one may claim what the first could not do.

use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::SqliteOptions;
use super::batch::{Batch, Memory};
use super::data_directory::DataDirectory;
use super::failure::{Failure, Severity};
use crate::directory::sync_directory;
use crate::disk_space::{DiskSpace, FreeFloor};
use crate::fail_point::{FailPoint, reached};
use crate::store::{CommitStats, StoreError};

/// Most operations in one transaction.
const MAX_BATCH_OPERATIONS: usize = 1_024;
/// Most bytes of messages and blobs in one transaction, the last operation aside.
const MAX_BATCH_BYTES: usize = 8 << 20; // 8 MiB
/// Most bytes of messages and blobs that wait for the writer; who brings more waits before queueing.
const MAX_QUEUED_BYTES: usize = 64 << 20; // 64 MiB
/// Pages in the write-ahead log before they are copied into the database: 16 MiB. Fewer cost more fsyncs a message,
/// more make the next start slower and gain nothing.
const CHECKPOINT_PAGES: i32 = 4_000;
/// Pages in the log before the writer waits for readers, so that the log can begin anew: 160 MiB.
const CHECKPOINT_WAITING_PAGES: i32 = 40_000;

/// The way to the writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::UnboundedSender<Command>>>,
    room_in_queue: Arc<Semaphore>,
    stopped: Arc<OnceLock<String>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Command {
    Run(Box<dyn Operation>),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

impl Writer {
    /// Starts the thread. `directory` stays locked until it has ended.
    pub(super) fn start(
        mut connection: Connection,
        directory: DataDirectory,
        options: &SqliteOptions,
    ) -> io::Result<Self> {
        let wal_pages = Arc::new(AtomicI32::new(0));
        let pages = Arc::clone(&wal_pages);
        // In place of SQLite's own checkpoints: those run inside the commit, where somebody waits for an answer, and
        // hide their errors.
        let hook = move |_: &mut Wal, in_log| {
            pages.store(in_log, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(io::Error::other)?;
        let (queue, receiver) = mpsc::unbounded_channel();
        let stopped = Arc::new(OnceLock::new());
        let worker = Worker {
            connection,
            memory: Memory::default(),
            stopped: Arc::clone(&stopped),
            wal_pages,
            checkpointed_pages: 0,
            free_floor: options.free_floor,
            commits: options.commits.clone(),
            directory,
            is_log_named: false,
        };
        let thread = std::thread::Builder::new().name("parler-writer".to_owned()).spawn({
            let stopped = Arc::clone(&stopped);
            move || {
                // Whoever asks afterwards is told, instead of waiting for ever.
                if catch_unwind(AssertUnwindSafe(|| worker.run(receiver))).is_err() {
                    let _ = stopped.set("the writing thread panicked".to_owned());
                }
            }
        })?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            room_in_queue: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
            stopped,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Runs `work` in a transaction and returns its result once that is on disk. `bytes` is about what it stores. Work
    /// that was queued is done even when the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.queue(Undo::Savepoint, bytes, work).await
    }

    /// Like [`Writer::run`], for work that writes nothing before everything is found that could refuse it. Cheaper.
    pub(super) async fn run_checked_first<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.queue(Undo::Needless, bytes, work).await
    }

    async fn queue<T: Send + 'static>(
        &self,
        undo: Undo,
        bytes: usize,
        work: impl FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permits = u32::try_from(bytes.min(MAX_QUEUED_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room_in_queue)
            .acquire_many_owned(permits)
            .await
            .map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let request = Request {
            undo,
            work,
            bytes,
            result: None,
            reply,
            _permit: permit,
        };
        self.send(Command::Run(Box::new(request)))?;
        answer.await.unwrap_or_else(|_| Err(self.why_stopped()))
    }

    /// Finishes what is queued, empties the log into the database and ends the thread.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Close(reply))?;
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.await.unwrap_or_else(|_| Err(self.why_stopped()))
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or_else(|| self.why_stopped())?;
        queue.send(command).map_err(|_| self.why_stopped())
    }

    fn why_stopped(&self) -> StoreError {
        self.stopped
            .get()
            .map_or_else(closed, |reason| StoreError::Stopped(reason.clone()))
    }
}

impl Drop for Writer {
    /// Waits for the thread, so that the directory is free for the next to open it.
    fn drop(&mut self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It panicked or it did not: either way it is over.
            let _ = thread.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Stopped("it has been closed".to_owned())
}

/// How work that is refused is undone, alone among all in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// It may have written something by then.
    Savepoint,
    /// It has written nothing by then.
    Needless,
}

/// Work for the thread, with somebody who waits for it.
trait Operation: Send {
    fn bytes(&self) -> usize;
    fn undo(&self) -> Undo;
    /// Does the work and keeps its result, the last one if it is done again. Returns whether what it wrote shall stay.
    fn run(&mut self, batch: &mut Batch<'_>) -> Result<bool, rusqlite::Error>;
    /// Makes this the result.
    fn fail(&mut self, error: StoreError);
    fn answer(self: Box<Self>);
}

struct Request<T, W> {
    undo: Undo,
    work: W,
    bytes: usize,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _permit: OwnedSemaphorePermit,
}

impl<T: Send, W: FnMut(&mut Batch<'_>) -> Result<T, Failure> + Send> Operation for Request<T, W> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn undo(&self) -> Undo {
        self.undo
    }

    fn run(&mut self, batch: &mut Batch<'_>) -> Result<bool, rusqlite::Error> {
        let result = match (self.work)(batch) {
            Ok(value) => Ok(value),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sqlite(error)) => return Err(error),
        };
        let stays = result.is_ok();
        self.result = Some(result);
        Ok(stays)
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            // Whoever asked may have gone; the work is done all the same.
            let _ = self.reply.send(result);
        }
    }
}

/// Why a transaction did not get to its end.
struct Interrupted {
    /// Whether it was one of its operations that failed, and not the transaction itself.
    by_operation: bool,
    error: rusqlite::Error,
}

impl From<rusqlite::Error> for Interrupted {
    fn from(error: rusqlite::Error) -> Self {
        Self {
            by_operation: false,
            error,
        }
    }
}

/// The thread's own state.
struct Worker {
    connection: Connection,
    memory: Memory,
    stopped: Arc<OnceLock<String>>,
    /// Pages in the log after the newest commit.
    wal_pages: Arc<AtomicI32>,
    /// Pages of the log that are in the database too.
    checkpointed_pages: i32,
    free_floor: FreeFloor,
    commits: CommitStats,
    /// Locked until the connection, which is above, is closed.
    directory: DataDirectory,
    /// Whether the directory's entry of the log is known to be on disk.
    is_log_named: bool,
}

impl Worker {
    fn run(mut self, mut queue: mpsc::UnboundedReceiver<Command>) {
        let mut close = None;
        while close.is_none()
            && let Some(first) = queue.blocking_recv()
        {
            let mut batch = Vec::new();
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    Command::Run(operation) => {
                        bytes += operation.bytes();
                        batch.push(operation);
                    }
                    Command::Close(reply) => {
                        close = Some(reply);
                        break;
                    }
                }
                let is_full = batch.len() >= MAX_BATCH_OPERATIONS || bytes >= MAX_BATCH_BYTES;
                next = if is_full { None } else { queue.try_recv().ok() };
            }
            self.write(&mut batch);
            for operation in batch {
                operation.answer();
                reached(FailPoint::OperationAnswered);
            }
            self.checkpoint_if_due();
        }
        let closed = self.close();
        reached(FailPoint::Closed);
        if let Some(reply) = close {
            let _ = reply.send(closed);
        }
    }

    /// Commits the batch, or decides what everybody in it is told instead.
    fn write(&mut self, batch: &mut [Box<dyn Operation>]) {
        if batch.is_empty() {
            return;
        }
        self.name_log();
        if let Some(reason) = self.stopped.get() {
            batch
                .iter_mut()
                .for_each(|operation| operation.fail(StoreError::Stopped(reason.clone())));
            return;
        }
        let began = Instant::now();
        let Err(interrupted) = self.transact(batch) else {
            self.commits.committed(batch.len(), began.elapsed());
            return;
        };
        let severity = Severity::of(&interrupted.error);
        self.memory.forget();
        self.roll_back(severity, &interrupted.error);
        if interrupted.by_operation && severity == Severity::Operation && batch.len() > 1 {
            // One of them failed after it had begun to write. Alone, each fails or succeeds for itself.
            batch.chunks_mut(1).for_each(|operation| self.write(operation));
            return;
        }
        for operation in batch {
            operation.fail(match (self.stopped.get(), severity) {
                (Some(reason), _) => StoreError::Stopped(reason.clone()),
                (None, Severity::Full) => StoreError::StorageFull,
                (None, _) => StoreError::Database(interrupted.error.to_string()),
            });
        }
    }

    /// Brings the name of the log to the disk, before the first commit of a run. SQLite does so behind it, and does not look
    /// at what came of that; asked again, the kernel would have forgotten.
    fn name_log(&mut self) {
        if self.is_log_named || self.stopped.get().is_some() {
            return;
        }
        match sync_directory(self.directory.path()) {
            Ok(()) => self.is_log_named = true,
            Err(error) => self.stop(&error),
        }
    }

    fn transact(&mut self, operations: &mut [Box<dyn Operation>]) -> Result<(), Interrupted> {
        let run = |sql| self.connection.prepare_cached(sql)?.execute(()).map(drop);
        reached(FailPoint::BatchTaken);
        run("BEGIN IMMEDIATE")?;
        reached(FailPoint::BatchBegun);
        let bytes = operations.iter().map(|operation| operation.bytes()).sum::<usize>();
        // Where the system cannot tell, the disk itself will.
        let has_room =
            DiskSpace::at(self.directory.path()).map_or(true, |disk| disk.has_room(bytes as u64, self.free_floor));
        let mut batch = Batch::new(&self.connection, &mut self.memory, has_room);
        for operation in operations {
            let undo = operation.undo();
            if undo == Undo::Savepoint {
                run("SAVEPOINT operation")?;
            }
            let stays = operation.run(&mut batch).map_err(|error| Interrupted {
                by_operation: true,
                error,
            })?;
            if undo == Undo::Savepoint {
                if !stays {
                    run("ROLLBACK TO operation")?;
                }
                run("RELEASE operation")?;
                reached(FailPoint::SavepointReleased);
            }
        }
        batch.finish()?;
        reached(FailPoint::BatchFinished);
        run("COMMIT")?;
        reached(FailPoint::BatchCommitted);
        Ok(())
    }

    /// Leaves no transaction open, unless writing is over: then not even that is tried.
    fn roll_back(&self, severity: Severity, error: &rusqlite::Error) {
        if severity == Severity::Fatal {
            self.stop(error);
        } else if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            self.stop(&error);
        }
    }

    /// Ends writing for ever. Said once: the first reason is the one that matters.
    fn stop(&self, error: &impl Display) {
        let _ = self.stopped.set(error.to_string());
    }

    fn checkpoint_if_due(&mut self) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages < self.checkpointed_pages {
            // The log has begun anew.
            self.checkpointed_pages = 0;
        }
        if self.stopped.get().is_some() || pages - self.checkpointed_pages < CHECKPOINT_PAGES {
            return;
        }
        let how = if pages < CHECKPOINT_WAITING_PAGES {
            "PASSIVE"
        } else {
            "RESTART"
        };
        self.checkpointed_pages = pages;
        reached(FailPoint::CheckpointDue);
        if let Err(error) = self.checkpoint(how) {
            match Severity::of(&error) {
                // Everything is in the log still, and will be copied when there is space.
                Severity::Full | Severity::Operation => {}
                Severity::Fatal => self.stop(&error),
            }
        }
        reached(FailPoint::CheckpointDone);
    }

    fn checkpoint(&self, how: &str) -> rusqlite::Result<()> {
        self.connection
            .query_row(&format!("PRAGMA wal_checkpoint({how})"), (), |_| Ok(()))
    }

    fn close(self) -> Result<(), StoreError> {
        if let Some(reason) = self.stopped.get() {
            return Err(StoreError::Stopped(reason.clone()));
        }
        reached(FailPoint::CloseBegun);
        self.checkpoint("TRUNCATE")
            // The last connection to go takes the files of the log with it.
            .and_then(|()| {
                reached(FailPoint::CloseCheckpointed);
                self.connection
                    .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            })
            .map(drop)
            .map_err(|error| Failure::from(error).into_store_error())
    }
}

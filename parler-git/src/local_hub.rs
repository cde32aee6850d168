//! This user's own hub: found when it runs, started when something needs it, one for each data directory.
//!
//! A running hub holds a lock on a file of its directory for as long as it lives, so whether it runs is asked of the
//! kernel: a process number or an address in a file can be somebody else's by now. Starting is serialised by a second
//! lock; whoever comes second finds the hub running. The starter waits on a pipe for the hub's word that it serves.
//!
//! A hub of an older version is ended and followed by this program's; one of a newer version is used as it is, and never
//! ended by itself. So among programs of several versions the newest wins, once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType, Pid, Signal};
use serde::{Deserialize, Serialize};

use self::record::{HubRecord, answers, read_record};
use crate::PROGRAM_NAME;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::home::{Home, create_private_dir, read_private};

mod record;
#[cfg(feature = "local-hub")]
mod serve;

#[cfg(feature = "local-hub")]
pub(crate) use serve::{serve, start_alone};

/// In a program without the hub there is nothing to serve.
#[cfg(not(feature = "local-hub"))]
pub(crate) fn serve(_hub: &LocalHub, _environment: &Environment, _announce: bool) -> Result<()> {
    Err(Error::fatal("this git-parler was built without a hub").then("git parler connect --hub URL"))
}

#[cfg(not(feature = "local-hub"))]
pub(crate) fn start_alone(_environment: &Environment) -> Result<()> {
    Ok(())
}

/// How long a hub may take from its start to its word that it serves.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long a hub may take to end in order: requests in flight get 10 s. After that it is ended as a crash would.
const STOP_DEADLINE: Duration = Duration::from_secs(14);
/// How long the kernel may take to end it.
const KILL_DEADLINE: Duration = Duration::from_secs(5);
/// How often it is asked meanwhile whether it has.
const STOP_LOOK: Duration = Duration::from_millis(2);
/// What a hub says on its pipe once it serves. Anything else is the reason why not: [`Refusal`], or plain words. Of the
/// same form in every version: a program that runs for long starts the hub that has been installed in its place since.
const READY: &str = "ready\n";
/// Most that is read of that reason.
const MAX_REASON_BYTES: u64 = 4096;
/// Variables that a hub is given: where its files are, and how its log is to be.
const KEPT_VARIABLES: [&str; 8] = [
    "HOME",
    "PATH",
    "PARLER_HOME",
    "PARLER_LOG",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Why a hub does not serve, as its starter passes it on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Refusal {
    /// The data is a newer program's: trying again does not help this program.
    outdated: bool,
    what: String,
    next: Option<String>,
}

/// The local hub's place.
#[derive(Debug, Clone)]
pub(crate) struct LocalHub {
    directory: PathBuf,
}

impl LocalHub {
    pub(crate) fn of(home: &Home) -> Self {
        Self {
            directory: home.hub_dir(),
        }
    }

    fn record_path(&self) -> PathBuf {
        self.directory.join("hub.json")
    }

    fn life_lock_path(&self) -> PathBuf {
        self.directory.join("hub.lock")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("hub.log")
    }

    /// What the hub that runs says of itself; none where none runs, or one that does not serve yet.
    pub(crate) fn running(&self) -> Result<Option<HubRecord>> {
        let Some(pid) = self.process()? else { return Ok(None) };
        Ok(read_record(&self.record_path())?.filter(|record| record.pid == pid.as_raw_pid()))
    }

    /// The hub, started if it does not run, and in place of an older one.
    pub(crate) fn ensure(&self, environment: &Environment) -> Result<HubRecord> {
        if let Some(record) = self.running()?
            && !self.gives_way(&record)
        {
            return record.understood();
        }
        create_private_dir(&self.directory)?;
        // Held also while an older hub ends: nobody else starts one in between, least of all of the older version.
        let _starting = self.lock_starting()?;
        match self.running()? {
            Some(record) if self.gives_way(&record) && is_followed(environment, &record) => {
                self.stop()?;
            }
            Some(record) => return record.understood(),
            None => {}
        }
        self.refuse_unreadable_record()?;
        self.start(environment).map_err(|error| match self.lock_holder() {
            // It waited for the end of one that does not end.
            Ok(Some(pid)) => self.place_unknown(pid),
            _ => error,
        })?;
        match self.running()? {
            Some(record) => Ok(record),
            None => Err(self.not_started("it ended at once")),
        }
    }

    /// Whether this program puts its own hub in the place of the one that runs.
    fn gives_way(&self, running: &HubRecord) -> bool {
        cfg!(feature = "local-hub") && running.is_older()
    }

    /// What the hub that runs says of itself, else why nothing can be told.
    pub(crate) fn status(&self) -> Result<HubRecord> {
        match (self.running()?, self.lock_holder()?) {
            (Some(record), _) => Ok(record),
            (None, Some(pid)) => Err(self.place_unknown(pid)),
            (None, None) => Err(Error::new(ErrorKind::Negative, "no local hub runs").then("git parler hub start")),
        }
    }

    /// To be called with starting locked: then a hub that runs has written its file, and only somebody else spoils it.
    fn refuse_unreadable_record(&self) -> Result<()> {
        let path = self.record_path();
        match self.lock_holder()? {
            Some(pid) if read_private(&path)?.is_some() && read_record(&path)?.is_none() => {
                Err(self.place_unknown(pid))
            }
            _ => Ok(()),
        }
    }

    fn place_unknown(&self, pid: Pid) -> Error {
        let path = self.record_path();
        let what = format!(
            "the local hub runs (process {}), and {} does not say where",
            pid.as_raw_pid(),
            path.display()
        );
        Error::new(ErrorKind::Unreachable, what).then("git parler hub stop")
    }

    /// Ends the hub that runs, in order if it can: what it has acknowledged is safe either way. False: none ran.
    pub(crate) fn stop(&self) -> Result<bool> {
        let Some(pid) = self.process()? else { return Ok(false) };
        signal(pid, Signal::TERM)?;
        if self.ends_within(pid, STOP_DEADLINE)? {
            return Ok(true);
        }
        // Still the holder of the lock a moment ago, so the number is no other's.
        signal(pid, Signal::KILL)?;
        match self.ends_within(pid, KILL_DEADLINE)? {
            true => Ok(true),
            false => Err(Error::io(
                "wait for the local hub's end",
                &io::ErrorKind::TimedOut.into(),
            )),
        }
    }

    fn ends_within(&self, pid: Pid, deadline: Duration) -> Result<bool> {
        let until = Instant::now() + deadline;
        // Its lock is another's when it has ended, or nobody's. Waiting for the lock would be waiting for the end of the
        // next hub too, which somebody who watches a room starts at once.
        while self.process()? == Some(pid) {
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(STOP_LOOK);
        }
        Ok(true)
    }

    /// The process of the hub that runs. Where nobody holds the lock somebody may have removed its file: then a hub that
    /// answers as the one of the record is it.
    pub(crate) fn process(&self) -> Result<Option<Pid>> {
        if let Some(pid) = self.lock_holder()? {
            return Ok(Some(pid));
        }
        let record = read_record(&self.record_path())?.filter(answers);
        Ok(record.and_then(|record| Pid::from_raw(record.pid)))
    }

    /// The process that holds the life lock.
    fn lock_holder(&self) -> Result<Option<Pid>> {
        let file = match OpenOptions::new().read(true).write(true).open(self.life_lock_path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::io(
                    format_args!("open {}", self.life_lock_path().display()),
                    &error,
                ));
            }
        };
        let held = rustix::process::fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))
            .map_err(|error| Error::io("look for the local hub", &error.into()))?;
        Ok(held.and_then(|lock| lock.pid))
    }

    /// Waits for other starters.
    fn lock_starting(&self) -> Result<File> {
        let file = private_file(&self.directory.join("start.lock"))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(file);
        }
        let locked = in_time(START_DEADLINE * 2, move || {
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|_| self.not_started("another process has been starting it for too long"))
    }

    fn start(&self, environment: &Environment) -> Result<()> {
        if cfg!(not(feature = "local-hub")) {
            return serve(self, environment, false);
        }
        let executable = environment
            .executable
            .as_deref()
            .ok_or_else(|| self.not_started("this program's file is not known"))?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.log_path())
            .map_err(|error| Error::io("open the local hub's log", &error))?;
        let mut command = Command::new(executable);
        command
            .arg0(PROGRAM_NAME)
            .args(["hub", "run", "--announce"])
            .current_dir(&self.directory)
            .env_clear()
            .envs(
                KEPT_VARIABLES
                    .iter()
                    .filter_map(|name| Some((name, environment.variable(name)?))),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        if let Some(home) = &environment.parler_home {
            // Relative to where this program was called.
            command.env("PARLER_HOME", environment.directory.join(home));
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            // The helper is a program of its own, and looks for the other beside it.
            io::ErrorKind::NotFound => {
                let what = format_args!("the local hub did not start: there is no {}", executable.display());
                Error::new(ErrorKind::Unreachable, what).then("install both programs in one directory")
            }
            _ => self.not_started(&error.to_string()),
        })?;
        let word = child.stdout.take().map(|pipe| first_words(pipe, START_DEADLINE));
        match word {
            Some(Ok(word)) if word == READY => Ok(()),
            Some(Ok(reason)) => {
                end(&mut child);
                Err(self.refused(reason.trim()))
            }
            Some(Err(error)) => {
                end(&mut child);
                Err(self.not_started(&error.to_string()))
            }
            None => Err(self.not_started("it has no pipe")),
        }
    }

    /// What a hub that does not serve said on its pipe.
    fn refused(&self, reason: &str) -> Error {
        match serde_json::from_str::<Refusal>(reason) {
            Ok(refusal) if refusal.outdated => {
                let error = Error::new(ErrorKind::Refused, refusal.what).outdated();
                match refusal.next {
                    Some(next) => error.then(next),
                    None => error,
                }
            }
            Ok(refusal) => self.not_started(&refusal.what),
            Err(_) if reason.is_empty() => self.not_started("it ended without a word"),
            Err(_) => self.not_started(reason),
        }
    }

    fn not_started(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::Unreachable,
            format_args!("the local hub did not start: {why}"),
        )
        .then(format!("see {}", self.log_path().display()))
    }
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    match rustix::process::kill_process(pid, signal) {
        // It has ended meanwhile.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::io("end the local hub", &error.into())),
    }
}

fn end(child: &mut Child) {
    // Both fail only when it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// A file to lock, made if there is none.
fn private_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::io(format_args!("open {}", path.display()), &error))
}

/// Does what may block for long on a thread of its own, and stops waiting for it at the deadline. The thread is left
/// behind then: this program is about to end.
fn in_time<T: Send + 'static>(
    deadline: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive
        .recv_timeout(deadline)
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// What a started hub says until it closes its pipe or says that it is ready.
fn first_words(pipe: ChildStdout, deadline: Duration) -> io::Result<String> {
    let until = Instant::now() + deadline;
    let mut pipe = pipe.take(MAX_REASON_BYTES);
    let mut said = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut polled = [PollFd::new(pipe.get_ref(), PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no word from it in {} s", deadline.as_secs()),
                ));
            }
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let mut buffer = [0; 256];
        let read = pipe.read(&mut buffer)?;
        said.extend_from_slice(&buffer[..read]);
        if read == 0 || said == READY.as_bytes() {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
}

/// Whether what this program would start is newer than the hub that runs. The helper starts the program beside it, which may
/// be of any version, and may not be there.
fn is_followed(environment: &Environment, running: &HubRecord) -> bool {
    let told = environment.executable.as_deref().and_then(|program| {
        let mut command = Command::new(program);
        command.arg0(PROGRAM_NAME).arg("--version").env_clear();
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let version = told.as_deref().and_then(|told| told.split_whitespace().last());
    version.is_some_and(|version| running.is_older_than(version))
}

#[cfg(test)]
mod tests {
    use parler_protocol::HubId;

    use super::*;
    use crate::home::write_private;

    fn hub() -> (tempfile::TempDir, LocalHub) {
        let directory = tempfile::tempdir().unwrap();
        let hub = LocalHub {
            directory: directory.path().to_owned(),
        };
        (directory, hub)
    }

    #[test]
    fn a_record_without_a_living_hub_is_nothing() {
        let (_directory, hub) = hub();
        assert!(hub.running().unwrap().is_none());
        let record = HubRecord {
            pid: std::process::id() as i32,
            address: "http://127.0.0.1:9".into(),
            version: "0".into(),
            protocols: vec![1],
            secret: "s".into(),
            hub: HubId::from_bytes([1; 16]),
        };
        write_private(&hub.record_path(), &serde_json::to_vec(&record).unwrap()).unwrap();
        private_file(&hub.life_lock_path()).unwrap();
        assert!(hub.running().unwrap().is_none());
        assert!(!hub.stop().unwrap());
    }

    #[test]
    fn waiting_ends_at_its_deadline() {
        let (send, receive) = mpsc::channel::<()>();
        let waited = in_time(Duration::from_millis(1), move || Ok(receive.recv().is_ok()));
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(send);
    }

    #[test]
    fn what_a_hub_says_is_passed_on() {
        let (_directory, hub) = hub();
        let refusal = Refusal {
            outdated: true,
            what: "format 9".to_owned(),
            next: Some("upgrade".to_owned()),
        };
        let error = hub.refused(&serde_json::to_string(&refusal).unwrap());
        assert_eq!((error.kind, error.is_outdated()), (ErrorKind::Refused, true));
        assert_eq!(error.line(), "format 9; upgrade");
        for (said, told) in [
            ("", "without a word"),
            ("no space", "no space"),
            ("{\"what\":\"x\"}", ": x"),
        ] {
            let error = hub.refused(said);
            assert_eq!((error.kind, error.is_outdated()), (ErrorKind::Unreachable, false));
            assert!(error.what().contains(told), "{error}");
        }
    }
}

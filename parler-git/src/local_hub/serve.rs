//! The process of the local hub: takes its lock, binds its port, tells this user's programs where it is, and serves
//! until it is told to end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use parler_hub::store::OpenError;
use parler_hub::{Hub, HubError, HubOptions, LocalPolicy};
use parler_protocol::BundleId;
use rustix::fs::{FlockOperation, Mode};
use rustix::process::{Resource, Rlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::record::{HubRecord, PROTOCOLS, VERSION, read_record};
use super::{LocalHub, READY, Refusal, STOP_LOOK, in_time, private_file};
use crate::PROGRAM_NAME;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::home::{create_private_dir, write_private_soon};

/// How long a hub waits for the end of the one before it.
const LOCK_DEADLINE: Duration = Duration::from_secs(15);
/// The file descriptor behind stdin, stdout and stderr, which the starter chose for the hub.
const FIRST_INHERITED: i32 = 3;
/// A log that was longer at the start of a hub is put aside.
const LOG_KEPT_BYTES: u64 = 8 << 20; // 8 MiB

/// Serves in this process until SIGTERM or SIGINT. With `announce` the process was started by a program that waits for
/// one word on its stdout, and leaves that program's session.
pub(crate) fn serve(hub: &LocalHub, environment: &Environment, announce: bool) -> Result<()> {
    if announce {
        // Fails only for the leader of a process group, which is apart already.
        let _ = rustix::process::setsid();
    }
    let served = prepare(hub, environment).and_then(|runtime| runtime.block_on(run(hub, announce)));
    if let (true, Err(error)) = (announce, &served) {
        let refusal = Refusal {
            outdated: error.is_outdated(),
            what: error.what().to_owned(),
            next: error.next().map(str::to_owned),
        };
        // The starter shows it; if it is gone nobody can.
        let _ = serde_json::to_writer(io::stdout(), &refusal);
    }
    served
}

/// Starts this process again without the files that whoever started it had open: the lock of a script, or the pipe that
/// a CI job waits on, would be held for as long as the hub lives. Comes back where the program's file is not known.
pub(crate) fn start_alone(environment: &Environment) -> Result<()> {
    let Some(executable) = environment.executable.as_deref() else {
        return Ok(());
    };
    // Marked, not closed: nothing may close a file that something in this process still takes for its own.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let failed = Command::new(executable)
        .arg0(PROGRAM_NAME)
        .args(["hub", "run", "--announce", "--alone"])
        .exec();
    Err(Error::io("start the hub without the files of its starter", &failed))
}

fn prepare(hub: &LocalHub, environment: &Environment) -> Result<tokio::runtime::Runtime> {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    raise_limits();
    create_private_dir(&hub.directory)?;
    put_long_log_aside(&hub.log_path());
    let filter = environment
        .filled("PARLER_LOG")
        .and_then(|filter| filter.to_str())
        .unwrap_or("info");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // Fails only when this process logs already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        .try_init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("start threads", &error))
}

async fn run(hub: &LocalHub, announce: bool) -> Result<()> {
    // Held until the process ends; the kernel lets go of it whatever ends the process.
    let life = take_life_lock(hub, announce)?;
    // Before the address is told, so that an early end is not missed.
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = signals else {
        return Err(Error::fatal("cannot listen for signals"));
    };

    let listener = bind(hub)
        .await
        .map_err(|error| Error::io("listen on 127.0.0.1", &error))?;
    let port = listener
        .local_addr()
        .map_err(|error| Error::io("listen on 127.0.0.1", &error))?
        .port();
    let secret = random_secret()?;
    let options = HubOptions {
        open: true,
        local: Some(LocalPolicy { secret: secret.clone() }),
        ..HubOptions::new(hub.directory.join("rooms"))
    };
    let opened = open(options, announce).await.map_err(|error| not_opened(hub, &error))?;
    let record = HubRecord {
        pid: rustix::process::getpid().as_raw_pid(),
        address: format!("http://127.0.0.1:{port}"),
        version: VERSION.to_owned(),
        protocols: PROTOCOLS.to_vec(),
        secret,
        hub: opened.id(),
    };
    let content = serde_json::to_vec_pretty(&record)
        .map_err(|error| Error::fatal(format_args!("cannot tell where the hub is: {error}")))?;
    // Of a process that no crash of the machine leaves alive: not worth two syncs of the disk at each start.
    write_private_soon(&hub.record_path(), &content)
        .map_err(|error| Error::io(format_args!("write {}", hub.record_path().display()), &error))?;
    tracing::info!(address = record.address, pid = record.pid, "the local hub serves");
    if announce {
        announce_ready().map_err(|error| Error::io("answer the program that started the hub", &error))?;
    }
    let (record_path, last_path) = (hub.record_path(), last_record_path(hub));
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // From now on nobody is sent here: whoever needs a hub starts the next one, which waits for this one's end.
        let _ = fs::rename(record_path, last_path);
    };
    opened
        .serve(listener, shutdown)
        .await
        .map_err(|error| Error::fatal(format_args!("the local hub: {error}")))?;
    drop(life);
    Ok(())
}

/// Opens the data. A hub whose life lock somebody removed may be about to end: it is waited for like any other.
async fn open(options: HubOptions, waits: bool) -> std::result::Result<Hub, HubError> {
    let until = Instant::now() + LOCK_DEADLINE;
    loop {
        match Hub::open(options.clone()) {
            Err(HubError::Open(OpenError::InUse(_))) if waits && Instant::now() < until => {
                tokio::time::sleep(STOP_LOOK).await;
            }
            opened => return opened,
        }
    }
}

/// Why the data cannot be served. What a newer program wrote is left as it is.
fn not_opened(hub: &LocalHub, error: &HubError) -> Error {
    let HubError::Open(OpenError::NewerFormat { found, known, .. }) = error else {
        return Error::fatal(format_args!("the local hub's data: {error}"));
    };
    let what = format!(
        "the local hub's data in {} has format {found}, and this git-parler {VERSION} knows formats up to {known}",
        hub.directory.display()
    );
    Error::new(ErrorKind::Refused, what)
        .outdated()
        .then("use the newer git-parler that wrote it, or another directory: PARLER_HOME")
}

/// What the last hub said of itself, kept for its port.
fn last_record_path(hub: &LocalHub) -> PathBuf {
    hub.directory.join("last-hub.json")
}

/// Takes the lock that says that a hub lives. A hub that was started because one is needed waits for one that is about
/// to end.
fn take_life_lock(hub: &LocalHub, waits: bool) -> Result<File> {
    let file = private_file(&hub.life_lock_path())?;
    let locked = if waits {
        in_time(LOCK_DEADLINE, move || {
            rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        })
    } else {
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
            .map(|()| file)
            .map_err(io::Error::from)
    };
    locked.map_err(|_| Error::new(ErrorKind::Conflict, "another local hub of this user runs"))
}

/// The last hub's port if it is free, so that addresses stay what they were; else one that the kernel chooses.
async fn bind(hub: &LocalHub) -> io::Result<TcpListener> {
    // A hub that was killed has left its record where it was.
    let records = [hub.record_path(), last_record_path(hub)];
    let last = records
        .iter()
        .find_map(|path| read_record(path).ok().flatten())
        .and_then(|record| record.address.rsplit_once(':')?.1.parse().ok());
    if let Some(port) = last
        && let Ok(listener) = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).await
    {
        return Ok(listener);
    }
    TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).await
}

/// Says the word, and lets go of the pipe: the starter may be a link of a pipeline that ends when nobody holds it.
fn announce_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(READY.as_bytes())?;
    stdout.flush()?;
    let nothing = fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(&nothing)?)
}

fn random_secret() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::fatal(format_args!("no random numbers for a secret: {error}")))?;
    Ok(BundleId::from_digest(bytes).to_string())
}

/// Each connection is a file, and the usual soft limit is 1,024 of them. How large a file may be is the business of
/// whoever started the hub, not of those it serves later.
fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = rustix::process::getrlimit(resource);
        // A hub with fewer connections, or less room, is still a hub.
        let _ = rustix::process::setrlimit(
            resource,
            Rlimit {
                current: limit.maximum,
                ..limit
            },
        );
    }
}

fn put_long_log_aside(log: &Path) {
    // Our stderr was opened before: this start's lines still go to the file put aside, the next start's to a new one.
    if log.metadata().is_ok_and(|meta| meta.len() > LOG_KEPT_BYTES) {
        let _ = fs::rename(log, log.with_extension("log.1"));
    }
}

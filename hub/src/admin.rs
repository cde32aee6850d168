//! Letting a key in from outside the hub's calls. A running hub is asked through a socket in its data directory, so that
//! its own writer does it, in its turn; a stopped one's store is opened for a moment. Whoever may write that directory
//! may do this, and nobody else.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parler_protocol::{AgentId, RoomName};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::state::SharedState;
use crate::store::{Admission, OpenError, SqliteOptions, SqliteStore, Store, StoreError};

/// The socket, below the data directory.
const SOCKET_FILE: &str = "admin.sock";
/// The database, which says that there is a hub.
const DATABASE_FILE: &str = "hub.db";
/// Longest request, and longest answer.
const MAX_LINE_BYTES: u64 = 64 << 10; // 64 KiB
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a hub that begins or ends is waited for, and how often it is tried.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Why a key could not be let in.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// No hub has its data there.
    #[error("{} is no hub's data directory: `parler-hub serve --data DIR --owner AGENT_ID` makes one, and lets that key in", .0.display())]
    NoHub(PathBuf),
    /// A process has the directory open and does not listen to such requests.
    #[error("a hub has {} open and does not answer there: start it with --owner AGENT_ID instead", .0.display())]
    Deaf(PathBuf),
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The stopped hub's store refused.
    #[error("not done: {0}")]
    Store(#[from] StoreError),
    /// The running hub refused.
    #[error("the hub says: {0}")]
    Refused(String),
    /// The running hub was asked and did not answer.
    #[error("the hub was asked and gave no answer; asking again is safe: {0}")]
    Lost(io::Error),
}

#[derive(Serialize, Deserialize)]
struct Request {
    admit: AgentId,
    rooms: Vec<RoomName>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Admitted(Admission),
    Error(String),
}

/// Lets a key into the hub whose data is in `data_dir`, and into these channels, which are made where there are none of
/// these names. The hub may run or not. Doing it twice is doing it once.
pub async fn admit(data_dir: &Path, agent: AgentId, rooms: &[RoomName]) -> Result<Admission, AdmitError> {
    if !data_dir.join(DATABASE_FILE).is_file() {
        return Err(AdmitError::NoHub(data_dir.to_owned()));
    }
    for _ in 0..TRIES {
        if let Ok(stream) = UnixStream::connect(data_dir.join(SOCKET_FILE)).await {
            return ask(stream, agent, rooms).await;
        }
        match SqliteStore::open(data_dir, SqliteOptions::default()) {
            Ok(store) => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
                let admitted = store.admit(agent, rooms, now).await;
                store.close().await?;
                return Ok(admitted?);
            }
            Err(OpenError::InUse(_)) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(AdmitError::Deaf(data_dir.to_owned()))
}

async fn ask(mut stream: UnixStream, agent: AgentId, rooms: &[RoomName]) -> Result<Admission, AdmitError> {
    let request = Request {
        admit: agent,
        rooms: rooms.to_vec(),
    };
    let exchange = async {
        write_line(&mut stream, &request).await?;
        read_line(&mut stream).await
    };
    let answer = tokio::time::timeout(PATIENCE, exchange)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(AdmitError::Lost)?;
    match answer {
        Answer::Admitted(admitted) => Ok(admitted),
        Answer::Error(why) => Err(AdmitError::Refused(why)),
    }
}

/// The socket of a serving hub. Gone when dropped.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Makes it, in place of one that a killed hub left. Needs the lock of the directory.
    pub(crate) fn bind(data_dir: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let path = data_dir.join(SOCKET_FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        // Until here the directory protects it, and whoever connects is asked who they are.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// Answers until the hub stops, one request after the other.
    pub(crate) async fn serve(self, state: SharedState) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = state.stopping() => return,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let answered = tokio::time::timeout(PATIENCE, answer(&state, stream)).await;
            if !matches!(answered, Ok(Ok(()))) {
                tracing::warn!("a request on the admin socket came to nothing");
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // One that stays is replaced by the next hub.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(state: &SharedState, mut stream: UnixStream) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    if user != 0 && user != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let Request { admit: agent, rooms } = read_line(&mut stream).await?;
    let answer = match state.store.admit(agent, &rooms, state.now_ms()).await {
        Ok(admitted) => {
            tracing::info!(%agent, is_new = admitted.is_new, "let in by its keeper");
            state.wake.notify_joined(agent);
            Answer::Admitted(admitted)
        }
        Err(error) => Answer::Error(error.to_string()),
    };
    write_line(&mut stream, &answer).await
}

async fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn read_line<T: for<'de> Deserialize<'de>>(stream: &mut UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE_BYTES))
        .read_until(b'\n', &mut line)
        .await?;
    Ok(serde_json::from_slice(&line)?)
}

//! A hub's data looked at whole: every message against the chain, its signature and its blobs, the refs against the log that
//! made them, every blob against its id, every file against its row. Reads beside a hub that runs, in short steps, and
//! changes nothing, but for files that belong to nobody where that is asked for.

mod blobs;
mod files;
mod finding;
mod jobs;
mod messages;
mod rooms;

use std::path::{Path, PathBuf};

use parler_protocol::HubId;

pub use self::finding::{Finding, FindingKind, Place, Severity};
use crate::blob_store::FileBlobStore;
use crate::hub::BLOBS_DIRECTORY;
use crate::store::{Inspector, OpenError};

/// What is to be done besides looking.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Remove files that belong to nothing. Refused while a hub runs: one of them may be about to be somebody's.
    pub repair: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages read.
    pub messages: u64,
    /// How many there are, about.
    pub messages_of: u64,
    /// Blobs read.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
}

/// What is told on the way.
#[derive(Debug)]
pub enum CheckEvent {
    /// Something is not as it should be.
    Found(Finding),
    /// It goes on.
    Progress(Progress),
}

/// What was looked at, and how much was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckSummary {
    /// Whether a hub had the data open meanwhile.
    pub in_use: bool,
    /// Rooms.
    pub rooms: u64,
    /// Messages, those included whose content is no longer kept.
    pub messages: u64,
    /// Of these, those whose content is no longer kept.
    pub dropped_messages: u64,
    /// Messages that only readers judge and whose signature does not hold: a hub takes such, and readers say so.
    pub unbelieved: u64,
    /// Refs.
    pub refs: u64,
    /// Blobs, in the database and as files.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Findings that mean that something is lost or wrong.
    pub damage: u64,
    /// Findings that mean that something takes space for nothing.
    pub leftovers: u64,
    /// Bytes of the latter.
    pub leftover_bytes: u64,
    /// Files that were removed.
    pub removed: u64,
}

/// Why the data could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No hub has its data there.
    #[error("{} is no hub's data directory: it has no hub.db", .0.display())]
    NoHub(PathBuf),
    /// It is to be repaired, and a hub has it open.
    #[error("a hub has {} open, and what it is about to use cannot be told from what is left over", .0.display())]
    InUse(PathBuf),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Collects what is found.
struct Report<'a> {
    tell: &'a mut (dyn FnMut(CheckEvent) + Send),
    summary: CheckSummary,
    progress: Progress,
}

impl Report<'_> {
    fn found(&mut self, kind: FindingKind, place: Place, what: impl Into<String>) {
        let finding = Finding {
            kind,
            severity: kind.severity(),
            place,
            what: what.into(),
        };
        match finding.severity {
            Severity::Damage => self.summary.damage += 1,
            Severity::Leftover => self.summary.leftovers += 1,
        }
        (self.tell)(CheckEvent::Found(finding));
    }

    fn went_on(&mut self) {
        (self.tell)(CheckEvent::Progress(self.progress));
    }
}

/// Looks at everything in `data_dir`, whether a hub has it open or not, and tells what it finds as it goes. Memory does not
/// grow with the number of messages; that of one room's refs and of a 256th of the names of blobs is held. Blocks.
pub async fn check(
    data_dir: &Path,
    options: &CheckOptions,
    tell: &mut (dyn FnMut(CheckEvent) + Send),
) -> Result<CheckSummary, CheckError> {
    if !data_dir.join("hub.db").is_file() {
        return Err(CheckError::NoHub(data_dir.to_owned()));
    }
    let inspector = Inspector::open(data_dir)?;
    if options.repair && inspector.is_in_use() {
        return Err(CheckError::InUse(data_dir.to_owned()));
    }
    let mut report = Report {
        tell,
        summary: CheckSummary {
            in_use: inspector.is_in_use(),
            ..CheckSummary::default()
        },
        progress: Progress::default(),
    };
    let hub = database(&inspector, &mut report);
    if let Some(hub) = hub {
        rooms::check(&inspector, &hub, &mut report);
    }
    let directory = inspector.directory().join(BLOBS_DIRECTORY);
    let store = FileBlobStore::look(&directory);
    blobs::check(&inspector, &store, options, &mut report).await;
    files::check(&inspector, options, &mut report)?;
    Ok(report.summary)
}

/// What SQLite says of its file, and the rows that stand for no room. Returns the hub's id.
fn database(inspector: &Inspector, report: &mut Report<'_>) -> Option<HubId> {
    let unreadable = |report: &mut Report<'_>, error: rusqlite::Error| {
        report.found(
            FindingKind::Database,
            Place::default(),
            format!("cannot be read: {error}"),
        );
    };
    report.went_on();
    if let Err(error) = inspector.integrity(|line| report.found(FindingKind::Database, Place::default(), line)) {
        unreadable(report, error);
    }
    if let Err(error) = inspector.foreign_keys(|line| report.found(FindingKind::Database, Place::default(), line)) {
        unreadable(report, error);
    }
    if let Err(error) = inspector.idempotency(|line| report.found(FindingKind::Idempotency, Place::default(), line)) {
        unreadable(report, error);
    }
    match inspector.counts() {
        Ok((_, messages)) => report.progress.messages_of = messages,
        Err(error) => unreadable(report, error),
    }
    match inspector.hub() {
        Ok(Some(id)) => return Some(HubId::from_bytes(id)),
        Ok(None) => report.found(FindingKind::Database, Place::default(), "the hub's id is not there"),
        Err(error) => unreadable(report, error),
    }
    None
}

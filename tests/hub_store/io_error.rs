//! A disk that stops taking writes in the middle of a transaction, with the real error of a real file system: another
//! process is forbidden to let its files grow. Only there, because the limit holds for a whole process.

use std::path::{Path, PathBuf};
use std::process::Command;

use parler_hub::store::{Append, SqliteOptions, SqliteStore, Store, StoreError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use crate::support::{Fixture, principal, room, text};

/// Tells the other process where to work.
const DIRECTORY: &str = "HUB_STORE_IO_ERROR_DIRECTORY";
/// Written by the other process when it got to its end.
const DONE: &str = "done";

/// The message whose writing fails.
fn doomed() -> Append {
    let owner = principal("owner");
    let id = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
    Append {
        id,
        key: "doomed".into(),
        digest: [1; 32],
        ..text(&owner, "a", &"x".repeat(100_000))
    }
}

#[tokio::test]
async fn after_an_io_error_nothing_is_written_and_nothing_unacknowledged_is_shown() {
    let directory = TempDir::new().unwrap();
    // The signal that comes with the limit would end the process; ignored, the write fails with EFBIG. Nothing in Rust
    // ignores a signal without unsafe code, and a shell hands it down.
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "io_error::in_a_process_of_its_own", "--nocapture"])
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && directory.path().join(DONE).exists(), "{log}");

    let store = SqliteStore::open(directory.path().join("data"), SqliteOptions::default())
        .unwrap()
        .into();
    let fixture = Fixture { store, directory };
    let owner = principal("owner");
    let acknowledged = std::fs::read(fixture.path().join(DONE)).unwrap();
    let messages = fixture.messages(&owner, "a").await;
    assert_eq!(messages[..3].concat(), acknowledged);
    // What was not acknowledged may be there or not; its key makes the retry safe.
    let retried = fixture.append(doomed()).await.unwrap();
    assert_eq!(retried.posted.seq.get(), 4);
    assert_eq!(fixture.messages(&owner, "a").await.len(), 4);
}

/// The other process's half of the test above. Called without it, there is nothing to do.
#[tokio::test]
async fn in_a_process_of_its_own() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let data = directory.join("data");
    let store = SqliteStore::open(&data, SqliteOptions::default()).unwrap().into();
    let fixture = Fixture {
        store,
        directory: TempDir::new_in(&directory).unwrap(),
    };
    let owner = fixture.owner("owner", "a").await;
    for number in 0..3 {
        fixture.append(text(&owner, "a", &number.to_string())).await.unwrap();
    }

    let usual = limit_file_size(&data.join("hub.db-wal"));
    let stopped = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::Stopped(_))), "{result:?}");
    };
    stopped(fixture.append(doomed()).await.map(drop));
    setrlimit(Resource::Fsize, usual).unwrap();
    // The disk is well again, but what it holds is not known.
    stopped(fixture.append(doomed()).await.map(drop));
    stopped(fixture.append(text(&owner, "a", "small")).await.map(drop));
    stopped(
        fixture
            .store
            .acknowledge(owner.agent, &room("a"), parler_protocol::Seq::new(1))
            .await
            .map(drop),
    );

    let head = fixture
        .store
        .read(owner.agent, &room("a"), None, 0, 0)
        .await
        .unwrap()
        .head;
    assert_eq!(head.seq.get(), 3);
    let messages = fixture.messages(&owner, "a").await;
    assert_eq!(messages.len(), 3);
    let log = std::fs::read(data.join("hub.db-wal")).unwrap();
    stopped(fixture.store.close().await);
    assert_eq!(
        std::fs::read(data.join("hub.db-wal")).unwrap(),
        log,
        "closing writes nothing either"
    );
    std::fs::write(directory.join(DONE), messages.concat()).unwrap();
}

/// Lets files grow only a little longer than this one is. Returns the limit as it was.
fn limit_file_size(file: &Path) -> Rlimit {
    let usual = getrlimit(Resource::Fsize);
    let most = file.metadata().unwrap().len() + 10_000;
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: Some(most),
            maximum: usual.maximum,
        },
    )
    .unwrap();
    usual
}

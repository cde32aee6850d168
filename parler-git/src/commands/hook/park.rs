//! `git parler hook claude wait`: a process that waits beside an idle session until a handoff to its agent comes, and then
//! ends in the way that wakes the session. One a session; gone with the session, and after a day.

use std::fs::{self, FileTimes};
use std::io;
use std::process;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use git_remote_parler::held;
use parler_client::Hinted;
use parler_protocol::BundleId;
use parler_protocol::api::WakePath;
use rustix::process::getppid;

use super::Caller;
use crate::error::{Error, Result};
use crate::file_lock;
use crate::home::create_private_dir;
use crate::hook::install::WAIT_SECONDS;

/// How long it waits: a little less than the host lets it live.
const LONGEST: Duration = Duration::from_secs(WAIT_SECONDS as u64 - 1800);
/// How often it looks whether its host is there.
const LOOK: Duration = Duration::from_secs(1);
/// How the files of sessions begin, and when one that nobody holds is of no use any more.
const PREFIX: &str = "wait-";
const OLD: Duration = Duration::from_secs(2 * 24 * 3600);

/// Waits for something to say. None: another one waits for this session.
pub(super) fn wait(caller: &Caller) -> Result<Option<String>> {
    watch_the_host();
    let session = caller.event.session.as_deref().unwrap_or_default();
    create_private_dir(&caller.directory)?;
    sweep(caller);
    let path = caller
        .directory
        .join(format!("{PREFIX}{}", BundleId::of(session.as_bytes()).short()));
    let lock = match file_lock::take(&path, Duration::ZERO) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(Error::io(format_args!("lock {}", path.display()), &error)),
    };
    // Still in use, for whoever sweeps.
    let _ = lock.set_times(FileTimes::new().set_modified(SystemTime::now()));
    let client = caller
        .context
        .client_that_sends_nothing(&caller.hub, caller.me.clone())?
        .without_retries()
        .waking(WakePath::Session);
    let mut hints = client.hints();
    let mut looks_again = false;
    loop {
        match hints.next()? {
            Hinted::Away(_) => continue,
            Hinted::Heartbeat if !looks_again => continue,
            Hinted::Heads(_) | Hinted::Hint(_) | Hinted::Heartbeat => {}
        }
        let waiting = caller.waiting(Some(&client));
        if let Some(text) = caller.say(&waiting) {
            return Ok(Some(text));
        }
        // The hub did not say it all, and does not hint at it a second time.
        looks_again = waiting.unread.is_none();
    }
}

/// Ends this process without a word once its host is gone, or the time over: whatever it waits for just then.
fn watch_the_host() {
    let host = getppid();
    let until = Instant::now() + LONGEST;
    thread::spawn(move || {
        while getppid() == host && Instant::now() < until {
            thread::sleep(LOOK);
        }
        process::exit(0);
    });
}

/// Removes what sessions of long ago left.
fn sweep(caller: &Caller) {
    let Ok(entries) = fs::read_dir(&caller.directory) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let age = entry
            .metadata()
            .ok()
            .and_then(|meta| meta.modified().ok()?.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > OLD) {
            held::remove_file_unless_held(&entry.path());
        }
    }
}

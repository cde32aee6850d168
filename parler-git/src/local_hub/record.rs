//! What a running local hub tells this user's programs, in a file that only they can read. Any version's file is read:
//! fields that this program does not know are passed over, and those it misses have the meaning they had before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parler_client::{Client, ClientOptions, Deadlines, HubAddress, Identity, NoSessionCache};
use parler_protocol::{AgentKey, HubId};
use rustix::process::{Pid, test_kill_process};
use semver::Version;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::home::read_private;

/// The version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The versions of the wire that this program speaks, as in the paths: `/v1`.
pub(super) const PROTOCOLS: [u32; 1] = [1];
/// The name under which a hub without a lock is asked whether it is ours, and how long it may take to answer.
const ASKING: &str = "local-hub-check";
const ASKING_DEADLINE: Duration = Duration::from_secs(2);

/// What a running hub tells this user's programs. The secret is in no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HubRecord {
    /// Its process.
    pub(crate) pid: i32,
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub(crate) address: String,
    /// The version of the program that serves.
    pub(crate) version: String,
    /// The versions of the wire that it speaks.
    #[serde(default = "first_protocol")]
    pub(crate) protocols: Vec<u32>,
    /// What its own user's agents show when they prove their key.
    pub(crate) secret: String,
    /// Its id.
    pub(crate) hub: HubId,
}

fn first_protocol() -> Vec<u32> {
    vec![1]
}

impl HubRecord {
    pub(crate) fn address(&self) -> Result<HubAddress> {
        self.address
            .parse()
            .map_err(|error| Error::fatal(format_args!("the local hub's file: {error}")))
    }

    /// Whether the program that serves is older than this one. What is no version is no reason to end anything.
    pub(super) fn is_older(&self) -> bool {
        self.is_older_than(VERSION)
    }

    /// Whether it is older than a program of this version.
    pub(super) fn is_older_than(&self, version: &str) -> bool {
        matches!((Version::parse(&self.version), Version::parse(version)), (Ok(theirs), Ok(ours)) if theirs.cmp_precedence(&ours).is_lt())
    }

    /// This hub, if this program and it have a language in common.
    pub(super) fn understood(self) -> Result<Self> {
        if self.protocols.iter().any(|version| PROTOCOLS.contains(version)) {
            return Ok(self);
        }
        let what = format!(
            "the local hub is of version {}, and this git-parler {VERSION} does not speak its protocol",
            self.version
        );
        Err(Error::new(ErrorKind::Refused, what)
            .outdated()
            .then("use the newer git-parler, or another directory: PARLER_HOME"))
    }
}

pub(super) fn read_record(path: &Path) -> Result<Option<HubRecord>> {
    // A file that is no record is that of a hub which is no more: the next one writes it anew.
    Ok(read_private(path)?.and_then(|content| serde_json::from_slice(&content).ok()))
}

/// Whether the hub of this record serves, as its process and its secret say: either alone may be another's by now.
pub(super) fn answers(record: &HubRecord) -> bool {
    let lives = Pid::from_raw(record.pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    let (true, Ok(address), Ok(name)) = (lives, record.address(), ASKING.parse()) else {
        return false;
    };
    let options = ClientOptions {
        address,
        identity: Identity {
            // The same agent each time, so that asking often leaves one trace at the hub.
            key: Arc::new(AgentKey::from_random(Sha256::digest(&record.secret).into())),
            name,
            role: None,
        },
        secret: Some(record.secret.clone()),
        token: None,
        sessions: Box::new(NoSessionCache),
        deadlines: Deadlines {
            connect: ASKING_DEADLINE,
            stall: ASKING_DEADLINE,
            answer: ASKING_DEADLINE,
            silence: ASKING_DEADLINE,
            rest: Duration::ZERO,
            retry: Duration::ZERO,
            transfer: Duration::ZERO,
        },
    };
    Client::new(options)
        .and_then(|client| client.hub_id())
        .is_ok_and(|hub| hub == record.hub)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: &str, protocols: &str) -> HubRecord {
        let json = format!(
            r#"{{"pid":1,"address":"http://127.0.0.1:1","version":"{version}",{protocols}"secret":"s","new":[],
                "hub":"01010101010101010101010101010101"}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn only_an_older_version_gives_way() {
        let newer = format!("{}.0.0", u64::MAX);
        for (version, is_older) in [
            ("0.0.9", true),
            ("0.0.10", true),
            (&format!("{VERSION}-rc.1"), true),
            (VERSION, false),
            (&format!("{VERSION}+other.build"), false),
            (&newer, false),
            ("", false),
            ("the old one", false),
        ] {
            let record = record(version, "");
            assert_eq!(record.is_older(), is_older, "{version}");
        }
    }

    #[test]
    fn a_newer_hub_is_used_as_long_as_it_is_understood() {
        assert!(record("9.0.0", "").understood().is_ok());
        assert!(record("9.0.0", r#""protocols":[1,2],"#).understood().is_ok());
        let Err(error) = record("9.0.0", r#""protocols":[2],"#).understood() else {
            panic!("its language is not known")
        };
        assert_eq!((error.kind, error.is_outdated()), (ErrorKind::Refused, true));
        assert!(error.line().contains("version 9.0.0"), "{error}");
    }
}

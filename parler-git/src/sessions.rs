//! Open sessions kept between programs: one private file for each hub and agent. A cache: whatever goes wrong costs
//! the next program two requests, nothing else.

use std::path::PathBuf;

use parler_client::{CachedSession, Identity, SessionCache};
use parler_protocol::{AgentName, BundleId, HubId};

use crate::home::{Home, create_private_dir, read_private, write_private};

/// Where one agent's session with one hub is kept.
#[derive(Debug, Clone)]
pub(crate) struct SessionFile {
    path: PathBuf,
    /// The hub, where it is known beforehand: a session of another hub at the same place is none.
    hub: Option<HubId>,
}

impl SessionFile {
    /// `place` is the hub's address, or a name that stays the same when the address changes. The role belongs to the
    /// session: the hub is told it when one is opened, and messages are signed with it.
    pub(crate) fn of(home: &Home, place: &str, agent: &Identity, hub: Option<HubId>) -> Self {
        let role = agent.role.as_ref().map(AgentName::as_str).unwrap_or_default();
        let name = BundleId::of(format!("{place}\0{}\0{role}", agent.key.id()).as_bytes());
        Self {
            path: home.sessions_dir().join(format!("{}.json", name.short())),
            hub,
        }
    }
}

impl SessionCache for SessionFile {
    fn load(&self) -> Option<CachedSession> {
        let content = read_private(&self.path).ok()??;
        let session: CachedSession = serde_json::from_slice(&content).ok()?;
        // A token travels in a header: one that does not fit there was never given by a hub.
        let fits = !session.token.is_empty() && session.token.bytes().all(|byte| byte.is_ascii_graphic());
        let is_of_hub = self.hub.is_none_or(|hub| hub == session.hub);
        (fits && is_of_hub).then_some(session)
    }

    fn store(&self, session: &CachedSession) {
        let store = || {
            create_private_dir(self.path.parent()?).ok()?;
            write_private(&self.path, &serde_json::to_vec(session).ok()?).ok()
        };
        let _ = store();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::log_entry::tests::identity;

    #[test]
    fn a_session_belongs_to_one_agent_and_one_hub() {
        let directory = tempfile::tempdir().unwrap();
        let environment = Environment::for_test(&[("PARLER_HOME", directory.path().to_str().unwrap())]);
        let home = Home::of(&environment).unwrap();
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let (one, two) = (HubId::from_bytes([1; 16]), HubId::from_bytes([2; 16]));
        let session = CachedSession {
            token: "t".into(),
            expires_at: 1,
            hub: one,
        };
        SessionFile::of(&home, "local", &alice, Some(one)).store(&session);
        assert_eq!(
            SessionFile::of(&home, "local", &alice, Some(one)).load(),
            Some(session.clone())
        );
        assert_eq!(SessionFile::of(&home, "local", &alice, None).load(), Some(session));
        assert_eq!(SessionFile::of(&home, "local", &alice, Some(two)).load(), None);
        assert_eq!(SessionFile::of(&home, "local", &bob, Some(one)).load(), None);
        assert_eq!(SessionFile::of(&home, "https://hub.example", &alice, None).load(), None);
        for token in ["", "t\n", "t\u{7}t", "té", "t t"] {
            SessionFile::of(&home, "broken", &alice, None).store(&CachedSession {
                token: token.into(),
                expires_at: 1,
                hub: one,
            });
            assert_eq!(SessionFile::of(&home, "broken", &alice, None).load(), None, "{token:?}");
        }
        let planner = identity(1, "alice", Some("planner"));
        assert_eq!(SessionFile::of(&home, "local", &planner, None).load(), None);
    }
}

//! What readers remember of the room's log: every head they were told, whoever of them was. A hub that was ended and
//! started again may contradict none of it. The rules are those that our programs go by.

use std::sync::Mutex;

use parler_client::{Asked, Witness};
use parler_harness::ReadLog;
use parler_protocol::{Claim, Head, History, HubId, RoomName};

#[derive(Default)]
pub(crate) struct Memory {
    history: Mutex<History>,
}

impl Memory {
    /// Nothing was doubted, and the log as it was read leads to where the last of the answers said.
    #[track_caller]
    pub(crate) fn assert_agrees_with(&self, log: &ReadLog) {
        let mut history = self.history.lock().unwrap();
        assert_eq!(history.doubt(), None);
        let (told, asked) = (history.newest(), history.newest());
        assert!(told.get() > 100, "only {told} was told: this showed nothing");
        history.told(&log.head, asked, 0);
        assert_eq!((history.doubt(), history.strangers()), (None, &[][..]));
    }
}

impl Witness for Memory {
    fn asking(&self, _hub: &HubId, room: Option<&RoomName>) -> Asked {
        let newest = self.history.lock().unwrap().newest();
        room.map(|room| (room.key(), newest)).into_iter().collect()
    }

    fn told(&self, _hub: &HubId, room: &RoomName, head: &Head, asked: &Asked) {
        let asked = asked.get(&room.key()).copied().unwrap_or_default();
        let mut history = self.history.lock().unwrap();
        history.told(head, asked, 0);
        assert_eq!(history.doubt(), None, "a head was told that is not the one of before");
    }

    fn claimed(&self, _hub: &HubId, _room: &RoomName, claims: &[Claim]) {
        let mut history = self.history.lock().unwrap();
        claims.iter().for_each(|claim| history.claimed(claim, 0));
    }

    fn objection(&self, _hub: &HubId, _room: &RoomName) -> Option<String> {
        None
    }
}

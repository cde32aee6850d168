//! What direct rooms are called before people: `dm/alice`. On the wire such a room has a name that nobody reads; whatever
//! this process shows to people has the label in its place. Programs get the name.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use parler_protocol::RoomName;

use crate::{screen, text};

/// How direct rooms are addressed: `dm/AGENT`.
pub(crate) const DIRECT: &str = "dm/";

/// The direct rooms that this process came across, each with its label, escaped.
static KNOWN: Mutex<Vec<(RoomName, String)>> = Mutex::new(Vec::new());

/// Stands in what others wrote where it could be read as a direct room's name, and is gone when that is shown.
const APART: &str = "dm\u{1}.";

/// What is in it: no text of others has one, for it is escaped everywhere. It goes alone, because a line may be cut behind it.
const MARK: char = '\u{1}';
/// How the names of direct rooms begin.
const PREFIX: &str = "dm.";

/// From now on the direct room with this agent goes by its name. `agent`: its name, or what else tells it from others.
pub(crate) fn know(room: &RoomName, agent: &str) {
    let label = format!("{DIRECT}{}", text::one_line(agent));
    // The list is whole between any two of its calls.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|(other, _)| other != room);
    known.push((room.clone(), label));
}

/// A text from elsewhere, escaped, with whatever it says of direct rooms kept as it is: only where we name a room
/// ourselves it goes by its label.
pub(crate) fn apart(text: String) -> String {
    match text.contains(PREFIX) {
        true => text.replace(PREFIX, APART),
        false => text,
    }
}

/// The text without what [`apart`] put there.
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    match text.contains(MARK) {
        true => text.replace(MARK, "").into(),
        false => text.into(),
    }
}

/// The text with labels in place of the names of direct rooms that we wrote.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut shown = Cow::Borrowed(text);
    for (room, label) in known.iter() {
        if shown.contains(room.as_str()) {
            // `parler::room/NAME` is `parler::dm/alice`.
            let address = format!("room/{room}");
            shown = shown.replace(&address, label).replace(room.as_str(), label).into();
        }
    }
    match shown.contains(MARK) {
        true => shown.replace(MARK, "").into(),
        false => shown,
    }
}

/// What these rooms are called, for a column: each as wide as the widest.
pub(crate) fn column<'a>(rooms: impl Iterator<Item = &'a RoomName>) -> Vec<String> {
    let labels: Vec<_> = rooms.map(|room| shown(room.as_str())).collect();
    screen::column(&labels)
}

#[cfg(test)]
mod tests {
    use parler_protocol::AgentKey;

    use super::*;

    #[test]
    fn people_read_who_a_direct_room_is_with() {
        let [one, other] = [31, 32].map(|seed| AgentKey::from_random([seed; 32]).id());
        let room = RoomName::direct(&one, &other);
        let line = format!("message 3 of '{room}': git push parler::room/{room} x");
        assert_eq!(shown(&line), line);
        know(&room, "bob");
        know(&room, "al\x1bice");
        assert_eq!(
            shown(&line),
            "message 3 of 'dm/al\\u{1b}ice': git push parler::dm/al\\u{1b}ice x"
        );
        assert_eq!(shown("room 'dm.x'"), "room 'dm.x'");
        let theirs = apart("of dm.x".to_owned());
        assert_eq!(shown(&theirs), "of dm.x");
        // A line that is too long may be cut anywhere.
        for (end, _) in theirs.char_indices() {
            assert!(!shown(&theirs[..end]).contains(MARK), "{end}");
        }
        know(&room, "bob");
        let build: RoomName = "building".parse().unwrap();
        assert_eq!(column([&room, &build].into_iter()), ["dm/bob  ", "building"]);
    }
}

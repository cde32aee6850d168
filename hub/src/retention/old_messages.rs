//! Which messages may be given up once they are old: those that nobody builds on. Decides by a message's own parts.

use parler_protocol::{DroppedMessage, Message, Part, part_kind};

/// What a stored message is to retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// It may be given up when it is old enough; when it was stored, milliseconds since 1970.
    Droppable(i64),
    /// It is kept whatever its age. When it was stored, where that can be read.
    Kept(Option<i64>),
    /// It was given up.
    Dropped,
}

/// What these stored bytes are to retention.
pub(crate) fn age(stored: &[u8]) -> Age {
    match Message::parse(stored) {
        Ok(message) if message.parts.iter().any(is_built_on) => Age::Kept(Some(message.ts)),
        Ok(message) => Age::Droppable(message.ts),
        Err(_) if DroppedMessage::parse(stored).is_some() => Age::Dropped,
        Err(_) => Age::Kept(None),
    }
}

/// Whether others build on a message with this part: refs and bundles are the room.
fn is_built_on(part: &Part) -> bool {
    matches!(part.kind(), part_kind::REFS | part_kind::BUNDLE) || may_be_open(part)
}

/// Whether somebody may have to do something yet about a message with this part, or ask what became of it. By the kind,
/// also where the part is of a form that this program does not know.
pub(super) fn may_be_open(part: &Part) -> bool {
    matches!(part.kind(), part_kind::HANDOFF | part_kind::TASK | part_kind::DISPATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(parts: &str) -> Vec<u8> {
        let id = parler_protocol::AgentKey::from_random([1; 32]).id();
        format!(
            r#"{{"seq":1,"id":"01890a5d-ac96-774b-bcce-b302099a8001","room":"r","from":{{"id":"{id}","name":"a"}},"parts":[{parts}],"ts":7}}"#
        )
        .into_bytes()
    }

    #[test]
    fn only_what_nobody_builds_on_may_be_given_up() {
        for droppable in [
            r#"{"kind":"text","text":"x"}"#,
            r#"{"kind":"data","data":1}"#,
            r#"{"kind":"com.example.thing"}"#,
        ] {
            assert_eq!(age(&stored(droppable)), Age::Droppable(7), "{droppable}");
        }
        for kept in [
            r#"{"kind":"text","text":"x"},{"kind":"com.parler.handoff","next":"go on"}"#,
            r#"{"kind":"com.parler.handoff"}"#,
            r#"{"kind":"com.parler.task","status":"done"}"#,
            r#"{"kind":"com.parler.dispatch","role":"x"}"#,
            r#"{"kind":"com.parler.refs"}"#,
            r#"{"kind":"com.parler.bundle"}"#,
            r#"{"kind":"com.parler.h\u0061ndoff","next":"go on"}"#,
        ] {
            assert_eq!(age(&stored(kept)), Age::Kept(Some(7)), "{kept}");
        }
        let note = DroppedMessage::in_place_of(parler_protocol::Seq::new(1), &"r".parse().unwrap(), b"x").to_bytes();
        assert_eq!(age(&note), Age::Dropped);
        assert_eq!(age(b"{"), Age::Kept(None));
    }
}

//! What services are called, and the room that is a service's queue.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_SERVICE_NAME_BYTES;
use crate::{ParseError, RoomName, serde_as_string};

/// How the name of a service's room begins.
const ROOM_PREFIX: &str = "svc.";

/// A service's name: `[a-z0-9][a-z0-9._-]{0,59}`. Read in any case, written in lower case: whoever dispatches signs for the
/// room, and must be able to spell it before it has been there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName(String);

impl ServiceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The room that is its queue: `svc.NAME`.
    pub fn room(&self) -> RoomName {
        format!("{ROOM_PREFIX}{self}")
            .parse()
            .expect("letters, digits and . _ - behind letters are a room's name")
    }

    /// The service whose queue a room of this name is.
    pub fn of_room(room: &RoomName) -> Option<Self> {
        room.key().strip_prefix(ROOM_PREFIX)?.parse().ok()
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ServiceName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=MAX_SERVICE_NAME_BYTES).contains(&text.len())
            && text.bytes().all(good)
            && text.as_bytes()[0].is_ascii_alphanumeric()
        {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(ParseError::new(
                "service name",
                text,
                "is not 1 to 60 of a-z 0-9 . _ - beginning with a letter or digit",
            ))
        }
    }
}

serde_as_string!(ServiceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_one_room_however_it_is_spelled() {
        let service: ServiceName = "Review".parse().unwrap();
        assert_eq!(service.as_str(), "review");
        assert_eq!(service.room().as_str(), "svc.review");
        for room in ["svc.review", "SVC.Review"] {
            assert_eq!(
                ServiceName::of_room(&room.parse().unwrap()).as_ref(),
                Some(&service),
                "{room}"
            );
        }
        for room in ["review", "svc.", "svc._x", "svcx.review", "x.svc.review"] {
            assert_eq!(ServiceName::of_room(&room.parse().unwrap()), None, "{room}");
        }
        let longest = "a".repeat(MAX_SERVICE_NAME_BYTES);
        assert_eq!(longest.parse::<ServiceName>().unwrap().room().as_str().len(), 64);
        for bad in ["", "-x", "a b", "a/b", &format!("{longest}a")] {
            assert!(bad.parse::<ServiceName>().is_err(), "{bad}");
        }
    }
}

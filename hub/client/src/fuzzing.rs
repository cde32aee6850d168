//! What must hold of any bytes that a hub sends as a stream of events. Called by the targets of `tests/fuzz` and, with
//! their seeds, by ordinary tests; in no other build.

use crate::HubAddress;
use crate::sse::{SseEvent, SseParser, TooLong};

/// Longest event that is taken here, in bytes: little, so that it is passed.
const LIMIT: usize = 64;

/// A stream, of which the first byte says in what pieces it comes. How it is cut must not matter.
pub fn event_stream(bytes: &[u8]) {
    let Some((piece, stream)) = bytes.split_first() else {
        return;
    };
    let (events, ended) = parse(stream, stream.len().max(1));
    let cut = parse(stream, usize::from(*piece).max(1));
    assert_eq!((&cut.0, &cut.1), (&events, &ended), "cut into pieces of {piece}");
    for event in &events {
        let long = [&event.name, &event.data, &event.id].map(Vec::len);
        assert!(long.iter().all(|long| *long <= LIMIT), "{long:?} bytes");
    }
    if ended.is_ok() {
        assert_eq!(events, by_lines(stream));
    }
}

fn parse(stream: &[u8], piece: usize) -> (Vec<SseEvent>, Result<(), TooLong>) {
    let mut parser = SseParser::new(LIMIT);
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        if let Err(error) = parser.feed(piece, |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, Ok(()))
}

/// The same said plainly, of a whole stream: what is written in the standard, line by line.
fn by_lines(stream: &[u8]) -> Vec<SseEvent> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && stream[at - 1] == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            byte => lines.last_mut().expect("there is one from the start").push(*byte),
        }
    }
    // The last has no end.
    lines.pop();
    let (mut events, mut id) = (Vec::new(), Vec::new());
    let (mut name, mut data) = (Vec::new(), Vec::new());
    for line in lines {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut name), std::mem::take(&mut data));
            if !data.is_empty() {
                let (data, id) = (data.join(&b'\n'), Vec::clone(&id));
                events.push(SseEvent { name, data, id });
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match &line[..colon] {
            b"event" => name = value,
            b"data" => data.push(value),
            b"id" if !value.contains(&0) => id = value,
            _ => {}
        }
    }
    events
}

/// A text as the address of a hub.
pub fn hub_address(text: &str) {
    // What is said of others is a fixed text, for they may hold a password.
    let Ok(address) = text.parse::<HubAddress>() else {
        return;
    };
    let written = address.to_string();
    assert_eq!(
        written.parse::<HubAddress>().as_ref(),
        Ok(&address),
        "{written:?} of {text:?}"
    );
    assert!(
        written.is_ascii() && !written.contains(['@', '?', '#', '\\']),
        "{written:?}"
    );
    assert!(written.bytes().all(|byte| byte.is_ascii_graphic()), "{written:?}");
    assert!(!address.authority().is_empty() && !address.authority().contains('/'));
}

#[cfg(test)]
mod tests {
    use parler_harness::each_seed;

    #[test]
    fn the_seeds_of_event_streams_hold() {
        each_seed("event_stream", super::event_stream);
    }

    #[test]
    fn the_seeds_of_addresses_hold() {
        each_seed("addresses", |bytes| super::hub_address(&String::from_utf8_lossy(bytes)));
    }
}

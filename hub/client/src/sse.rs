//! Server-sent events out of the pieces of an answer, as WHATWG HTML has them, but over bytes: whether data is text is
//! the reader's business. Holds one event at a time, and no more of it than a limit. Knows nothing of HTTP or time.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// What kind it is; empty: `message`.
    pub(crate) name: Vec<u8>,
    /// The lines of its data, joined by line feeds.
    pub(crate) data: Vec<u8>,
    /// The id that is in force.
    pub(crate) id: Vec<u8>,
}

/// An event, or a line, that is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Takes pieces, gives events.
#[derive(Debug)]
pub(crate) struct SseParser {
    limit: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_return: bool,
    at_start: bool,
    event: SseEvent,
    has_data: bool,
}

impl SseParser {
    /// For a stream whose events have at most `limit` bytes of data.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: SseEvent::default(),
            has_data: false,
        }
    }

    /// Reads a piece, and hands each event that ends in it to `take`.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut take: impl FnMut(SseEvent)) -> Result<(), TooLong> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &piece[..end.unwrap_or(piece.len())];
            if self.line.len() + part.len() > self.limit {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.read_line(&line, &mut take)?;
            self.line = line;
            self.line.clear();
        }
        Ok(())
    }

    fn read_line(&mut self, line: &[u8], take: &mut impl FnMut(SseEvent)) -> Result<(), TooLong> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            let id = self.event.id.clone();
            let event = std::mem::replace(
                &mut self.event,
                SseEvent {
                    id,
                    ..SseEvent::default()
                },
            );
            if std::mem::take(&mut self.has_data) {
                take(event);
            }
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.event.data.len() + value.len() >= self.limit {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.name = value.to_vec(),
            b"id" if !value.contains(&0) => self.event.id = value.to_vec(),
            // Comments, `retry` and what the future brings.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str, id: &str) -> SseEvent {
        SseEvent {
            name: name.into(),
            data: data.into(),
            id: id.into(),
        }
    }

    fn parse(stream: &[u8], piece: usize) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1000);
        let mut events = Vec::new();
        for piece in stream.chunks(piece) {
            parser.feed(piece, |event| events.push(event)).unwrap();
        }
        events
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = "\u{feff}retry: 1000\n\n:\n\nid: 7\nevent: message\ndata: {\ndata:  \"é\": 1\ndata: }\n\n\
                      data: a\r\ndata\r\n\r\nid\rdata:b\r\rnonsense\nevent: x\n\ndata: never ended\n";
        let expected = [
            event("message", "{\n \"é\": 1\n}", "7"),
            event("", "a\n", "7"),
            event("", "b", ""),
        ];
        for piece in 1..stream.len() {
            assert_eq!(parse(stream.as_bytes(), piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        let mut parser = SseParser::new(1000);
        let endless = std::iter::repeat_with(|| parser.feed(&[b'x'; 100], |_| ()));
        assert!(endless.take(20).any(|fed| fed == Err(TooLong)));
        let mut parser = SseParser::new(1000);
        let endless = std::iter::repeat_with(|| parser.feed(b"data: 0123456789\n", |_| ()));
        assert!(endless.take(200).any(|fed| fed == Err(TooLong)));
    }
}

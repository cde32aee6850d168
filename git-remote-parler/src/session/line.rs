//! Git's side of the conversation, line by line.

use std::io::{BufRead, Read};

use super::SessionError;

/// Longest line that is read, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20; // 1 MiB

pub(super) struct Lines<I> {
    input: I,
}

impl<I: BufRead> Lines<I> {
    pub(super) fn new(input: I) -> Self {
        Self { input }
    }

    /// The next line, without its end, which may be CR LF; none at the end of the input.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        let mut line = Vec::new();
        let most = MAX_LINE_BYTES as u64 + 1;
        self.input.by_ref().take(most).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            let too_long = line.len() >= MAX_LINE_BYTES;
            return Err(if too_long {
                SessionError::LineTooLong
            } else {
                SessionError::CutOff
            });
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    /// All lines of a batch that began with `first`, up to the empty one, each without its command.
    pub(super) fn batch(&mut self, command: &[u8], first: &[u8]) -> Result<Vec<Vec<u8>>, SessionError> {
        let mut batch = vec![first.to_vec()];
        loop {
            let line = self.next()?.ok_or(SessionError::CutOff)?;
            match super::split_word(&line) {
                (b"", b"") => return Ok(batch),
                (word, rest) if word == command => batch.push(rest.to_vec()),
                _ => return Err(SessionError::command(&line)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Result<Vec<Vec<u8>>, SessionError> {
        let mut lines = Lines::new(input);
        let mut read = Vec::new();
        while let Some(line) = lines.next()? {
            read.push(line);
        }
        Ok(read)
    }

    #[test]
    fn lines_end_with_lf_or_crlf() {
        assert_eq!(
            lines(b"a\r\nb\n\n").unwrap(),
            [b"a".to_vec(), b"b".to_vec(), b"".to_vec()]
        );
        assert!(matches!(lines(b"a\nb"), Err(SessionError::CutOff)));
        let long = vec![b'x'; MAX_LINE_BYTES + 10];
        assert!(matches!(lines(&long), Err(SessionError::LineTooLong)));
        let just = [vec![b'x'; MAX_LINE_BYTES - 1], b"\n".to_vec()].concat();
        assert_eq!(lines(&just).unwrap().len(), 1);
    }

    #[test]
    fn a_batch_ends_with_an_empty_line_and_nothing_else() {
        let batch = |input: &[u8]| Lines::new(input).batch(b"push", b"a:b");
        assert_eq!(batch(b"push c:d\n\n").unwrap(), [b"a:b".to_vec(), b"c:d".to_vec()]);
        assert!(matches!(batch(b"push c:d\n"), Err(SessionError::CutOff)));
        assert!(matches!(batch(b"fetch c d\n\n"), Err(SessionError::Command { .. })));
    }
}

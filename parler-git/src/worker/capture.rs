//! What a command writes, kept as it came up to a size: of more the beginning and the end, and how much is not there.

use std::collections::VecDeque;

/// Most that is kept.
pub(super) const MAX_OUTPUT_BYTES: usize = 1 << 20; // 1 MiB

/// Output so far.
#[derive(Debug, Default)]
pub(super) struct Capture {
    first: Vec<u8>,
    last: VecDeque<u8>,
    left_out: u64,
}

impl Capture {
    /// Takes what came next.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let half = MAX_OUTPUT_BYTES / 2;
        let room = half - self.first.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.first.extend_from_slice(first);
        // Of a long piece the end alone stays.
        let passed = rest.len().saturating_sub(half);
        self.left_out += passed as u64;
        self.last.extend(&rest[passed..]);
        let over = self.last.len().saturating_sub(half);
        self.left_out += over as u64;
        self.last.drain(..over);
    }

    /// All of it, or its beginning and end with a line between them.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.first;
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes are left out here]\n", self.left_out).as_bytes());
        }
        bytes.extend(self.last);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_whole_or_says_what_is_left_out() {
        for (size, piece) in [
            (0, 1),
            (10, 3),
            (MAX_OUTPUT_BYTES, 1000),
            (MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES),
        ] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let mut capture = Capture::default();
            bytes.chunks(piece).for_each(|piece| capture.take(piece));
            assert!(capture.into_bytes() == bytes, "{size} in pieces of {piece}");
        }
        for piece in [777, 3 * MAX_OUTPUT_BYTES] {
            let bytes: Vec<u8> = (0..MAX_OUTPUT_BYTES + 12_345).map(|n| (n % 251) as u8).collect();
            let mut capture = Capture::default();
            bytes.chunks(piece).for_each(|piece| capture.take(piece));
            let kept = capture.into_bytes();
            let half = MAX_OUTPUT_BYTES / 2;
            let note = b"\n[12345 bytes are left out here]\n";
            assert!(kept.starts_with(&bytes[..half]) && kept.ends_with(&bytes[bytes.len() - half..]));
            assert_eq!(&kept[half..kept.len() - half], note);
        }
    }
}

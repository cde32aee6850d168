//! Content that no compression makes smaller.

/// Bytes that do not compress, the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = 2 * seed + 1;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

//! Content for blobs: much of it, the same in every run, and never twice the same within one.

/// Bytes that do not repeat within a piece.
pub(crate) fn bytes(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

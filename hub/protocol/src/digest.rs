//! Fixed-size hashes written as lowercase hexadecimal. Never accepts upper case: one value has one spelling.

use data_encoding::HEXLOWER;

/// Parses exactly `N` bytes of lowercase hexadecimal, or says no.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Writes bytes as lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

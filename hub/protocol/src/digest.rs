//! Fixed-size hashes written as lowercase hexadecimal. Never accepts upper case: one value has one spelling.

use std::fmt;

use data_encoding::HEXLOWER;

/// Parses exactly `N` bytes of lowercase hexadecimal, or says no.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).ok()?;
    Some(bytes)
}

/// Writes at most 32 bytes as lowercase hexadecimal. A room's list is made of these.
pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut digits = [0; 64];
    let digits = &mut digits[..2 * bytes.len()];
    HEXLOWER.encode_mut(bytes, digits);
    f.write_str(str::from_utf8(digits).map_err(|_| fmt::Error)?)
}

/// Bytes as lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

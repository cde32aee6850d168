//! What tells a finding from others, also in another commit: a hash of what stays when lines move.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// How much of a hash is a fingerprint.
const BYTES: usize = 16;

/// The fingerprint of these, in hexadecimal. None of them runs into the next.
pub(crate) fn of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    HEXLOWER.encode(&hash.finalize()[..BYTES])
}

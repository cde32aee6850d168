//! An agent's identity: an Ed25519 key pair in NATS nkey spelling (`U...` public, `SU...` seed), as Parler Protocol
//! has it.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::{ParseError, serde_as_string};

/// `U` as the first base32 character: a user key.
const PREFIX_USER: u8 = 20 << 3;
/// `S` as the first base32 character: a seed.
const PREFIX_SEED: u8 = 18 << 3;

/// Prefix, key and checksum of a public key: seven times five bytes, each eight characters.
const ID_BYTES: usize = 35;

const CHECKSUM: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

/// Appends the little-endian checksum and spells the bytes in base32.
fn encode(mut bytes: Vec<u8>) -> String {
    bytes.extend(CHECKSUM.checksum(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

/// Reads base32 and takes the checksum off, if it is right.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = BASE32_NOPAD.decode(text.as_bytes()).ok()?;
    let checksum = bytes.split_off(bytes.len().checked_sub(2)?);
    (CHECKSUM.checksum(&bytes).to_le_bytes() == *checksum).then_some(bytes)
}

/// The public key of an agent, 56 characters beginning with `U`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId([u8; 32]);

impl AgentId {
    /// The key's 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The id of these 32 key bytes, unless they are no point of the curve.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 32] = bytes.try_into().ok()?;
        VerifyingKey::from_bytes(&bytes).ok()?;
        Some(Self(bytes))
    }

    /// Whether this agent's key made the signature over these bytes. Strict: weak keys and malleable signatures fail.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok())
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without `encode`, which needs memory of its own: the hub writes one for each message.
        let mut bytes = [PREFIX_USER; ID_BYTES];
        bytes[1..33].copy_from_slice(&self.0);
        let checksum = CHECKSUM.checksum(&bytes[..33]);
        bytes[33..].copy_from_slice(&checksum.to_le_bytes());
        let mut text = [0; ID_BYTES / 5 * 8];
        BASE32_NOPAD.encode_mut(&bytes, &mut text);
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AgentId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        decode(text)
            .filter(|bytes| bytes.first() == Some(&PREFIX_USER))
            .and_then(|bytes| Self::from_bytes(&bytes[1..]))
            .ok_or_else(|| ParseError::new("agent id", text, "is not a user nkey (U and 55 more characters)"))
    }
}

serde_as_string!(AgentId);

/// The secret half of an agent's identity. Shown by no `Debug`, erased from memory when dropped.
pub struct AgentKey(SigningKey);

/// Why a stored seed is no key. The seed itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the seed of a user nkey (SU and 56 more characters)")]
pub struct AgentKeyError;

impl AgentKey {
    /// The key of 32 random bytes.
    pub fn from_random(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Reads a seed as [`AgentKey::to_seed`] writes it.
    pub fn from_seed(text: &str) -> Result<Self, AgentKeyError> {
        let bytes = decode(text.trim()).ok_or(AgentKeyError)?;
        // The seed prefix shares its second byte with the prefix of the key it makes.
        let expected = [PREFIX_SEED | (PREFIX_USER >> 5), (PREFIX_USER & 31) << 3];
        let seed = bytes.strip_prefix(&expected).ok_or(AgentKeyError)?;
        Ok(Self::from_random(seed.try_into().map_err(|_| AgentKeyError)?))
    }

    /// The seed in nkey spelling, `SU...`: a secret, for a file of mode 0600 only.
    pub fn to_seed(&self) -> String {
        let mut bytes = vec![PREFIX_SEED | (PREFIX_USER >> 5), (PREFIX_USER & 31) << 3];
        bytes.extend(self.0.to_bytes());
        encode(bytes)
    }

    /// The public half.
    pub fn id(&self) -> AgentId {
        AgentId(self.0.verifying_key().to_bytes())
    }

    /// Signs these bytes as they are.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_seeds_round_trip() {
        let key = AgentKey::from_random([7; 32]);
        let id = key.id();
        let text = id.to_string();
        assert_eq!(text.len(), 56);
        assert!(text.starts_with('U'));
        assert_eq!(text.parse::<AgentId>().unwrap(), id);
        let seed = key.to_seed();
        assert_eq!(seed.len(), 58);
        assert!(seed.starts_with("SU"));
        assert_eq!(AgentKey::from_seed(&seed).unwrap().id(), id);
        assert!(!format!("{key:?}").contains(&seed));
    }

    #[test]
    fn a_recorded_id_parses_and_a_damaged_one_does_not() {
        let recorded = "UDGWBWLYSVJI7XEZAG6RG6CJH5VXP35RIWTDEW23RRCBPAH3ILFPYISM";
        assert_eq!(recorded.parse::<AgentId>().unwrap().to_string(), recorded);
        for bad in [
            "",
            "U",
            &recorded[..55],
            &recorded.replace('W', "X"),
            &recorded.to_lowercase(),
        ] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signature_belongs_to_its_key_and_bytes() {
        let (key, other) = (AgentKey::from_random([1; 32]), AgentKey::from_random([2; 32]));
        let signature = key.sign(b"x");
        assert!(key.id().verifies(b"x", &signature));
        assert!(!key.id().verifies(b"y", &signature));
        assert!(!other.id().verifies(b"x", &signature));
    }
}

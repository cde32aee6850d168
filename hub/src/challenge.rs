//! Challenges of the session proof: made without being remembered, answered at most once. Never says why one is not
//! accepted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use parler_protocol::{Challenge, HubId, limits};
use sha2::Sha256;
use uuid::Uuid;

const PREFIX: &str = "parler-auth:v1";
/// Answered challenges remembered at once. Each costs a valid proof of a key, and is forgotten when it would have
/// expired anyway.
const MAX_ANSWERED: usize = 100_000;

/// What makes and judges challenges: `parler-auth:v1:<hub id>:<expiry ms>:<uuid>:<mac>`.
pub(crate) struct Challenges {
    hub: HubId,
    /// Of this process: a restart ends every open challenge, and the next 401 brings a new one.
    mac: Hmac<Sha256>,
    answered: Mutex<HashMap<Uuid, i64>>,
}

impl Challenges {
    pub(crate) fn new(hub: HubId) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        let mac = Hmac::new_from_slice(&key).expect("an HMAC key may have any length");
        Ok(Self {
            hub,
            mac,
            answered: Mutex::default(),
        })
    }

    /// A challenge that may be answered from now on.
    pub(crate) fn issue(&self, now_ms: i64) -> Challenge {
        let ttl_ms = i64::try_from(limits::CHALLENGE_TTL.as_millis()).unwrap_or(i64::MAX);
        let head = format!(
            "{PREFIX}:{}:{}:{}",
            self.hub,
            now_ms.saturating_add(ttl_ms),
            Uuid::new_v4()
        );
        let mac = HEXLOWER.encode(&self.mac(&head).finalize().into_bytes());
        format!("{head}:{mac}")
            .parse()
            .expect("a challenge is under 512 visible characters")
    }

    /// Whether the challenge is of this hub and still open. Says nothing about having been answered before.
    pub(crate) fn is_open(&self, challenge: &Challenge, now_ms: i64) -> bool {
        self.read(challenge, now_ms).is_some()
    }

    /// Takes the challenge as answered. False when it is not open, or when somebody answered it before.
    pub(crate) fn take(&self, challenge: &Challenge, now_ms: i64) -> bool {
        let Some((uuid, expires_at)) = self.read(challenge, now_ms) else {
            return false;
        };
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.len() >= MAX_ANSWERED {
            answered.retain(|_, expires_at| *expires_at > now_ms);
            if answered.len() >= MAX_ANSWERED {
                return false;
            }
        }
        answered.insert(uuid, expires_at).is_none()
    }

    fn read(&self, challenge: &Challenge, now_ms: i64) -> Option<(Uuid, i64)> {
        let (head, mac) = challenge.as_str().rsplit_once(':')?;
        let mac = HEXLOWER.decode(mac.as_bytes()).ok()?;
        self.mac(head).verify_slice(&mac).ok()?;
        // Whatever carries our MAC has our form.
        let mut fields = head.rsplitn(3, ':');
        let uuid = fields.next()?.parse().ok()?;
        let expires_at: i64 = fields.next()?.parse().ok()?;
        (expires_at > now_ms).then_some((uuid, expires_at))
    }

    fn mac(&self, head: &str) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(head.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_answered_once_in_time_and_unchanged() {
        let challenges = Challenges::new(HubId::from_bytes([1; 16])).unwrap();
        let challenge = challenges.issue(1_000);
        assert!(challenges.is_open(&challenge, 60_999));
        assert!(!challenges.is_open(&challenge, 61_000));
        assert!(challenges.take(&challenge, 1_000));
        assert!(!challenges.take(&challenge, 1_000));

        let later = challenge.as_str().replace(":61000:", ":99000:").parse().unwrap();
        assert!(!challenges.is_open(&later, 1_000));
        let elsewhere = Challenges::new(HubId::from_bytes([1; 16])).unwrap().issue(1_000);
        assert!(!challenges.is_open(&elsewhere, 1_000));
        assert!(!challenges.is_open(&"x".parse().unwrap(), 1_000));
    }
}

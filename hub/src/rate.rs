//! How fast one address may try proofs and invite codes: a token bucket for each. Never delays, only refuses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Addresses remembered at once.
const MAX_ADDRESSES: usize = 10_000;
/// On the machine itself all agents share one address: there the bucket only stops runaway loops.
const LOOPBACK_FACTOR: f64 = 1_000.0;

pub(crate) struct RateLimit {
    burst: f64,
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    pub(crate) fn new(burst: u32, per_minute: u32) -> Self {
        Self {
            burst: f64::from(burst),
            per_second: f64::from(per_minute) / 60.0,
            buckets: Mutex::default(),
        }
    }

    /// Spends one token of this address, or says how long until there is one.
    pub(crate) fn take(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = address.to_canonical();
        let factor = if address.is_loopback() { LOOPBACK_FACTOR } else { 1.0 };
        let (burst, per_second) = (self.burst * factor, self.per_second * factor);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_ADDRESSES && !buckets.contains_key(&address) {
            self.forget_full(&mut buckets, now);
        }
        let bucket = buckets.entry(address).or_insert(Bucket {
            tokens: burst,
            filled: now,
        });
        let gained = now.saturating_duration_since(bucket.filled).as_secs_f64() * per_second;
        bucket.tokens = (bucket.tokens + gained).min(burst);
        bucket.filled = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::try_from_secs_f64((1.0 - bucket.tokens) / per_second).unwrap_or(Duration::from_secs(60)))
    }

    /// Makes room: a full bucket is like none. When all are in use they are all forgotten, which lets a few more tries
    /// through and keeps memory bounded.
    fn forget_full(&self, buckets: &mut HashMap<IpAddr, Bucket>, now: Instant) {
        let whole = Duration::try_from_secs_f64(self.burst / self.per_second).unwrap_or(Duration::from_secs(60));
        buckets.retain(|_, bucket| now.saturating_duration_since(bucket.filled) < whole);
        if buckets.len() >= MAX_ADDRESSES {
            buckets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_slowed_and_others_are_not() {
        let limit = RateLimit::new(2, 60);
        let (start, one, other) = (
            Instant::now(),
            "192.0.2.1".parse().unwrap(),
            "192.0.2.2".parse().unwrap(),
        );
        assert!(limit.take(one, start).is_ok());
        assert!(limit.take(one, start).is_ok());
        assert_eq!(limit.take(one, start), Err(Duration::from_secs(1)));
        assert!(limit.take(other, start).is_ok());
        assert!(limit.take(one, start + Duration::from_secs(1)).is_ok());
        for _ in 0..2_000 {
            assert!(limit.take("::ffff:127.0.0.1".parse().unwrap(), start).is_ok());
        }
    }
}

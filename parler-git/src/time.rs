//! Spans of time as people write them, and the moment it is.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parler_protocol::Message;
use parler_protocol::limits::MAX_WORD_TTL;

use crate::error::{Error, Result};

/// Seconds of `90s`, `30m`, `24h`, `7d`, at most `longest`; a number alone is seconds. `option` is where it was said.
pub(crate) fn parse_ttl(option: &str, text: &str, longest: Duration) -> Result<u64> {
    let (digits, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => 0,
    };
    let ttl = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(seconds))
        .filter(|ttl| *ttl > 0);
    let ttl = ttl.ok_or_else(|| {
        Error::usage(format_args!(
            "{option} '{text}' is not a time such as 90s, 30m, 24h or 7d"
        ))
    })?;
    if ttl > longest.as_secs() {
        let days = longest.as_secs() / (24 * 3600);
        return Err(Error::usage(format_args!(
            "{option} '{text}' is more than {days}d, the longest"
        )));
    }
    Ok(ttl)
}

/// For how long what is posted holds, as `--ttl` says it.
pub(crate) fn parse_word_ttl(text: &str) -> Result<NonZeroU32> {
    let seconds = parse_ttl("--ttl", text, MAX_WORD_TTL)?;
    let seconds = u32::try_from(seconds).ok().and_then(NonZeroU32::new);
    seconds.ok_or_else(|| Error::usage(format_args!("--ttl '{text}' is not a time")))
}

/// Milliseconds since 1970 by this machine's clock.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// How long it is until this moment, milliseconds since 1970; nothing once it has come.
pub(crate) fn left_until(moment: i64) -> Duration {
    Duration::from_millis(moment.saturating_sub(now_ms()).max(0).unsigned_abs())
}

/// Until when something that a message says holds, if that has an end, milliseconds since 1970.
pub(crate) fn end_of(message: &Message, ttl_secs: Option<NonZeroU32>) -> Option<i64> {
    ttl_secs.map(|ttl_secs| message.until(ttl_secs))
}

/// Whether that end has come.
pub(crate) fn is_over(end: Option<i64>, now: i64) -> bool {
    end.is_some_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    #[test]
    fn times_have_units() {
        for (text, seconds) in [
            ("90s", 90),
            ("30m", 1800),
            ("24h", 86_400),
            ("7d", 604_800),
            ("60", 60),
            ("365d", 31_536_000),
        ] {
            assert_eq!(parse_ttl("--ttl", text, YEAR).unwrap(), seconds);
        }
        for bad in [
            "",
            "h",
            "0",
            "0h",
            "-1h",
            "1w",
            "1.5h",
            "h24",
            "99999999999999999d",
            "é",
        ] {
            assert!(parse_ttl("--ttl", bad, YEAR).is_err(), "{bad}");
        }
        let long = parse_ttl("--ttl", "366d", YEAR).unwrap_err().line();
        assert_eq!(long, "--ttl '366d' is more than 365d, the longest");
    }
}

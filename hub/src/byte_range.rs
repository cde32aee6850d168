//! The `Range` header, as far as this hub answers it: one range of bytes. Anything else gets the whole blob, as
//! RFC 9110 allows.

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// What a reader asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requested {
    /// All of it.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// A range that begins behind the end.
    Unsatisfiable,
}

pub(crate) fn requested(headers: &HeaderMap, size: u64) -> Requested {
    headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| parse(value, size))
        .unwrap_or(Requested::Whole)
}

fn parse(value: &str, size: u64) -> Option<Requested> {
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten()
    };
    let range = if first.is_empty() {
        size.saturating_sub(number(last)?)..size
    } else {
        let first = number(first)?;
        let end = if last.is_empty() {
            size
        } else {
            number(last)?.checked_add(1)?.min(size)
        };
        if !last.is_empty() && number(last)? < first {
            return None;
        }
        first..end
    };
    Some(if range.is_empty() {
        Requested::Unsatisfiable
    } else {
        Requested::Part(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_read_and_anything_else_is_everything() {
        use Requested::{Part, Unsatisfiable, Whole};
        for (value, expected) in [
            ("bytes=0-3", Part(0..4)),
            ("bytes=4-", Part(4..10)),
            ("bytes=4-99", Part(4..10)),
            ("bytes=-3", Part(7..10)),
            ("bytes=-99", Part(0..10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=5-4", Whole),
            ("bytes=0-1,4-5", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=x-", Whole),
            ("bytes=0-18446744073709551615", Whole),
            ("lines=1-2", Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, value.parse().unwrap());
            assert_eq!(requested(&headers, 10), expected, "{value}");
        }
        assert_eq!(requested(&HeaderMap::new(), 10), Whole);
    }
}

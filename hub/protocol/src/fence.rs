//! The fencing token of a claimed job: what tells the worker that has it now from one that had it before.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ParseError, Seq};

/// One claim of one job. In a header: `SEQ FENCE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The job's number in its room.
    pub seq: Seq,
    /// The claim's number: higher with each claim of any job of the service.
    pub number: u64,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.number)
    }
}

impl FromStr for Fence {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let read = |(seq, number): (&str, &str)| {
            let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = number.parse().ok().filter(|number| is_plain && *number > 0)?;
            let seq: Seq = seq.parse().ok().filter(|seq| *seq != Seq::ZERO)?;
            Some(Self { seq, number })
        };
        let found = text.split_once(' ').and_then(read);
        found.ok_or_else(|| ParseError::new("fence", text, "is not the numbers of a job and of its claim"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_two_numbers() {
        let fence: Fence = "7 12".parse().unwrap();
        assert_eq!((fence.seq, fence.number), (Seq::new(7), 12));
        assert_eq!(fence.to_string(), "7 12");
        for bad in ["", "7", "7 ", "7  1", "0 1", "7 0", "7 +1", "7 1 2", "a 1"] {
            assert!(bad.parse::<Fence>().is_err(), "{bad}");
        }
    }
}

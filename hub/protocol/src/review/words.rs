//! The words of a review: what looked at the commit, what it calls its rules, what it has to say, and where there is more.
//! Bounded, so that one finding cannot fill a message.

use std::fmt;
use std::str::FromStr;

use crate::hidden::flaw_of_line;
use crate::limits::{
    MAX_CONTEXT_BYTES, MAX_FINGERPRINT_BYTES, MAX_REVIEW_TEXT_BYTES, MAX_RULE_BYTES, MAX_RUN_URL_BYTES,
};
use crate::{ParseError, serde_as_string};

macro_rules! words {
    ($( $(#[doc = $doc:literal])+ $type:ident $what:literal $most:ident $rule:expr ;)+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(String);

        impl $type {
            /// As it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                let rule: fn(&str) -> Option<&'static str> = $rule;
                let flaw = match text.len() {
                    0 => Some("is empty"),
                    length if length > $most => Some("is too long"),
                    _ => rule(text),
                };
                match flaw {
                    Some(flaw) => Err(ParseError::new($what, text, flaw)),
                    None => Ok(Self(text.to_owned())),
                }
            }
        }

        serde_as_string!($type);
    )+ };
}

words! {
    /// What a status is about beside the commit: `lint`, `tests / linux`. A visible line of 1 to 128 bytes that does not begin
    /// with `-` and has no comma, so that several can be named in one word.
    StatusContext "context" MAX_CONTEXT_BYTES flaw_of_context;
    /// What a finder calls one of its rules: a visible line of 1 to 256 bytes.
    RuleName "rule" MAX_RULE_BYTES flaw_of_line;
    /// What makes a finding known again where lines have moved: 1 to 128 visible ASCII characters.
    Fingerprint "fingerprint" MAX_FINGERPRINT_BYTES flaw_of_visible_ascii;
    /// A text for people, of any lines: 1 to 4,096 bytes. Escape it before it reaches a terminal.
    ReviewText "text" MAX_REVIEW_TEXT_BYTES |_| None;
    /// The address of a page: http or https, visible ASCII of at most 2,048 bytes, without a user.
    RunUrl "url" MAX_RUN_URL_BYTES flaw_of_url;
}

fn flaw_of_context(text: &str) -> Option<&'static str> {
    if text.starts_with('-') {
        return Some("begins with -");
    }
    text.contains(',')
        .then_some("has a comma")
        .or_else(|| flaw_of_line(text))
}

fn flaw_of_visible_ascii(text: &str) -> Option<&'static str> {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_visible).then_some("is not of visible ASCII characters")
}

fn flaw_of_url(text: &str) -> Option<&'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Some("is no address of http or https");
    };
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if host.is_empty() || host.contains('@') {
        return Some("has no host, or a user before it");
    }
    flaw_of_visible_ascii(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_one_visible_word_or_more_without_a_comma() {
        for good in ["lint", "tests / linux (stable)", "é"] {
            assert!(good.parse::<StatusContext>().is_ok(), "{good}");
        }
        for bad in ["", " a", "a,b", "-a", "a\nb", "a\u{202e}b", &"x".repeat(129)] {
            assert!(bad.parse::<StatusContext>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_carries_no_user() {
        for good in ["https://ci.example/runs/7#job", "http://127.0.0.1:8080/?a=b@c"] {
            assert!(good.parse::<RunUrl>().is_ok(), "{good}");
        }
        for bad in [
            "ci.example",
            "javascript:alert(1)",
            "https://",
            "https://token@ci.example/",
            "https://ci.example\\@evil.example/\u{1b}",
            "https://ci.example/a b",
        ] {
            assert!(bad.parse::<RunUrl>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn texts_are_bounded_and_otherwise_free() {
        assert!("one\n\u{1b}[2Jtwo".parse::<ReviewText>().is_ok());
        assert!("x".repeat(MAX_REVIEW_TEXT_BYTES).parse::<ReviewText>().is_ok());
        assert!("x".repeat(MAX_REVIEW_TEXT_BYTES + 1).parse::<ReviewText>().is_err());
        assert!("a b".parse::<Fingerprint>().is_err());
        assert!("clippy::needless_borrow".parse::<RuleName>().is_ok());
        assert!("a\tb".parse::<RuleName>().is_err());
    }
}

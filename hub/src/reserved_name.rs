//! Names that no agent may take because readers would think them a token's: `ci/..`, in any spelling that looks so.

use parler_protocol::{AgentName, TOKEN_SENDER_PREFIX};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::skeleton;

/// Whether the name begins like a token's as far as eyes can tell: whatever the case, in letters of other scripts, with
/// marks or blanks between.
pub(crate) fn is_reserved(name: &AgentName) -> bool {
    looks(name.as_str()).starts_with(TOKEN_SENDER_PREFIX)
}

/// The text with everything that looks alike made the same.
fn looks(text: &str) -> String {
    // Before and after: U+03F2 looks like a c, and decomposes into a sigma.
    let plain: String = skeleton(text).nfkd().filter(|char| !is_combining_mark(*char)).collect();
    let alike: String = skeleton(&plain).collect();
    alike
        .to_lowercase()
        .chars()
        .filter(|char| !char.is_whitespace())
        // A capital i, a small L, a one and a bar are one stroke.
        .map(|char| if char == 'l' { 'i' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_token_is_reserved() {
        for name in [
            "ci/x",
            "CI/x",
            "Ci/",
            "сi/x",    // Cyrillic es
            "cі/x",    // Cyrillic i
            "ｃｉ／x", // full width
            "cI/x",
            "cl/x",
            "C1/x",
            "C|/x",
            "cı/x",
            "ci∕x", // division slash
            "ci⁄x", // fraction slash
            "ćí/x",
            "c i /x",
            "ⅽⅰ/x", // roman numerals
            "ϲι/x", // Greek
        ] {
            assert!(is_reserved(&name.parse().unwrap()), "{name}");
        }
        for name in [
            "ci",
            "alice",
            "ci-bot",
            "cii/x",
            "alice@host/ci/x",
            "ci.x/y",
            "ди/x",
            "c/i",
        ] {
            assert!(!is_reserved(&name.parse().unwrap()), "{name}");
        }
    }
}

//! Names that no agent may take because readers would think them somebody else's: a token's, `ci/..` in any spelling that
//! looks so, and those with words of letters from several scripts. Says also which names look alike.

use parler_protocol::{AgentName, TOKEN_SENDER_PREFIX};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::{MixedScript, skeleton};

/// Whether the name begins like a token's as far as eyes can tell: whatever the case, in letters of other scripts, with
/// marks or blanks between.
pub(crate) fn is_reserved(name: &AgentName) -> bool {
    likeness(name.as_str()).starts_with(TOKEN_SENDER_PREFIX)
}

/// Whether a word of the name mixes scripts, as no language does: `аlice` whose first letter is Cyrillic. Latin beside
/// Chinese, Japanese or Korean is usual.
pub(crate) fn is_mixed(name: &AgentName) -> bool {
    let is_letter = |char: char| char.is_alphanumeric();
    name.as_str().split(|char| !is_letter(char)).any(|word| {
        let foreign: String = word.chars().filter(|char| !char.is_ascii()).collect();
        let scripts = foreign.as_str().resolve_script_set();
        !(word.is_single_script() || scripts.hanb || scripts.jpan || scripts.kore)
    })
}

/// The text with everything that looks alike made the same.
pub(crate) fn likeness(text: &str) -> String {
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
    fn words_are_of_one_script() {
        for name in ["аlice", "bоb", "рaypal bot", "Ωmega", "ops@хost"] {
            assert!(is_mixed(&name.parse().unwrap()), "{name}");
        }
        for name in [
            "alice",
            "Алиса",
            "ada@laptop/проект",
            "zoë",
            "東京bot",
            "サーバー3",
            "서버 one",
            "a-1_b",
            "µservice",
        ] {
            assert!(!is_mixed(&name.parse().unwrap()), "{name}");
        }
    }

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

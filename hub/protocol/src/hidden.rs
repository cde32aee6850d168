//! Characters that are not seen, or that change how the text around them looks: the one list of them. Says nothing of
//! what is to be done about them; names are refused for them, texts are shown with them written out.

/// Whether a character moves the cursor, turns the direction of the text around it, or leaves no mark at all.
pub fn is_hidden(character: char) -> bool {
    // C0, DEL and C1.
    character.is_control()
        || matches!(
            character,
            '\u{ad}'                        // soft hyphen
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // text direction
            | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}'       // zero width, fillers
            | '\u{fe00}'..='\u{fe0f}'       // variation selectors
            | '\u{2028}' | '\u{2029}'       // line and paragraph separators
            | '\u{fff0}'..='\u{fffb}'       // specials
            | '\u{1d173}'..='\u{1d17a}'     // musical formatting
            | '\u{e0000}'..='\u{e0fff}'     // tags, supplementary variation selectors
        )
}

/// What keeps a text from being one visible line, if anything does. How long it is the caller knows.
pub(crate) fn flaw_of_line(text: &str) -> Option<&'static str> {
    if text.trim() != text {
        return Some("begins or ends with a blank");
    }
    let is_hidden = text.chars().any(is_hidden);
    is_hidden.then_some("holds a character that cannot be seen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_no_mark_is_hidden() {
        for hidden in [
            '\0',
            '\n',
            '\r',
            '\t',
            '\u{1b}',
            '\u{7f}',
            '\u{80}',
            '\u{9b}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2060}',
            '\u{2065}',
            '\u{2069}',
            '\u{206f}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1d173}',
            '\u{e0041}',
            '\u{e0100}',
        ] {
            assert!(is_hidden(hidden), "{hidden:?}");
        }
    }

    #[test]
    fn what_is_read_is_not_hidden() {
        for seen in [
            ' ',
            '~',
            'é',
            'ß',
            '\u{301}',
            '漢',
            'ه',
            '✓',
            '│',
            '\u{2010}',
            '\u{2026}',
            '\u{2030}',
            '\u{2070}',
            '\u{fffd}',
            '😀',
            '\u{10ffff}',
        ] {
            assert!(!is_hidden(seen), "{seen:?}");
        }
    }
}

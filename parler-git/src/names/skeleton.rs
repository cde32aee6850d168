//! The skeleton of a text by Unicode Technical Standard 39: the same for texts that look alike.

use unicode_normalization::UnicodeNormalization;

// FROM, in order, and behind each STARTS where its part of TO begins. Made by build.rs.
include!(concat!(env!("OUT_DIR"), "/skeleton_table.rs"));

/// What texts that look alike have in common, in decomposed characters.
pub(super) fn skeleton(text: &str) -> impl Iterator<Item = char> {
    text.nfd().flat_map(prototype).nfd()
}

/// What stands for a character: itself, another one, several, or nothing.
fn prototype(character: char) -> impl Iterator<Item = char> {
    let (itself, others) = match FROM.binary_search(&character) {
        Ok(position) => {
            let (start, end) = (STARTS[position], STARTS[position + 1]);
            (None, &TO[usize::from(start)..usize::from(end)])
        }
        Err(_) => (Some(character), &[][..]),
    };
    itself.into_iter().chain(others.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_library_says() {
        let same = |text: &str| {
            let ours: String = skeleton(text).collect();
            let theirs: String = unicode_security::skeleton(text).collect();
            assert_eq!(ours, theirs, "{text:?}");
        };
        let mut between = String::new();
        for character in '\0'..=char::MAX {
            between.clear();
            // Marks of two classes, so that their order counts.
            between.extend(['a', '\u{323}', character, '\u{301}', '\u{316}']);
            same(&between);
        }
        same("");
        same("\u{391}lice \u{fb01}le rn\u{307} \u{1d400}\u{200d}\u{ad}");
    }
}

//! JSON of which every character can be seen: hidden ones, which serde_json leaves as they are above U+001F, are written
//! as `\\uXXXX`. The value is the same to whoever reads it.

use std::io::{self, Write};

use parler_protocol::is_hidden;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// A value as JSON on one line.
pub(crate) fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    let mut json = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut json, Visible))?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        write_visible(writer, fragment)
    }

    // JSON that is passed on: above U+007E everything in it is part of a string.
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        write_visible(writer, fragment)
    }
}

fn write_visible<W: Write + ?Sized>(writer: &mut W, fragment: &str) -> io::Result<()> {
    let mut written = 0;
    for (at, character) in fragment.char_indices() {
        // `##[..]` is a command to GitHub's runner wherever in a line of a step it stands.
        let is_command = character == '[' && fragment[..at].ends_with("##");
        if is_command || character > '~' && is_hidden(character) {
            writer.write_all(&fragment.as_bytes()[written..at])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            written = at + character.len_utf8();
        }
    }
    writer.write_all(&fragment.as_bytes()[written..])
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn hidden_characters_are_written_out_and_the_value_stays() {
        for (text, shown) in [
            ("plain é 漢 ✓ \"\\ 😀", r#""plain é 漢 ✓ \"\\ 😀""#),
            ("\u{1b}[2J\n", r#""\u001b[2J\n""#),
            ("\u{9b}31m\u{7f}", r#""\u009b31m\u007f""#),
            ("a\u{202e}b\u{200b}c\u{feff}", r#""a\u202eb\u200bc\ufeff""#),
            ("\u{e0041}\u{1d173}", r#""\udb40\udc41\ud834\udd73""#),
        ] {
            assert_eq!(to_string(&text).unwrap(), shown);
            let value = json!({ text: [text] });
            let read: Value = serde_json::from_str(&to_string(&value).unwrap()).unwrap();
            assert_eq!(read, value);
        }
        let raw = RawValue::from_string("{\"a\": \"\u{202e}\"}".to_owned()).unwrap();
        assert_eq!(to_string(&raw).unwrap(), r#"{"a": "\u202e"}"#);
    }
}

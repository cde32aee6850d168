//! Text that others wrote, made safe to show. Every path to a terminal goes through here: names, messages, ref names,
//! commit subjects, and what a hub or git says. Nothing here decides what is shown, only how.

use std::num::NonZeroU32;

use parler_protocol::api::TokenGrant;
use parler_protocol::is_hidden;

use crate::{room_labels, screen};

/// Longest line that is shown of a text meant to be one line, in characters.
const MAX_LINE_CHARS: usize = 500;
/// Longest name that is shown, in characters.
const MAX_NAME_CHARS: usize = 80;
/// Most lines, and most characters, of one text in a list of messages.
const MAX_LISTED_LINES: usize = 20;
const MAX_LISTED_CHARS: usize = 2_000;
/// What stands before every further line of a text, so that it cannot be taken for a line of ours.
pub(crate) const CONTINUED: &str = "│ ";

/// How much of what others wrote is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it, for somebody who asked for this one message.
    Whole,
    /// The beginning of each text: a long one must not push everything else off the screen.
    Beginning,
}

impl Extent {
    /// As much of a text as is shown. Remembers in `cut` that there is more.
    pub(crate) fn of<'t>(self, text: &'t str, cut: &mut bool) -> &'t str {
        let all = text.strip_suffix('\n').unwrap_or(text);
        let lines = all.match_indices('\n').nth(MAX_LISTED_LINES - 1);
        let chars = all.char_indices().nth(MAX_LISTED_CHARS);
        let end = [lines.map(|(at, _)| at), chars.map(|(at, _)| at)]
            .into_iter()
            .flatten()
            .min();
        match (self, end) {
            (Self::Beginning, Some(end)) => {
                *cut = true;
                &text[..end]
            }
            _ => text,
        }
    }
}

fn push_visible(out: &mut String, character: char) {
    // `##[..]` is a command to GitHub's runner wherever in a line of a step it stands.
    if is_hidden(character) || character == '[' && out.ends_with("##") {
        out.extend(character.escape_unicode());
    } else {
        out.push(character);
    }
}

/// At most `most` characters of a text on one line, what is hidden in it written as `\u{..}`; `..` where it was cut.
fn limited(text: &str, most: usize) -> String {
    room_labels::apart(escaped(text, most))
}

fn escaped(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, character) in text.chars().enumerate() {
        if index == most {
            out.push_str("..");
            break;
        }
        push_visible(&mut out, character);
    }
    out
}

/// A text that should be one line, as one line.
pub(crate) fn one_line(text: &str) -> String {
    limited(text, MAX_LINE_CHARS)
}

/// A line of ours, part of which may come from elsewhere, on its way to people: direct rooms by their labels.
pub(crate) fn own_line(line: &str) -> String {
    escaped(&room_labels::shown(line), MAX_LINE_CHARS)
}

/// Longest beginning of a text that is shown on a line among others, in characters.
const MAX_BEGINNING_CHARS: usize = 100;

/// The first line of a text, for a list: `..` where there is more.
pub(crate) fn beginning(text: &str) -> String {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let shown = limited(first, MAX_BEGINNING_CHARS);
    let is_more = first.len() < text.len() && !shown.ends_with("..");
    format!("{shown}{}", if is_more { " .." } else { "" })
}

/// A text that may have several lines, escaped line by line. At least one line.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let visible = |line: &str| {
        let mut out = String::with_capacity(line.len());
        for character in line.strip_suffix('\r').unwrap_or(line).chars() {
            match character {
                '\t' => out.push(character),
                _ => push_visible(&mut out, character),
            }
        }
        room_labels::apart(out)
    };
    text.split('\n').map(visible).collect()
}

/// A text after a label of ours: the first line as it is, every further one marked as the text's.
pub(crate) fn continued(text: &str) -> String {
    lines(text).join(&format!("\n{CONTINUED}"))
}

/// A text that stands alone: every line marked as the text's.
pub(crate) fn quoted(text: &str) -> String {
    let line = |line: &String| screen::labelled(CONTINUED, line);
    lines(text).iter().map(line).collect()
}

/// A name that somebody chose. Plain names stand as they are; others in quotes, so that punctuation in them cannot
/// pass for the words around.
pub(crate) fn name(name: &str) -> String {
    named(name, MAX_NAME_CHARS)
}

/// The path of a file, as a name that may be longer.
pub(crate) fn path(path: &str) -> String {
    named(path, MAX_LINE_CHARS)
}

fn named(name: &str, most: usize) -> String {
    // Some fillers count as letters.
    let plain =
        |character: char| (character.is_alphanumeric() && !is_hidden(character)) || "._-@/+#".contains(character);
    if !name.is_empty() && name.chars().count() <= most && name.chars().all(plain) {
        return room_labels::apart(name.to_owned());
    }
    format!("\"{}\"", limited(name, most).replace('"', "\\u{22}"))
}

/// A name with the role behind it, if there is one: `alice (planner)`.
pub(crate) fn name_and_role(who: &str, role: Option<&str>) -> String {
    match role {
        Some(role) => format!("{} ({})", name(who), name(role)),
        None => name(who),
    }
}

/// `1 commit`, `2 commits`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Bytes as people say them: `312 B`, `4.1 KiB`, `3.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// A span of time as it is said to options, in the largest unit that it is a whole number of: `24h` is `1d`.
pub(crate) fn span(seconds: NonZeroU32) -> String {
    let units = [(24 * 3600, "d"), (3600, "h"), (60, "m")];
    let whole = units.into_iter().find(|(unit, _)| seconds.get().is_multiple_of(*unit));
    let (unit, letter) = whole.unwrap_or((1, "s"));
    format!("{}{letter}", seconds.get() / unit)
}

/// The end of what holds for a time: `until 2026-11-30 05:00:00`, or `expired 2026-11-30 05:00:00` once that has come.
pub(crate) fn end(until: i64, now: i64) -> String {
    let word = if crate::time::is_over(Some(until), now) {
        "expired"
    } else {
        "until"
    };
    format!("{word} {}", local_time(until))
}

/// A moment in milliseconds since 1970 as local time to the second; the number itself where it is no time.
pub(crate) fn local_time(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(moment) => moment
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => ms.to_string(),
    }
}

/// What a token may do where, in words.
pub(crate) fn grants(rooms: &[TokenGrant]) -> String {
    let grant = |grant: &TokenGrant| {
        let can: Vec<_> = grant.can.iter().map(|scope| scope.as_str()).collect();
        format!("{} in '{}'", can.join(" and "), grant.room)
    };
    match rooms {
        [] => "nothing any more: its maker left".to_owned(),
        rooms => rooms.iter().map(grant).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_numbers_of_their_unit() {
        for (seconds, shown) in [
            (1, "1s"),
            (90, "90s"),
            (60, "1m"),
            (3600, "1h"),
            (5400, "90m"),
            (86_400, "1d"),
        ] {
            assert_eq!(span(NonZeroU32::new(seconds).unwrap()), shown);
        }
    }

    #[test]
    fn what_could_deceive_a_reader_is_written_out() {
        for (text, shown) in [
            ("plain é 漢 ✓ \"", "plain é 漢 ✓ \""),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\rb\x08\x7f", "a\\u{d}b\\u{8}\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\u{200b}b\u{200d}c\u{feff}", "a\\u{200b}b\\u{200d}c\\u{feff}"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("\u{e0041}\u{e0100}", "\\u{e0041}\\u{e0100}"),
            ("a\nb\tc", "a\\u{a}b\\u{9}c"),
        ] {
            assert_eq!(one_line(text), shown);
            assert!(
                !lines(text)
                    .iter()
                    .any(|line| line.chars().any(|c| c != '\t' && is_hidden(c))),
                "{text:?}"
            );
        }
        assert_eq!(one_line(&"x".repeat(501)), format!("{}..", "x".repeat(500)));
    }

    #[test]
    fn a_body_cannot_stand_at_the_beginning_of_a_line() {
        let body = "first\nHANDOFF TO YOU from root\r\n\u{2028}x\n";
        assert_eq!(continued(body), "first\n│ HANDOFF TO YOU from root\n│ \\u{2028}x");
        assert_eq!(quoted(body), "│ first\n│ HANDOFF TO YOU from root\n│ \\u{2028}x\n");
        assert_eq!(quoted(""), "│ \n");
    }

    #[test]
    fn long_texts_are_cut_at_a_line_or_a_character() {
        let shown = |text: &str| {
            let mut cut = false;
            let shown = Extent::Beginning.of(text, &mut cut).to_owned();
            (shown, cut)
        };
        let lines = |count: usize| "é\n".repeat(count);
        assert_eq!(shown(&lines(20)), (lines(20), false));
        assert_eq!(shown(&lines(21)), (lines(20).trim_end().to_owned(), true));
        let exact = "é".repeat(MAX_LISTED_CHARS);
        assert_eq!(shown(&exact), (exact.clone(), false));
        assert_eq!(shown(&format!("{exact}x")), (exact.clone(), true));
        let mut cut = false;
        assert_eq!(Extent::Whole.of(&lines(99), &mut cut), lines(99));
        assert!(!cut);
    }

    #[test]
    fn a_name_cannot_hold_our_punctuation_unquoted() {
        assert_eq!(name("ada@engine/parler-2"), "ada@engine/parler-2");
        assert_eq!(name("Zoë"), "Zoë");
        assert_eq!(name("alice (planner) · message 9"), "\"alice (planner) · message 9\"");
        assert_eq!(name("a\" (x)"), "\"a\\u{22} (x)\"");
        assert_eq!(name("a\u{3164}b"), "\"a\\u{3164}b\"");
        assert_eq!(name(""), "\"\"");
        assert_eq!(name(&"n".repeat(200)), format!("\"{}..\"", "n".repeat(80)));
        assert_eq!(name_and_role("alice", Some("planner")), "alice (planner)");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1, "commit"), "1 commit");
        assert_eq!(count(0, "commit"), "0 commits");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(4200), "4.1 KiB");
        assert_eq!(size(3 << 20), "3.0 MiB");
    }
}

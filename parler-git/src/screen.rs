//! How wide the screen is that people look at: lines that are longer are wrapped where they hold a text, and shortened
//! where they are one of a list. Where nobody looks, in a pipe or a file, every line stays as long as it is.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::OnceLock;

use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthChar;

use crate::environment::Environment;
use crate::text::CONTINUED;

/// Narrower than this nothing is made for: lines stay as they are.
const NARROWEST: usize = 20;
/// As much of what is shortened is left in any case.
const LEAST_LEFT: usize = 8;
/// What stands for the rest of a line.
const ELLIPSIS: char = '…';
/// Columns from one tab stop to the next.
const TAB: usize = 8;

/// The width of this process's stdout, once that has been looked at.
static COLUMNS: OnceLock<Option<usize>> = OnceLock::new();

/// Looks at stdout: `COLUMNS`, else what the terminal says. Called once, before anything is shown.
pub(crate) fn look(environment: &Environment) {
    COLUMNS.get_or_init(|| {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        let said = environment
            .filled("COLUMNS")
            .and_then(|columns| columns.to_str()?.parse().ok());
        let told = || {
            rustix::termios::tcgetwinsize(&stdout)
                .ok()
                .map(|size| usize::from(size.ws_col))
        };
        said.or_else(told).filter(|columns| *columns >= NARROWEST)
    });
}

/// How many columns there are; none where a line may have any length.
fn columns() -> Option<usize> {
    COLUMNS.get().copied().flatten()
}

/// One of a list, on one line: `before`, as much of `text` as fits, `after`. What is ours is never shortened, nor a
/// command: only what others made long.
pub(crate) fn fit(before: &str, text: &str, after: &str) -> String {
    fit_in(columns(), before, text, after)
}

pub(crate) fn fit_in(columns: Option<usize>, before: &str, text: &str, after: &str) -> String {
    let shortened = columns.map(|columns| {
        let ours = display_width(before) + display_width(after);
        shorten(text, columns.saturating_sub(ours).max(LEAST_LEFT))
    });
    format!("{before}{}{after}", shortened.unwrap_or(Cow::Borrowed(text)))
}

/// At most so many columns of a text, an ellipsis where it was cut.
fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    if display_width(text) <= most {
        return text.into();
    }
    // What is quoted stays quoted: what comes behind it is not its author's.
    let close = if text.starts_with('"') { "\"" } else { "" };
    let mut width = 1 + close.len();
    let end = text.char_indices().find(|(_, character)| {
        width += character.width().unwrap_or(0);
        width > most
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    format!("{}{ELLIPSIS}{close}", text[..end].trim_end()).into()
}

/// A line behind what has a width of its own already, such as a label: the lines that it becomes. What goes on begins as
/// every further line of a text does, so that it cannot be taken for a line of ours.
pub(crate) fn wrap(line: &str, before: usize) -> String {
    wrap_in(columns(), line, before)
}

/// A label and what stands behind it, of one line or several, each of which ends with a newline.
pub(crate) fn labelled(label: &str, value: &str) -> String {
    let mut out = label.to_owned();
    for (index, line) in value.split('\n').enumerate() {
        match line.strip_prefix(CONTINUED) {
            _ if index == 0 => out.push_str(&wrap(line, display_width(label))),
            Some(text) => out.extend([CONTINUED, &wrap(text, display_width(CONTINUED))]),
            None => out.push_str(&wrap(line, 0)),
        }
        out.push('\n');
    }
    out
}

/// A name on a line that has other things to say as well: a third of it at most.
pub(crate) fn third(name: &str) -> Cow<'_, str> {
    share(name, 3)
}

/// As [`third`], of a line that has many: a sixth.
pub(crate) fn sixth(name: &str) -> Cow<'_, str> {
    share(name, 6)
}

fn share(name: &str, parts: usize) -> Cow<'_, str> {
    match columns() {
        Some(columns) => shorten(name, (columns / parts).max(LEAST_LEFT)),
        None => name.into(),
    }
}

/// Names for a column, each as wide as the widest.
pub(crate) fn column(names: &[impl AsRef<str>]) -> Vec<String> {
    let names: Vec<_> = names.iter().map(|name| third(name.as_ref())).collect();
    let width = names.iter().map(|name| display_width(name)).max().unwrap_or_default();
    let padded = |name: &Cow<'_, str>| format!("{name}{}", " ".repeat(width - display_width(name)));
    names.iter().map(padded).collect()
}

pub(crate) fn wrap_in(columns: Option<usize>, line: &str, before: usize) -> String {
    let Some(columns) = columns else {
        return line.to_owned();
    };
    let line = expanded(line, before);
    if before + display_width(&line) <= columns {
        return line;
    }
    let indent = " ".repeat(before);
    let options = Options::new(columns)
        .initial_indent(&indent)
        .subsequent_indent(CONTINUED)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    let mut wrapped = textwrap::wrap(&line, options).join("\n");
    // The indent stands for what is there already.
    wrapped.split_off(before.min(wrapped.len()))
}

/// A line with blanks in the place of tabs: how wide those are only a terminal knows.
fn expanded(line: &str, before: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = before;
    for character in line.chars() {
        let width = match character {
            '\t' => TAB - column % TAB,
            other => other.width().unwrap_or(0),
        };
        match character {
            '\t' => out.extend(std::iter::repeat_n(' ', width)),
            other => out.push(other),
        }
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_made_long_is_shortened() {
        let fit = |columns, text: &str| fit_in(columns, "two · ", text, " · git parler show 1");
        assert_eq!(
            fit(None, &"x".repeat(99)),
            format!("two · {} · git parler show 1", "x".repeat(99))
        );
        assert_eq!(fit(Some(40), "a short one"), "two · a short one · git parler show 1");
        let long = fit(Some(40), "a text that is long and goes on");
        assert_eq!(
            (long.as_str(), display_width(&long)),
            ("two · a text that i… · git parler show 1", 40)
        );
        // Two columns each, and one that none is left for.
        let wide = fit(Some(40), "漢字漢字漢字漢字");
        assert_eq!(
            (wide.as_str(), display_width(&wide)),
            ("two · 漢字漢字漢字… · git parler show 1", 39)
        );
        let narrow = fit(Some(20), "a text that is long");
        assert_eq!(narrow, "two · a text… · git parler show 1");
        assert_eq!(shorten("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(shorten("\"of · others\"", 7), "\"of ·…\"");
    }

    #[test]
    fn a_text_goes_on_as_a_text() {
        let wrap = |line: &str, before| wrap_in(Some(20), line, before);
        assert_eq!(wrap("as it is", 11), "as it is");
        assert_eq!(
            wrap("a text that is long and goes on", 11),
            "a text\n│ that is long and\n│ goes on"
        );
        assert_eq!(
            wrap_in(None, "a text that is long and goes on", 11),
            "a text that is long and goes on"
        );
        assert_eq!(wrap("漢字漢字漢字漢字漢字", 2), "漢字漢字漢字漢字漢\n│ 字");
        assert_eq!(
            wrap(&"x".repeat(30), 2),
            format!("{}\n│ {}", "x".repeat(18), "x".repeat(12))
        );
        assert_eq!(wrap("a\tb", 2), "a     b");
        let long = wrap("one    two\tthree, and whatever comes behind it", 2);
        assert!(long.lines().all(|line| display_width(line) <= 20), "{long}");
    }
}

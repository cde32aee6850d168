//! Manual pages in roff, from sections of text. In a text `` `words` `` are shown bold and `_WORDS_` in italics;
//! everything else is shown as it is, whatever roff would make of it.

use roff::{Inline, Roff, bold, italic, roman};

/// Longest line of text in a page's source, without what marks words.
const LINE_BYTES: usize = 64;

/// A piece of a section.
#[derive(Debug, Clone, Copy)]
pub(super) enum Block {
    /// Running text.
    Text(&'static str),
    /// Lines as they are, such as commands.
    Lines(&'static str),
    /// A word, and what it means.
    Term(&'static str, &'static str),
}

/// A section: its heading, and what stands below it.
pub(super) type Section = (&'static str, &'static [Block]);

/// A page that is being written.
#[derive(Default)]
pub(super) struct Writer(Roff);

impl Writer {
    /// The head of a page of section 1.
    pub(super) fn title(&mut self, name: &str, date: &str) {
        let source = concat!("Parler ", env!("CARGO_PKG_VERSION"));
        let title = name.to_uppercase();
        self.0.control("TH", [&title, "1", date, source, "Parler Manual"]);
    }

    /// The NAME section, which `whatis` reads.
    pub(super) fn name(&mut self, name: &str, about: &str) {
        self.heading("NAME");
        self.0.text([roman(format!("{name} - {about}"))]);
    }

    pub(super) fn heading(&mut self, heading: &str) {
        self.0.control("SH", [heading]);
    }

    pub(super) fn section(&mut self, (heading, blocks): &Section) {
        self.heading(heading);
        for (index, block) in blocks.iter().enumerate() {
            self.block(block, index == 0);
        }
    }

    fn block(&mut self, block: &Block, is_first: bool) {
        match block {
            Block::Text(text) if is_first => self.line(text),
            Block::Text(text) => self.text(text),
            Block::Lines(lines) => self.lines(lines, is_first),
            Block::Term(term, meaning) => self.term(&format!("`{term}`"), meaning),
        }
    }

    /// A line of running text, without a paragraph before it.
    pub(super) fn line(&mut self, text: &str) {
        for line in wrapped(text) {
            self.0.text(inlines(line));
        }
    }

    /// A paragraph.
    pub(super) fn text(&mut self, text: &str) {
        self.0.control("PP", []);
        self.line(text);
    }

    /// Lines as they are, indented.
    pub(super) fn lines(&mut self, lines: &str, is_first: bool) {
        if !is_first {
            self.0.control("PP", []);
        }
        self.0.control("RS", ["4"]);
        self.0.control("nf", []);
        for line in lines.lines() {
            self.0.text([roman(line)]);
        }
        self.0.control("fi", []);
        self.0.control("RE", []);
    }

    /// A term and its meaning.
    pub(super) fn term(&mut self, term: &str, meaning: &str) {
        self.0.control("TP", []);
        // The term is one line, however long.
        self.0.text(inlines(term));
        self.line(meaning);
    }

    /// Everything until [`Writer::outdent`] stands further in.
    pub(super) fn indent(&mut self) {
        self.0.control("RS", []);
    }

    pub(super) fn outdent(&mut self) {
        self.0.control("RE", []);
    }

    /// The page.
    pub(super) fn finish(&self) -> String {
        self.0.to_roff()
    }
}

/// A text in lines for those who read the source: broken at blanks that stand in no marked words.
fn wrapped(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut begin, mut blank, mut marked) = (0, None, false);
    for (at, character) in text.char_indices() {
        match character {
            '`' => marked = !marked,
            ' ' if !marked => {
                if at - begin > LINE_BYTES
                    && let Some(end) = blank
                {
                    lines.push(&text[begin..end]);
                    begin = end + 1;
                }
                blank = Some(at);
            }
            _ => {}
        }
    }
    match blank {
        Some(end) if text.len() - begin > LINE_BYTES && end > begin => {
            lines.extend([&text[begin..end], &text[end + 1..]]);
        }
        _ => lines.push(&text[begin..]),
    }
    lines
}

/// A text with its marked words.
fn inlines(text: &str) -> Vec<Inline> {
    let mut found = Vec::new();
    for (index, piece) in text.split('`').enumerate() {
        if index % 2 == 1 {
            found.push(bold(piece));
            continue;
        }
        let mut rest = piece;
        while let Some((before, word, after)) = italic_word(rest) {
            found.push(roman(before));
            found.push(italic(word));
            rest = after;
        }
        found.push(roman(rest));
    }
    found
}

/// The first `_WORD_`: capitals alone, so that names with underscores stay as they are.
fn italic_word(text: &str) -> Option<(&str, &str, &str)> {
    for (start, _) in text.match_indices('_') {
        let behind = &text[start + 1..];
        if let Some((word, after)) = behind.split_once('_')
            && !word.is_empty()
            && word.chars().all(|c| c.is_ascii_uppercase() || "|.:[]-".contains(c))
        {
            return Some((&text[..start], word, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_words_are_marked_and_nothing_else_means_anything() {
        let mut writer = Writer::default();
        writer.line("Writes _FILE_ with `--force`, not parler_hub_x.");
        let long = "word ".repeat(20);
        assert!(wrapped(&long).len() > 1 && wrapped(&long).join(" ") == long);
        assert_eq!(wrapped(&format!("`{long}`")).len(), 1);
        writer.line(".SH is no heading, and \\fB no font");
        let page = writer.finish();
        assert!(
            page.contains("Writes \\fIFILE\\fR with \\fB\\-\\-force\\fR, not parler_hub_x."),
            "{page}"
        );
        assert!(page.contains("\\&.SH is no heading, and \\\\fB no font"), "{page}");
    }
}

//! Which lines of a git child's stderr are meters: the only ones that are passed on as they are. What matches holds
//! nothing but words that are written here, digits and blanks, so that no text from a bundle reaches a terminal by it.

/// What git's children that we run count.
const TITLES: [&str; 9] = [
    "Checking connectivity",
    "Checking objects",
    "Compressing objects",
    "Compressing objects by path",
    "Counting objects",
    "Enumerating objects",
    "Receiving objects",
    "Resolving deltas",
    "Writing objects",
];

/// Whether a line, without its end, is a state of one of git's meters, or one of the two lines that `git pack-objects`
/// writes beside them.
pub(crate) fn is_meter(line: &[u8]) -> bool {
    // Blanks at the end cover a longer state.
    let Ok(line) = str::from_utf8(line).map(|line| line.trim_end_matches(' ')) else {
        return false;
    };
    // A meter too wide for the terminal has its title on a line of its own.
    let counters = match TITLES
        .iter()
        .find_map(|title| line.strip_prefix(title)?.strip_prefix(':'))
    {
        Some("") => return true,
        Some(counters) => counters.strip_prefix(' '),
        None => line.strip_prefix("  "),
    };
    let is_state = counters.is_some_and(|counters| Rest(counters.trim_start_matches(' ')).has_state());
    is_state || Rest(line).has_total() || Rest(line).has_threads()
}

/// What has not been read of a line.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// `45% (9/20), 9.00 MiB | 5.00 MiB/s, done.`, much of it optional.
    fn has_state(mut self) -> bool {
        let counted = self.number()
            && (!self.word("% (") || (self.number() && self.word("/") && self.number() && self.word(")")));
        if !counted {
            return false;
        }
        if self.word(", done.") || self.is_completed() {
            return self.0.is_empty();
        }
        let is_rate = !self.word(", ") || (self.amount() && self.word(" | ") && self.amount() && self.word("/s"));
        let _ = self.word(", done.");
        is_rate && self.0.is_empty()
    }

    /// `, completed with 3 local objects.`
    fn is_completed(&mut self) -> bool {
        self.word(", completed with ") && self.number() && (self.word(" local objects.") || self.word(" local object."))
    }

    /// `Total 3 (delta 0), reused 0 (delta 0), pack-reused 0 (from 0)`, the last bracket since git 2.45.
    fn has_total(mut self) -> bool {
        ["Total ", " (delta ", "), reused ", " (delta ", "), pack-reused "]
            .iter()
            .all(|word| self.word(word) && self.number())
            && (self.0.is_empty() || (self.word(" (from ") && self.number() && self.0 == ")"))
    }

    /// `Delta compression using up to 2 threads`
    fn has_threads(mut self) -> bool {
        self.word("Delta compression using up to ") && self.number() && self.0 == " threads"
    }

    /// `1.50 MiB`, `17 bytes`
    fn amount(&mut self) -> bool {
        let number = self.number() && (!self.word(".") || self.number());
        number
            && [" GiB", " MiB", " KiB", " bytes", " byte"]
                .iter()
                .any(|unit| self.word(unit))
    }

    fn number(&mut self) -> bool {
        let rest = self.0.trim_start_matches(|character: char| character.is_ascii_digit());
        let is_one = rest.len() < self.0.len();
        self.0 = rest;
        is_one
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_git_writes_is_known() {
        for line in [
            "Enumerating objects: 3, done.",
            "Enumerating objects: 1234",
            "Counting objects:  33% (1/3)",
            "Counting objects: 100% (3/3), done.",
            "Compressing objects: 100% (2/2), done.",
            "Writing objects: 100% (3/3), 222 bytes | 222.00 KiB/s, done.",
            "Receiving objects:  45% (9/20), 9.00 MiB | 5.00 MiB/s   ",
            "Receiving objects: 100% (1/1), 1 byte | 1 byte/s, done.",
            "Resolving deltas: 100% (5/5), completed with 3 local objects.",
            "Resolving deltas: 100% (1/1), completed with 1 local object.",
            "Receiving objects: 100% (3/3), 1.07 GiB | 15 bytes/s, done.",
            "Receiving objects:            ",
            "   45% (9/20), 9.00 MiB | 5.00 MiB/s",
            "Total 3 (delta 0), reused 0 (delta 0), pack-reused 0 (from 0)",
            "Total 3 (delta 0), reused 0 (delta 0), pack-reused 0",
            "Delta compression using up to 16 threads",
        ] {
            assert!(is_meter(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn nothing_else_passes() {
        for line in [
            "",
            "  ",
            "fatal: Receiving objects: 100% (1/1), done.",
            "Receiving objects: 100% (1/1), done.\u{1b}[2J",
            "Receiving objects: 100% (1/1)\u{1b}]0;x\u{7}, done.",
            "Receiving objects: 100% (1/1), owned.",
            "Receiving objects: x% (1/1)",
            "Receiving objects: 100% (1/\u{661})",
            "Receiving packages: 100% (1/1), done.",
            "Resolving deltas: 100% (1/1), completed with x local objects.",
            "Total 3 (delta 0), reused 0 (delta 0), pack-reused 0 (from 0) x",
            "warning: x",
        ] {
            assert!(!is_meter(line.as_bytes()), "{line}");
        }
        assert!(!is_meter(b"Receiving objects: 1\xff"));
    }
}

//! The options that git sets. What is not built is refused, so that git says so or does without. Of those accepted, only
//! `progress` changes nothing: it allows meters, of which there are none yet.

/// What git has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// 0: quiet, 1: normal, more with each `-v`.
    pub(super) verbosity: i64,
    /// Whether git wants to be told the object format.
    pub(super) wants_object_format: bool,
    /// Whether `git clone` is making the repository.
    pub(super) cloning: bool,
    said_whole_history: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            verbosity: 1,
            wants_object_format: false,
            cloning: false,
            said_whole_history: false,
        }
    }
}

/// The answer to one option.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) answer: &'static str,
    /// A line for people.
    pub(super) note: Option<&'static str>,
}

const OK: &str = "ok\n";
const UNSUPPORTED: &str = "unsupported\n";

impl Options {
    /// Takes `NAME VALUE`.
    pub(super) fn set(&mut self, option: &[u8]) -> Set {
        let (name, value) = super::split_word(option);
        let mut note = None;
        let answer = match (name, value) {
            (b"verbosity", value) => match str::from_utf8(value).ok().and_then(|value| value.parse().ok()) {
                Some(verbosity) => {
                    self.verbosity = verbosity;
                    OK
                }
                None => "error verbosity is a number\n",
            },
            (b"progress", b"true" | b"false") => OK,
            (b"object-format", b"true") => {
                self.wants_object_format = true;
                OK
            }
            (b"cloning", b"true") => {
                self.cloning = true;
                OK
            }
            (b"cloning", b"false") => OK,
            // We ask for no certificate, so "if asked" is honoured by not having one; a set `push.gpgSign=if-asked` would
            // make every push fail otherwise.
            (b"pushcert", b"if-asked") => OK,
            // Git does not tell its user that these were refused.
            (b"depth" | b"deepen-since" | b"deepen-not" | b"deepen-relative" | b"filter", _) => {
                note = (!self.said_whole_history)
                    .then_some("a room sends whole histories: depth and filter have no effect");
                self.said_whole_history = true;
                UNSUPPORTED
            }
            _ => UNSUPPORTED,
        };
        Set { answer, note }
    }

    /// Whether people asked for silence.
    pub(super) fn is_quiet(&self) -> bool {
        self.verbosity <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_is_refused() {
        let mut options = Options::default();
        for option in [
            "verbosity 2",
            "progress true",
            "progress false",
            "object-format true",
            "cloning true",
            "pushcert if-asked",
        ] {
            assert_eq!(
                options.set(option.as_bytes()),
                Set { answer: OK, note: None },
                "{option}"
            );
        }
        for option in [
            "check-connectivity true",
            "atomic true",
            "dry-run true",
            "push-option \"x\"",
            "pushcert true",
            "force-if-includes true",
            "cas refs/heads/x:0000000000000000000000000000000000000000",
            "followtags true",
            "family ipv4",
            "servpath x",
            "refetch true",
            "update-shallow true",
            "from-promisor 1",
            "of-tomorrow",
            "",
        ] {
            assert_eq!(
                options.set(option.as_bytes()),
                Set {
                    answer: UNSUPPORTED,
                    note: None
                },
                "{option}"
            );
        }
        assert!(options.set(b"depth 1").note.is_some());
        assert!(options.set(b"filter blob:none").note.is_none());
        assert!(options.set(b"verbosity x").answer.starts_with("error "));
        assert!(options.wants_object_format && options.cloning && !options.is_quiet());
        options.set(b"verbosity 0");
        assert!(options.is_quiet());
    }
}

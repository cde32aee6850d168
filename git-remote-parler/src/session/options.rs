//! The options that git sets. What is not built is refused, so that git says so or does without.

use std::collections::BTreeMap;

use gix::bstr::ByteSlice;
use parler_protocol::Oid;

/// What git has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// 0: quiet, 1: normal, more with each `-v`.
    pub(super) verbosity: i64,
    /// Whether meters are wanted.
    progress: bool,
    /// Whether git wants to be told the object format.
    pub(super) wants_object_format: bool,
    /// Whether `git clone` is making the repository.
    pub(super) cloning: bool,
    /// Whether tags at what is fetched come along.
    pub(super) follows_tags: bool,
    /// Whether a push is only to be tried.
    pub(super) dry_run: bool,
    /// Whether a push moves all of its refs or none.
    pub(super) atomic: bool,
    /// Whether a push is to come with a certificate, which a room never asks for.
    pub(super) certificate: Certificate,
    /// Said anew before each batch of pushes, and good for that one.
    pub(super) of_batch: BatchOptions,
    said_whole_history: bool,
}

/// Whether the pusher wants to sign what is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certificate {
    Never,
    IfAsked,
    Always,
}

/// What git says before each batch of pushes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BatchOptions {
    /// `--force-with-lease`: where each ref must be; none: nowhere.
    pub(super) leases: BTreeMap<Vec<u8>, Option<Oid>>,
    /// `--push-option`, as the user wrote them.
    pub(super) push_options: Vec<Vec<u8>>,
    /// A lease that could not be read. Git takes no notice of the answer, so the batch has to fail.
    pub(super) unread_lease: Option<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            verbosity: 1,
            progress: false,
            wants_object_format: false,
            cloning: false,
            follows_tags: false,
            dry_run: false,
            atomic: false,
            certificate: Certificate::Never,
            of_batch: BatchOptions::default(),
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
            (b"progress", value @ (b"true" | b"false")) => {
                self.progress = value == b"true";
                OK
            }
            // Git before 2.45 says it without a value, and ends without a word where it is refused.
            (b"object-format", b"true" | b"") => {
                self.wants_object_format = true;
                OK
            }
            (b"cloning", b"true") => {
                self.cloning = true;
                OK
            }
            (b"cloning", b"false") => OK,
            (b"followtags", value @ (b"true" | b"false")) => {
                self.follows_tags = value == b"true";
                OK
            }
            (b"dry-run", value @ (b"true" | b"false")) => {
                self.dry_run = value == b"true";
                OK
            }
            (b"atomic", value @ (b"true" | b"false")) => {
                self.atomic = value == b"true";
                OK
            }
            // Git looks for itself whether what it has includes what it overwrites, and sends no line where it does not.
            (b"force-if-includes", b"true") => OK,
            (b"cas", value) => self.add_lease(value),
            (b"push-option", value) => match unquoted(value) {
                Some(option) => {
                    self.of_batch.push_options.push(option);
                    OK
                }
                None => "error the option is not quoted as git quotes\n",
            },
            // Answered when something is pushed, as a server would: a refusal here would make every push fail where
            // `push.gpgSign=if-asked` is set.
            (b"pushcert", value @ (b"if-asked" | b"true")) => {
                self.certificate = match value {
                    b"true" => Certificate::Always,
                    _ => Certificate::IfAsked,
                };
                OK
            }
            // Before it asks for more tags, git takes back what nobody may have set.
            (b"depth", b"0") | (b"deepen-relative", b"false") => OK,
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

    fn add_lease(&mut self, value: &[u8]) -> &'static str {
        let lease = unquoted(value).and_then(|lease| {
            let (name, oid) = lease.rsplit_once_str(":")?;
            let oid: Oid = str::from_utf8(oid).ok()?.parse().ok()?;
            Some((name.to_vec(), (!oid.is_null()).then_some(oid)))
        });
        match lease {
            Some((name, oid)) => {
                self.of_batch.leases.insert(name, oid);
                OK
            }
            None => {
                self.of_batch.unread_lease = Some(value.to_vec());
                "error not a ref and an object\n"
            }
        }
    }

    /// Whether meters are shown: asked for, and nobody asked for silence.
    pub(super) fn shows_meters(&self) -> bool {
        self.progress && !self.is_quiet()
    }

    /// Whether people asked for silence.
    pub(super) fn is_quiet(&self) -> bool {
        self.verbosity <= 0
    }
}

/// A value as it was before git quoted it, which it does where a byte is not printable ASCII; none where it is quoted in
/// another way.
fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let (plain, read) = gix::quote::ansi_c::undo(value.as_bstr()).ok()?;
    (read == value.len()).then(|| plain.to_vec())
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
            "object-format",
            "cloning true",
            "followtags true",
            "followtags false",
            "depth 0",
            "deepen-relative false",
            "pushcert if-asked",
            "pushcert true",
            "force-if-includes true",
            "atomic true",
            "dry-run true",
            "cas refs/heads/x:0000000000000000000000000000000000000000",
            "push-option next=review",
        ] {
            assert_eq!(
                options.set(option.as_bytes()),
                Set { answer: OK, note: None },
                "{option}"
            );
        }
        for option in [
            "check-connectivity true",
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

    #[test]
    fn what_git_quotes_is_read_as_it_was() {
        let mut options = Options::default();
        for option in [
            r#"cas "refs/heads/\303\251:1111111111111111111111111111111111111111""#,
            "cas refs/heads/x:0000000000000000000000000000000000000000",
            r#"push-option "next=review the \"parser\" now; \303\251\n\\""#,
            "push-option note=a b",
        ] {
            assert_eq!(options.set(option.as_bytes()).answer, OK, "{option}");
        }
        let expected = BatchOptions {
            leases: BTreeMap::from([
                (
                    "refs/heads/é".as_bytes().to_vec(),
                    Some("1".repeat(40).parse().unwrap()),
                ),
                (b"refs/heads/x".to_vec(), None),
            ]),
            push_options: vec![
                "next=review the \"parser\" now; é\n\\".as_bytes().to_vec(),
                b"note=a b".to_vec(),
            ],
            unread_lease: None,
        };
        assert_eq!(std::mem::take(&mut options.of_batch), expected);
        for bad in [
            r#"push-option "a"#,
            r#"push-option "a" b"#,
            "cas refs/heads/x",
            "cas x:y",
            "cas \"x",
        ] {
            assert!(options.set(bad.as_bytes()).answer.starts_with("error "), "{bad}");
        }
        assert!(options.of_batch.unread_lease.is_some());
    }
}

//! What git wrote to stderr, as one line that is safe to show.

use std::process::ExitStatus;

use parler_protocol::is_hidden;

/// Longest line that is shown.
pub(super) const MAX_LINE_BYTES: usize = 500;

/// Bytes as one line of visible text: control, zero-width and text-direction characters are written as escapes, bytes
/// that are not UTF-8 as the replacement character.
pub fn one_line(bytes: &[u8]) -> String {
    visible(bytes, MAX_LINE_BYTES)
}

/// As [`one_line`], of a line of ours, part of which comes from elsewhere: it is never cut.
pub(crate) fn whole_line(line: &str) -> String {
    visible(line.as_bytes(), usize::MAX)
}

/// As [`one_line`], of this many bytes at most.
pub(super) fn visible(bytes: &[u8], most: usize) -> String {
    let mut line = String::new();
    for character in String::from_utf8_lossy(bytes).trim_end().chars() {
        if is_hidden(character) {
            line.extend(character.escape_unicode());
        } else {
            line.push(character);
        }
        if line.len() >= most {
            line.push_str("..");
            break;
        }
    }
    line
}

/// The line of a failed command's stderr that tells most: the first that git marks as an error, else the last.
pub(super) fn reason(stderr: &[u8], status: ExitStatus) -> String {
    let lines = || {
        stderr
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
    };
    // What zlib says of bytes names no object; the lines behind it do.
    let tells = |line: &&[u8]| !line.starts_with(b"inflate: ");
    let marked = |mark: &'static [u8]| lines().filter_map(move |line| line.strip_prefix(mark)).find(tells);
    match marked(b"error: ")
        .or_else(|| marked(b"fatal: "))
        .or_else(|| lines().next_back())
    {
        Some(line) => one_line(line),
        // ExitStatus writes "exit status: 1" or "signal: 9 (SIGKILL)".
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_message_is_one_visible_line() {
        let failed = ExitStatus::from_raw(256);
        let said = |stderr: &[u8]| reason(stderr, failed);
        assert_eq!(said(b"hint: x\nerror: a\x1b[31mb\nfatal: c\n"), "a\\u{1b}[31mb");
        assert_eq!(
            said(b"error: inflate: bad\nerror: unable to unpack x\n"),
            "unable to unpack x"
        );
        assert_eq!(said(b"usage: git\n\n"), "usage: git");
        assert_eq!(said(b""), "exit status: 1");
        assert_eq!(said("fatal: a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(said(b"fatal: \xff"), "\u{fffd}");
        assert!(said(&[b'x'; 10_000]).len() < 600);
    }
}

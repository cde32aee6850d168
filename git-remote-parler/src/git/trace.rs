//! What is told of a git child to whoever traces: its arguments, its end, how long it took. Nothing of its input or
//! output.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use tracing::Level;

use super::message::visible;

/// Longest command line that is told.
const MAX_COMMAND_BYTES: usize = 4096;

/// A child from its start to its end.
#[derive(Debug)]
pub(super) struct ChildTrace {
    /// Nothing where nobody traces.
    command: Option<String>,
    began: Instant,
}

impl ChildTrace {
    pub(super) fn of(command: &Command) -> Self {
        Self {
            command: tracing::enabled!(Level::DEBUG).then(|| shown(command)),
            began: Instant::now(),
        }
    }

    pub(super) fn ended(&mut self, status: ExitStatus) {
        if let Some(command) = self.command.take() {
            // "exit status: 0" or "signal: 9 (SIGKILL)"
            tracing::debug!(ms = self.millis(), "{command}: {status}");
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for ChildTrace {
    fn drop(&mut self) {
        if let Some(command) = self.command.take() {
            tracing::debug!(ms = self.millis(), "{command}: ended before its end");
        }
    }
}

/// `git --git-dir=.. rev-list --stdin`, quoted as a shell reads it.
fn shown(command: &Command) -> String {
    let mut words = vec!["git".to_owned()];
    words.extend(command.get_args().map(quoted));
    visible(words.join(" ").as_bytes(), MAX_COMMAND_BYTES)
}

fn quoted(argument: &OsStr) -> String {
    let argument = without_password(&argument.to_string_lossy());
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_=./:,@^~+%".contains(character);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// A URL's user and password are nobody's business.
fn without_password(argument: &str) -> String {
    let cut = || {
        let (scheme, rest) = argument.split_once("://")?;
        let authority = rest.split('/').next()?;
        let (_, host) = authority.rsplit_once('@')?;
        Some(format!("{scheme}://<redacted>@{host}{}", &rest[authority.len()..]))
    };
    cut().unwrap_or_else(|| argument.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_as_it_could_be_typed_and_without_passwords() {
        let mut command = Command::new("/usr/bin/git");
        command.args([
            "-c",
            "a.b=c d",
            "fetch",
            "https://me:secret@host:1/a@b",
            "it's",
            "",
            "x\u{1b}y",
        ]);
        assert_eq!(
            shown(&command),
            r"git -c 'a.b=c d' fetch 'https://<redacted>@host:1/a@b' 'it'\''s' '' 'x\u{1b}y'"
        );
    }
}

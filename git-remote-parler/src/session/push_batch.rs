//! A batch of `push` lines, and the line that answers each.

use std::io::Write;

use parler_client::ClientError;
use parler_protocol::RefName;

use super::{Session, SessionError};
use crate::advertisement::is_pin;
use crate::git::one_line;
use crate::push::{PushError, PushReport, PushRequest, Pusher, RefChange, RefOutcome, RoomLookup};

/// One line: `[+]<source>:<destination>`.
struct Wish {
    /// As git wrote it, to be repeated in the answer.
    destination: Vec<u8>,
    verdict: Verdict,
}

enum Verdict {
    /// For the room to decide.
    Change(RefChange),
    /// Answered here.
    Answer(String),
}

impl<O: Write, E: Write> Session<'_, O, E> {
    pub(super) fn push_batch(&mut self, batch: &[Vec<u8>]) -> Result<(), SessionError> {
        let wishes = batch.iter().map(|line| parse(line)).collect::<Result<Vec<_>, _>>()?;
        if wishes.iter().any(|wish| is_pin(&wish.destination)) {
            self.say("refs/parler/ is written by each repository for itself: nothing is pushed there");
        }
        let changes: Vec<RefChange> = wishes
            .iter()
            .filter_map(|wish| match &wish.verdict {
                Verdict::Change(change) => Some(change.clone()),
                Verdict::Answer(_) => None,
            })
            .collect();
        let pushed = if changes.is_empty() {
            None
        } else {
            Some(self.push(changes))
        };
        let (report, said_no) = match pushed.transpose() {
            Ok(report) => (report, None),
            // Over a limit, no space, and so on: as a server's hook that declines.
            Err(SessionError::Push(PushError::Client(ClientError::Problem(problem)))) => (None, Some(problem.detail)),
            Err(error) => return Err(error),
        };
        let mut answer = Vec::new();
        for wish in &wishes {
            let status = match &wish.verdict {
                Verdict::Answer(why) => Some(why.clone()),
                Verdict::Change(change) => match (&report, &said_no) {
                    (Some(report), _) => refusal(report, &change.destination),
                    (None, why) => Some(plain(why.as_deref().unwrap_or("not decided"))),
                },
            };
            match status {
                None => answer.extend([b"ok ", wish.destination.as_slice(), b"\n"].concat()),
                Some(why) => {
                    answer.extend([b"error ", wish.destination.as_slice(), b" ", why.as_bytes(), b"\n"].concat());
                }
            }
        }
        answer.push(b'\n');
        if let Some(report) = &report {
            self.tell(report);
        }
        self.output.write_all(&answer)?;
        Ok(self.output.flush()?)
    }

    fn push(&mut self, changes: Vec<RefChange>) -> Result<PushReport, SessionError> {
        self.connect()?;
        let name = self.room_name()?;
        let (cache, policy) = (self.cache(), self.policy()?);
        // What was listed is good for one push: after it the room has moved on.
        let lookup = self.room.take().map_or(RoomLookup::Unread, RoomLookup::from);
        let client = &self.connected()?.client;
        let pusher = Pusher::new(self.repository()?, client, name, &policy.push, &cache);
        Ok(pusher.push(
            &PushRequest {
                changes,
                ..PushRequest::default()
            },
            lookup,
        )?)
    }

    fn tell(&mut self, report: &PushReport) {
        if report.room_created && !self.options.is_quiet() {
            self.say(&format!("made room {}", report.room));
        }
        for name in report
            .refs
            .iter()
            .filter(|found| found.outcome == RefOutcome::NothingToDelete)
            .map(|found| &found.name)
        {
            let line = format!("warning: deleting a non-existent ref: {name}");
            self.say(&line);
        }
        if let Some(cut_off) = &report.cut_off {
            self.say(&cut_off.to_string());
        }
        for note in &report.notes {
            self.say(note);
        }
        let Some(posted) = report.posted.as_ref().filter(|_| !self.options.is_quiet()) else {
            return;
        };
        let message = format!("message {} in room {}", posted.seq, report.room);
        match &report.bundle {
            Some(bundle) => self.say(&format!("bundle {}, {message}", bundle.id.short())),
            None => self.say(&message),
        }
    }
}

/// Why a ref did not move, in the helper protocol's words; none when it did.
fn refusal(report: &PushReport, name: &RefName) -> Option<String> {
    let found = report.refs.iter().find(|found| found.name == *name);
    match found.map(|found| &found.outcome) {
        Some(RefOutcome::Moved(_) | RefOutcome::NothingToDelete) => None,
        Some(RefOutcome::UpToDate) => Some("up to date".to_owned()),
        Some(RefOutcome::Refused(why)) => Some(plain(&why.to_string())),
        None => Some("not decided".to_owned()),
    }
}

/// One line, as git reads it: a quotation mark at its beginning would start a quoted string.
fn plain(why: &str) -> String {
    one_line(why.as_bytes()).trim_start_matches('"').to_owned()
}

fn parse(line: &[u8]) -> Result<Wish, SessionError> {
    let no = || SessionError::command(&[b"push ", line].concat());
    let (forced, refspec) = line.strip_prefix(b"+").map_or((false, line), |rest| (true, rest));
    // A source may hold a colon, a ref cannot.
    let colon = refspec.iter().rposition(|byte| *byte == b':').ok_or_else(no)?;
    let (source, destination) = (&refspec[..colon], &refspec[colon + 1..]);
    if destination.is_empty() {
        return Err(no());
    }
    let verdict = if is_pin(destination) {
        // Then `git push --mirror` from a repository with pins succeeds.
        Verdict::Answer("up to date".to_owned())
    } else {
        match (str::from_utf8(source), str::from_utf8(destination)) {
            (Ok(source), Ok(name)) => match name.parse::<RefName>() {
                Ok(destination) => {
                    let source = (!source.is_empty()).then(|| source.to_owned());
                    Verdict::Change(RefChange {
                        destination,
                        source,
                        forced,
                    })
                }
                Err(error) => Verdict::Answer(error.to_string()),
            },
            _ => Verdict::Answer("a room's refs have UTF-8 names".to_owned()),
        }
    };
    Ok(Wish {
        destination: destination.to_vec(),
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(line: &str) -> Option<(String, Option<String>, bool)> {
        match parse(line.as_bytes()).unwrap().verdict {
            Verdict::Change(change) => Some((change.destination.to_string(), change.source, change.forced)),
            Verdict::Answer(_) => None,
        }
    }

    #[test]
    fn every_form_of_a_push_line_is_read() {
        let name = || "refs/heads/x".to_owned();
        assert_eq!(
            change("HEAD~2:refs/heads/x"),
            Some((name(), Some("HEAD~2".into()), false))
        );
        assert_eq!(change("+refs/heads/x:refs/heads/x"), Some((name(), Some(name()), true)));
        assert_eq!(change(":refs/heads/x"), Some((name(), None, false)));
        assert_eq!(
            change("HEAD:a:refs/heads/x"),
            Some((name(), Some("HEAD:a".into()), false))
        );
        for answered in ["x:refs/parler/abc", ":refs/parler/abc", "x:HEAD", "x:refs/heads/a..b"] {
            assert_eq!(change(answered), None, "{answered}");
        }
        assert!(matches!(
            parse(b"x:refs/heads/\xff").unwrap().verdict,
            Verdict::Answer(_)
        ));
        for bad in ["", "+", "refs/heads/x", "x:"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}

//! A batch of `push` lines, and the line that answers each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;

use parler_client::ClientError;
use parler_protocol::{Oid, RefName};

use super::options::Certificate;
use super::push_options::PushOptions;
use super::{Session, SessionError};
use crate::addressee::Nobody;
use crate::advertisement::is_pin;
use crate::base::BasePolicy;
use crate::git::{one_line, whole_line};
use crate::push::{Force, PushError, PushReport, PushRequest, Pusher, RefChange, RefOutcome, Refusal, RoomLookup};

/// A ref's status, as git reads it.
const UP_TO_DATE: &str = "up to date";

/// What git says to whoever would sign if asked.
const NO_CERTIFICATE: &str =
    "warning: not sending a push certificate since the receiving end does not support --signed push";

/// One line: `[+]<source>:<destination>`.
pub(super) struct Wish {
    /// As git wrote it, to be repeated in the answer.
    destination: Vec<u8>,
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    /// For the room to decide.
    Change(RefChange),
    /// Answered here.
    Answer(String),
}

impl Wish {
    /// Answers what was still to be decided.
    pub(super) fn refuse(&mut self, why: &str) {
        if let Verdict::Change(_) = self.verdict {
            self.verdict = Verdict::Answer(why.to_owned());
        }
    }
}

impl<O: Write, E: Write> Session<'_, O, E> {
    pub(super) fn push_batch(&mut self, batch: &[Vec<u8>]) -> Result<(), SessionError> {
        let options = std::mem::take(&mut self.options.of_batch);
        if let Some(lease) = options.unread_lease {
            return Err(SessionError::command(&[b"option cas ", lease.as_slice()].concat()));
        }
        match self.options.certificate {
            Certificate::Never => {}
            Certificate::IfAsked => self.say_as_git(NO_CERTIFICATE),
            Certificate::Always => return Err(SessionError::NoCertificates),
        }
        let mut wishes = batch
            .iter()
            .map(|line| parse(line, &options.leases))
            .collect::<Result<Vec<_>, _>>()?;
        if wishes.iter().any(|wish| is_pin(&wish.destination)) {
            self.say("refs/parler/ is written by each repository for itself: nothing is pushed there");
        }
        let service = self.service();
        let options = match PushOptions::read(&options.push_options, service) {
            Ok(options) => options,
            Err(broken) => {
                for line in &broken {
                    self.say(line);
                }
                wishes.iter_mut().for_each(|wish| wish.refuse("push options refused"));
                return self.answer_wishes(&wishes, None);
            }
        };
        if let Some(service) = service {
            self.wish_for_one_job(&mut wishes, service)?;
        }
        let is_refused = |wish: &Wish| matches!(&wish.verdict, Verdict::Answer(why) if why != UP_TO_DATE);
        if (self.options.atomic || options.has_parts()) && wishes.iter().any(is_refused) {
            let atomic = Refusal::AtomicPush.to_string();
            wishes.iter_mut().for_each(|wish| wish.refuse(&atomic));
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
            Some(self.push(changes, &options))
        };
        let report = match pushed.transpose() {
            Ok(report) => report,
            // Over a limit, no space, and so on: as a server's hook that declines.
            Err(SessionError::Push(PushError::Client(ClientError::Problem(problem)))) => {
                let why = plain(&problem.detail);
                wishes.iter_mut().for_each(|wish| wish.refuse(&why));
                None
            }
            // So too where the hub had said so before.
            Err(SessionError::Push(PushError::TooLarge { error, nearer })) => {
                let why = plain(&error.to_string());
                wishes.iter_mut().for_each(|wish| wish.refuse(&why));
                self.say(&match nearer {
                    Some(base) => {
                        format!("{base} has much of it, for receivers who have that: git push -o base={base}")
                    }
                    None => {
                        "a nearer base makes a smaller bundle: git push -o base=REV, or push older commits first".into()
                    }
                });
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(report) = &report {
            self.tell(report, &options);
        }
        self.answer_wishes(&wishes, report.as_ref())
    }

    fn answer_wishes(&mut self, wishes: &[Wish], report: Option<&PushReport>) -> Result<(), SessionError> {
        let mut answer = Vec::new();
        for wish in wishes {
            let status = match (&wish.verdict, report) {
                (Verdict::Answer(why), _) => Some(why.clone()),
                (Verdict::Change(change), Some(report)) => refusal(report, &change.destination),
                (Verdict::Change(_), None) => Some("not decided".to_owned()),
            };
            match status {
                None => answer.extend([b"ok ", wish.destination.as_slice(), b"\n"].concat()),
                Some(why) => {
                    answer.extend([b"error ", wish.destination.as_slice(), b" ", why.as_bytes(), b"\n"].concat());
                }
            }
        }
        answer.push(b'\n');
        self.output.write_all(&answer)?;
        Ok(self.output.flush()?)
    }

    fn push(&mut self, changes: Vec<RefChange>, options: &PushOptions) -> Result<PushReport, SessionError> {
        self.connect()?;
        let name = self.room_name()?;
        let (cache, mut policy) = (self.cache(), self.policy()?.push);
        let dispatch = self.service().map(|service| self.dispatch_part(service)).transpose()?;
        if let Some(base) = &options.base {
            policy.base = base.clone();
        } else if dispatch.is_some() {
            // A worker has no other remote to get anything from.
            policy.base = BasePolicy::RoomOnly;
        }
        // What was listed is good for one push: after it the room has moved on.
        let lookup = self.room.take().map_or(RoomLookup::Unread, RoomLookup::from);
        let quiet = self.options.is_quiet();
        let errors = RefCell::new(&mut self.errors);
        let notice = |line: &str| {
            if !quiet {
                let _ = writeln!(errors.borrow_mut(), "parler: {}", whole_line(line));
            }
        };
        let connected = self.connected.as_ref();
        let client = &connected.ok_or_else(|| SessionError::command(b"push"))?.client;
        let repository = self.repository.as_ref().ok_or(SessionError::NoRepository)?;
        let pusher = Pusher::new(repository, client, &name, &policy, &cache).telling(&notice);
        let extra = |bundle| match &dispatch {
            Some(dispatch) => options.parts_of_job(dispatch),
            None => options.parts(bundle),
        };
        let request = PushRequest {
            changes,
            extra: (options.has_parts() || dispatch.is_some()).then_some(&extra),
            is_job: dispatch.is_some(),
            mentions: options.mentions(),
            atomic: self.options.atomic,
            dry_run: self.options.dry_run,
            ..PushRequest::default()
        };
        Ok(pusher.push(&request, lookup)?)
    }

    fn tell(&mut self, report: &PushReport, options: &PushOptions) {
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
        if let Some(service) = self.service() {
            return self.tell_job(report, service);
        }
        let Some(posted) = report.posted.as_ref().filter(|_| !self.options.is_quiet()) else {
            return;
        };
        let mut message = format!("message {} in room {}", posted.seq, report.room);
        if let Some(addressee) = options.addressee() {
            message.push_str(&format!(", handed over to {addressee}"));
        }
        match &report.bundle {
            Some(bundle) => self.say(&format!("bundle {}, {message}", bundle.id.short())),
            None => self.say(&message),
        }
        let nobody = options.named_addressee().and_then(|to| {
            let client = &self.connected.as_ref()?.client;
            Some((to, Nobody::called(client, &report.room, to)?))
        });
        if let Some((to, nobody)) = nobody {
            let room = &report.room;
            self.say(&format!(
                "{nobody} in room {room} has the name or role {to} by now: git parler roster --room {room}"
            ));
        }
    }
}

/// Why a ref did not move, in the helper protocol's words; none when it did.
fn refusal(report: &PushReport, name: &RefName) -> Option<String> {
    let found = report.refs.iter().find(|found| found.name == *name);
    match found.map(|found| &found.outcome) {
        Some(RefOutcome::Moved(_) | RefOutcome::NothingToDelete) => None,
        Some(RefOutcome::UpToDate) => Some(UP_TO_DATE.to_owned()),
        Some(RefOutcome::Refused(why)) => Some(plain(&why.to_string())),
        None => Some("not decided".to_owned()),
    }
}

/// One line, as git reads it: a quotation mark at its beginning would start a quoted string.
fn plain(why: &str) -> String {
    one_line(why.as_bytes()).trim_start_matches('"').to_owned()
}

fn parse(line: &[u8], leases: &BTreeMap<Vec<u8>, Option<Oid>>) -> Result<Wish, SessionError> {
    let no = || SessionError::command(&[b"push ", line].concat());
    let (forced, refspec) = line.strip_prefix(b"+").map_or((false, line), |rest| (true, rest));
    let force = |destination: &[u8]| match leases.get(destination) {
        _ if forced => Force::Always,
        Some(expected) => Force::Lease(*expected),
        None => Force::No,
    };
    // A source may hold a colon, a ref cannot.
    let colon = refspec.iter().rposition(|byte| *byte == b':').ok_or_else(no)?;
    let (source, destination) = (&refspec[..colon], &refspec[colon + 1..]);
    if destination.is_empty() {
        return Err(no());
    }
    let verdict = if is_pin(destination) {
        // Then `git push --mirror` from a repository with pins succeeds.
        Verdict::Answer(UP_TO_DATE.to_owned())
    } else {
        match (str::from_utf8(source), str::from_utf8(destination)) {
            (Ok(source), Ok(name)) => match name.parse::<RefName>() {
                Ok(name) => Verdict::Change(RefChange {
                    destination: name,
                    source: (!source.is_empty()).then(|| source.to_owned()),
                    force: force(destination),
                }),
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

    fn change(line: &str) -> Option<(String, Option<String>, Force)> {
        match parse(line.as_bytes(), &leases()).unwrap().verdict {
            Verdict::Change(change) => Some((change.destination.to_string(), change.source, change.force)),
            Verdict::Answer(_) => None,
        }
    }

    fn leases() -> BTreeMap<Vec<u8>, Option<Oid>> {
        BTreeMap::from([(b"refs/heads/leased".to_vec(), None)])
    }

    #[test]
    fn every_form_of_a_push_line_is_read() {
        let name = || "refs/heads/x".to_owned();
        assert_eq!(
            change("HEAD~2:refs/heads/x"),
            Some((name(), Some("HEAD~2".into()), Force::No))
        );
        assert_eq!(
            change("+refs/heads/x:refs/heads/x"),
            Some((name(), Some(name()), Force::Always))
        );
        assert_eq!(change(":refs/heads/x"), Some((name(), None, Force::No)));
        assert_eq!(
            change("HEAD:a:refs/heads/x"),
            Some((name(), Some("HEAD:a".into()), Force::No))
        );
        let leased =
            |source: Option<&str>, force| Some(("refs/heads/leased".to_owned(), source.map(str::to_owned), force));
        assert_eq!(change("x:refs/heads/leased"), leased(Some("x"), Force::Lease(None)));
        assert_eq!(change(":refs/heads/leased"), leased(None, Force::Lease(None)));
        assert_eq!(change("+x:refs/heads/leased"), leased(Some("x"), Force::Always));
        for answered in ["x:refs/parler/abc", ":refs/parler/abc", "x:HEAD", "x:refs/heads/a..b"] {
            assert_eq!(change(answered), None, "{answered}");
        }
        assert!(matches!(
            parse(b"x:refs/heads/\xff", &leases()).unwrap().verdict,
            Verdict::Answer(_)
        ));
        for bad in ["", "+", "refs/heads/x", "x:"] {
            assert!(parse(bad.as_bytes(), &leases()).is_err(), "{bad}");
        }
    }
}

//! Where a job is worked on, from the claim to the message that ends it. A worker that cannot go on does not fail the job, and
//! does not give it back either: its claim ends by itself, which counts as a try, so that a job which breaks whoever takes it
//! is not offered for ever.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender as Channel;
use std::time::Duration;

use git_remote_parler::checkout::{self, CheckoutError};
use git_remote_parler::fetch::{FetchPolicy, Fetcher};
use git_remote_parler::git::{Git, GitError, Leash};
use git_remote_parler::import::ImportLimits;
use git_remote_parler::room::Room;
use parler_client::Client;
use parler_protocol::api::ClaimedJob;
use parler_protocol::{ErrorCode, Fence, HubId, ObjectFormat, Seq, ServiceName, TaskStatus};
use serde_json::{Value, json};

use super::adopted::Orphans;
use super::command::{Prepared, Ran, run};
use super::job::{Job, Refused, short};
use super::lease::Lease;
use super::past::Past;
use super::place::{Place, Yard};
use super::report::{Commits, Ended, Reporter, Told, Untold, Verdict, say_alone};
use super::stop::{Busy, Stop, Wake};
use super::watch::{End, Watch};
use crate::error::{Error, ErrorKind, Result};
use crate::text;

/// The word of a sandbox that stands for the job's directory.
const DIRECTORY: &str = "{}";

/// What is run for each job.
#[derive(Debug, Clone)]
pub(crate) struct Argv {
    /// What stands before the command. A word `{}` is the job's directory.
    pub(crate) sandbox: Vec<OsString>,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
}

impl Argv {
    fn in_directory(&self, directory: &Path) -> Vec<OsString> {
        let filled = self.sandbox.iter().map(|word| match word.to_str() {
            Some(DIRECTORY) => directory.as_os_str().to_owned(),
            _ => word.clone(),
        });
        filled.chain(self.command.iter().cloned()).collect()
    }
}

/// What one worker works with.
pub(crate) struct Bench {
    pub(crate) service: ServiceName,
    pub(crate) hub: HubId,
    /// This program.
    pub(crate) executable: PathBuf,
    /// Git without what the user's variables say.
    pub(crate) git: Git,
    pub(crate) argv: Argv,
    /// What the command finds in its environment whatever the job.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What commits of the command are by: the lines of a configuration.
    pub(crate) git_config: String,
    pub(crate) lease: Duration,
    pub(crate) timeout: Duration,
    /// Whether the directories of failed jobs stay.
    pub(crate) keep: bool,
    pub(crate) yard: Yard,
    pub(crate) told: Told,
    pub(crate) past: Past,
    pub(crate) stop: Stop,
    pub(crate) orphans: Orphans,
}

/// What whoever looks on is told.
pub(crate) enum News {
    /// A job came to its end here.
    Ended { line: String, json: Value },
    /// One was not brought to its end here.
    Unfinished { line: String, json: Value, kind: ErrorKind },
    /// Something besides.
    Remark(String),
    /// This worker cannot go on.
    Failed(Error),
}

/// How the work on a job came to its end.
enum Outcome {
    /// That is to be told.
    Verdict(Box<Verdict>),
    /// Somebody else may have it, or it has ended, and why.
    Late(String),
    /// Nobody waits for it.
    CalledOff,
    /// Somebody else may have it at once. What is told of it, if anything.
    GiveBack(Option<String>),
}

impl Outcome {
    /// It failed before its command ran.
    fn failed(note: String) -> Self {
        Self::Verdict(Box::new(Verdict {
            status: TaskStatus::Failed,
            note,
            took: None,
            output: Vec::new(),
            commits: None,
        }))
    }
}

impl Bench {
    /// Works on a job that was claimed through this client.
    pub(crate) fn work(
        &self,
        client: &Client,
        claimed: ClaimedJob,
        (busy, wake): (Busy, (Wake, std::io::PipeReader)),
        news: &Channel<News>,
    ) {
        let fence = Fence {
            seq: claimed.seq,
            number: claimed.fence,
        };
        let tell = |told: News| {
            // Whoever listened is gone: the end is near.
            let _ = news.send(told);
        };
        let worked = catch_unwind(AssertUnwindSafe(|| self.work_on(client, fence, claimed, &wake, &tell)));
        // A fault of ours, which is told where it was: the worker ends as with any other.
        let worked = worked.unwrap_or_else(|_| Err(Error::fatal("this program has a fault, and cannot go on")));
        if worked.is_err() {
            self.stop.say_no_more();
        }
        drop(busy);
        if let Err(error) = worked {
            tell(News::Failed(
                error.about(format_args!("job {} of '{}'", fence.seq, self.service)),
            ));
        }
    }

    fn work_on(
        &self,
        client: &Client,
        fence: Fence,
        claimed: ClaimedJob,
        (wake, woken): &(Wake, std::io::PipeReader),
        tell: &dyn Fn(News),
    ) -> Result<()> {
        let (left, attempt) = (Duration::from_millis(claimed.lease_ms), claimed.attempt);
        let woken_by = wake.clone();
        let wake = move || woken_by.wake();
        let lease = Lease::keep(client, &self.service, fence, self.lease, left, wake)?;
        let job = match Job::read(claimed, &self.hub)? {
            Ok(job) => job,
            Err(refused) => return self.refuse(client, (fence, attempt), &refused, tell),
        };
        let name = text::name(&job.requester.name);
        let head = format!("job {} of '{}' from {name}", job.seq(), self.service);
        let cache = self.yard.cache();
        let unfinished = |kind, why: &str| News::Unfinished {
            line: line_of(&head, why),
            json: self.json(&job, None, why),
            kind,
        };
        let give_back = |why: Option<String>| {
            let why = match client.release_claim(&self.service, fence) {
                Ok(()) => why,
                Err(error) => Some(format!("it was not given back: {}", Error::from(error).what())),
            };
            if let Some(why) = why {
                tell(unfinished(ErrorKind::Unreachable, &why));
            }
        };
        match self.past.look(client, &self.hub, &job) {
            Ok(None) => {}
            // What there is to say of it was said. The claim ends by itself.
            Ok(Some(again)) => {
                tell(unfinished(ErrorKind::Refused, &again.to_string()));
                return Ok(());
            }
            Err(error) if error.kind == ErrorKind::Unreachable => {
                give_back(Some(error.what().to_owned()));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let remark = |why: String| tell(News::Remark(format!("{head}: {why}")));
        let place = self.yard.place(&self.service, fence)?;
        let reporter = Reporter {
            client,
            told: &self.told,
            lease: &lease,
            cache: &cache,
            stop: &self.stop,
            remark: &remark,
            for_others: &|what| self.for_others(what, &job, &place, tell),
        };
        let outcome = match self.try_to_work(client, (&job, &place), &reporter, woken, tell) {
            Ok(outcome) => outcome,
            Err(error) => self.blame(error, &job, &place, tell)?,
        };
        match outcome {
            Outcome::GiveBack(why) => give_back(why),
            Outcome::Late(why) => tell(unfinished(ErrorKind::Conflict, &format!("too late, {why}"))),
            Outcome::CalledOff => tell(unfinished(ErrorKind::Negative, "called off")),
            Outcome::Verdict(verdict) => {
                let is_kept = self.keep && verdict.status == TaskStatus::Failed;
                match reporter.end(&job, *verdict) {
                    Ok(ended) => {
                        self.past.note_end(&job, ended.posted.seq);
                        tell(self.ended(&job, &head, &ended));
                    }
                    Err(untold) => {
                        match untold {
                            Untold::Late(why) => tell(unfinished(ErrorKind::Conflict, &format!("too late, {why}"))),
                            Untold::GiveBack(why) => give_back(Some(why)),
                            Untold::Failed(error) => return Err(error),
                        }
                        return Ok(());
                    }
                }
                if is_kept {
                    // Last: what it committed is sent from there.
                    let line = match place.keep() {
                        Ok(kept) => format!("job {} is kept in {}", job.seq(), kept.display()),
                        Err(error) => format!("job {} is not kept: {}", job.seq(), text::one_line(error.what())),
                    };
                    tell(News::Remark(line));
                }
            }
        }
        Ok(())
    }

    /// Says of a job that nobody can work on that it failed.
    fn refuse(
        &self,
        client: &Client,
        (fence, attempt): (Fence, u32),
        refused: &Refused,
        tell: &dyn Fn(News),
    ) -> Result<()> {
        let why = refused.error.what();
        let (claim, to) = ((&self.service, fence), (refused.id, &refused.requester));
        let said = say_alone(client, &self.told, claim, to, TaskStatus::Failed, Some(why));
        let (name, seq) = (text::name(&refused.requester.name), fence.seq);
        let head = format!("job {seq} of '{}' from {name}", self.service);
        let json = |status: Option<TaskStatus>, note: &str, message: Option<Seq>| {
            json!({
                "service": self.service, "job": seq, "id": refused.id, "attempt": attempt, "requester": refused.requester.name,
                "status": status, "note": note, "elapsedMs": null, "seq": message, "output": null, "bundle": null,
            })
        };
        let unfinished = |kind, why: &str| News::Unfinished {
            line: format!("{head}: {}", text::one_line(why)),
            json: json(None, why, None),
            kind,
        };
        tell(match said {
            Ok(posted) => News::Ended {
                line: format!("{head}: failed · {}", text::one_line(why)),
                json: json(Some(TaskStatus::Failed), why, Some(posted.seq)),
            },
            Err(error) if error.code() == Some(ErrorCode::StaleFence) => {
                unfinished(ErrorKind::Conflict, "too late, somebody else has it or it has ended")
            }
            // It is offered again when the claim has ended.
            Err(error) if error.kind == ErrorKind::Unreachable => unfinished(
                ErrorKind::Unreachable,
                &format!("that it cannot be worked on was not told: {}", error.what()),
            ),
            Err(error) => return Err(error),
        });
        Ok(())
    }

    fn ended(&self, job: &Job, head: &str, ended: &Ended) -> News {
        let bundle = ended
            .bundle
            .map(|id| format!(" · bundle {}", id.short()))
            .unwrap_or_default();
        let (status, line) = (ended.status.as_str(), text::one_line(&ended.line));
        let line = format!("{head}: {status} · {line}{bundle} · message {}", ended.posted.seq);
        let json = self.json(job, Some(ended), &ended.note);
        News::Ended { line, json }
    }

    /// The end of a job for programs; without `ended` nothing was said of it.
    fn json(&self, job: &Job, ended: Option<&Ended>, note: &str) -> Value {
        let took = ended.and_then(|ended| ended.took);
        json!({
            "service": self.service, "job": job.seq(), "id": job.id, "attempt": job.attempt,
            "requester": job.requester.name, "status": ended.map(|ended| ended.status), "note": note,
            "elapsedMs": took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            "seq": ended.map(|ended| ended.posted.seq), "output": ended.and_then(|ended| ended.output),
            "bundle": ended.and_then(|ended| ended.bundle),
        })
    }

    fn try_to_work(
        &self,
        client: &Client,
        (job, place): (&Job, &Place),
        reporter: &Reporter<'_>,
        woken: &std::io::PipeReader,
        tell: &dyn Fn(News),
    ) -> Result<Outcome> {
        let over = |untold: Untold| match untold {
            Untold::Late(why) => Ok(Outcome::Late(why)),
            Untold::GiveBack(why) => Ok(Outcome::GiveBack(Some(why))),
            Untold::Failed(error) => Err(error),
        };
        if let Err(untold) = reporter.say(job, TaskStatus::Accepted) {
            return over(untold);
        }
        let watch = || Watch::begin(reporter.lease, &self.stop, woken, self.timeout);
        let (leash, (beside, stopper)) = (Leash::default(), client.beside()?);
        let end = {
            let leash = leash.clone();
            move || {
                leash.end();
                stopper.stop();
            }
        };
        let prepared = watch().over(end, || self.prepare(&beside, leash, job, place));
        let (prepared, end) = prepared.map_err(|error| Error::io("watch over the job", &error))?;
        match end {
            Some(End::TimedOut) => {
                let time = self.timeout.as_secs();
                let note = format!("ended, for preparing it took longer than {time} s");
                return Ok(Outcome::failed(note));
            }
            Some(End::Cancelled) => return Ok(Outcome::CalledOff),
            Some(End::Lost(why)) => return Ok(Outcome::Late(why)),
            Some(_) => return Ok(Outcome::GiveBack(None)),
            None => prepared?,
        }
        if let Err(untold) = reporter.say(job, TaskStatus::Working) {
            return over(untold);
        }
        let prepared = Prepared {
            executable: &self.executable,
            argv: self.argv.in_directory(place.directory()),
            environment: self.environment_of(job, place),
            directory: place.work(),
            input: place.input(),
            orphans: &self.orphans,
        };
        let ran = run(&prepared, &watch())?;
        Ok(match &ran.end {
            End::Stopped => Outcome::GiveBack(None),
            End::Cancelled => Outcome::CalledOff,
            End::Lost(why) => Outcome::Late(why.clone()),
            End::Exited(_) | End::TimedOut | End::Unguarded => self.verdict(job, place, ran, tell),
        })
    }

    /// What an error before the command means: the job's fault fails it, a hub that cannot be reached is nobody's.
    fn blame(&self, error: Error, job: &Job, place: &Place, tell: &dyn Fn(News)) -> Result<Outcome> {
        if self.stop.is_said() {
            return Ok(Outcome::GiveBack(None));
        }
        match error.kind {
            ErrorKind::BaseMissing | ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Refused => {
                let why = self.for_others(error.what(), job, place, tell);
                Ok(Outcome::failed(format!("cannot be worked on: {why}")))
            }
            ErrorKind::Unreachable => Ok(Outcome::GiveBack(Some(error.what().to_owned()))),
            _ => Err(error),
        }
    }

    /// Puts what the command finds into its place.
    fn prepare(&self, client: &Client, leash: Leash, job: &Job, place: &Place) -> Result<()> {
        let work = place.work();
        match &job.code {
            None => {
                fs::create_dir(&work).map_err(|error| Error::io(format_args!("make {}", work.display()), &error))?
            }
            Some(code) => {
                let room = Room::read(client, &job.room, &self.yard.cache())?;
                let format = room.state.object_format().unwrap_or(code.commit.format());
                let repository = checkout::make(&self.git.clone().on_leash(leash), &work, format)?;
                let policy = FetchPolicy {
                    // Others would not be stopped with this one.
                    downloads: Some(NonZeroUsize::MIN),
                    // What the room does not have is nowhere.
                    fetch_base: false,
                    limits: ImportLimits::default(),
                };
                Fetcher::new(&repository, client, &room.state, &policy).apply(&[code.bundle])?;
                checkout::check_out(&repository, &code.branch, &code.commit)?;
            }
        }
        let mut input = job.to_json();
        input["directory"] = json!(work);
        let write = |path: PathBuf, content: String| {
            fs::write(&path, content).map_err(|error| Error::io(format_args!("write {}", path.display()), &error))
        };
        write(place.input(), format!("{input}\n"))?;
        write(place.home().join(".gitconfig"), self.git_config.clone())
    }

    fn environment_of(&self, job: &Job, place: &Place) -> Vec<(OsString, OsString)> {
        let chain: Vec<_> = job.chain.iter().map(ServiceName::as_str).collect();
        let mut of_job: Vec<(&str, OsString)> = vec![
            ("SERVICE", job.service.to_string().into()),
            ("ROOM", job.room.to_string().into()),
            ("SEQ", job.seq().to_string().into()),
            ("ID", job.id.to_string().into()),
            ("ATTEMPT", job.attempt.to_string().into()),
            ("REQUESTER", job.requester.name.clone().into()),
            ("REQUESTER_ID", job.requester.id.to_string().into()),
            ("CHAIN", chain.join(",").into()),
            ("DIRECTORY", place.work().into()),
        ];
        if let Some(code) = &job.code {
            of_job.push(("COMMIT", code.commit.to_string().into()));
            of_job.push(("BRANCH", short(&code.branch).into()));
        }
        let of_job = of_job
            .into_iter()
            .map(|(name, value)| (format!("PARLER_JOB_{name}").into(), value));
        let places = [
            ("HOME".into(), place.home().into()),
            ("TMPDIR".into(), place.temporary().into()),
        ];
        self.environment.iter().cloned().chain(places).chain(of_job).collect()
    }

    /// What is posted of an error. All of it this worker is told, where that is more.
    fn for_others(&self, what: &str, job: &Job, place: &Place, tell: &dyn Fn(News)) -> String {
        let told = place.without(what);
        if told != what {
            tell(News::Remark(format!("job {} of '{}': {what}", job.seq(), self.service)));
        }
        told
    }

    fn verdict(&self, job: &Job, place: &Place, ran: Ran, tell: &dyn Fn(News)) -> Outcome {
        let (status, note) = match ran.end {
            End::Exited(0) => (TaskStatus::Done, "exit status 0".to_owned()),
            End::Exited(code) => (TaskStatus::Failed, format!("exit status {code}")),
            End::Unguarded => (TaskStatus::Failed, "ended, for it had ended its guard".to_owned()),
            _ => (
                TaskStatus::Failed,
                format!("ended, for it took longer than {} s", self.timeout.as_secs()),
            ),
        };
        let mut verdict = Verdict {
            status,
            note,
            took: Some(ran.took),
            output: ran.output,
            commits: None,
        };
        match self.commits(job, place) {
            Ok(commits) => verdict.commits = commits,
            // What reads them is ended then: whoever is next makes them again.
            Err(_) if self.stop.is_said() => return Outcome::GiveBack(None),
            Err(error) => verdict.leave_commits(&self.for_others(error.what(), job, place, tell)),
        }
        Outcome::Verdict(Box::new(verdict))
    }

    /// What the command has left on top of the job's commit.
    fn commits(&self, job: &Job, place: &Place) -> Result<Option<Commits>> {
        let Some(code) = &job.code else { return Ok(None) };
        let git_dir = place.work().join(".git");
        if !git_dir.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::new(ErrorKind::Refused, "its repository is gone"));
        }
        let tip = match checkout::head(&self.git, &git_dir)? {
            Some(tip) if tip != code.commit => tip,
            _ => return Ok(None),
        };
        let directory = self.yard.result()?;
        let repository = checkout::with_objects_of(&self.git, &git_dir, directory.path(), format_of(job))?;
        if !repository.is_ancestor(&code.commit, &tip)? {
            return Err(Error::new(ErrorKind::Refused, "it is not on top of the job's commit"));
        }
        Ok(Some(Commits {
            repository,
            tip,
            _directory: directory,
        }))
    }
}

/// What whoever looks on is told of a job, in words that a hub may have said.
fn line_of(head: &str, why: &str) -> String {
    format!("{head}: {}", text::one_line(why))
}

fn format_of(job: &Job) -> ObjectFormat {
    job.code
        .as_ref()
        .map_or(ObjectFormat::Sha1, |code| code.commit.format())
}

impl From<CheckoutError> for Error {
    fn from(error: CheckoutError) -> Self {
        match error {
            CheckoutError::NotItsOwn { .. } | CheckoutError::TooLarge { .. } => Self::new(ErrorKind::Refused, error),
            CheckoutError::File { .. } => Self::fatal(error),
            CheckoutError::Repository(error) => error.into(),
            // What git will not write is the commit's fault.
            CheckoutError::Git(error @ (GitError::Failed { .. } | GitError::TooSlow { .. })) => {
                Self::new(ErrorKind::Refused, error)
            }
            CheckoutError::Git(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_hub_move_nothing_on_the_terminal() {
        let line = line_of(
            "job 1 of 'test' from alice",
            "too late, \u{1b}[2J\u{1b}]52;c;eA==\u{7}\nall is well",
        );
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }

    #[test]
    fn a_sandbox_has_the_jobs_directory_where_it_asks_for_it() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let argv = Argv {
            sandbox: words(&["box", "--bind", "{}", "{}", "a{}"]),
            command: words(&["find", "{}"]),
        };
        let filled = words(&["box", "--bind", "/j", "/j", "a{}", "find", "{}"]);
        assert_eq!(argv.in_directory(Path::new("/j")), filled);
    }
}

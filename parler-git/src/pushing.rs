//! What `git parler push` and `git parler handoff` share: reading refs as people write them, pushing, and telling what
//! became of it.

use std::cell::RefCell;
use std::num::NonZeroU32;

use git_remote_parler::git::was_ended;
use git_remote_parler::pins::Pin;
use git_remote_parler::push::{
    CutOff, Force, PushError, PushPolicy, PushReport, PushRequest, PushedBundle, Pusher, RefChange, RefOutcome,
    RefReport, Refusal, RoomLookup,
};
use git_remote_parler::repository::{LocalHead, Repository};
use git_remote_parler::room_state::RoomState;
use git_remote_parler::session::Policy;
use parler_client::Client;
use parler_protocol::limits::MAX_AGENT_NAME_BYTES;
use parler_protocol::{AgentName, BundleId, HandoffPart, RefName, RoomName, Seq, ServiceName};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{AGAIN, Error, ErrorKind, Result};
use crate::handoffs::Ledger;
use crate::hubs::HubChoice;
use crate::input::text_of;
use crate::output::Output;
use crate::room_log::read_message;
use crate::text;
use crate::view::{field, ref_change};

/// What the configuration says about pushes to this hub. `base` is what the command line says.
pub(crate) fn push_policy(repository: &Repository, hub: &HubChoice, base: Option<&str>) -> Result<PushPolicy> {
    let mut policy = Policy::of(repository, *hub == HubChoice::Local)?.push;
    if let Some(base) = base {
        let Ok(base) = base.parse();
        policy.base = base;
    }
    Ok(policy)
}

/// Reads one ref as it stands on a command line: `NAME`, `SRC:DST`, `:DST` to delete, `+` in front to force.
pub(crate) fn parse_change(repository: &Repository, text: &str) -> Result<RefChange> {
    let (force, text) = match text.strip_prefix('+') {
        Some(rest) => (Force::Always, rest),
        None => (Force::No, text),
    };
    let (source, destination) = match text.split_once(':') {
        Some((source, destination)) => (source, Some(destination)),
        None => (text, None),
    };
    if source.is_empty() {
        let destination = destination.unwrap_or_default();
        return Ok(RefChange {
            destination: full_name(destination, Some("refs/heads/"))?,
            source: None,
            force,
        });
    }
    let named = local_name(repository, source)?;
    let destination = match destination {
        Some(destination) => {
            let kind = named.as_deref().and_then(kind_of);
            full_name(destination, kind)?
        }
        None => match &named {
            Some(name) => full_name(name, None)?,
            None if source == "HEAD" => return Err(detached()),
            None => return Err(no_destination(repository, source)?),
        },
    };
    Ok(RefChange {
        destination,
        source: Some(named.unwrap_or_else(|| source.to_owned())),
        force,
    })
}

/// The room's refs that are meant by these names, to be deleted.
pub(crate) fn deletions(state: &RoomState, names: &[String]) -> Result<Vec<RefChange>> {
    let deletion = |text: &String| {
        let named = full_names(text).map(|name| name.parse::<RefName>().ok());
        let mut found = named
            .into_iter()
            .flatten()
            .filter(|name| state.refs().contains_key(name));
        match (found.next(), found.next()) {
            (Some(destination), None) => Ok(RefChange {
                destination,
                source: None,
                force: Force::No,
            }),
            (Some(one), Some(other)) => {
                Err(Error::usage(format_args!("'{text}' is both {one} and {other}")).then("write it in full"))
            }
            (None, _) => Err(Error::new(
                ErrorKind::NotFound,
                format_args!("room '{}' has no ref '{text}'", state.room()),
            )
            .then(format!("git ls-remote parler::room/{}", state.room()))),
        }
    };
    names.iter().map(deletion).collect()
}

/// The branch that is checked out, as a change.
pub(crate) fn current_branch(repository: &Repository) -> Result<RefChange> {
    match repository.head()? {
        LocalHead::Branch { name, .. } => Ok(RefChange {
            destination: full_name(&name, None)?,
            source: Some(name),
            force: Force::No,
        }),
        LocalHead::Detached { .. } => Err(detached()),
        LocalHead::Unborn { name } => {
            Err(Error::new(ErrorKind::NotFound, format_args!("{name} has no commit yet")).then("git commit"))
        }
    }
}

/// The full name of the local ref that a source means: `refs/..` as it is, HEAD the branch it is on, else a branch or
/// tag of that name. None where it is another kind of revision.
pub(crate) fn local_name(repository: &Repository, source: &str) -> Result<Option<String>> {
    if source == "HEAD" || source == "@" {
        return Ok(match repository.head()? {
            LocalHead::Branch { name, .. } => Some(name),
            LocalHead::Detached { .. } | LocalHead::Unborn { .. } => None,
        });
    }
    for candidate in full_names(source) {
        if candidate.parse::<RefName>().is_ok() && repository.find_ref(&candidate)?.is_some() {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// What a ref of a room may be meant by: `main` may be `refs/heads/main`, as git reads names.
pub(crate) fn full_names(text: &str) -> [String; 4] {
    [
        text.to_owned(),
        format!("refs/{text}"),
        format!("refs/heads/{text}"),
        format!("refs/tags/{text}"),
    ]
}

fn kind_of(name: &str) -> Option<&'static str> {
    ["refs/heads/", "refs/tags/"]
        .into_iter()
        .find(|kind| name.starts_with(kind))
}

fn full_name(text: &str, kind: Option<&str>) -> Result<RefName> {
    let full = match kind {
        _ if text.starts_with("refs/") => text.to_owned(),
        Some(kind) => format!("{kind}{text}"),
        None => {
            return Err(Error::usage(format_args!("'{text}' could be a branch or a tag"))
                .then(format!("write it in full: refs/heads/{text}")));
        }
    };
    full.parse().map_err(Error::usage)
}

fn detached() -> Error {
    Error::usage("HEAD is on no branch, so which ref is meant is not said").then("git parler push HEAD:refs/heads/NAME")
}

fn no_destination(repository: &Repository, source: &str) -> Result<Error> {
    repository.resolve(source)?;
    Ok(Error::usage(format_args!(
        "'{source}' is neither a branch nor a tag, so which ref is meant is not said"
    ))
    .then(format!("git parler push {source}:refs/heads/NAME")))
}

/// An instruction as the command line gives it.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub(crate) next: String,
    pub(crate) summary: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) revises: Option<Seq>,
    /// For how long it leads.
    pub(crate) ttl_secs: Option<NonZeroU32>,
}

impl Instruction {
    /// Checks it: something to do, and a name that somebody can have.
    pub(crate) fn new(next: &str, options: &crate::cli::Instruction) -> Result<Self> {
        let next = text_of("--next", next)?;
        let summary = options.summary.as_deref().map(|summary| text_of("--summary", summary));
        if let Some(to) = &options.to {
            let named = to.trim().parse::<AgentName>();
            named.map_err(|_| {
                Error::usage(format_args!(
                    "--for: not a name of 1 to {MAX_AGENT_NAME_BYTES} visible bytes"
                ))
            })?;
        }
        let to = options.to.as_ref().map(|to| to.trim().to_owned());
        let revises = options.revises.as_deref().map(parse_revised).transpose()?;
        Ok(Self {
            next,
            summary: summary.transpose()?,
            to,
            revises,
            ttl_secs: None,
        })
    }

    /// The part of a message that says it.
    pub(crate) fn part(&self, bundle: Option<BundleId>) -> HandoffPart {
        HandoffPart {
            next: self.next.clone(),
            summary: self.summary.clone(),
            to: self.to.clone(),
            bundle,
            revises: self.revises,
            ttl_secs: self.ttl_secs,
            ..HandoffPart::default()
        }
    }

    /// Refuses to revise what is no handoff of this agent: nobody would take it for a revision.
    pub(crate) fn check_revised(&self, context: &Context, client: &Client, room: &RoomName) -> Result<()> {
        let Some(revised) = self.revises else { return Ok(()) };
        let hub = client.hub_id()?;
        let mut entry = read_message(client, &hub, room, revised)?;
        if let Some(entry) = &mut entry {
            let before = Seq::new(revised.get().saturating_sub(1));
            let (trust, me) = (context.trust(), client.identity());
            trust.read_on(&hub, room, me, before, std::slice::from_mut(entry));
        }
        let ledger = Ledger::of(&entry);
        match ledger.handoff(revised) {
            Some(handoff) if handoff.is_by(client.identity()) => Ok(()),
            Some(handoff) => {
                let name = text::name(&handoff.from.name);
                Err(Error::new(
                    ErrorKind::Refused,
                    format_args!("message {revised} is a handoff of {name}, not yours"),
                )
                .then("leave out --revises"))
            }
            None => Err(Error::new(
                ErrorKind::NotFound,
                format_args!("message {revised} of room '{room}' is no handoff"),
            )
            .then("git parler status")),
        }
    }

    /// Who it is for, in words.
    pub(crate) fn addressee(&self) -> String {
        self.to.as_deref().map_or_else(|| "anybody".to_owned(), text::name)
    }
}

fn parse_revised(text: &str) -> Result<Seq> {
    let number = text.parse().ok().filter(|number| *number != Seq::ZERO);
    number.ok_or_else(|| {
        Error::usage(format_args!("--revises '{text}' is not the number of a message")).then("git parler status")
    })
}

/// The room that is pushed to, and by whom.
pub(crate) struct Destination<'a> {
    pub(crate) client: &'a Client,
    pub(crate) room: &'a RoomName,
    pub(crate) policy: &'a PushPolicy,
    /// How the room is found, or the room where it has been read already.
    pub(crate) lookup: RoomLookup,
    /// Whether the command has words to force a ref with.
    pub(crate) can_force: bool,
}

/// Pushes, tells what moved, and fails for what did not.
pub(crate) fn push(
    context: &Context,
    destination: Destination<'_>,
    request: &PushRequest<'_>,
    headline: impl Fn(&PushReport) -> String,
    output: &mut Output,
) -> Result<()> {
    let client = destination.client;
    let (report, failure) = pushed(context, destination, request, output)?;
    if output.is_json() {
        let mut value = report_json(&report, request, failure.as_ref());
        value["history"] = context.trust().history_json(&client.hub_id()?, &report.room);
        output.json(&value)?;
        return failure.map_or(Ok(()), |failure| Err(failure.told()));
    }
    if report.posted.is_some() || failure.is_none() {
        output.line(&headline(&report))?;
    }
    for update in &report.refs {
        if let RefOutcome::Moved(update) = &update.outcome {
            output.text(&field("ref", &ref_change(update)))?;
        }
    }
    if let Some(bundle) = &report.bundle {
        output.text(&field("bundle", &bundle_line(bundle)))?;
    }
    failure.map_or(Ok(()), Err)
}

/// Pushes, and says what people are told beside the result. With it comes why a ref did not move, if one did not.
pub(crate) fn pushed(
    context: &Context,
    destination: Destination<'_>,
    request: &PushRequest<'_>,
    output: &mut Output,
) -> Result<(PushReport, Option<Error>)> {
    let cache = context.room_cache();
    let Destination {
        client,
        room,
        policy,
        lookup,
        can_force,
    } = destination;
    let remarks = RefCell::new(&mut *output);
    let notice = |line: &str| remarks.borrow_mut().remark(line);
    let pusher = Pusher::new(context.repository()?, client, room, policy, &cache).telling(&notice);
    let report = pusher.push(request, lookup)?;
    // What failed for another ref comes after that one.
    let refused = || report.refs.iter().filter_map(refused);
    let failure = refused()
        .find(|(_, why)| **why != Refusal::AtomicPush)
        .or_else(|| refused().next())
        .map(|(name, why)| refusal_error(name, why, &report, can_force));
    if report.room_created {
        output.remark(&format!("made room '{}'", report.room));
    }
    for note in &report.notes {
        output.remark(note);
    }
    Ok((report, failure))
}

/// A bundle that was sent, in words.
pub(crate) fn bundle_line(bundle: &PushedBundle) -> String {
    let commits = text::count(bundle.commits, "commit");
    format!("{} · {commits} · {}", bundle.id.short(), text::size(bundle.size))
}

fn refused(report: &RefReport) -> Option<(&RefName, &Refusal)> {
    match &report.outcome {
        RefOutcome::Refused(refusal) => Some((&report.name, refusal)),
        _ => None,
    }
}

fn refusal_error(name: &RefName, refusal: &Refusal, report: &PushReport, can_force: bool) -> Error {
    let what = format!("{name} was not sent to room '{}': {}", report.room, words(refusal));
    let room = &report.room;
    let force = match can_force {
        true => "+ before the ref to force".to_owned(),
        false => format!("force it before: git parler push --force REF --room {room}"),
    };
    match refusal {
        Refusal::FetchFirst | Refusal::NonFastForward => {
            Error::new(ErrorKind::Conflict, what).then(format!("git fetch parler::room/{room}, or {force}"))
        }
        Refusal::AlreadyExists | Refusal::NeedsForce => Error::new(ErrorKind::Conflict, what).then(force),
        Refusal::StaleInfo => {
            Error::new(ErrorKind::Conflict, what).then(format!("git fetch parler::room/{room}, and look again"))
        }
        Refusal::AtomicPush => Error::new(ErrorKind::Conflict, what),
        Refusal::Other(_) => match &report.cut_off {
            Some(cut_off) => cut_off.clone().into(),
            None => Error::new(ErrorKind::Refused, what),
        },
    }
}

/// A refusal for people: the library's are the words that git's protocol has.
fn words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NonFastForward => "non-fast-forward".to_owned(),
        _ => refusal.to_string(),
    }
}

/// A push for programs.
fn report_json(report: &PushReport, request: &PushRequest<'_>, failure: Option<&Error>) -> Value {
    let (is_job, dry_run) = (request.is_job, request.dry_run);
    let refs: Vec<_> = report.refs.iter().map(ref_json).collect();
    let service = ServiceName::of_room(&report.room).filter(|_| is_job);
    let mut value = json!({
        "room": report.room,
        "service": service,
        "seq": report.posted.as_ref().map(|posted| posted.seq),
        "id": report.posted.as_ref().map(|posted| posted.id),
        "refs": refs,
        "roomCreated": report.room_created,
        "dryRun": dry_run,
        "error": failure.map(Error::to_json),
    });
    bundle_json(report, &mut value);
    value
}

/// Adds which bundle a push sent, and where it is here.
pub(crate) fn bundle_json(report: &PushReport, value: &mut Value) {
    value["bundle"] = json!(report.bundle.as_ref().map(|bundle| {
        json!({
            "id": bundle.id,
            "size": bundle.size,
            "commits": bundle.commits,
            "objects": bundle.objects,
            "prerequisites": bundle.prerequisites,
        })
    }));
    value["bundleId"] = json!(report.bundle_id);
    value["ref"] = json!(report.pins.first().map(|pin| &pin.name));
    value["pins"] = json!(pins_json(&report.pins));
}

/// The refs that name a bundle's tips here, for programs.
pub(crate) fn pins_json(pins: &[Pin]) -> Vec<Value> {
    pins.iter()
        .map(|pin| json!({ "name": pin.name, "oid": pin.oid }))
        .collect()
}

fn ref_json(report: &RefReport) -> Value {
    let name = &report.name;
    match &report.outcome {
        RefOutcome::Moved(update) => {
            json!({ "name": name, "status": "moved", "old": update.old, "new": update.new, "forced": update.forced })
        }
        RefOutcome::UpToDate => json!({ "name": name, "status": "up_to_date" }),
        RefOutcome::NothingToDelete => json!({ "name": name, "status": "nothing_to_delete" }),
        RefOutcome::Refused(refusal) => json!({ "name": name, "status": "refused", "reason": words(refusal) }),
    }
}

impl From<CutOff> for Error {
    fn from(cut_off: CutOff) -> Self {
        Self::new(ErrorKind::BaseMissing, cut_off.what()).then(cut_off.command)
    }
}

impl From<PushError> for Error {
    fn from(error: PushError) -> Self {
        match error {
            _ if was_ended(&error) => Self::fatal(error).then(AGAIN),
            PushError::Room(error) => error.into(),
            PushError::Repository(error) => error.into(),
            PushError::Client(error) => error.into(),
            PushError::ObjectFormat { .. } => Self::new(ErrorKind::Conflict, error),
            PushError::NotACommit { .. } => Self::usage(error),
            PushError::CutOff(cut_off) => cut_off.into(),
            PushError::TooLarge { error, nearer } => Self::new(ErrorKind::Refused, error).then(match nearer {
                Some(base) => {
                    format!("git parler push --base {base}, which has much of it, for receivers who have that")
                }
                None => "git parler push --base REV, with a nearer base".to_owned(),
            }),
            PushError::Pack(_) | PushError::Git(_) => Self::fatal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::Command;

    use git_remote_parler::git::{Git, GitEnvironment, GitProgram};

    use super::*;

    /// A repository with a branch and a tag, on branch main.
    fn repository(directory: &Path) -> Repository {
        let git = |arguments: &[&str]| {
            let environment = ["PATH"].map(|name| (name, std::env::var_os(name).unwrap()));
            let config = [
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("HOME", "/nonexistent"),
            ];
            let mut command = Command::new("git");
            command
                .arg("-C")
                .arg(directory)
                .args(["-c", "user.name=a", "-c", "user.email=a@example"]);
            command.args(arguments).env_clear().envs(environment).envs(config);
            assert!(command.output().unwrap().status.success(), "git {arguments:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&["branch", "topic/x"]);
        git(&["tag", "v1"]);
        let program = GitProgram::find(&std::env::var_os("PATH").unwrap()).unwrap();
        let environment = GitEnvironment::new([(OsString::from("PATH"), std::env::var_os("PATH").unwrap())]);
        Repository::discover(Git::new(program, environment), directory).unwrap()
    }

    #[test]
    fn refs_are_read_as_people_write_them() {
        let directory = tempfile::tempdir().unwrap();
        let repository = repository(directory.path());
        let oid = repository.resolve("HEAD").unwrap().oid.to_string();
        for (text, source, destination, forced) in [
            ("main", "refs/heads/main", "refs/heads/main", false),
            ("HEAD", "refs/heads/main", "refs/heads/main", false),
            ("+topic/x", "refs/heads/topic/x", "refs/heads/topic/x", true),
            ("heads/main", "refs/heads/main", "refs/heads/main", false),
            ("v1", "refs/tags/v1", "refs/tags/v1", false),
            ("main:other", "refs/heads/main", "refs/heads/other", false),
            ("v1:v2", "refs/tags/v1", "refs/tags/v2", false),
            ("HEAD~0:refs/heads/y", "HEAD~0", "refs/heads/y", false),
            (&format!("{oid}:refs/heads/y"), &oid, "refs/heads/y", false),
        ] {
            let change = parse_change(&repository, text).unwrap();
            assert_eq!(change.source.as_deref(), Some(source), "{text}");
            assert_eq!(change.destination.as_str(), destination, "{text}");
            assert_eq!(change.force == Force::Always, forced, "{text}");
        }
        let deleted = parse_change(&repository, ":topic/x").unwrap();
        assert_eq!(
            (deleted.source, deleted.destination.as_str()),
            (None, "refs/heads/topic/x")
        );
        assert_eq!(
            current_branch(&repository).unwrap().destination.as_str(),
            "refs/heads/main"
        );
        for (text, kind) in [
            ("HEAD~0", ErrorKind::Usage),
            ("HEAD~0:y", ErrorKind::Usage),
            ("main:refs/parler/x", ErrorKind::Usage),
            ("nothing", ErrorKind::NotFound),
            (":", ErrorKind::Usage),
            ("", ErrorKind::Usage),
        ] {
            assert_eq!(parse_change(&repository, text).unwrap_err().kind, kind, "{text}");
        }
    }

    #[test]
    fn a_handoff_is_for_somebody_who_can_exist() {
        let to = |to: &str| crate::cli::Instruction {
            summary: None,
            to: Some(to.to_owned()),
            revises: None,
        };
        assert_eq!(Instruction::new("x", &to(" bob ")).unwrap().to.as_deref(), Some("bob"));
        for bad in ["", " ", "a\nb", "a\u{202e}"] {
            assert_eq!(
                Instruction::new("x", &to(bad)).unwrap_err().kind,
                ErrorKind::Usage,
                "{bad:?}"
            );
        }
        assert_eq!(Instruction::new(" ", &to("bob")).unwrap_err().kind, ErrorKind::Usage);
    }
}

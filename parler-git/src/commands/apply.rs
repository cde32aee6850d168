//! `git parler apply`: imports a bundle and pins its tips under `refs/parler/`. Checks nothing out, merges nothing.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use git_remote_parler::bundle::BundleError;
use git_remote_parler::fetch::{FetchError, Fetcher};
use git_remote_parler::git::was_ended;
use git_remote_parler::import::{Import, ImportError, ImportLimits, Incoming, PinTiming};
use git_remote_parler::pins::{Pin, pack_if_many, twins};
use git_remote_parler::repository::Repository;
use git_remote_parler::risk::{Change, RiskReport};
use git_remote_parler::session::Policy;
use parler_protocol::{BundleId, RoomName};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::Apply;
use crate::context::Context;
use crate::error::{AGAIN, Error, ErrorKind, Result};
use crate::naming::{Reference, find_bundle};
use crate::output::Output;
use crate::pushing::pins_json;
use crate::view::field;
use crate::{risks, text};

/// One read of a file.
const PIECE_BYTES: usize = 256 << 10; // 256 KiB

pub(super) fn run(context: &Context, args: &Apply, output: &mut Output) -> Result<()> {
    let repository = context.repository()?;
    let path = context.environment.directory.join(&args.what);
    let Some(reference) = Reference::parse(&args.what) else {
        return if path.exists() {
            apply_file(repository, &path, &args.what, output)
        } else {
            let what = format!("'{}' is neither a bundle id, a message number nor a file", args.what);
            Err(Error::new(ErrorKind::NotFound, what).then("git parler recv --all"))
        };
    };
    match apply_from_room(context, repository, &reference, output) {
        // A file may be called like an id; a room that has such a bundle comes first.
        Err(error) if error.kind == ErrorKind::NotFound && path.is_file() => {
            apply_file(repository, &path, &args.what, output)
        }
        applied => applied,
    }
}

fn apply_from_room(
    context: &Context,
    repository: &Repository,
    reference: &Reference,
    output: &mut Output,
) -> Result<()> {
    let client = context.client()?;
    let found = find_bundle(context, &client, reference)?;
    let policy = Policy::of(repository, false)?.fetch;
    let state = &found.room.state;
    let id = *found.bundle.id();
    let remarks = RefCell::new(&mut *output);
    let notice = |line: &str| remarks.borrow_mut().remark(line);
    let fetcher = Fetcher::new(repository, &client, state, &policy).telling(&notice);
    let fetched = fetcher.apply(&[id])?;
    for other in fetched.bundles.iter().filter(|bundle| bundle.id != id) {
        output.remark(&format!(
            "brought bundle {} with it, which it builds on",
            other.id.short()
        ));
    }
    let pins = fetched
        .bundles
        .iter()
        .find(|bundle| bundle.id == id)
        .map(|bundle| bundle.pins.as_slice())
        .unwrap_or_default();
    // What came with it is checked out with it.
    let with_it = fetched
        .bundles
        .iter()
        .map(|bundle| bundle.id)
        .filter(|other| *other != id);
    let parts: Vec<_> = with_it
        .chain([id])
        .filter_map(|id| state.bundle(&id))
        .map(|bundle| (bundle.tips().collect::<Vec<_>>(), bundle.part.prerequisites.as_slice()))
        .collect();
    let changes = parts.iter().map(|(tips, bases)| Change { tips, bases });
    let risks = RiskReport::of(repository, changes);
    report(repository, &id, pins, &risks, Some(state.room()), output)
}

fn apply_file(repository: &Repository, path: &Path, shown: &str, output: &mut Output) -> Result<()> {
    let reading = |error: &io::Error| Error::io(format_args!("read {shown}"), error);
    let mut file = File::open(path).map_err(|error| reading(&error))?;
    let meta = file.metadata().map_err(|error| reading(&error))?;
    if !meta.is_file() {
        return Err(Error::new(ErrorKind::Refused, format_args!("{shown} is not a file")));
    }
    // Its name says nothing about its content: the id is what its bytes hash to, and the import compares them again.
    let id = hash(&mut file)
        .and_then(|id| file.rewind().map(|()| id))
        .map_err(|error| reading(&error))?;
    let mut import = Import::begin(repository, ImportLimits::of(repository)?)?;
    let incoming = Incoming {
        id,
        size: meta.len(),
        expected: None,
        short_pin: true,
        reader: &mut file,
    };
    let header = import.add(incoming).map_err(|error| in_file(shown, error))?;
    let tips: Vec<_> = header.refs.iter().map(|found| found.oid).collect();
    let bases = header.prerequisites.clone();
    let imported = import.finish(PinTiming::Now).map_err(|error| in_file(shown, error))?;
    pack_if_many(repository, imported.pins.len());
    let change = Change {
        tips: &tips,
        bases: &bases,
    };
    let risks = RiskReport::of(repository, [change]);
    report(repository, &id, &imported.pins, &risks, None, output)
}

fn hash(file: &mut File) -> io::Result<BundleId> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(BundleId::from_digest(hash.finalize().into()));
        }
        hash.update(&piece[..read]);
    }
}

fn report(
    repository: &Repository,
    id: &BundleId,
    pins: &[Pin],
    risks: &RiskReport,
    room: Option<&RoomName>,
    output: &mut Output,
) -> Result<()> {
    if let Some((one, other)) = twins(pins) {
        let (one, other) = (text::name(&one.name), text::name(&other.name));
        output.remark(&format!("warning: {one} and {other} differ in case alone"));
    }
    let first = pins.first();
    if output.is_json() {
        return output.json(&json!({
            "id": id,
            "room": room,
            "ref": first.map(|pin| &pin.name),
            "oid": first.map(|pin| pin.oid),
            "pins": pins_json(pins),
            "risks": risks,
        }));
    }
    output.line(&format!("applied bundle {}", id.short()))?;
    let short = format!("refs/parler/{}", id.short());
    let has_short = pins
        .iter()
        .any(|pin| pin.name.starts_with(&short) && !pin.name.contains(&id.to_string()));
    // Each tip is pinned under the short and the full id; one of them is enough to be told.
    let shown = pins
        .iter()
        .filter(|pin| !has_short || !pin.name.contains(&id.to_string()));
    for pin in shown {
        let subject = repository.subject(&pin.oid).unwrap_or_default();
        output.text(&field(
            "ref",
            &format!("{} · {}", text::name(&pin.name), text::one_line(&subject)),
        ))?;
    }
    output.text(&risks::lines(risks))
}

/// An error that names the file it is about.
fn in_file(shown: &str, error: ImportError) -> Error {
    let error = Error::from(error);
    let named = Error::new(error.kind, format_args!("{shown}: {}", error.what()));
    match error.next() {
        Some(next) => named.then(next),
        None => named,
    }
}

fn kind_of(error: &ImportError) -> ErrorKind {
    match error {
        ImportError::Among { source, .. } => kind_of(source),
        ImportError::MissingPrerequisites { .. } | ImportError::Promised { .. } => ErrorKind::BaseMissing,
        ImportError::ObjectFormat { .. } => ErrorKind::Conflict,
        ImportError::Bundle(_)
        | ImportError::NotAsSigned { .. }
        | ImportError::TooLarge { .. }
        | ImportError::Truncated { .. }
        | ImportError::WrongId { .. }
        | ImportError::Pack { .. }
        | ImportError::Refused { .. }
        | ImportError::Incomplete { .. }
        | ImportError::FailedBefore
        | ImportError::InsideQuarantine => ErrorKind::Refused,
        ImportError::Read(_)
        | ImportError::Storage(_)
        | ImportError::Pins(_)
        | ImportError::Repository(_)
        | ImportError::Git(_) => ErrorKind::Fatal,
    }
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        let kind = kind_of(&error);
        match error {
            _ if was_ended(&error) => Self::new(kind, error).then(AGAIN),
            ImportError::MissingPrerequisites { .. } => {
                Self::new(kind, error).then("git fetch, from a remote that has them")
            }
            ImportError::Bundle(error) => error.into(),
            ImportError::Repository(error) => error.into(),
            _ => Self::new(kind, error),
        }
    }
}

impl From<BundleError> for Error {
    fn from(error: BundleError) -> Self {
        Self::new(ErrorKind::Refused, error)
    }
}

impl From<FetchError> for Error {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::BaseMissing { .. } => {
                let missing = Self::new(ErrorKind::BaseMissing, error.what());
                match error.help() {
                    Some(help) => missing.then(help),
                    None => missing,
                }
            }
            FetchError::NotInRoom { .. } | FetchError::UnknownObject { .. } | FetchError::UnknownBundle { .. } => {
                Self::new(ErrorKind::NotFound, error)
            }
            FetchError::ObjectFormat { .. } => Self::new(ErrorKind::Conflict, error),
            FetchError::NotSent { .. } => Self::new(ErrorKind::Refused, error),
            FetchError::Bundle { ref source, .. } => {
                if was_ended(&error) {
                    return Self::fatal(error).then(AGAIN);
                }
                let kind = match **source {
                    // Here it is the hub that is read from.
                    ImportError::Read(_) => ErrorKind::Unreachable,
                    ImportError::MissingPrerequisites { .. } | ImportError::Promised { .. } => ErrorKind::BaseMissing,
                    ImportError::ObjectFormat { .. } => ErrorKind::Conflict,
                    ImportError::Storage(_)
                    | ImportError::Pins(_)
                    | ImportError::Repository(_)
                    | ImportError::Git(_) => ErrorKind::Fatal,
                    _ => ErrorKind::Refused,
                };
                Self::new(kind, error)
            }
            FetchError::Import(error) => error.into(),
            FetchError::Repository(error) => error.into(),
            FetchError::Client(error) => error.into(),
        }
    }
}

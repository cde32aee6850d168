//! What went wrong, as one line for people and one exit code for programs. The only place that maps the errors of the
//! libraries to either.

use std::fmt;
use std::io;

use parler_client::ClientError;
use parler_protocol::{ErrorCode, Problem, RoomName, ServiceName};
use serde_json::{Value, json};

use crate::{room_labels, text};

/// What kind of failure it is, which fixes the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ErrorKind {
    /// The answer is no.
    Negative,
    /// The command line, or a value on it, is not of a form that we know.
    Usage,
    /// There is no such thing, or none for this agent.
    NotFound,
    /// The hub does not let this agent do it.
    NotAuthorised,
    /// The hub cannot be reached, or not serve at the moment: the same command may work later.
    Unreachable,
    /// Something else was faster, or is in the way.
    Conflict,
    /// Refused by a rule: a limit, a signature, a form.
    Refused,
    /// Commits that a bundle builds on are not here.
    BaseMissing,
    /// No repository here, or this machine would not do its part (a file, a process).
    Fatal,
    /// Somebody told us to stop.
    Interrupted,
    /// Whoever read our output stopped reading. Not a failure.
    OutputClosed,
}

impl ErrorKind {
    /// The exit code of `git parler`.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::NotAuthorised => 4,
            Self::Unreachable => 5,
            Self::Conflict => 6,
            Self::Refused => 7,
            Self::BaseMissing => 8,
            Self::Fatal => 128,
            // As a shell says it of a program that SIGINT ended.
            Self::Interrupted => 130,
        }
    }

    /// The name in `--json` output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OutputClosed => "output_closed",
            Self::Negative => "negative",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::NotAuthorised => "not_authorised",
            Self::Unreachable => "unreachable",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::BaseMissing => "base_missing",
            Self::Fatal => "fatal",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What helps where something came between.
pub(crate) const AGAIN: &str = "run the same command again";

/// Why a command failed: what, naming the thing, and where it helps the next command.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) kind: ErrorKind,
    what: String,
    next: Option<String>,
    told: bool,
    /// What the hub called it, where it was the hub that said no.
    code: Option<ErrorCode>,
    outdated: bool,
}

/// The result of everything a command does.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl fmt::Display) -> Self {
        Self {
            kind,
            what: what.to_string(),
            next: None,
            told: false,
            code: None,
            outdated: false,
        }
    }

    /// Adds the command that helps.
    pub(crate) fn then(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Says the room in the command that comes next, where that is about one and does not say it, with the option that a
    /// command line says it with.
    pub(crate) fn with_room_option(mut self, option: &str) -> Self {
        const LISTING: &str = "git parler recv --all";
        /// Followed by nothing but what belongs to the command, up to a comma.
        const IN_A_ROOM: &[&str] = &[
            "git parler cancel ",
            "git parler decline ",
            "git parler push ",
            "git parler show ",
            "git parler status",
        ];
        self.next = self.next.map(|next| {
            if [" --room ", " --service "].iter().any(|said| next.contains(said)) {
                next
            } else if IN_A_ROOM.iter().any(|command| next.starts_with(command)) {
                let end = next.find(',').unwrap_or(next.len());
                format!("{}{option}{}", &next[..end], &next[end..])
            } else {
                next.replace(LISTING, &format!("{LISTING}{option}"))
            }
        });
        self
    }

    /// Says which room it is in the command that comes next, where that leaves it open.
    pub(crate) fn of_room(mut self, room: &RoomName) -> Self {
        self.next = self
            .next
            .map(|next| next.replace("--room ROOM", &format!("--room {room}")));
        self
    }

    /// The command's JSON has told it.
    pub(crate) fn told(mut self) -> Self {
        self.told = true;
        self
    }

    /// Whether the command's JSON has told it.
    pub(crate) const fn is_told(&self) -> bool {
        self.told
    }

    /// Says first what it is about.
    pub(crate) fn about(mut self, subject: impl fmt::Display) -> Self {
        self.what = format!("{subject}: {}", self.what);
        self
    }

    /// What the hub called it, where it was the hub that said no.
    pub(crate) const fn code(&self) -> Option<ErrorCode> {
        self.code
    }

    /// Whether the hub does not know the key that spoke to it.
    pub(crate) fn is_stranger(&self) -> bool {
        self.code == Some(ErrorCode::NotAdmitted)
    }

    /// What there is was made by a newer program.
    pub(crate) fn outdated(mut self) -> Self {
        self.outdated = true;
        self
    }

    /// Whether what there is was made by a newer program.
    pub(crate) const fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// The error for programs.
    pub(crate) fn to_json(&self) -> Value {
        let next = self.next.as_deref().map(room_labels::joined);
        json!({ "kind": self.kind.name(), "message": room_labels::joined(&self.what), "next": next })
    }

    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Usage, what)
    }

    pub(crate) fn fatal(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Fatal, what)
    }

    /// A failed look at, or change of, a file or directory.
    pub(crate) fn io(doing: impl fmt::Display, source: &io::Error) -> Self {
        Self::fatal(format_args!("cannot {doing}: {source}"))
    }

    /// A failed write to our own output.
    pub(crate) fn output(source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Self::new(ErrorKind::OutputClosed, "the reader of the output went away"),
            _ => Self::io("write the output", source),
        }
    }

    /// A signal came.
    pub(crate) fn interrupted() -> Self {
        Self::new(
            ErrorKind::Interrupted,
            "interrupted; what had begun has been cleaned up",
        )
    }

    /// There is no such room, or not for me: the same words for both, so that they tell a stranger nothing.
    pub(crate) fn no_room(room: &RoomName) -> Self {
        if let Some(service) = ServiceName::of_room(room) {
            let what = format_args!("no service '{service}' on this hub, or none for you");
            return Self::new(ErrorKind::NotFound, what)
                .then(format!("git parler serve {service}, or ask for an invite"));
        }
        let what = format_args!("no room '{room}' that you belong to");
        let next = format!("git parler join CODE, or make it: git parler invite --group {room}");
        Self {
            code: Some(ErrorCode::NotFound),
            ..Self::new(ErrorKind::NotFound, what).then(next)
        }
    }

    /// The line after `parler: `, escaped: part of it may come from elsewhere.
    pub(crate) fn line(&self) -> String {
        let what = text::own_line(&self.what);
        match &self.next {
            Some(next) => format!("{what}; {}", text::own_line(next)),
            None => what,
        }
    }

    /// What helps, if anything does.
    pub(crate) fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// What happened, as it is.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}

impl std::error::Error for Error {}

/// What an error code of the hub means for the caller.
fn kind_of(problem: &Problem) -> ErrorKind {
    use ErrorCode as Code;
    match problem.code {
        Code::ApprovalPending
        | Code::InvalidInvite
        | Code::NoLongerKept
        | Code::NotFound
        | Code::UnknownBlob
        | Code::UnknownUpload => ErrorKind::NotFound,
        Code::ApprovalRefused
        | Code::NotAdmitted
        | Code::NotOwner
        | Code::NotServing
        | Code::OidcRefused
        | Code::TokenEnded
        | Code::TokenScope
        | Code::Unauthenticated => ErrorKind::NotAuthorised,
        Code::Internal | Code::RateLimited | Code::RequestTimeout | Code::StorageFull | Code::Unavailable => {
            ErrorKind::Unreachable
        }
        Code::IdempotencyConflict
        | Code::JobState
        | Code::LastOwner
        | Code::NameTaken
        | Code::ObjectFormatMismatch
        | Code::RefDirectoryConflict
        | Code::RefMoved
        | Code::RoomExists
        | Code::StaleFence
        | Code::TokenExists
        | Code::UploadOffset => ErrorKind::Conflict,
        Code::BadRequest
        | Code::BadSignature
        | Code::BlobMismatch
        | Code::MethodNotAllowed
        | Code::MisdirectedRequest
        | Code::NameReserved
        | Code::OriginRefused
        | Code::RangeNotSatisfiable
        | Code::TooLarge
        | Code::UnsupportedMediaType => ErrorKind::Refused,
        // A newer hub's code: its status says as much as is known.
        Code::Unknown => match problem.status {
            404 | 410 => ErrorKind::NotFound,
            401 | 403 => ErrorKind::NotAuthorised,
            409 | 412 => ErrorKind::Conflict,
            500.. | 429 => ErrorKind::Unreachable,
            _ => ErrorKind::Refused,
        },
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let error = Self {
            code: Some(problem.code),
            ..Self::new(kind_of(&problem), &problem.detail)
        };
        match problem.code {
            ErrorCode::ApprovalPending => error.then("run the same command again when an owner has let you in"),
            ErrorCode::ApprovalRefused => error.then("an owner may think again: git parler admit"),
            ErrorCode::InvalidInvite => Self {
                what: "no invite of this code is open".to_owned(),
                ..error
            }
            .then("ask for a new one: git parler invite --group ROOM"),
            ErrorCode::NameTaken => error.then(
                "choose another name: git parler connect --as NAME; or an owner removes the other: git parler remove",
            ),
            ErrorCode::NameReserved => error.then("choose another name; of an agent: git parler connect --as NAME"),
            ErrorCode::NotAdmitted => error.then("git parler join CODE"),
            ErrorCode::TokenEnded => error.then("a member makes a new one: git parler token create"),
            ErrorCode::TokenScope => error.then("git parler whoami shows what it may do"),
            _ => error,
        }
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => problem.into(),
            ClientError::Unreachable { .. } => {
                Self::new(ErrorKind::Unreachable, error).then("run the same command again when the hub is up")
            }
            ClientError::Lost { .. }
            | ClientError::Deadline { .. }
            | ClientError::TooSlow { .. }
            | ClientError::Stopped { .. } => Self::new(ErrorKind::Unreachable, error).then(AGAIN),
            ClientError::NotAHub { .. } => Self::new(ErrorKind::Unreachable, error),
            ClientError::OutcomeUnknown { .. } => {
                Self::new(ErrorKind::Unreachable, error).then("git parler recv --all shows whether it is")
            }
            ClientError::Untrusted { .. } => Self::new(ErrorKind::Refused, error),
            ClientError::InDoubt { .. } => Self::new(ErrorKind::Refused, error),
            ClientError::Source(_) | ClientError::Setup(_) | ClientError::ToldToStop => Self::fatal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_comes_next_says_the_room_as_this_one_did() {
        for (next, with_room) in [
            ("git parler recv --all", "git parler recv --all --room r"),
            (
                "git parler recv --all shows whether it is",
                "git parler recv --all --room r shows whether it is",
            ),
            ("git parler status", "git parler status --room r"),
            ("git parler show 12", "git parler show 12 --room r"),
            (
                "git parler decline 1 --note TEXT",
                "git parler decline 1 --note TEXT --room r",
            ),
            (
                "git parler push --base REV, with a nearer base",
                "git parler push --base REV --room r, with a nearer base",
            ),
            ("git parler status 4 --room other", "git parler status 4 --room other"),
            ("git parler rooms", "git parler rooms"),
            ("git parler outbox", "git parler outbox"),
        ] {
            let error = |option| Error::fatal("it failed").then(next).with_room_option(option);
            assert_eq!(error(" --room r").next.as_deref(), Some(with_room));
            assert_eq!(error("").next.as_deref(), Some(next));
        }
    }

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        let codes = [
            (ErrorKind::OutputClosed, 0),
            (ErrorKind::Negative, 1),
            (ErrorKind::Usage, 2),
            (ErrorKind::NotFound, 3),
            (ErrorKind::NotAuthorised, 4),
            (ErrorKind::Unreachable, 5),
            (ErrorKind::Conflict, 6),
            (ErrorKind::Refused, 7),
            (ErrorKind::BaseMissing, 8),
            (ErrorKind::Fatal, 128),
            (ErrorKind::Interrupted, 130),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code, "{}", kind.name());
        }
    }

    #[test]
    fn every_answer_of_a_hub_has_its_code() {
        for code in ErrorCode::ALL {
            let error = Error::from(Problem::new(*code, "what happened"));
            assert!((3..=7).contains(&error.kind.exit_code()), "{}", code.as_str());
            // What can work later is told apart from what cannot.
            assert_eq!(
                error.kind == ErrorKind::Unreachable,
                code.is_retryable(),
                "{}",
                code.as_str()
            );
        }
    }

    #[test]
    fn a_lost_connection_names_the_next_command() {
        let address = || "http://127.0.0.1:1".to_owned();
        let lost = ClientError::Lost {
            address: address(),
            reason: "Connection reset by peer".to_owned(),
        };
        let late = ClientError::Deadline {
            address: address(),
            seconds: 60,
        };
        for error in [lost, late].map(Error::from) {
            assert_eq!(error.kind, ErrorKind::Unreachable);
            assert_eq!(error.next(), Some("run the same command again"));
        }
    }

    #[test]
    fn an_error_is_one_visible_line() {
        let error = Error::new(ErrorKind::Refused, "a\nparler: b\x1b[2J").then("git parler join CODE");
        assert_eq!(error.line(), "a\\u{a}parler: b\\u{1b}[2J; git parler join CODE");
    }
}

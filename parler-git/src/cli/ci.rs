//! What a CI job tells `git parler ci`.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueEnum};
use parler_protocol::CommitStatus;

#[derive(Debug, Args)]
pub(crate) struct Ci {
    /// Show the hub the identity token of the CI system, in place of a token of its own; as PARLER_OIDC=1 does for every verb
    #[arg(long, global = true)]
    pub(crate) oidc: bool,
    #[command(subcommand)]
    pub(crate) what: CiVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CiVerb {
    /// Post how a commit stands, what was found in it and the commits that mend it, in one message
    Post(Box<CiPost>),
    /// Write what was said of a commit in a form in which a CI system shows it
    Annotate(CiAnnotate),
}

#[derive(Debug, Args)]
pub(crate) struct CiAnnotate {
    /// The number of a message [default: all that counts of what was said of the commit]
    #[arg(value_name = "N")]
    pub(crate) message: Option<String>,
    /// The commit: a revision, or a full id [default: HEAD]
    #[arg(long, value_name = "REV", conflicts_with = "message")]
    pub(crate) commit: Option<String>,
    /// The form: workflow commands, and the step's summary, for GitHub; a Code Quality report for GitLab; JUnit's XML; SARIF
    #[arg(long)]
    pub(crate) format: AnnotationWord,
    /// Write it to this file, in place of one that is there [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<OsString>,
}

/// The forms of annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnotationWord {
    Github,
    Gitlab,
    Junit,
    Sarif,
}

impl AnnotationWord {
    /// As it is said.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
        }
    }
}

/// How a commit stands, in the words of the wire and of CI systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusWord {
    #[value(alias = "running")]
    Pending,
    Success,
    #[value(alias = "failed")]
    Failure,
    #[value(aliases = ["cancelled", "canceled"])]
    Error,
    #[value(alias = "skipped")]
    Neutral,
}

impl From<StatusWord> for CommitStatus {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Pending => Self::Pending,
            StatusWord::Success => Self::Success,
            StatusWord::Failure => Self::Failure,
            StatusWord::Error => Self::Error,
            StatusWord::Neutral => Self::Neutral,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CiPost {
    /// How the commit stands; also failed, cancelled, skipped and running, as CI systems say it
    #[arg(long, value_name = "STATUS", ignore_case = true)]
    pub(crate) status: StatusWord,
    /// What looked at it, such as lint: the newest status of a commit and context counts [default: what the job is called]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The commit: a revision, or a full id [default: the one that the job is for, else HEAD]
    #[arg(long, value_name = "REV")]
    pub(crate) commit: Option<String>,
    /// What to say of it; - reads it from standard input
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    pub(crate) summary: Option<String>,
    /// The page of the run [default: the job's]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The findings of a tool: a file in SARIF, JUnit's XML, or the documented JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<OsString>,
    /// Commits that mend it, sent without moving a ref: a branch or commit, or a bundle of the room (4 or more digits of its id)
    #[arg(long, value_name = "ID|REV")]
    pub(crate) bundle: Option<String>,
    /// Hand over: what to do next
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    pub(crate) next: Option<String>,
    /// Whose turn it is: an agent's name or role [default: anybody's]
    #[arg(long = "for", value_name = "WHO", requires = "next")]
    pub(crate) to: Option<String>,
    /// Hand over only where the status is failure or error
    #[arg(long, requires = "next")]
    pub(crate) if_bad: bool,
    /// For how long it holds, such as 24h: after that the status counts no longer, and what was handed over leads nobody [default:
    /// without end]
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<String>,
    /// The number of a handoff to me that this is the end of: done, failed, or working where the status is pending
    #[arg(long, value_name = "N")]
    pub(crate) reply_to: Option<String>,
    /// Posted again under this key, the same is answered as the first time; for 7 days. auto: a key of this attempt at the
    /// job, the context and the commit
    #[arg(long, value_name = "auto|KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Where the hub cannot be reached, keep it here; the next command of this agent that reaches the hub sends it
    #[arg(long)]
    pub(crate) queue: bool,
}

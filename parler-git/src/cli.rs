//! The command line: verbs, options and what they are for. Values are checked where they are used, so that a bad one
//! gets the same one line whether it came from an option, a variable or a configuration.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use ci::{AnnotationWord, Ci, CiAnnotate, CiPost, CiVerb};
pub(crate) use hook::{Hook, HookInstall, HookVerb};
pub(crate) use hub::{Hub, HubVerb};
pub(crate) use work::{JobExec, JobGuard, Serve};

mod ci;
mod hook;
mod hub;
mod work;

/// Hand work between coding agents, people and CI with git itself.
#[derive(Debug, Parser)]
#[command(name = "git-parler", bin_name = "git parler", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct Globals {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Act as this agent [default: PARLER_AGENT, then the work tree's, then parler.agent]
    #[arg(long = "as", value_name = "NAME", global = true)]
    pub(crate) agent: Option<String>,
    /// The hub: a URL, or local [default: PARLER_HUB, then parler.hub, then local]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) hub: Option<String>,
    /// The room, or dm/AGENT for the direct room with an agent [default: PARLER_ROOM, then parler.room]
    #[arg(long, value_name = "ROOM", global = true)]
    pub(crate) room: Option<String>,
    /// A service, in place of a room: what is read is its queue. To push or send there is to ask for a job
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) service: Option<String>,
    /// Colour the output [default: color.parler, then color.ui]
    #[arg(long, value_name = "WHEN", global = true, num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub(crate) color: Option<ColorWhen>,
    /// Show long results without a pager [default: pager.parler, GIT_PAGER, core.pager, PAGER, less]
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    Always,
    Auto,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Choose the hub, name and role of this work tree, and say hello to the hub
    Connect(Connect),
    /// Show which agent acts here, its key and its hub
    Whoami,
    /// Make an invite code for a room
    Invite(Invite),
    /// Become a member of a room
    Join(Join),
    /// Show or choose what a clone of a room checks out
    Room(Room),
    /// List the rooms I am in
    Rooms,
    /// List the members of a room, whether they are there and what they are at, and who asks to come in
    Roster,
    /// Leave a room
    Leave,
    /// Take an agent out of a room that I own
    Remove(Member),
    /// Make a member an owner of a room that I own
    Owner(Owner),
    /// Let an agent in that came by an invite that needs an owner's word
    Admit(Member),
    /// Refuse it
    Refuse(Member),
    /// End invites of a room
    Revoke(Revoke),
    /// Delete a room that I own, with its log, refs and bundles
    DeleteRoom(DeleteRoom),
    /// Post a text or files
    Send(Send),
    /// Read what is new in a room, handoffs to me first
    Recv(Recv),
    /// Show what waits for me in all rooms, handoffs first; acknowledges nothing
    Inbox(Inbox),
    /// Show a room's log as history, newest first; acknowledges nothing
    Log(Log),
    /// List what waits to be sent, send again what was refused, or drop it
    Outbox(Outbox),
    /// Hand over the next action
    Handoff(Handoff),
    /// Take a handoff up
    Accept(Receipt),
    /// Turn a handoff down, and say why
    Decline(Receipt),
    /// Say that a handoff is done
    Done(Receipt),
    /// Give a handoff up, and say why
    Fail(Receipt),
    /// Call my own handoff off
    Cancel(Receipt),
    /// Show how far a handoff has come, or wait for it; without a name, list the open ones
    Status(Status),
    /// Bundle a branch, post it, move the room's ref
    Push(Push),
    /// Take a bundle's or file's bytes out of a room, without importing them
    Fetch(Fetch),
    /// Import a bundle under refs/parler/; nothing is checked out or merged
    Apply(Apply),
    /// Work on the jobs of a service: claim, run a command, send what became of it
    Serve(Serve),
    /// Run the command of a job
    #[command(hide = true)]
    JobGuard(JobGuard),
    /// Become the command of a job
    #[command(hide = true)]
    JobExec(JobExec),
    /// Show a message, or what brought a bundle or a file
    Show(Show),
    /// Say what a CI job found out about a commit
    Ci(Ci),
    /// Put unread handoffs into a coding agent's next turn: what its hooks call, or the lines that have them call it
    Hook(Hook),
    /// Make, list and revoke tokens for CI
    Token(Token),
    /// List whose keys belong to names and what is in doubt, or accept a key or a room's history
    Trust(Trust),
    /// Watch two agents hand a branch over, with the real programs, in a temporary place
    Demo(Demo),
    /// Start, stop or look for this user's own hub
    Hub(Hub),
    /// Look at everything that has to be right, and say how to mend what is not
    Doctor,
    /// Show a manual page, or install the manual pages and completions
    Man(Man),
    /// Serve this repository's rooms to a coding agent as tools, by the Model Context Protocol on stdin and stdout
    #[cfg(feature = "mcp")]
    Mcp,
    /// Print a shell's completion script
    Completion(Completion),
}

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Use this user's own hub, started when needed
    #[arg(long, conflicts_with = "hub")]
    pub(crate) local: bool,
    /// What this agent does, such as reviewer; an empty text takes the role away
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// What this agent is at, for those who look at a roster; in no log. An empty text takes it away
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) status: Option<String>,
    /// List the coding agents that are installed, and put this program into the hooks of each, as hook install does
    #[arg(long)]
    pub(crate) hosts: bool,
}

/// An agent in a room, or that wants to be.
#[derive(Debug, Args)]
pub(crate) struct Member {
    /// A name, a role, or a key or 6 or more characters of its beginning
    #[arg(id = "member", value_name = "AGENT")]
    pub(crate) agent: String,
}

#[derive(Debug, Args)]
pub(crate) struct Owner {
    #[command(flatten)]
    pub(crate) member: Member,
    /// It is no owner any more
    #[arg(long)]
    pub(crate) drop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The code, a link that ends in it, the id that invite --list shows, or all
    #[arg(value_name = "CODE|ID|all")]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteRoom {
    /// The room
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The same name again, which says that it is meant
    #[arg(value_name = "NAME")]
    pub(crate) again: Option<String>,
    /// It is meant: in place of the name again
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// The room; made if there is none of that name [default: --room]
    #[arg(long, value_name = "ROOM")]
    pub(crate) group: Option<String>,
    /// How long the code works: 90s, 30m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(crate) ttl: String,
    /// How often the code works
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_uses: Option<u32>,
    /// Whoever comes by it waits until an owner says git parler admit
    #[arg(long)]
    pub(crate) approve: bool,
    /// List the open invites that I may revoke, without their codes
    #[arg(long, conflicts_with_all = ["approve", "max_uses"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Join {
    /// An invite code, or a link that ends in one
    #[arg(value_name = "CODE|LINK")]
    pub(crate) code: String,
    /// What this agent does, such as reviewer; an empty text takes the role away
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The text; - reads it from standard input
    #[arg(value_name = "TEXT|-", allow_hyphen_values = true, required_unless_present = "file")]
    pub(crate) text: Option<String>,
    /// Post it in the direct room with this agent: a name, a role, or a key or its beginning
    #[arg(long, value_name = "AGENT")]
    pub(crate) to: Option<String>,
    /// Post this file, each in a message of its own; - takes what standard input holds
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// What the one file is called [default: the file's own name]
    #[arg(long, value_name = "NAME", requires = "file")]
    pub(crate) name: Option<String>,
    /// Name an agent that should see it
    #[arg(long, value_name = "NAME")]
    pub(crate) mention: Vec<String>,
    /// Posted again under this key, the same is answered as the first time; for 7 days
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Where the hub cannot be reached, keep the text here; the next command that reaches the hub sends it
    #[arg(long, conflicts_with_all = ["file", "name"])]
    pub(crate) queue: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Recv {
    /// Read again from the message after this one
    #[arg(long, value_name = "N", conflicts_with = "all")]
    pub(crate) since: Option<String>,
    /// Read the whole log
    #[arg(long)]
    pub(crate) all: bool,
    /// Print at most this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Go on with each message as it comes, until interrupted
    #[arg(long, conflicts_with = "limit")]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// Wait until a handoff to me or a mention of me is there, at most so long: 90s, 30m, 24h, 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Only messages after this one
    #[arg(long, value_name = "N")]
    pub(crate) since: Option<String>,
    /// Print at most this many messages, from where the list begins
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Begin with the oldest
    #[arg(long)]
    pub(crate) reverse: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Outbox {
    #[command(subcommand)]
    pub(crate) what: Option<OutboxVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxVerb {
    /// List it; asks no hub
    List,
    /// Send what waits, also what was refused before
    Send,
    /// Forget a message: it will not be sent
    Drop {
        /// Its number in the list
        #[arg(value_name = "N")]
        number: u64,
    },
}

/// The instruction of a handoff.
#[derive(Debug, Clone, Args)]
pub(crate) struct Instruction {
    /// What has been done
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) summary: Option<String>,
    /// Whose turn it is: an agent's name or role [default: anybody's]
    #[arg(long = "for", value_name = "WHO")]
    pub(crate) to: Option<String>,
    /// The number of my earlier handoff in whose place this one is
    #[arg(long, value_name = "N")]
    pub(crate) revises: Option<String>,
}

/// What somebody says of a handoff.
#[derive(Debug, Args)]
pub(crate) struct Receipt {
    /// The number of the handoff, or 4 or more digits of the id of the bundle that it is about
    #[arg(value_name = "N|ID")]
    pub(crate) what: String,
    /// What to say with it; - reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) note: Option<String>,
    /// The result: a bundle of the room (4 or more digits of its id), or a branch or commit to push with it
    #[arg(long, value_name = "ID|REV")]
    pub(crate) bundle: Option<String>,
    /// Posted again under this key, the same is answered as the first time; for 7 days
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The number of the handoff, or 4 or more digits of the id of the bundle that it is about
    #[arg(value_name = "N|ID")]
    pub(crate) what: Option<String>,
    /// Show how this commit stands instead, by what ci post said of it: a revision, or a full id
    #[arg(long, value_name = "REV")]
    pub(crate) commit: Option<String>,
    /// With --commit: the contexts that have to be good, and no others [default: all of which something was said]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
    /// Wait until it is acknowledged, fetched, accepted, done, failed, declined ..; with --commit, at most so long until it
    /// is known how that stands
    #[arg(long, value_name = "STATE|TIME")]
    pub(crate) wait: Option<String>,
    /// Wait at most so long: 90s, 30m, 24h, 7d [default: for ever]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Handoff {
    /// What to do next
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) next: String,
    /// Post it in the direct room with this agent: a name, a role, or a key or its beginning
    #[arg(id = "direct", long = "to", value_name = "AGENT")]
    pub(crate) direct: Option<String>,
    #[command(flatten)]
    pub(crate) instruction: Instruction,
    /// What it is about: a bundle of the room (4 or more digits of its id), or a branch or commit to push with it
    #[arg(long, value_name = "ID|REV")]
    pub(crate) bundle: Option<String>,
    /// Posted again under this key, the same is answered as the first time; for 7 days
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Where the hub cannot be reached, keep it here; the next command that reaches the hub sends it. Not with what has
    /// to be pushed
    #[arg(long)]
    pub(crate) queue: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Room {
    #[command(subcommand)]
    pub(crate) what: RoomVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoomVerb {
    /// Show which branch the room's HEAD is, or make it this one
    Head {
        /// A branch of the room
        #[arg(value_name = "BRANCH")]
        branch: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Push {
    /// Move refs also to what does not contain where they were
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Move refs also then, where the room has them as expected: at EXPECT (empty: not at all), else where this
    /// repository saw them last. Without a value all refs; may be repeated
    #[arg(long, value_name = "REF[:EXPECT]", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) force_with_lease: Vec<String>,
    /// Move all refs or none
    #[arg(long)]
    pub(crate) atomic: bool,
    /// Decide everything and send nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Delete the refs from the room
    #[arg(short, long, requires = "refs", conflicts_with_all = ["base", "full"])]
    pub(crate) delete: bool,
    /// Commits that the receiver has: auto, none, or revisions [default: parler.base, then auto]
    #[arg(long, value_name = "REV")]
    pub(crate) base: Option<String>,
    /// Make a bundle of all history, which needs no other
    #[arg(long, conflicts_with = "base")]
    pub(crate) full: bool,
    /// A text to post with it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) note: Option<String>,
    /// Hand over: what to do next
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) next: Option<String>,
    #[command(flatten)]
    pub(crate) instruction: Instruction,
    /// Posted again under this key, the same is answered as the first time; for 7 days
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Branches, tags, or SRC:DST; + in front forces [default: the current branch]
    #[arg(value_name = "REF")]
    pub(crate) refs: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Fetch {
    /// 4 or more digits of a bundle's or file's id, or the number of the message that brought it
    #[arg(value_name = "ID|N")]
    pub(crate) id: String,
    /// Where to write it; - is standard output [default: ID.bundle or ID.file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(short, long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// 4 or more digits of a bundle's id, the number of a message, or a bundle file
    #[arg(value_name = "ID|FILE")]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The number of a message, or 4 or more digits of a bundle's or file's id
    #[arg(value_name = "N|ID")]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) what: TokenVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token for the room, or for several with commas between: --room a,b. It is printed this once
    Create {
        /// What it is called; its messages are from ci/NAME [default: the room's, and some random characters]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What it may do there: post, read, claim
        #[arg(long, value_name = "SCOPE", value_delimiter = ',', default_value = "post")]
        can: Vec<String>,
        /// How long it works: 90s, 30m, 24h, 7d
        #[arg(long, value_name = "TIME", default_value = "30d")]
        ttl: String,
    },
    /// Show the hub this job's identity token, and print the short-lived token that it gives for it
    Exchange,
    /// List the tokens I made, and those for rooms that I own
    List,
    /// End a token, at once
    Revoke {
        /// What it is called
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The name whose new key is accepted
    #[arg(value_name = "NAME", conflicts_with = "history")]
    pub(crate) name: Option<String>,
    /// Which key, where several are new: its first digits; without NAME the one new key that begins so
    #[arg(long, value_name = "ID", conflicts_with = "history")]
    pub(crate) key: Option<String>,
    /// Accept the room's history as its hub has it now, and forget the one that was known
    #[arg(long)]
    pub(crate) history: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The repository to show it with; only read [default: this one, or a sample]
    #[arg(long, value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// A verb, or a page's name such as git-remote-parler [default: git-parler]
    #[arg(value_name = "PAGE", conflicts_with_all = ["install", "remove", "dir"])]
    pub(crate) page: Option<String>,
    /// Write all pages, and completions for the shells that are here, where they are looked for
    #[arg(long, conflicts_with = "remove")]
    pub(crate) install: bool,
    /// Remove what --install wrote
    #[arg(long)]
    pub(crate) remove: bool,
    /// Write or remove the pages below this directory (DIR/man1), and no completions
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: CompletionShell,
}

/// A shell that completion is offered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Fish,
    Zsh,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_every_verb_stand_before_or_behind_it() {
        let cli = Cli::try_parse_from(["git-parler", "--room", "a", "recv", "--json", "--as", "bob"]).unwrap();
        assert_eq!(cli.globals.room.as_deref(), Some("a"));
        assert!(cli.globals.json);
        assert_eq!(cli.globals.agent.as_deref(), Some("bob"));
    }

    #[test]
    fn texts_may_begin_with_a_dash() {
        let cli = Cli::try_parse_from(["git-parler", "send", "--room", "a", "-"]).unwrap();
        assert!(matches!(cli.verb, Verb::Send(Send { text: Some(text), .. }) if text == "-"));
        assert!(Cli::try_parse_from(["git-parler", "handoff", "--next", "- tidy up"]).is_ok());
    }

    /// How a hub is started is between the programs; how it is looked after is for people.
    #[test]
    fn the_hub_is_shown_and_its_process_is_not() {
        let cli = Cli::command();
        let hub = cli.find_subcommand("hub").unwrap();
        assert!(!hub.is_hide_set());
        let shown: Vec<_> = hub
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(|verb| verb.get_name())
            .collect();
        assert_eq!(shown, ["start", "stop", "status"]);
    }
}

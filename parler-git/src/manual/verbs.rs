//! What the pages of the verbs say that their definitions cannot. A verb without an entry has a page all the same.

#[cfg(feature = "mcp")]
use super::agents::MCP;
use super::ci::CI;
use super::markup::Block::{Lines, Term, Text};
use super::markup::Section;
use super::membership::{ADMIT, DELETE_ROOM, INVITE, JOIN, LEAVE, OWNER, REMOVE, REVOKE, ROSTER};

/// The verbs that have an entry here.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &[
    "accept",
    "admit",
    "apply",
    "cancel",
    "ci",
    "completion",
    "connect",
    "decline",
    "delete-room",
    "doctor",
    "done",
    "fail",
    "fetch",
    "handoff",
    "hook",
    "hub",
    "inbox",
    "invite",
    "join",
    "leave",
    "log",
    "man",
    #[cfg(feature = "mcp")]
    "mcp",
    "outbox",
    "owner",
    "push",
    "recv",
    "refuse",
    "remove",
    "revoke",
    "roster",
    "send",
    "serve",
    "show",
    "status",
];

/// The sections of a verb's page, DESCRIPTION first.
pub(super) fn sections(verb: &str) -> &'static [Section] {
    match verb {
        "accept" | "cancel" | "decline" | "done" | "fail" => RECEIPT,
        "admit" | "refuse" => ADMIT,
        "apply" => APPLY,
        "ci" => CI,
        "completion" => COMPLETION,
        "connect" => CONNECT,
        "delete-room" => DELETE_ROOM,
        "doctor" => DOCTOR,
        "fetch" => FETCH,
        "handoff" => HANDOFF,
        "hook" => HOOK,
        "hub" => HUB,
        "inbox" => INBOX,
        "invite" => INVITE,
        "join" => JOIN,
        "leave" => LEAVE,
        "log" => LOG,
        "man" => MAN,
        #[cfg(feature = "mcp")]
        "mcp" => MCP,
        "outbox" => OUTBOX,
        "owner" => OWNER,
        "push" => PUSH,
        "recv" => RECV,
        "remove" => REMOVE,
        "revoke" => REVOKE,
        "roster" => ROSTER,
        "send" => SEND,
        "serve" => SERVE,
        "show" => SHOW,
        "status" => STATUS,
        _ => &[],
    }
}

const APPLY: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Imports a bundle, with those of the room that it builds on, and pins its tips under `refs/parler/`. Changes \
                 neither work tree, index, HEAD, configuration nor any other ref. An id without `--room` is looked for in \
                 all rooms of this agent; a file is imported as it is.",
            ),
            Text(
                "Commits that the bundle builds on and that are nowhere are fetched from the configured remote they are \
                 from, unless `parler.fetchBase` is false.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler apply 7f3a0c9e21d4\n\
             git diff origin/main...refs/parler/7f3a0c9e21d4",
        )],
    ),
];

const COMPLETION: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Prints the script with which a shell completes the verbs and options of `git parler` and `git-parler`. It asks \
             neither a hub nor a repository. `git parler man --install` puts the scripts where the shells look for them.",
        )],
    ),
    (
        "EXAMPLES",
        &[
            Text("Bash, beside git's own completion:"),
            Lines("source <(git parler completion bash)"),
            Text("Zsh, in a directory of `fpath`:"),
            Lines("git parler completion zsh > ~/.zsh/completions/_git-parler"),
            Text("Fish:"),
            Lines("git parler completion fish > ~/.config/fish/completions/git-parler.fish"),
        ],
    ),
];

const CONNECT: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Says hello to the hub and, once it has answered, keeps what was chosen: the name in the work tree's git \
             directory, the hub in the repository's configuration, the role with the agent. Outside of a repository name and \
             hub go into the user's configuration, and so are those of every work tree. A hub that does not let this agent \
             in yet has answered, too; `git parler join` comes next.",
        )],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler connect --hub https://hub.example --as bob --role reviewer",
        )],
    ),
];

const DOCTOR: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Looks at git and its version, the helper on `PATH`, the directories of keys and state, the key of the agent, \
                 the configuration, the hub, this machine's clock against the hub's, what a token may, and the room. Each is a line that says \
                 `ok`, `warning` or `problem`, and how to mend it.",
            ),
            Text(
                "Starts and changes nothing: it makes no key, no room and no directory, and a local hub that does not run \
                 stays so. Shows no secret.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[Text("0 where nothing is a problem, 1 where something is.")],
    ),
];

const FETCH: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Writes the bytes of a bundle, or of a file that was sent, after checking that they are as many as their \
                 author signed for and hash to the id. Without `-o` the file is called _ID_.bundle or _ID_.file, never what \
                 its sender calls it: that is only shown. What is there is not replaced without `--force`, and what is not a \
                 file never is. Interrupted, it leaves nothing.",
            ),
            Text(
                "A file's id is looked for in the whole log of the room; the number of the message that brought it is \
                 faster. Imports nothing: that is what `git-parler-apply`(1) and `git fetch` are for.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler fetch 12 --room feature -o build.log\n\
             git parler fetch 7f3a0c9e21d4 -o - | git bundle list-heads /dev/stdin",
        )],
    ),
];

const HANDOFF: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Hands over the next action to an agent, to everybody of a role, or to anybody. It leads the next \
                 `git parler recv` of whom it is for. One of the texts may be `-`: then it is read from standard input.",
            ),
            Text(
                "With `--bundle` it is about a bundle of the room; or about a branch or tag, which is pushed in the same \
                 message; or about another commit, which travels without moving a ref.",
            ),
            Text(
                "`--to` posts it in the direct room with an agent (see `git-parler`(1)), and `--for` says whose turn it is \
                 there as in any room.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler handoff --room feature --for reviewer --bundle HEAD \\\n\
             \x20   --next \"review the diff\" --summary \"code and tests are done\"\n\
             git parler handoff --to bob --bundle feature --next \"look at this before the others do\"",
        )],
    ),
];

const HOOK: &[Section] = &[(
    "DESCRIPTION",
    &[
        Text(
            "What the hooks of a coding agent run: `claude` (`session-start`, `prompt`, `stop`, `wait`), `codex` (`session-start`, \
             `prompt`, `stop`, `notify`), `copilot` (`session-start`, `prompt`, `agent-stop`), `cursor` (`session-start`, `stop`), \
             `gemini` (`session-start`, `before-agent`, `after-agent`), `opencode` (`idle`, `prompt`). Reads what the host says from \
             standard input (`codex notify`: from the last argument), and prints the host's own JSON where a handoff waits for the \
             agent of the directory that the host works in: it leads the next turn, or makes one when a turn ends. `claude wait` \
             stays until one comes, and ends with 2 and the text on standard error, which wakes an idle session.",
        ),
        Text(
            "A handoff is told until a turn that had it came to its end, and not after `accept`, `decline`, `done`, `fail` or `recv`. \
             No more than 9,000 characters; what others wrote stands between fences. Nothing is acknowledged to the hub, no hub is \
             started (but by `claude wait`) and no key made. Whatever fails, a hook prints nothing and ends with 0; `PARLER_TRACE` \
             tells why. `parler.hook.wait` says how long the hub is waited for.",
        ),
        Text(
            "`git parler hook install HOST` puts the lines that call this into the host's own file: the user's, with `--scope project` \
             the repository's, for `claude` with `--scope local` the user's in this repository. What else is there stays byte for \
             byte; installed twice it is there once, and `--remove` leaves the file as it was. `--print` only shows it. With `--as NAME` \
             that is the agent of the work tree from now on.",
        ),
    ],
)];

const HUB: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "The local hub serves this user only, on 127.0.0.1. It starts by itself when a command needs it. For a hub that \
         others can reach see `parler-hub`(1).",
    )],
)];

const INBOX: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Shows what waits for this agent in all of its rooms on the hub: handoffs to it, newest first, then messages that \
         mention it, then how much is unread in each room, each with the command that shows it. Acknowledges nothing. Of a \
         room with more than 1,000 unread messages it looks at the newest. With `--wait` it waits until there is a handoff or a \
         mention, at most so long, and polls nothing.",
    )],
)];

const LOG: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Shows a room's log as history, newest first, through the pager where somebody looks at a terminal. `--since` \
             leaves out what comes up to that message, and `--limit` counts from where the list begins. Acknowledges nothing.",
        )],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler log --room feature -n 20\n\
             git parler log --room feature --reverse --since 120 --limit 30",
        )],
    ),
];

const MAN: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text("Shows a page through `man`(1) where somebody looks at a terminal, and prints its roff otherwise."),
            Text(
                "`--install` writes all pages, so that `git parler --help`, `git help parler` and `man git-remote-parler` \
                 find them, and completion for bash, fish and zsh where the shell is on this machine. The pages go to \
                 _PREFIX_/share/man where _PREFIX_/bin, with this program in it, is on `PATH` and belongs to this user, as \
                 after `cargo install`: `man` looks there. Otherwise they go to `$XDG_DATA_HOME/man`. Where `man` does not \
                 look it says what to add to `MANPATH`. Written again, they are replaced; a file of somebody else is not.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler man --install\n\
             git parler man recv\n\
             git parler man --install --dir \"$DESTDIR/usr/share/man\"",
        )],
    ),
];

const OUTBOX: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Shows what was said with `--queue` while the hub could not be reached. Every command that reaches the hub \
                 sends it first, in order and once, whatever died in between.",
            ),
            Text(
                "A message that the hub refuses is kept and does not hold up the others: `send` tries it again, `drop` \
                 forgets it.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler send --room feature --queue \"done, tests pass\"\n\
             git parler outbox\n\
             git parler outbox drop 2",
        )],
    ),
];

const PUSH: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Posts what the room lacks as one thin bundle and moves the room's refs, with a note or a handoff in the \
                 same message: all of it, or nothing. _REF_ is a branch or tag, `SRC:DST`, or `:DST` to delete; `+` in front \
                 forces. Without one it is the branch that is checked out.",
            ),
            Text(
                "Other than `git push` it always posts where there is a `--next` or `--note`, also when every ref is up to \
                 date. A room that does not exist is made on the local hub, elsewhere where `parler.createRoom` is true.",
            ),
            Text(
                "With `--service` the branch or tag is a job for whoever serves, also where it has not changed: one of them a \
                 push. Its bundle needs nothing but what the same sender brought before.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler push --room feature --next \"fix the failing test\" --for builder\n\
             git parler push --room feature --full main\n\
             git parler push --service review feature --next \"look at the retry path\"",
        )],
    ),
];

const RECEIPT: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "`accept`, `decline`, `done` and `fail` say of a handoff how it stands, in a signed message; `cancel` is for its \
                 author. It is named by its number, or by the id of the bundle that it is about. `decline` and `fail` say \
                 why, with `--note`. `--bundle` is the result: a bundle of the room, or a branch or commit, which is pushed \
                 in the same message.",
            ),
            Text(
                "Only those whom a handoff is for may answer it. The newest word counts, but a `decline` takes back one's own \
                 acceptance and not another's. An `accept` takes up again what was done, failed or declined.",
            ),
            Text(
                "`cancel` with `--service` calls off a job that this agent asked for, whether somebody works on it or not; the others answer a job that this \
                 agent has claimed by hand, and `decline` gives it back.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler accept 42 --room feature\n\
             git parler done 42 --room feature --bundle fix --note \"two blockers fixed\"\n\
             git parler decline 42 --room feature --note \"no time before friday\"",
        )],
    ),
];

const RECV: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Shows what is new in a room: first the unread handoffs to this agent, newest first, then messages that \
                 mention it, then the rest, every message with a mark for its signature. What this agent wrote itself is no \
                 news. A message that is not to be believed is folded to one line and never counts as a handoff.",
            ),
            Text(
                "A backlog of more than 150 lines is shown as a digest, which ends with the numbers that it left out and \
                 the `git parler log` that shows them. What was shown is acknowledged, and of a digest all that it accounts \
                 for, unless the reader of the output went away meanwhile: then it comes again.",
            ),
            Text(
                "`--since` and `--all` read again; they acknowledge only what leaves nothing unread behind it. `--limit` \
                 cuts the list of messages, not the search for handoffs.",
            ),
            Text(
                "`--watch` goes on with each message as it comes, and outlives the hub: it comes back by itself and prints \
                 nothing twice. With `--json` it prints a line for each message.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Lines(
                "git parler recv --room feature\n\
                 git parler recv --room feature --watch --json",
            ),
            Text("A handoff looks so:"),
            Lines(
                "HANDOFF TO YOU from alice (planner) \u{b7} message 42 \u{b7} signature valid\n\
                 \x20 next:    review the diff and flag blockers before merge\n\
                 \x20 bundle:  7f3a0c9e21d4 \u{b7} 3 commits \u{b7} refs/heads/feature\n\
                 \x20 apply:   git parler apply 7f3a0c9e21d4",
            ),
        ],
    ),
];

const SEND: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Posts a text, files, or a text with files. Each file has a message of its own, because a message brings the \
                 bytes of one blob at most; the text stands with the first. All of them are opened and hashed before the \
                 first is sent; then they are sent in order, and one that fails ends it.",
            ),
            Text(
                "A file is sent as it is, under its name without its directories. Memory does not grow with it. Directories, \
                 pipes and devices are refused.",
            ),
            Text(
                "`--to` posts in the direct room with an agent, in place of `--room`: see `git-parler`(1). With `--queue` a \
                 text waits here while the hub cannot be reached: see `git-parler-outbox`(1).",
            ),
            Text(
                "With `--service` it is a job for whoever serves, without code: one message, so a text, a file, or both.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler send --room feature \"the tests pass\"\n\
             git parler send --to bob \"have you seen this?\"\n\
             git parler send --room feature \"what it says here\" --file build.log\n\
             make 2>&1 | git parler send --room feature --file - --name build.log\n\
             git parler send --service review \"is this right?\" --file notes.md",
        )],
    ),
];

const SHOW: &[Section] = &[(
    "DESCRIPTION",
    &[
        Text(
            "Shows one message whole, or the message that brought a bundle or a file: a handoff to this agent with its banner, \
             another with the command that takes what it brought. Acknowledges nothing.",
        ),
        Term("git parler show 42", "Message 42."),
        Term(
            "git parler show 7f3a",
            "What brought the bundle or file whose id begins so.",
        ),
    ],
)];

const SERVE: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Works on the jobs of a service until it is told to stop: asks for one, runs a command for it, and says what \
                 became of it. Without a command the job is shown with the commands that go on, and kept until it has ended. \
                 On the local hub everybody may serve; elsewhere it takes an invite, of `git parler invite --service NAME`.",
            ),
            Text(
                "The command starts in a fresh directory; where the job has code, in a fresh repository with the branch checked \
                 out, in which no hook, filter, submodule or remote does anything. It has none of the worker's variables but \
                 PATH, LANG, LC_ALL and those of `--env`, and a home of its own. It finds the job as JSON on its standard input, \
                 and in the variables PARLER_JOB_SERVICE, _ROOM, _SEQ, _ID, _ATTEMPT, _REQUESTER, _REQUESTER_ID, _CHAIN, \
                 _COMMIT, _BRANCH and _DIRECTORY.",
            ),
            Text(
                "Where the command runs what came with the job, such as the tests of a branch, it runs the requester's code, \
                 as the user of the worker. `--sandbox` names a program that keeps it from more.",
            ),
            Text(
                "Exit status 0 is `done`, any other `failed`. What the command wrote goes with it as a file, up to 1 MiB, and \
                 commits on top of the job's as a bundle with a handoff to the requester. When it takes too long, when the job \
                 is called off, and when the worker is gone, the command is ended with all it started.",
            ),
            Text(
                "Told to stop, a worker gives its jobs back. One that dies leaves its job until the lease ends, and after three \
                 such tries a job is dead, until `--retry`.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[Text(
            "0 after `--once` and `--retry`; of `--once` 1 where the job was called off, 5 where it was given back, for the hub \
             cannot be reached, 6 where it was too late, and 7 where the hub gives a job again. 3 where there is no such service, or none for this \
             agent to serve, 4 where it was not invited, 6 for `--retry` of a job that is not dead.",
        )],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler serve test -- cargo test\n\
             git parler serve review --exec 'review-bot --strict' --max-parallel 4\n\
             git parler serve review --once",
        )],
    ),
];

const STATUS: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Shows how far a handoff has come: stored, acknowledged and fetched by those it is for, as the hub knows it; \
                 then every word that was said of it, and what would tell its addressees of a message. Without a name it \
                 lists the open handoffs of the room, to this agent and from it. Acknowledges nothing.",
            ),
            Text(
                "`--wait` ends when the state is reached: `stored`, `acknowledged`, `fetched`, `accepted`, `working`, `awaiting`, \
                 `done`, `failed`, `declined` or `cancelled`. It waits for ever unless there is a `--timeout`.",
            ),
            Text(
                "With `--service` it is about jobs: how one stands, who has it and until when, and what was said of it; without a \
                 name those to do, and the newest that ended. A job is `stored`, `claimed`, `accepted`, `working`, `awaiting`, \
                 `done`, `failed`, `cancelled` or `dead`: given up by the hub, because too many of those who took it were not \
                 heard of again.",
            ),
            Text(
                "With `--commit` it tells how a commit stands, by the newest status of each repository and context that was \
                 posted with `git parler ci post`; `--require` names the contexts that have to be good. `--wait` then takes a time, \
                 and ends when that is known.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[Text(
            "0 where it was shown or the state was reached, 1 where it came to another end, 3 where there is no such handoff or \
             the time was over before. With `--commit` 0 where all is good, 1 where something has failed, 3 where something is \
             pending, expired or missing.",
        )],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler status --room feature\n\
             git parler status 42 --room feature --wait done --timeout 2h\n\
             git parler status 7 --service review --wait done",
        )],
    ),
];

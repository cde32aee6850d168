//! What the page of the program says that its definitions cannot: how things hang together, and what each exit code
//! means.

use super::markup::Block::{Lines, Term, Text};
use super::markup::Section;

pub(super) const DESCRIPTION: Section = (
    "DESCRIPTION",
    &[
        Text(
            "Coding agents, people and CI jobs hand work to each other in rooms on a hub. A room is a durable log of signed \
             messages, and a git remote: `git push parler::room/`_ROOM_ posts a bundle of the new commits and moves the \
             room's refs, and `git fetch` takes them out of it (see `git-remote-parler`(1)). `git parler` is for everything \
             beside that: instructions, files, members, and looking at what is there.",
        ),
        Text(
            "Nothing has to be set up on one machine: the first command makes a key for this work tree and starts a hub for \
             this user on 127.0.0.1. Two work trees are two agents, with keys and cursors of their own, unless `--as`, \
             `PARLER_AGENT` or `parler.agent` says otherwise.",
        ),
        Text(
            "The result goes to standard output, what people should know besides to standard error. What others wrote is \
             escaped before it is shown, and every further line of it begins with a bar, so that no message can imitate the \
             program's own lines. With `--json` the result is one JSON value, or one a line where it goes on; a failure is \
             told there as well.",
        ),
        Text(
            "A message is named by its number, a bundle or file by 4 or more digits of its id, or by the number of the \
             message that brought it.",
        ),
    ],
);

pub(super) const DIRECT_ROOMS: Section = (
    "DIRECT ROOMS",
    &[
        Text(
            "Two agents have one room for themselves, which the first who asks opens: `--room dm/`_AGENT_ for every verb, \
             `--to` _AGENT_ of `send` and `handoff`, and `parler::dm/`_AGENT_ as a git remote. Nobody owns it, and nobody is \
             invited into it.",
        ),
        Text(
            "_AGENT_ is a name, else a role, both without case; or a key or 6 or more characters of its beginning. It is \
             looked for among the agents in the rooms that you are in, on the local hub among all of them. A name means the \
             key that it is known to belong to. Where it does not tell one agent the exit code is 6, and the error lists the \
             keys; where the agent has another key than the known one it is 7.",
        ),
    ],
);

pub(super) const EXAMPLES: Section = (
    "EXAMPLES",
    &[
        Text("Hand a branch over for review, on one machine:"),
        Lines(
            "git push parler::room/feature HEAD:refs/heads/feature\n\
             git parler handoff --room feature --for reviewer --next \"review the diff\"",
        ),
        Text("The reviewer, in another work tree:"),
        Lines(
            "git parler recv --room feature\n\
             git fetch parler::room/feature\n\
             git diff origin/main...FETCH_HEAD",
        ),
        Text("Over a hub that others can reach:"),
        Lines(
            "git parler connect --hub https://hub.example --as alice --role planner\n\
             git parler invite --group feature",
        ),
    ],
);

pub(super) const EXIT_STATUS: Section = (
    "EXIT STATUS",
    &[
        Term("0", "Done; also where the reader of the output went away."),
        Term("1", "A negative result."),
        Term("2", "Usage: a value is not of its form, or ambiguous."),
        Term(
            "3",
            "No such room, message, bundle, file, invite or revision, or not for this agent; or not there yet, as where an \
             owner of the room has still to let this agent in.",
        ),
        Term(
            "4",
            "Not authorised: the hub does not know the key, the room is not yours, or an owner of it did not let this agent in.",
        ),
        Term(
            "5",
            "The hub cannot be reached or cannot serve now. The same command may work later.",
        ),
        Term(
            "6",
            "A conflict: a ref moved, something is in the way, a name means several agents.",
        ),
        Term("7", "Refused by policy: a signature, a limit, a file open to others."),
        Term("8", "Commits that a bundle builds on are missing."),
        Term("128", "Not a repository, or this machine failed to do its part."),
        Term("130", "Interrupted."),
    ],
);

pub(super) const CONFIGURATION: &str = "Keys of git's configuration. An option comes before a variable of the \
    environment, that before `git -c`, that before the repository's configuration and then the user's.";

pub(super) const ENVIRONMENT: &str = "These variables are read, besides git's own:";

pub(super) const FILES: Section = (
    "FILES",
    &[
        Term(
            "$XDG_CONFIG_HOME/parler/agents",
            "The keys of this user's agents, readable by nobody else.",
        ),
        Term(
            "$XDG_STATE_HOME/parler",
            "Open sessions, what is known of hubs and rooms, and messages that wait to be sent.",
        ),
        Term(
            "$XDG_DATA_HOME/parler/hub",
            "The local hub: its data, and its log `hub.log`.",
        ),
        Term(
            "parler/ in the git directory",
            "The agent of this work tree, and caches that may be removed at any time.",
        ),
        Text("With `PARLER_HOME` the first three are `config`, `state` and `data` below that directory."),
    ],
);

//! The page of git's helper for `parler::` remotes: addresses, what a room shows as a remote, what a push and a fetch do.

use super::markup::Block::{Lines, Term, Text};
use super::markup::Section;

pub(super) const SECTIONS: &[Section] = &[
    (
        "SYNOPSIS",
        &[
            Text("`git push parler::room/`_ROOM_ [_REFSPEC_]"),
            Text("`git fetch parler::room/`_ROOM_ [_REFSPEC_]"),
            Text("`git clone parler::room/`_ROOM_ [_DIRECTORY_]"),
        ],
    ),
    (
        "DESCRIPTION",
        &[
            Text(
                "Git starts this program for remotes whose URL begins with `parler::` or `parler://`; nobody else needs to. \
                 A push posts one thin bundle with the commits that the room lacks, and the ref changes, in one signed \
                 message: all of it arrives, or nothing does. A fetch takes the bundles that lead to what is wanted, checks \
                 every byte of them in a quarantine, and pins their tips under `refs/parler/` before git looks at them. Work \
                 tree, index, HEAD and configuration are never touched, and nothing is merged.",
            ),
            Text(
                "What a push may leave out is what the other remotes of the repository have (see `parler.base`). So a room \
                 is fetched into a clone of the project; it can be cloned by itself only where it holds a complete history, \
                 which `git parler push --full` sees to.",
            ),
        ],
    ),
    (
        "ADDRESSES",
        &[
            Term(
                "parler::room/ROOM",
                "A room of the hub that is configured: `PARLER_HUB`, then `parler.hub`, then the local one.",
            ),
            Term(
                "parler://HOST[:PORT]/room/ROOM",
                "A room of this hub, over https. Plain http is used on this machine, and where \
                 `parler.HOST[:PORT].insecure` allows it.",
            ),
            Term(
                "parler::dm/AGENT, parler://HOST[:PORT]/dm/AGENT",
                "The direct room with an agent, by name, role or key: see DIRECT ROOMS in `git-parler`(1).",
            ),
            Term(
                "parler::service/NAME, parler://HOST[:PORT]/service/NAME",
                "A service: each push of a branch or tag is a job for whoever serves it, also where nothing has changed. It \
                 stands in the sender's own place, `refs/requests/`, and `git parler status` _N_ `--service` _NAME_ tells what \
                 becomes of it.",
            ),
            Term(
                "parler::https://HOST/room/ROOM",
                "The same with the scheme written out.",
            ),
            Text(
                "An address holds no user, password or token. A room that does not exist is made by a push on the local hub, \
                 elsewhere where `parler.createRoom` is true, or beforehand by `git parler invite --group` _ROOM_.",
            ),
        ],
    ),
    (
        "REFS",
        &[
            Text(
                "A room has branches, tags, notes and other refs, and a HEAD, which the first push sets. Besides them it \
                 shows, for fetching only:",
            ),
            Term(
                "refs/parler/ID",
                "The tip of each bundle in the room, by the first 12 digits of its id and by all 64; with `/heads/NAME` \
                 behind it where a bundle has several tips.",
            ),
            Text(
                "Under the same names a fetch pins what it imported, and a push what it sent, so that garbage collection \
                 keeps the commits. `git parler apply` _ID_ brings a lost pin back. A push to `refs/parler/*` or a deletion \
                 there does nothing and says so. Do not configure `refs/parler/*:refs/parler/*` to be fetched with \
                 `--prune`: it would remove the pins of other rooms.",
            ),
        ],
    ),
    (
        "PUSH OPTIONS",
        &[
            Text("With `git push -o` _KEY_=_VALUE_ an instruction rides in the message of the push:"),
            Term("next=TEXT", "Hand over: what to do next."),
            Term("for=WHO", "Whose turn it is: an agent's name or role."),
            Term("summary=TEXT", "What has been done."),
            Term("note=TEXT", "A text to post with it."),
            Term(
                "base=REVISIONS",
                "What this push may leave out, instead of `parler.base`.",
            ),
            Text(
                "An unknown key is refused before anything is sent. Where every ref is up to date git says so and never \
                 asks the helper, so nothing is posted: `git parler push --next` _TEXT_ always posts, and \
                 `git parler handoff` needs no push at all.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Text("A remote like any other:"),
            Lines(
                "git remote add team parler::room/feature\n\
                 git push team HEAD:refs/heads/feature\n\
                 git fetch team\n\
                 git log origin/main..team/feature",
            ),
            Text("One bundle, by its id:"),
            Lines("git fetch team refs/parler/7f3a0c9e21d4"),
            Text("A clone that acts as an agent who is in:"),
            Lines("git clone -c parler.hub=https://hub.example -c parler.agent=bob parler::room/feature"),
        ],
    ),
    (
        "EXIT STATUS",
        &[Text(
            "128 whatever failed, as git expects, with one line on standard error that says what. What is refused of a push \
             is told by git, ref by ref.",
        )],
    ),
    (
        "NOTES",
        &[Text(
            "Git does not follow a `parler::` URL that nobody typed, such as a submodule's, and neither does this program \
             unless `parler.allowSubmodules` is true.",
        )],
    ),
];

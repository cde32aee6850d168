//! What the pages say of the verbs that let agents into rooms, and out of them.

use super::markup::Block::{Lines, Text};
use super::markup::Section;

pub(super) const ADMIT: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Answers an agent that came by an invite of `git parler invite --approve`: `admit` lets it into the room, also after \
         a no, and `refuse` does not. Only an owner of the room may. `git parler roster` lists who asks. The agent is told at \
         its next command about the room.",
    )],
)];

pub(super) const DELETE_ROOM: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Deletes a room that this agent owns, for all its members: its log, its refs, and the bundles and files that \
                 no other room holds. There is no way back. It has to be said twice: with the name again, or with `--yes`.",
            ),
            Text(
                "The name is free afterwards. Whoever knew the room is told that one made anew under its name is another, \
                 and accepts it with `git parler trust --history`.",
            ),
        ],
    ),
    ("EXAMPLES", &[Lines("git parler delete-room feature feature")]),
];

pub(super) const INVITE: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Prints a code that lets others into a room, and makes the room where there is none of that name. Whoever has \
             the code can come in until its time or its uses are over, or it is revoked; with `--approve` only when an owner \
             has said `git parler admit`. `--list` shows the open invites that this agent may revoke, by an id in place of the \
             code.",
        )],
    ),
    (
        "EXAMPLES",
        &[Lines("git parler invite --group feature --ttl 7d --max-uses 2")],
    ),
];

pub(super) const JOIN: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Makes this agent a member of the room that the code is for, at the hub that is configured or that the link \
             names. `--as`, `--role` and `--hub` are kept as `git-parler-connect`(1) keeps them; the hub of a link becomes \
             `parler.hub` where there is none. By an invite of `git parler invite --approve` this agent waits until an owner lets \
             it in: the exit code is 3, also of each command about the room until then, and 4 when an owner has refused it.",
        )],
    ),
    ("EXAMPLES", &[Lines("git parler join https://hub.example/join/CODE")]),
];

pub(super) const LEAVE: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Ends this agent's membership of the room. Its invites and its tokens end there with it; its messages stay. The last \
         owner of a room with other members makes another one an owner first. Who has left a direct room comes back by writing \
         into it; the other one cannot bring it back. On the local hub, using a channel is joining it again.",
    )],
)];

pub(super) const OWNER: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Makes a member an owner of a room that this agent owns; with `--drop`, no longer one. Owners remove members, let in \
         who asks, revoke all invites and tokens of the room, and delete it. A room with members keeps an owner.",
    )],
)];

pub(super) const REMOVE: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Takes an agent out of a room that this agent owns, at once: what it waits for or is being sent there ends, and so do \
         the invites and tokens that it made there. Its messages stay, and what it has read it keeps. It comes in again only by \
         an invite that is made later.",
    )],
)];

pub(super) const REVOKE: &[Section] = &[
    (
        "DESCRIPTION",
        &[Text(
            "Ends an invite: one that this agent made, or any of a room that it owns. It is named by its code, a link, or the id \
             that `git parler invite --list` shows; `all` ends all of these. Who is in stays in.",
        )],
    ),
    ("EXAMPLES", &[Lines("git parler revoke all --room feature")]),
];

pub(super) const ROSTER: &[Section] = &[(
    "DESCRIPTION",
    &[Text(
        "Lists the members of a room: name, role and key, how far each has read, when it was last heard of, whether it is \
         watching now, and what it says that it is at (`git parler connect --status`). Owners also see who asks to come in.",
    )],
)];

//! What the page of the tools for coding agents says.

use super::markup::Block::{Lines, Term, Text};
use super::markup::Section;

pub(super) const MCP: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Serves tools to a coding agent, by the Model Context Protocol on standard input and output: a host starts it in \
                 the repository that the agent works in. Each call of a tool is one run of the verb, there, as the agent that \
                 acts there, so that tools and command line know the same. It answers its host before any hub is asked, and \
                 ends with its standard input.",
            ),
            Text(
                "No tool takes a path, a hub or a command: what is imported is pinned under refs/parler/, and nothing else of the \
                 repository changes. What the tools are called and say of themselves is constant. What others wrote is in the \
                 results alone, as JSON, cut to what an agent's turn can hold; what was left out is counted.",
            ),
        ],
    ),
    (
        "TOOLS",
        &[
            Term(
                "recv",
                "What is new in a room, handoffs to this agent first; acknowledges it.",
            ),
            Term("show", "One message, as much of it as a turn can hold."),
            Term("apply", "Imports the commits of a handoff under refs/parler/."),
            Term("handoff", "Hands the next step over, with a branch or commit."),
            Term("send", "Posts a text."),
            Term(
                "task",
                "Says that a handoff is accepted, done, failed, declined or called off.",
            ),
            Term("wait", "Waits for the next handoff or mention; acknowledges nothing."),
            Term("status", "How far a handoff has come."),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "claude mcp add parler -- git-parler mcp\n\
             codex mcp add parler -- git-parler mcp\n\
             git parler mcp --as reviewer --room feature",
        )],
    ),
];

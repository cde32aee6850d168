//! Claude Code. Compared on 2026-11-30 with stored copies of its hooks reference (code.claude.com/docs/en/hooks) and
//! with what others measured: context by `hookSpecificOutput` at the start, at a prompt and at a stop; exit 2 at a prompt
//! erases the prompt, so it is kept for the asynchronous hook alone, whose standard error then wakes the session.

use serde_json::json;

use super::{Event, Moment, Reply, read_common};

pub(super) const EVENTS: &[(&str, Moment)] = &[
    ("session-start", Moment::SessionStart),
    ("prompt", Moment::Prompt),
    ("stop", Moment::TurnEnd),
    ("wait", Moment::Wait),
];

/// How a hook that was started with `asyncRewake` wakes the session.
const WAKES: u8 = 2;

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    read_common(moment, input)
}

pub(super) fn reply(moment: Moment, text: &str) -> Reply {
    let event = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::Prompt => "UserPromptSubmit",
        Moment::TurnEnd => "Stop",
        Moment::TurnOver => return Reply::default(),
        Moment::Wait => {
            return Reply {
                stderr: format!("{text}\n"),
                code: WAKES,
                ..Reply::default()
            };
        }
    };
    super::json(json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } }))
}

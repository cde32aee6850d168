//! Gemini CLI. Compared on 2026-11-30 with its hooks reference (geminicli.com/docs/hooks/reference): standard output is
//! JSON alone; `deny` after a turn has it made again with the reason as what is asked.

use serde_json::{Value, json};

use super::{Event, Moment, read_common};

pub(super) const EVENTS: &[(&str, Moment)] = &[
    ("session-start", Moment::SessionStart),
    ("before-agent", Moment::Prompt),
    ("after-agent", Moment::TurnEnd),
];

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    read_common(moment, input)
}

pub(super) fn reply(moment: Moment, text: &str) -> Value {
    let event = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::Prompt => "BeforeAgent",
        _ => return json!({ "decision": "deny", "reason": text }),
    };
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
}

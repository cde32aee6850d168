//! Codex. Compared on 2026-11-30 with the JSON schemas that its source generates (`*.command.output.schema.json`, as
//! republished): fields that they do not have are refused, and at a stop there is no `hookSpecificOutput`. What `notify`
//! is given, as the last argument, is as its documentation had it in August 2026.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Event, Moment, read_common};

pub(super) const EVENTS: &[(&str, Moment)] = &[
    ("session-start", Moment::SessionStart),
    ("prompt", Moment::Prompt),
    ("stop", Moment::TurnEnd),
    ("notify", Moment::TurnOver),
];

/// A notification.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Notification {
    #[serde(rename = "type")]
    kind: String,
    thread_id: String,
    cwd: Option<PathBuf>,
}

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    if moment != Moment::TurnOver {
        return read_common(moment, input);
    }
    let told: Notification = serde_json::from_slice(input)?;
    Ok(Event {
        session: Some(told.thread_id),
        directory: told.cwd,
        is_complete: told.kind == "agent-turn-complete",
        ..Event::at(moment)
    })
}

pub(super) fn reply(moment: Moment, text: &str) -> Value {
    let event = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::Prompt => "UserPromptSubmit",
        _ => return json!({ "decision": "block", "reason": text }),
    };
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
}

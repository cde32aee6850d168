//! GitHub Copilot CLI. Compared on 2026-11-30 with its hooks reference (docs.github.com, cli-hooks-reference and
//! hooks-configuration): what is said at a start or a prompt is documented as ignored, and `agentStop` with `block` goes
//! on. So nothing counts as told before the end of a turn.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Event, Moment};

pub(super) const EVENTS: &[(&str, Moment)] = &[
    ("session-start", Moment::SessionStart),
    ("prompt", Moment::Prompt),
    ("agent-stop", Moment::TurnEnd),
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    cwd: PathBuf,
    /// Older versions do not say it.
    #[serde(default)]
    session_id: Option<String>,
}

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    let told: Input = serde_json::from_slice(input)?;
    Ok(Event {
        session: told.session_id,
        directory: Some(told.cwd),
        is_heard: moment == Moment::TurnEnd,
        ..Event::at(moment)
    })
}

pub(super) fn reply(moment: Moment, text: &str) -> Value {
    match moment {
        Moment::TurnEnd => json!({ "decision": "block", "reason": text }),
        _ => json!({ "additionalContext": text }),
    }
}

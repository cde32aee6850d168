//! Cursor. As its documentation had it in August 2026 (cursor.com/docs/hooks); no newer copy of the page was at hand. It
//! gives no way to lead a prompt, and counts the turns that hooks made in place of saying that one is going on.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Event, Moment};

pub(super) const EVENTS: &[(&str, Moment)] = &[("session-start", Moment::SessionStart), ("stop", Moment::TurnEnd)];

/// After so many turns that hooks made in a row it makes no more; what is installed says so, too.
pub(in crate::hook) const LOOP_LIMIT: u64 = 5;

#[derive(Debug, Deserialize)]
struct Input {
    conversation_id: String,
    #[serde(default)]
    workspace_roots: Vec<PathBuf>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    loop_count: u64,
}

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    let told: Input = serde_json::from_slice(input)?;
    Ok(Event {
        session: Some(told.conversation_id),
        directory: told.workspace_roots.into_iter().next(),
        is_continued: told.loop_count >= LOOP_LIMIT,
        is_complete: told.status.is_none_or(|status| status == "completed"),
        ..Event::at(moment)
    })
}

pub(super) fn reply(moment: Moment, text: &str) -> Value {
    match moment {
        Moment::SessionStart => json!({ "additional_context": text }),
        _ => json!({ "followup_message": text }),
    }
}

//! OpenCode, by the small plugin that `git parler hook install opencode` writes: both sides of this form are ours.

use serde_json::{Value, json};

use super::{Event, Moment, read_common};

pub(super) const EVENTS: &[(&str, Moment)] = &[("idle", Moment::TurnEnd), ("prompt", Moment::Prompt)];

pub(super) fn read(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    read_common(moment, input)
}

pub(super) fn reply(text: &str) -> Value {
    json!({ "text": text })
}

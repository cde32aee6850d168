//! The coding agents that have hooks: what each calls its events, what it says on standard input, and the exact form in
//! which it takes an answer. Decides nothing about what is said.
//!
//! Where a form could be compared with what the host documents, its file says so and when.

mod claude;
mod codex;
mod copilot;
pub(super) mod cursor;
mod gemini;
mod opencode;

use std::path::PathBuf;

use serde::Deserialize;

/// A coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Claude,
    Codex,
    Copilot,
    Cursor,
    Gemini,
    Opencode,
}

/// All of them, by name.
pub(crate) const HOSTS: [Host; 6] = [
    Host::Claude,
    Host::Codex,
    Host::Copilot,
    Host::Cursor,
    Host::Gemini,
    Host::Opencode,
];

/// Where in a conversation a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Moment {
    /// It begins, or is taken up again: what is said leads its first turn.
    SessionStart,
    /// The user has asked something: what is said leads this turn.
    Prompt,
    /// A turn ends: what is said makes another one.
    TurnEnd,
    /// A turn has ended, and nothing can be said.
    TurnOver,
    /// Nobody has anything to do: what is said makes a turn, whenever that is.
    Wait,
}

/// What a host says of the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) moment: Moment,
    /// Which conversation it is.
    pub(crate) session: Option<String>,
    /// Where the agent works.
    pub(crate) directory: Option<PathBuf>,
    /// Whether it is about an agent inside of the agent, which is told nothing.
    pub(crate) is_subagent: bool,
    /// Whether hooks have made so many turns in a row that the host wants no more of them.
    pub(crate) is_continued: bool,
    /// Whether the turn that ends came to its end: else it is not known what of it was read.
    pub(crate) is_complete: bool,
    /// Whether the host is known to pass on what is said at this moment.
    pub(crate) is_heard: bool,
}

impl Event {
    /// An event of which the host says no more.
    pub(crate) const fn at(moment: Moment) -> Self {
        Self {
            moment,
            session: None,
            directory: None,
            is_subagent: false,
            is_continued: false,
            is_complete: true,
            is_heard: true,
        }
    }
}

/// What a hook hands to its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: u8,
}

impl Host {
    /// The host of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        HOSTS.into_iter().find(|host| host.name() == name)
    }

    /// What it is called on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Its events, as they are called on the command line.
    pub(crate) const fn events(self) -> &'static [(&'static str, Moment)] {
        match self {
            Self::Claude => claude::EVENTS,
            Self::Codex => codex::EVENTS,
            Self::Copilot => copilot::EVENTS,
            Self::Cursor => cursor::EVENTS,
            Self::Gemini => gemini::EVENTS,
            Self::Opencode => opencode::EVENTS,
        }
    }

    /// The moment that an event of this name is.
    pub(crate) fn moment(self, event: &str) -> Option<Moment> {
        let mut events = self.events().iter();
        events.find(|(name, _)| *name == event).map(|(_, moment)| *moment)
    }

    /// Reads what the host says. Nothing at all comes from no host: what is said then was told to nobody.
    ///
    /// # Errors
    /// Where it is not JSON of the form that the host documents.
    pub(crate) fn read(self, moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
        if input.trim_ascii().is_empty() {
            return Ok(Event {
                is_complete: false,
                is_heard: false,
                ..Event::at(moment)
            });
        }
        match self {
            Self::Claude => claude::read(moment, input),
            Self::Codex => codex::read(moment, input),
            Self::Copilot => copilot::read(moment, input),
            Self::Cursor => cursor::read(moment, input),
            Self::Gemini => gemini::read(moment, input),
            Self::Opencode => opencode::read(moment, input),
        }
    }

    /// The answer that puts this text into the conversation.
    pub(crate) fn reply(self, moment: Moment, text: &str) -> Reply {
        match self {
            Self::Claude => claude::reply(moment, text),
            Self::Codex => json(codex::reply(moment, text)),
            Self::Copilot => json(copilot::reply(moment, text)),
            Self::Cursor => json(cursor::reply(moment, text)),
            Self::Gemini => json(gemini::reply(moment, text)),
            Self::Opencode => json(opencode::reply(text)),
        }
    }
}

/// What most hosts say, in the words of the first of them. Fields that are not named here may come and go.
#[derive(Debug, Deserialize)]
struct Common {
    session_id: String,
    cwd: PathBuf,
    #[serde(default)]
    stop_hook_active: bool,
    /// Set inside of a subagent alone.
    #[serde(default)]
    agent_id: Option<String>,
}

fn read_common(moment: Moment, input: &[u8]) -> serde_json::Result<Event> {
    let common: Common = serde_json::from_slice(input)?;
    Ok(Event {
        session: Some(common.session_id),
        directory: Some(common.cwd),
        is_subagent: common.agent_id.is_some(),
        is_continued: common.stop_hook_active,
        ..Event::at(moment)
    })
}

fn json(value: serde_json::Value) -> Reply {
    Reply {
        stdout: format!("{value}\n"),
        ..Reply::default()
    }
}

//! What `git parler hook install` writes for each host: where its hooks are configured, the lines that call this program,
//! and what has to be done before they count. The lines are constant: some hosts trust them by a hash. Writes nothing.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::edit::Entry;
use super::host::Host;
use super::host::cursor::LOOP_LIMIT;

/// How long a hook may take, in seconds: many times what it needs.
const SECONDS: u32 = 10;
/// How long one that waits may, in seconds.
pub(crate) const WAIT_SECONDS: u32 = 24 * 3600;

/// Whose configuration it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// The user's, in every repository
    User,
    /// The repository's, for everybody who has it
    Project,
    /// This repository's, for this user alone (claude)
    Local,
}

impl Scope {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// Where hosts keep what is a user's: the home directory, and what a host's own variable says.
pub(crate) struct Places<'a> {
    pub(crate) home: &'a Path,
    pub(crate) config: &'a Path,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<PathBuf>,
}

impl Host {
    /// The file of a user.
    pub(crate) fn user_file(self, places: &Places<'_>) -> PathBuf {
        let own = |variable: &str, directory: &str| {
            (places.variable)(variable).unwrap_or_else(|| places.home.join(directory))
        };
        match self {
            Self::Claude => own("CLAUDE_CONFIG_DIR", ".claude").join("settings.json"),
            Self::Codex => own("CODEX_HOME", ".codex").join("hooks.json"),
            Self::Copilot => own("COPILOT_HOME", ".copilot").join("hooks/parler.json"),
            Self::Cursor => places.home.join(".cursor/hooks.json"),
            Self::Gemini => places.home.join(".gemini/settings.json"),
            Self::Opencode => places.config.join("opencode/plugins/parler.js"),
        }
    }

    /// The programs by which one knows that it is installed.
    pub(crate) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["claude"],
            Self::Codex => &["codex"],
            Self::Copilot => &["copilot"],
            Self::Cursor => &["cursor-agent", "cursor"],
            Self::Gemini => &["gemini"],
            Self::Opencode => &["opencode"],
        }
    }

    /// The file of a repository, from its top; none where the host has no such scope.
    pub(crate) const fn project_file(self, scope: Scope) -> Option<&'static str> {
        match (self, scope) {
            (_, Scope::User) => None,
            (Self::Claude, Scope::Local) => Some(".claude/settings.local.json"),
            (_, Scope::Local) => None,
            (Self::Claude, Scope::Project) => Some(".claude/settings.json"),
            (Self::Codex, Scope::Project) => Some(".codex/hooks.json"),
            (Self::Copilot, Scope::Project) => Some(".github/hooks/parler.json"),
            (Self::Cursor, Scope::Project) => Some(".cursor/hooks.json"),
            (Self::Gemini, Scope::Project) => Some(".gemini/settings.json"),
            (Self::Opencode, Scope::Project) => Some(".opencode/plugins/parler.js"),
        }
    }

    /// What every file of the host says first.
    pub(crate) fn preamble(self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Copilot | Self::Cursor => vec![("version", json!(1))],
            _ => Vec::new(),
        }
    }

    /// What is to be in the file. Nothing for a host whose file is a program of ours.
    pub(crate) fn entries(self) -> Vec<Entry> {
        let entry = |list: &'static str, value: Value| Entry {
            path: ["hooks", list],
            value,
        };
        let grouped = |hooks: Value| json!({ "hooks": hooks });
        match self {
            Self::Claude => {
                // With `args` no shell reads it.
                let hook = |event: &str, timeout: u32| {
                    json!({
                        "type": "command", "command": "git-parler", "args": ["hook", "claude", event], "timeout": timeout,
                    })
                };
                let mut wait = hook("wait", WAIT_SECONDS);
                wait["asyncRewake"] = json!(true);
                vec![
                    entry("SessionStart", grouped(json!([hook("session-start", SECONDS)]))),
                    entry("UserPromptSubmit", grouped(json!([hook("prompt", SECONDS)]))),
                    entry("Stop", grouped(json!([hook("stop", SECONDS), wait]))),
                ]
            }
            Self::Codex => {
                let hook = |event: &str| {
                    let command = format!("git-parler hook codex {event}");
                    grouped(json!([{ "type": "command", "command": command, "timeout": SECONDS }]))
                };
                vec![
                    entry("SessionStart", hook("session-start")),
                    entry("UserPromptSubmit", hook("prompt")),
                    entry("Stop", hook("stop")),
                ]
            }
            Self::Gemini => {
                let hook = |event: &str| {
                    let command = format!("git-parler hook gemini {event}");
                    // This host counts milliseconds.
                    grouped(json!([{
                        "type": "command", "name": "parler", "command": command, "timeout": SECONDS * 1000,
                    }]))
                };
                vec![
                    entry("SessionStart", hook("session-start")),
                    entry("BeforeAgent", hook("before-agent")),
                    entry("AfterAgent", hook("after-agent")),
                ]
            }
            Self::Cursor => vec![
                entry(
                    "sessionStart",
                    json!({ "command": "git-parler hook cursor session-start", "timeout": SECONDS }),
                ),
                entry(
                    "stop",
                    json!({ "command": "git-parler hook cursor stop", "loop_limit": LOOP_LIMIT, "timeout": SECONDS }),
                ),
            ],
            Self::Copilot => {
                let hook = |event: &str| {
                    let command = format!("git-parler hook copilot {event}");
                    json!({ "type": "command", "bash": command, "timeoutSec": SECONDS })
                };
                vec![
                    entry("sessionStart", hook("session-start")),
                    entry("userPromptSubmitted", hook("prompt")),
                    entry("agentStop", hook("agent-stop")),
                ]
            }
            Self::Opencode => Vec::new(),
        }
    }

    /// The whole of a file that is there for us alone.
    pub(crate) fn whole_file(self) -> String {
        match self {
            Self::Opencode => PLUGIN.to_owned(),
            _ => super::edit::whole(&self.preamble(), &self.entries()),
        }
    }

    /// What has to be done before it counts.
    pub(crate) const fn next_step(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::Claude, _) => "restart Claude Code, or look at /hooks there",
            (Self::Codex, Scope::User) => "restart Codex, and trust the hooks there: /hooks",
            (Self::Codex, _) => "restart Codex, trust this repository there, and then the hooks: /hooks",
            (Self::Copilot, _) => "restart Copilot CLI",
            (Self::Cursor, _) => "restart Cursor",
            (Self::Gemini, _) => "restart Gemini CLI, and agree when it asks about new hooks",
            (Self::Opencode, _) => "restart OpenCode",
        }
    }
}

/// OpenCode has no hooks that run programs, but plugins: of another form in its second version, so that this has both, as they are
/// documented in November 2026.
const PLUGIN: &str = r#"// Written by git parler hook install opencode, and removed by it with --remove.
// Asks git parler what waits for the agent of this work tree, and puts that into the conversation. Failures say nothing.
import { spawn } from "node:child_process"

const ask = (event, session, directory) =>
  new Promise((resolve) => {
    const asked = spawn("git-parler", ["hook", "opencode", event], {
      cwd: directory,
      stdio: ["pipe", "pipe", "ignore"],
      timeout: 10_000,
    })
    let said = ""
    asked.stdout.on("data", (piece) => (said += piece))
    asked.stdin.on("error", () => {})
    asked.on("error", () => resolve(null))
    asked.on("close", () => {
      try {
        resolve(JSON.parse(said).text)
      } catch {
        resolve(null)
      }
    })
    asked.stdin.end(JSON.stringify({ session_id: session, cwd: directory }))
  }).catch(() => null)

const quietly = (run) => async (...said) => {
  try {
    await run(...said)
  } catch {}
}

// OpenCode 2.
const setup = async (ctx) => {
  const directory = ctx.location.directory
  const isOurs = async (session) => {
    const got = await ctx.session.get({ sessionID: session })
    const found = got.data ?? got
    return !found.parentID && found.location.directory === directory
  }
  await ctx.session.hook(
    "prompt",
    quietly(async (event) => {
      if (!(await isOurs(event.sessionID))) return
      const text = await ask("prompt", event.sessionID, directory)
      if (text) event.prompt.text = `${event.prompt.text}\n\n${text}`
    }),
  )
  const over = new AbortController()
  const idle = quietly(async (session) => {
    if (!(await isOurs(session))) return
    const text = await ask("idle", session, directory)
    if (text) await ctx.session.prompt({ sessionID: session, text })
  })
  quietly(async () => {
    for await (const event of ctx.event.subscribe({ signal: over.signal })) {
      if (event.type === "session.execution.succeeded") void idle(event.data.sessionID)
    }
  })()
  return () => over.abort()
}

// OpenCode 1, from 1.18.29 on.
const server = async ({ client, directory }) => {
  const isInside = async (session) => {
    const found = await client.session.get({ path: { id: session } })
    return Boolean(found.data?.parentID)
  }
  return {
    event: quietly(async ({ event }) => {
      if (event.type !== "session.idle") return
      const session = event.properties.sessionID
      if (await isInside(session)) return
      const text = await ask("idle", session, directory)
      if (!text) return
      await client.session.prompt({ path: { id: session }, body: { parts: [{ type: "text", text }] } })
    }),
    "chat.message": quietly(async (input, output) => {
      const said = output.parts.find((part) => part.type === "text")
      if (!said || (await isInside(input.sessionID))) return
      const text = await ask("prompt", input.sessionID, directory)
      if (text) said.text = `${said.text}\n\n${text}`
    }),
  }
}

export default { id: "parler", setup, server }
"#;

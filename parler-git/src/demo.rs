//! `git parler demo`: two agents hand a branch over, with the real programs, real repositories and a hub of their own,
//! in a temporary place. Shows every command with what it printed, and checks that each did what it should. Only reads
//! the repository it is shown with.

use std::path::PathBuf;

use git_remote_parler::git::{Git, GitEnvironment};
use git_remote_parler::repository::{LocalHead, Repository, RepositoryError};
use parler_protocol::{ObjectFormat, Oid};
use serde_json::Value;

use crate::cli::Demo;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::output::{HEADER, Output, styled};
use crate::text;

mod interrupt;
mod programs;
mod stage;

use programs::{Agent, Said};
use stage::Stage;

/// The room that the agents meet in.
const ROOM: &str = "demo";
/// What alice asks for. Bob is led to it by his role.
const NEXT: &str = "review the diff and flag blockers before merge";

/// What the demo is shown with.
struct Source {
    /// The object directory that the demo's repositories borrow from.
    objects: PathBuf,
    format: ObjectFormat,
    commit: Oid,
    /// Where history is cut off, for a shallow repository.
    shallow: Option<Vec<u8>>,
}

/// Plays the demo.
pub(crate) fn run(environment: &Environment, args: &Demo) -> Result<()> {
    let mut output = Output::new(false, crate::output::color_choice(None, environment, |_| Ok(None))?);
    let source = find_source(environment, args)?;
    let stage = Stage::build(environment, source.as_ref())?;
    match (&source, &args.repo) {
        (None, _) => output.remark("demo: no repository with a commit here, so a sample is made"),
        (Some(_), Some(path)) => output.remark(&format!("demo: with two clones of {}", path.display())),
        (Some(_), None) => output.remark("demo: with two clones of this repository"),
    }
    let played = play(&stage, &mut output);
    // Whatever went wrong, nothing stays behind; what cannot be cleaned up is worth saying.
    let cleaned = stage.strike();
    played.and(cleaned)?;
    output.line("")?;
    output.line("demo: handed over, reviewed, and nothing was merged; all of it has been cleaned up")?;
    output.deliver()
}

/// The repository to show: the one named, else the one we are in if it has a commit.
fn find_source(environment: &Environment, args: &Demo) -> Result<Option<Source>> {
    let program = environment
        .git_program()
        .ok_or_else(|| Error::fatal("there is no git on PATH").then("install git, or set PARLER_GIT to its path"))?;
    let git = Git::new(program.clone(), environment.for_git());
    let found = match &args.repo {
        // A path that was named counts, whatever repository a git command around us works on.
        Some(path) => {
            let without = environment
                .without_git()
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            let git = Git::new(program, GitEnvironment::new(without));
            Repository::discover(git, &environment.directory.join(path))
        }
        None => Repository::discover(git, &environment.directory),
    };
    let repository = match found {
        Ok(repository) => repository,
        Err(RepositoryError::NotARepository { .. }) if args.repo.is_none() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let commit = match repository.head()? {
        LocalHead::Branch { oid, .. } | LocalHead::Detached { oid } => oid,
        LocalHead::Unborn { .. } => return Ok(None),
    };
    let shallow = repository.common_dir().join("shallow");
    let shallow = match repository.is_shallow() {
        true => Some(
            std::fs::read(&shallow).map_err(|error| Error::io(format_args!("read {}", shallow.display()), &error))?,
        ),
        false => None,
    };
    Ok(Some(Source {
        objects: repository.objects_dir(),
        format: repository.object_format(),
        commit,
        shallow,
    }))
}

/// The scenes.
fn play(stage: &Stage, output: &mut Output) -> Result<()> {
    let alice = stage.agent("alice")?;
    let bob = stage.agent("bob")?;
    let mut show = |agent: &Agent, command: &[&str]| perform(stage, agent, command, output);

    show(
        &alice,
        &[
            "git", "parler", "connect", "--local", "--as", "alice", "--role", "planner",
        ],
    )?;
    show(
        &bob,
        &[
            "git", "parler", "connect", "--local", "--as", "bob", "--role", "reviewer",
        ],
    )?;

    show(&alice, &["git", "switch", "-c", "feature"])?;
    stage.write_work(&alice)?;
    show(&alice, &["git", "commit", "-m", "Let the checkout remember its basket"])?;
    let commit = stage
        .quiet(&alice, &["git", "rev-parse", "HEAD"])?
        .text
        .trim()
        .to_owned();
    show(&alice, &["git", "push", &format!("parler::room/{ROOM}"), "feature"])?;
    let id = pushed_bundle(stage, &alice)?;
    let summary = "feature branch pushed, tests green";
    show(
        &alice,
        &[
            "git",
            "parler",
            "handoff",
            "--room",
            ROOM,
            "--for",
            "reviewer",
            "--summary",
            summary,
            "--next",
            NEXT,
            "--bundle",
            &id,
        ],
    )?;

    let before = stage.snapshot(&bob)?;
    let led = show(&bob, &["git", "parler", "recv", "--room", ROOM])?;
    led.must_say("HANDOFF TO YOU from alice (planner)")?;
    led.must_say("signature valid")?;
    led.must_say(NEXT)?;
    show(&bob, &["git", "fetch", &format!("parler::room/{ROOM}"), "feature"])?;
    let pin = format!("refs/parler/{id}");
    let pinned = show(&bob, &["git", "rev-parse", &pin])?;
    if pinned.text.trim() != commit {
        return Err(wrong(&format!("{pin} is at {}, not at {commit}", pinned.text.trim())));
    }
    show(&bob, &["git", "diff", "--stat", &format!("origin/main...{pin}")])?.must_say("1 file changed")?;
    show(&bob, &["git", "parler", "apply", &id])?.must_say(&pin)?;
    if stage.snapshot(&bob)? != before {
        return Err(wrong("reviewing changed bob's branch, index or work tree"));
    }

    show(
        &bob,
        &[
            "git",
            "parler",
            "handoff",
            "--room",
            ROOM,
            "--for",
            "alice",
            "--next",
            "no blockers: merge when ready",
        ],
    )?;
    show(&alice, &["git", "parler", "recv", "--room", ROOM])?.must_say("HANDOFF TO YOU from bob (reviewer)")?;
    Ok(())
}

/// Shows a command, runs it, shows what it printed, and requires success.
fn perform(stage: &Stage, agent: &Agent, command: &[&str], output: &mut Output) -> Result<Said> {
    let prompt = format!("{}$ {}", agent.name, shell_words(command));
    output.line("")?;
    output.line(&styled(HEADER, &prompt))?;
    output.deliver()?;
    let said = stage.run(agent, command)?;
    for line in text::lines(&said.text) {
        if !said.text.is_empty() {
            output.line(&line)?;
        }
    }
    output.deliver()?;
    said.must_succeed()?;
    Ok(said)
}

/// What the push of before was called, as a script would find out.
fn pushed_bundle(stage: &Stage, agent: &Agent) -> Result<String> {
    let read = stage.quiet(agent, &["git", "parler", "recv", "--room", ROOM, "--all", "--json"])?;
    let read: Value =
        serde_json::from_str(&read.text).map_err(|error| wrong(&format!("recv --json is not JSON: {error}")))?;
    let messages = read["messages"].as_array().into_iter().flatten();
    let parts = messages.flat_map(|message| message["parts"].as_array().into_iter().flatten());
    let mut ids = parts.filter_map(|part| part["blob"].as_str());
    let id = ids.next_back().and_then(|id| id.get(..12));
    id.map(str::to_owned)
        .ok_or_else(|| wrong("the push left no bundle in the room"))
}

/// A command as one would type it.
fn shell_words(command: &[&str]) -> String {
    let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@".contains(c));
    let words: Vec<_> = command
        .iter()
        .map(|word| {
            if plain(word) {
                (*word).to_owned()
            } else {
                format!("'{word}'")
            }
        })
        .collect();
    words.join(" ")
}

/// A step that did not do what it should.
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Negative, format_args!("demo: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_could_be_typed() {
        assert_eq!(
            shell_words(&["git", "push", "parler::room/demo", "a b"]),
            "git push parler::room/demo 'a b'"
        );
    }
}

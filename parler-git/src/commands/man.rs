//! `git parler man`: shows a manual page, or puts all of them, and completion, where programs look for them.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::cli::{CompletionShell, Globals, Man};
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::installation::{Change, Places, install, remove};
use crate::manual::{Page, page, pages};
use crate::output::Output;
use crate::text;
use crate::{completion, manual};

pub(super) fn run(environment: &Environment, globals: &Globals, args: &Man) -> Result<()> {
    let mut output = Output::new(globals.json, anstream::ColorChoice::Never);
    match (args.install, args.remove) {
        (true, _) => put(environment, args, &mut output)?,
        (_, true) => take_away(environment, args, &mut output)?,
        _ if args.dir.is_some() => {
            return Err(Error::usage("--dir says where to install to").then("add --install or --remove"));
        }
        _ => {
            output.require_open()?;
            let named = args.page.as_deref().unwrap_or("git-parler");
            let page = page(named).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format_args!("there is no page '{named}'")).then("git parler man")
            })?;
            show(environment, &page, &mut output)?;
        }
    }
    output.deliver()
}

/// Through `man` where somebody looks, else as it is.
fn show(environment: &Environment, page: &Page, output: &mut Output) -> Result<()> {
    if output.is_json() {
        return output.json(&json!({ "page": page.name, "roff": page.roff }));
    }
    let Some(man) = environment.program("man").filter(|_| output.is_terminal()) else {
        return output.text(&page.roff);
    };
    let failed = |error: &std::io::Error| Error::io("show the page", error);
    let mut file = tempfile::Builder::new()
        .prefix("parler-")
        .suffix(".1")
        .tempfile_in(environment.temporary_directory())
        .map_err(|error| failed(&error))?;
    file.write_all(page.roff.as_bytes()).map_err(|error| failed(&error))?;
    // The pager decides what these do meanwhile; the file goes when it has ended.
    for signal in [SIGINT, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    let status = Command::new(man).arg(file.path()).status();
    match status.map_err(|error| failed(&error))?.success() {
        true => Ok(()),
        false => Err(Error::fatal("man did not show the page").then(format!("git parler man {} | less", page.name))),
    }
}

fn put(environment: &Environment, args: &Man, output: &mut Output) -> Result<()> {
    let places = Places::of(environment, args.dir.as_deref())?;
    let pages = pages();
    let mut changed = 0;
    for page in &pages {
        let path = places.manual.join("man1").join(page.file());
        changed += usize::from(install(&path, &page.roff, manual::MARK)? == Change::Made);
    }
    let mut completions = Vec::new();
    // Whoever says where the pages go packs them for others: their shells are none of ours.
    for shell in CompletionShell::value_variants() {
        if args.dir.is_none() && environment.program(shell.program()).is_some() {
            let Some(path) = places.completion(*shell) else {
                continue;
            };
            install(&path, &completion::script(*shell), completion::MARK)?;
            completions.push((*shell, path));
        }
    }
    let found = places.manual_is_found(environment);
    if !found && args.dir.is_none() {
        output.remark(&format!(
            "man does not look there; in your shell's profile: export MANPATH=\"{}:\"",
            places.manual.display()
        ));
    }
    if let Some((_, path)) = completions.iter().find(|(shell, _)| *shell == CompletionShell::Zsh) {
        let directory = path.parent().unwrap_or(path).display();
        output.remark(&format!(
            "zsh looks in the directories of fpath; before compinit in ~/.zshrc: fpath+=({directory})"
        ));
    }
    if output.is_json() {
        let completions: Vec<_> = completions
            .iter()
            .map(|(shell, path)| json!({ "shell": shell.program(), "file": path.to_string_lossy() }))
            .collect();
        let names: Vec<_> = pages.iter().map(|page| &page.name).collect();
        return output.json(&json!({
            "manual": places.manual.to_string_lossy(),
            "pages": names,
            "changed": changed,
            "found": found,
            "completions": completions,
        }));
    }
    let count = text::count(pages.len() as u64, "page");
    output.line(&format!(
        "{count} in {}",
        text::one_line(&places.manual.join("man1").to_string_lossy())
    ))?;
    for (shell, path) in completions {
        output.line(&format!(
            "completion for {} in {}",
            shell.program(),
            text::one_line(&path.to_string_lossy())
        ))?;
    }
    Ok(())
}

fn take_away(environment: &Environment, args: &Man, output: &mut Output) -> Result<()> {
    let places = Places::of(environment, args.dir.as_deref())?;
    let mut removed = Vec::new();
    for path in places.own_pages() {
        removed.extend(remove(&path, manual::MARK)?.then_some(path));
    }
    for shell in CompletionShell::value_variants().iter().filter(|_| args.dir.is_none()) {
        if let Some(path) = places.completion(*shell) {
            removed.extend(remove(&path, completion::MARK)?.then_some(path));
        }
    }
    let shown: Vec<_> = removed.iter().map(|path| path.to_string_lossy()).collect();
    output.either(
        &format!("removed {}", text::count(removed.len() as u64, "file")),
        &json!({ "removed": shown }),
    )
}

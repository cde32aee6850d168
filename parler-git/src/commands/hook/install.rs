//! `git parler hook install HOST`: puts the lines that call this program into a host's own configuration, or takes them out
//! again. Everything else in the file stays byte for byte; a file that is no JSON is left alone.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::HookInstall;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::hook::edit;
use crate::hook::host::{HOSTS, Host};
use crate::hook::install::{Places, Scope};
use crate::new_file::NewFile;
use crate::output::Output;
use crate::text;

/// Largest configuration that is edited.
const MAX_FILE_BYTES: u64 = 4 << 20; // 4 MiB

pub(in super::super) fn run(context: &Context, args: &HookInstall, output: &mut Output) -> Result<()> {
    let host = Host::named(&args.host).ok_or_else(|| super::unknown_host(&args.host))?;
    let file = file(context, host, args.scope)?;
    if host == Host::Codex && args.scope == Scope::Project && !args.remove && !args.print {
        let repository = context.repository()?;
        let common = repository.common_dir();
        if repository.git_dir() != common && common.ends_with(".git") {
            return Err(
                Error::usage("in a linked work tree Codex reads the hooks of the main one")
                    .then("say so there, or --scope user"),
            );
        }
    }
    if args.print {
        return match output.is_json() {
            true => output.json(&json!({ "host": host.name(), "file": file, "content": host.whole_file() })),
            false => {
                output.remark(&format!("for {}", file.display()));
                output.text(&host.whole_file())
            }
        };
    }
    let before = read(&file)?;
    let after = match args.remove {
        true => without(host, before.as_deref(), &file)?,
        false => Some(with(host, before.as_deref(), &file)?),
    };
    let is_changed = before != after;
    if let Some(name) = &context.globals.agent
        && !args.remove
    {
        name_agent(context, name)?;
        output.remark(&format!("{} is the agent of this work tree", text::name(name)));
    }
    if is_changed {
        write(&file, after.as_deref())?;
    }
    let shown = file.display();
    let what = match (args.remove, is_changed) {
        (true, true) => format!("the hooks of {} are out of {shown}", host.name()),
        (true, false) => format!("no hooks of ours are in {shown}"),
        (false, true) => format!(
            "the hooks of {} are in {shown}; {}",
            host.name(),
            host.next_step(args.scope)
        ),
        (false, false) => format!("the hooks of {} were in {shown} already", host.name()),
    };
    if after
        .as_deref()
        .is_some_and(|text| edit::has_more(text, &host.entries()))
    {
        output.remark(&format!(
            "hooks in {shown} run git-parler in another form: they stay, take them out by hand"
        ));
    }
    output.either(
        &what,
        &json!({
            "host": host.name(), "scope": args.scope.name(), "file": file, "installed": !args.remove, "changed": is_changed,
            "next": (is_changed && !args.remove).then(|| host.next_step(args.scope)),
        }),
    )
}

/// What became of one host.
pub(in super::super) struct Wired {
    pub(in super::super) host: Host,
    /// None: it is not installed.
    pub(in super::super) done: Option<Result<(PathBuf, bool)>>,
}

/// Puts the lines into the user's own configuration of each host that is installed.
pub(in super::super) fn wire_installed(context: &Context) -> Vec<Wired> {
    let is_there = |host: &Host| {
        let mut programs = host.programs().iter();
        programs.any(|name| context.environment.program(name).is_some())
    };
    let wired = |host: Host| Wired {
        host,
        done: is_there(&host).then(|| {
            let file = file(context, host, Scope::User)?;
            let before = read(&file)?;
            let after = with(host, before.as_deref(), &file)?;
            let is_changed = before.as_deref() != Some(after.as_str());
            if is_changed {
                write(&file, Some(&after))?;
            }
            Ok((file, is_changed))
        }),
    };
    HOSTS.map(wired).into_iter().collect()
}

/// The file that the host reads.
fn file(context: &Context, host: Host, scope: Scope) -> Result<PathBuf> {
    let environment = &context.environment;
    let variable = |name: &str| {
        environment
            .filled(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if scope == Scope::User {
        let home = variable("HOME")
            .ok_or_else(|| Error::fatal("this user has no home directory").then("set HOME, or say --scope project"))?;
        let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let places = Places {
            home: &home,
            config: &config,
            variable: &variable,
        };
        return Ok(host.user_file(&places));
    }
    let name = host.project_file(scope).ok_or_else(|| {
        Error::usage(format_args!("{} has no scope '{}'", host.name(), scope.name())).then("--scope user or project")
    })?;
    let repository = context.repository()?;
    let top = repository
        .work_dir()
        .ok_or_else(|| Error::usage("this repository has no work tree").then("--scope user"))?;
    Ok(top.join(name))
}

/// Makes this the agent of the work tree, as `connect --as` does.
fn name_agent(context: &Context, name: &str) -> Result<()> {
    context.repository()?;
    let name = name.parse().map_err(Error::usage)?;
    // Its key, too: a hook makes none.
    context.agent()?;
    context.set_agent(&name)
}

/// What is in a file; none where there is none.
fn read(file: &Path) -> Result<Option<String>> {
    let failed = |error: &io::Error| Error::io(format_args!("read {}", file.display()), error);
    match fs::metadata(file) {
        Ok(meta) if meta.is_file() && meta.len() <= MAX_FILE_BYTES => {}
        Ok(_) => return Err(left_alone(file, "it is no file, or too long for one of settings")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    }
    let bytes = fs::read(file).map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| left_alone(file, "it is no UTF-8"))?;
    Ok(Some(text))
}

fn left_alone(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Refused,
        format_args!("{} is left as it is: {why}", file.display()),
    )
    .then("mend it, or put in by hand what --print shows")
}

fn with(host: Host, before: Option<&str>, file: &Path) -> Result<String> {
    let Some(before) = before else {
        return Ok(host.whole_file());
    };
    if host == Host::Opencode {
        return match before == host.whole_file() {
            true => Ok(before.to_owned()),
            false => Err(left_alone(file, "it is not as this program writes it")),
        };
    }
    edit::insert(before, &host.entries()).map_err(|error| left_alone(file, error))
}

fn without(host: Host, before: Option<&str>, file: &Path) -> Result<Option<String>> {
    let Some(before) = before else { return Ok(None) };
    if before == host.whole_file() {
        return Ok(None);
    }
    if host == Host::Opencode {
        return Err(left_alone(file, "it is not as this program writes it"));
    }
    let after = edit::remove(before, &host.entries()).map_err(|error| left_alone(file, error))?;
    Ok(Some(after))
}

/// Puts a file in its place as a whole, with the mode that it had; none: takes it away.
fn write(file: &Path, content: Option<&str>) -> Result<()> {
    let failed = |error: &io::Error| Error::io(format_args!("write {}", file.display()), error);
    let Some(content) = content else {
        return fs::remove_file(file).map_err(|error| failed(&error));
    };
    // Where it is a link, what it leads to.
    let place = match file.canonicalize() {
        Ok(place) => place,
        Err(error) if file.is_symlink() => return Err(failed(&error)),
        Err(_) => file.to_owned(),
    };
    fs::create_dir_all(place.parent().unwrap_or_else(|| Path::new("/"))).map_err(|error| failed(&error))?;
    let mut new = NewFile::begin(place, true)?;
    new.keep_mode()?;
    new.write_all(content.as_bytes()).map_err(|error| failed(&error))?;
    new.finish()
}

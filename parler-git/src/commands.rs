//! The verbs of `git parler`: reading the command line, running one verb, and turning its end into an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Parser;
use clap::error::ErrorKind as ClapKind;
use parler_protocol::{ServiceName, TaskStatus};
use serde_json::json;

use crate::cli::{Cli, HookVerb, HubVerb, TokenVerb, Verb};
use crate::context::Context;
use crate::ending;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::output::{Output, color_choice, has_terminal};
use crate::room_labels::DIRECT;
use crate::usage::{usage_error, wants_json};
use crate::worker::guard;
use crate::{screen, trace};

mod apply;
mod cancel_job;
mod ci;
mod completion;
mod connect;
mod delete_room;
mod dispatch;
mod doctor;
mod fetch;
mod handoff;
mod hook;
mod hub;
mod inbox;
mod invite;
mod job_receipts;
mod join;
mod log;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod members;
mod outbox;
mod push;
mod receipts;
mod recv;
mod revoke;
mod room;
mod rooms;
mod roster;
mod send;
mod serve;
mod show;
mod status;
mod token;
mod trust;
mod whoami;

#[cfg(any(test, fuzzing))]
pub(crate) use join::linked_hub;

/// Runs the command line that the process was given.
pub(crate) fn run(environment: Environment) -> ExitCode {
    let cli = match Cli::try_parse_from(&environment.arguments) {
        Ok(cli) => cli,
        // A host that is told 2 may erase what its user asked.
        Err(error) if error.exit_code() != 0 && Environment::is_of_a_hook() && !hook::is_called_by_hand() => {
            return ExitCode::SUCCESS;
        }
        Err(error) => return not_a_command(&error, &environment.arguments),
    };
    match &cli.verb {
        Verb::JobGuard(args) => return guard::run(args, environment.executable.as_deref()),
        Verb::JobExec(args) => return guard::become_command(args),
        Verb::Hook(args) => {
            if let HookVerb::Event(words) = &args.what {
                return hook::answer(environment, cli.globals, words);
            }
        }
        _ => {}
    }
    let json = cli.globals.json;
    match run_verb(environment, cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, json),
    }
}

/// Says why a verb failed, to programs as well where they asked, and gives its exit code.
fn fail(error: &Error, json: bool) -> ExitCode {
    if json && error.kind != ErrorKind::OutputClosed && !error.is_told() {
        let mut output = Output::new(true, ColorChoice::Never);
        // When stdout is gone the line on stderr is what is left.
        let told = output.json(&json!({ "error": error.to_json() }));
        let _ = told.and_then(|()| output.deliver());
    }
    crate::fail(error)
}

fn run_verb(mut environment: Environment, mut cli: Cli) -> Result<()> {
    let shows_identity = match &cli.verb {
        Verb::Ci(args) => args.oidc,
        Verb::Token(args) => matches!(args.what, TokenVerb::Exchange),
        _ => false,
    };
    if shows_identity {
        environment.identity.turn_on();
    }
    let to = match &mut cli.verb {
        Verb::Send(args) => args.to.take(),
        Verb::Handoff(args) => args.direct.take(),
        _ => None,
    };
    if let Some(to) = to {
        one_place("--to", ("--room", cli.globals.room.is_some()))?;
        one_place("--to", ("--service", cli.globals.service.is_some()))?;
        cli.globals.room = Some(format!("{DIRECT}{to}"));
    }
    if let Some(service) = &cli.globals.service {
        one_place("--service", ("--room", cli.globals.room.is_some()))?;
        let is_group = matches!(&cli.verb, Verb::Invite(args) if args.group.is_some());
        one_place("--service", ("--group", is_group))?;
        let service: ServiceName = service.parse().map_err(Error::usage)?;
        cli.globals.room = Some(service.room().to_string());
        cli.globals.service = Some(service.to_string());
    }
    // A hub that is run here has a log of its own.
    if !matches!(&cli.verb, Verb::Hub(args) if matches!(args.what, HubVerb::Run { .. })) {
        trace::start(&environment)?;
    }
    // What needs neither a repository nor an agent comes before looking for either.
    match cli.verb {
        Verb::Hub(args) => return hub::run(&environment, &cli.globals, &args),
        Verb::Demo(args) => return crate::demo::run(&environment, &args),
        Verb::Doctor => return doctor::run(environment, cli.globals),
        Verb::Man(args) => return man::run(&environment, &cli.globals, &args),
        #[cfg(feature = "mcp")]
        Verb::Mcp => return mcp::run(&environment, &cli.globals),
        Verb::Completion(args) => return completion::run(&cli.globals, &args),
        _ => {}
    }
    ending::tidy_up_on_signals();
    let mut context = Context::new(environment, cli.globals)?;
    if has_terminal() {
        context.show_meters();
    }
    let config = |key: &str| context.config(key);
    let color = color_choice(context.globals.color, &context.environment, config)?;
    if !context.globals.json {
        screen::look(&context.environment);
    }
    let mut output = Output::new(context.globals.json, color);
    let ended = run_here(&context, cli.verb, &mut output);
    output.leave_pager();
    context.trust().keep();
    output.warn(&context.trust().warnings());
    context.notices().iter().for_each(|notice| output.remark(notice));
    ended.map_err(|error| context.naming_the_agent(error).with_room_option(&context.room_option()))
}

/// Refuses two options that both say which room is meant.
fn one_place(option: &str, (other, is_said): (&str, bool)) -> Result<()> {
    match is_said {
        true => Err(Error::usage(format_args!("{option} and {other} name two rooms")).then("leave one of them out")),
        false => Ok(()),
    }
}

/// Runs a verb that starts from its surroundings.
fn run_here(context: &Context, verb: Verb, output: &mut Output) -> Result<()> {
    match verb {
        Verb::Connect(args) => connect::run(context, &args, output)?,
        Verb::Whoami => whoami::run(context, output)?,
        Verb::Invite(args) => invite::run(context, &args, output)?,
        Verb::Join(args) => join::run(context, &args, output)?,
        Verb::Room(args) => room::run(context, &args, output)?,
        Verb::Rooms => rooms::run(context, output)?,
        Verb::Roster => roster::run(context, output)?,
        Verb::Leave => members::leave(context, output)?,
        Verb::Remove(args) => members::remove(context, &args.agent, output)?,
        Verb::Owner(args) => members::owner(context, &args.member.agent, !args.drop, output)?,
        Verb::Admit(args) => members::answer(context, &args.agent, true, output)?,
        Verb::Refuse(args) => members::answer(context, &args.agent, false, output)?,
        Verb::Revoke(args) => revoke::run(context, &args.what, output)?,
        Verb::DeleteRoom(args) => delete_room::run(context, &args, output)?,
        Verb::Send(args) => send::run(context, &args, output)?,
        Verb::Recv(args) => recv::run(context, &args, output)?,
        Verb::Inbox(args) => inbox::run(context, &args, output)?,
        Verb::Log(args) => log::run(context, &args, output)?,
        Verb::Outbox(args) => outbox::run(context, &args, output)?,
        Verb::Handoff(args) => handoff::run(context, &args, output)?,
        Verb::Accept(args) => receipts::run(context, TaskStatus::Accepted, &args, output)?,
        Verb::Decline(args) => receipts::run(context, TaskStatus::Declined, &args, output)?,
        Verb::Done(args) => receipts::run(context, TaskStatus::Done, &args, output)?,
        Verb::Fail(args) => receipts::run(context, TaskStatus::Failed, &args, output)?,
        Verb::Cancel(args) => receipts::run(context, TaskStatus::Cancelled, &args, output)?,
        Verb::Status(args) => status::run(context, &args, output)?,
        Verb::Push(args) => push::run(context, &args, output)?,
        Verb::Fetch(args) => fetch::run(context, &args, output)?,
        Verb::Apply(args) => apply::run(context, &args, output)?,
        Verb::Show(args) => show::run(context, &args, output)?,
        Verb::Serve(args) => serve::run(context, &args, output)?,
        Verb::Ci(args) => ci::run(context, &args, output)?,
        Verb::Hook(args) => {
            // Events were answered before.
            if let HookVerb::Install(args) = &args.what {
                hook::install::run(context, args, output)?;
            }
        }
        Verb::Token(args) => token::run(context, &args, output)?,
        Verb::Trust(args) => trust::run(context, &args, output)?,
        #[cfg(feature = "mcp")]
        Verb::Mcp => {}
        Verb::Hub(_)
        | Verb::Demo(_)
        | Verb::Man(_)
        | Verb::Completion(_)
        | Verb::Doctor
        | Verb::JobGuard(_)
        | Verb::JobExec(_) => {}
    }
    output.deliver()
}

/// Help and version are results; without a verb the help is what is missing; anything else is a usage error.
fn not_a_command(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let json = wants_json(arguments);
    match error.kind() {
        ClapKind::DisplayHelp | ClapKind::DisplayVersion => {
            // When it cannot be shown nothing else can be either.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand if !json => {
            let _ = error.print();
            ExitCode::from(ErrorKind::Usage.exit_code())
        }
        _ => fail(&usage_error(error, arguments), json),
    }
}

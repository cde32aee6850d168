//! `git parler serve`: works on the jobs of a service, with a command or by hand, until it is told to stop.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use git_remote_parler::git::{Git, GitEnvironment};
use parler_client::{Client, Identity};
use parler_protocol::api::RoomAnswer;
use parler_protocol::limits::{MAX_LEASE, MIN_LEASE};
use parler_protocol::{ErrorCode, Seq, ServiceName};

use crate::cli::Serve;
use crate::context::Context;
use crate::ending;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::job::summary_json;
use crate::local_hub::LocalHub;
use crate::output::Output;
use crate::text;
use crate::time::parse_ttl;
use crate::worker::{Appetite, Argv, Bench, News, Orphans, Past, Stop, Told, Yard, claim_until_stopped};

mod by_hand;

/// Longest `--timeout`.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long jobs may take to be given back when a signal comes: their commands are ended, and the hub is told.
const LEAVING: Duration = Duration::from_secs(20);
/// Where jobs are worked on in a directory that is not ours alone.
const JOBS: &str = "parler-jobs";
/// What of the worker's environment every command has, besides [`PATH`].
const PASSED: [&str; 2] = ["LANG", "LC_ALL"];
/// Where programs are looked for. Every command has what of it is no place relative to where it stands.
const PATH: &str = "PATH";
/// What of the worker's environment its own git children have, besides what says that nothing else counts. A command that
/// runs as the same user can read what they have.
const OF_GIT: [&str; 2] = [PATH, "TMPDIR"];
/// What no command is given, whoever asks: it says who this worker is, and where its keys are.
const OWN: &str = "PARLER_";

pub(super) fn run(context: &Context, args: &Serve, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let service: ServiceName = args.service.parse().map_err(Error::usage)?;
    let orders = Orders::read(context, args)?;
    let again = args.retry.as_deref().map(job_number).transpose()?;
    if orders.argv.is_none() && again.is_none() && context.is_job() {
        let what = "a token keeps nothing, and jobs done by hand need a claim that is kept";
        return Err(Error::usage(what).then(format!("git parler serve {service} --exec CMD")));
    }
    let client = context.client()?;
    let answer = match client.token() {
        // Nothing is made, and nobody comes to serve, to offer a job again.
        None if again.is_none() => client.serve(&service),
        // A token serves what its maker serves.
        _ => client.room(&service.room()),
    };
    let answer = answer.map_err(|error| not_served(&service, error.into()))?;
    if let Some(seq) = again {
        return retry(&client, &service, seq, output);
    }
    context.trust().keep();
    let Some(argv) = orders.argv.clone() else {
        let how = (orders.lease, orders.appetite.once);
        return by_hand::run(context, &client, &service, &answer, how, output);
    };
    work(context, &client, service, &answer, (orders, argv), output)
}

/// What the command line asks for.
struct Orders {
    argv: Option<Argv>,
    appetite: Appetite,
    timeout: Duration,
    lease: Duration,
    workdir: PathBuf,
    keep: bool,
    environment: Vec<(OsString, OsString)>,
}

impl Orders {
    fn read(context: &Context, args: &Serve) -> Result<Self> {
        let environment = &context.environment;
        let seconds = |option, text: &str, longest| parse_ttl(option, text, longest).map(Duration::from_secs);
        let lease = seconds("--lease", &args.lease, MAX_LEASE)?;
        if lease < MIN_LEASE {
            let least = MIN_LEASE.as_secs();
            return Err(Error::usage(format_args!(
                "--lease '{}' is less than {least}s, the shortest",
                args.lease
            )));
        }
        let workdir = match &args.workdir {
            // There are files of others, with names of their own.
            Some(directory) => environment.directory.join(directory).join(JOBS),
            None if context.is_job() => {
                let jobs = format!("{JOBS}-{}", rustix::process::geteuid().as_raw());
                environment.temporary_directory().join(jobs)
            }
            None => context.home.jobs_dir(),
        };
        Ok(Self {
            argv: argv(environment, args)?,
            appetite: Appetite {
                once: args.once,
                most: usize::from(args.max_parallel),
                own: !args.others,
            },
            timeout: seconds("--timeout", &args.timeout, LONGEST)?,
            lease,
            workdir,
            keep: args.keep,
            environment: variables(environment, &args.environment)?,
        })
    }
}

/// The command of each job with what stands before it; none where jobs are done by hand.
fn argv(environment: &Environment, args: &Serve) -> Result<Option<Argv>> {
    let words = |option: &str, text: &str| -> Result<Vec<OsString>> {
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| Error::usage(format_args!("{option} '{text}' is no command")))?;
        Ok(words.into_iter().map(OsString::from).collect())
    };
    let command = match &args.exec {
        Some(text) => words("--exec", text)?,
        None => args.command.clone(),
    };
    let sandbox = args
        .sandbox
        .as_deref()
        .map(|text| words("--sandbox", text))
        .transpose()?;
    if command.is_empty() {
        let of_command = [
            ("--sandbox", sandbox.is_some()),
            ("--keep", args.keep),
            ("--env", !args.environment.is_empty()),
        ];
        return match of_command.into_iter().find(|(_, is_said)| *is_said) {
            Some((option, _)) => {
                Err(Error::usage(format_args!("{option} is for --exec, which is not there")).then("add --exec CMD"))
            }
            None => Ok(None),
        };
    }
    let mut argv = Argv {
        sandbox: sandbox.unwrap_or_default(),
        command,
    };
    let first = argv.sandbox.first_mut().unwrap_or(&mut argv.command[0]);
    if let Some(program) = first.to_str().filter(|program| !program.contains('/')) {
        // Found once, here: in a job's directory there may be another of that name.
        let found = environment.program(program).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format_args!("there is no program {program} on PATH"),
            )
        })?;
        *first = found.into();
    }
    Ok(Some(argv))
}

/// What every command finds in its environment.
fn variables(environment: &Environment, asked: &[String]) -> Result<Vec<(OsString, OsString)>> {
    let mut variables: Vec<(OsString, OsString)> = [
        ("TERM", "dumb"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    for name in asked {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::usage(format_args!(
                "--env '{name}' is not the name of a variable"
            )));
        }
        if name.starts_with(OWN) {
            return Err(Error::new(
                ErrorKind::Refused,
                format_args!("--env {name}: no command is given that"),
            ));
        }
    }
    let passed = PASSED.into_iter().chain(asked.iter().map(String::as_str));
    variables.extend(passed.filter_map(|name| Some((name.into(), environment.variable(name)?.to_owned()))));
    // No program is looked for where a command stands: what is there the requester has sent.
    variables.retain(|(name, _)| name != PATH);
    variables.extend(environment.absolute_path().map(|path| (PATH.into(), path)));
    Ok(variables)
}

/// No such service and none for me are the same to the hub.
fn not_served(service: &ServiceName, error: Error) -> Error {
    let invite = format!("ask whoever serves it: git parler invite --service {service}");
    match error.code() {
        Some(ErrorCode::NotFound) => Error::new(
            ErrorKind::NotFound,
            format_args!("no service '{service}' on this hub, or none for you to serve"),
        )
        .then(invite),
        Some(ErrorCode::NotServing) => error.then(invite),
        _ => error,
    }
}

fn job_number(text: &str) -> Result<Seq> {
    let seq = text.parse().ok().filter(|seq| *seq != Seq::ZERO);
    seq.ok_or_else(|| Error::usage(format_args!("--retry '{text}' is not the number of a job")))
}

fn retry(client: &Client, service: &ServiceName, seq: Seq, output: &mut Output) -> Result<()> {
    let job = client.retry_job(service, seq)?;
    let name = text::name(job.requester.name.as_str());
    output.either(
        &format!("job {seq} of '{service}' from {name} is offered again"),
        &summary_json(service, &job),
    )
}

fn work(
    context: &Context,
    client: &Client,
    service: ServiceName,
    answer: &RoomAnswer,
    (orders, argv): (Orders, Argv),
    output: &mut Output,
) -> Result<()> {
    let environment = &context.environment;
    let executable = environment.executable.clone();
    let executable = executable.ok_or_else(|| Error::fatal("the system does not say where this program is"))?;
    let program = environment
        .git_program()
        .ok_or_else(|| Error::fatal("there is no git on PATH"))?;
    let variables = OF_GIT
        .into_iter()
        .filter_map(|name| Some((OsString::from(name), environment.variable(name)?.to_owned())));
    let clean = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ];
    let clean = clean.map(|(name, value)| (name.into(), value.into()));
    let git = Git::new(program, GitEnvironment::new(variables.chain(clean)));
    let stop = Stop::default();
    let appetite = orders.appetite;
    let local = LocalHub::of(&context.home);
    let bench = Arc::new(Bench {
        hub: client.hub_id()?,
        executable,
        git,
        argv,
        environment: orders.environment,
        git_config: git_config(client.identity()),
        lease: orders.lease,
        timeout: orders.timeout,
        keep: orders.keep,
        yard: Yard::make(&orders.workdir)?,
        told: Told::new(answer.head),
        past: Past::new(context.shared_trust()),
        stop: stop.clone(),
        orphans: Orphans::take_in(move || local.process().ok().flatten()),
        service,
    });
    let (tell, news) = mpsc::channel();
    let telling = stop.begin();
    let is_signalled = Arc::new(AtomicBool::new(false));
    let (told_to_stop, signalled) = (stop.clone(), Arc::clone(&is_signalled));
    ending::do_first(move || {
        signalled.store(true, Ordering::SeqCst);
        told_to_stop.say();
        // A child of git that takes in a bundle is not waited for.
        drop(git_remote_parler::git::end_children());
        told_to_stop.wait_until_idle(LEAVING);
    });
    for left in bench.yard.left() {
        output.remark(&format!(
            "{} was left by a worker before, and cannot be removed",
            left.display()
        ));
    }
    // Nobody who runs as this user can read its memory, files and variables then. Root can.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    output.remark(&format!("serving '{}'", bench.service));
    let (claims, _) = client.beside()?;
    let (claiming, at) = (stop.begin(), Arc::clone(&bench));
    let claimer = thread::Builder::new().name("claims".to_owned()).spawn(move || {
        if let Err(error) = claim_until_stopped(&at, &claims, appetite, &tell) {
            let _ = tell.send(News::Failed(error));
        }
        drop(at);
        drop(claiming);
    });
    let claimer = claimer.map_err(|error| Error::io("start a thread", &error))?;
    let mut failed = None;
    for told in news {
        let shown = match told {
            News::Ended { line, json } => output.either(&line, &json).and_then(|()| output.deliver()),
            News::Unfinished { line, json, kind } => {
                let shown = output.either(&line, &json).and_then(|()| output.deliver());
                if appetite.once {
                    // Whoever asked for one job is told that it was none.
                    failed.get_or_insert_with(|| unfinished(kind, &line, output));
                }
                shown
            }
            News::Remark(line) => {
                output.remark(&line);
                Ok(())
            }
            News::Failed(error) => Err(error),
        };
        if let Err(error) = shown {
            // What was begun is brought to an end all the same: one job's trouble is not another's.
            stop.say_no_more();
            let others = stop.at_work();
            if others > 0 {
                let what = text::one_line(error.what());
                output.remark(&format!(
                    "no more jobs are asked for: {what}; at work on {others} still"
                ));
            }
            failed.get_or_insert(error);
        }
        context.trust().keep();
        output.warn(&context.trust().warnings());
    }
    let _ = claimer.join();
    // The directory goes before the process may.
    drop(bench);
    drop(telling);
    if is_signalled.load(Ordering::SeqCst) {
        // The process ends by the signal.
        thread::sleep(LEAVING);
        return Err(Error::interrupted());
    }
    failed.map_or(Ok(()), Err)
}

fn unfinished(kind: ErrorKind, line: &str, output: &Output) -> Error {
    let error = Error::new(kind, format_args!("not brought to its end: {line}"));
    if output.is_json() { error.told() } else { error }
}

/// Who commits of a command are by, unless it says otherwise.
fn git_config(worker: &Identity) -> String {
    let name = worker.name.as_str().replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "[user]\n\tname = \"{name}\"\n\temail = {}@parler.invalid\n[init]\n\tdefaultBranch = main\n",
        worker.key.id()
    )
}

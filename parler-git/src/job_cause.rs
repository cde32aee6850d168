//! What a new job is for: the job that this process runs in, as its worker told it in variables. Nothing outside of a job.

use parler_protocol::{Cause, DispatchPart, ServiceName};

use crate::environment::Environment;
use crate::error::{Error, Result};

/// The room of the job that this process runs in, its number there, and the services above what it does.
const ROOM: &str = "PARLER_JOB_ROOM";
const SEQ: &str = "PARLER_JOB_SEQ";
const CHAIN: &str = "PARLER_JOB_CHAIN";

/// The part that makes a message a job for this service.
pub(crate) fn dispatch(environment: &Environment, service: &ServiceName) -> Result<DispatchPart> {
    let part = DispatchPart {
        role: service.to_string(),
        ..DispatchPart::default()
    };
    if [ROOM, SEQ, CHAIN].iter().all(|name| environment.filled(name).is_none()) {
        return Ok(part);
    }
    let (room, seq) = (read(environment, ROOM)?, read(environment, SEQ)?);
    let chain: Vec<ServiceName> = value(environment, CHAIN)?
        .split(',')
        .map(|name| name.parse().map_err(|error| wrong(CHAIN, error)))
        .collect::<Result<_>>()?;
    Ok(DispatchPart {
        caused_by: Some(Cause { room, seq }),
        chain,
        ..part
    })
}

fn value<'e>(environment: &'e Environment, name: &str) -> Result<&'e str> {
    let Some(value) = environment.filled(name) else {
        return Err(wrong(name, "is not set, and others that tell of a job are"));
    };
    value.to_str().ok_or_else(|| wrong(name, "is not UTF-8"))
}

fn read<T>(environment: &Environment, name: &str) -> Result<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    value(environment, name)?.parse().map_err(|error| wrong(name, error))
}

fn wrong(name: &str, why: impl std::fmt::Display) -> Error {
    Error::usage(format_args!("{name}: {why}")).then("unset PARLER_JOB_ROOM PARLER_JOB_SEQ PARLER_JOB_CHAIN")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<DispatchPart> {
        dispatch(&Environment::for_test(variables), &"test".parse().unwrap())
    }

    #[test]
    fn a_job_in_a_job_says_what_it_is_for() {
        let alone = read(&[("PARLER_JOB_ROOM", "")]).unwrap();
        assert_eq!((alone.role.as_str(), &alone.caused_by), ("test", &None));
        let within = read(&[
            ("PARLER_JOB_ROOM", "svc.review"),
            ("PARLER_JOB_SEQ", "7"),
            ("PARLER_JOB_CHAIN", "build,Review"),
        ])
        .unwrap();
        let cause = within.caused_by.unwrap();
        assert_eq!((cause.room.as_str(), cause.seq.get()), ("svc.review", 7));
        let chain: Vec<_> = within.chain.iter().map(ServiceName::as_str).collect();
        assert_eq!(chain, ["build", "review"]);
    }

    #[test]
    fn what_does_not_tell_a_job_is_refused() {
        let good = [
            ("PARLER_JOB_ROOM", "svc.review"),
            ("PARLER_JOB_SEQ", "7"),
            ("PARLER_JOB_CHAIN", "review"),
        ];
        for (position, bad) in [(0, "a b"), (0, ""), (1, "x"), (1, ""), (2, "a,,b"), (2, "a b"), (2, "")] {
            let mut variables = good;
            variables[position].1 = bad;
            let error = read(&variables).unwrap_err();
            assert!(error.what().contains(variables[position].0), "{error}");
        }
    }
}

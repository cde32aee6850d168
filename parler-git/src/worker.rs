//! Working on the jobs of a service: a job is claimed, a command runs for it in a place of its own, and what became of it is
//! posted under the claim's number. Decides nothing about which job comes next: that is the hub's.

mod adopted;
mod bench;
mod capture;
mod claimer;
mod claims;
mod command;
pub(crate) mod guard;
mod job;
mod lease;
mod past;
mod place;
mod report;
mod stop;
mod watch;

pub(crate) use adopted::Orphans;
pub(crate) use bench::{Argv, Bench, News};
pub(crate) use claimer::{Appetite, Claimer, claim_until_stopped};
pub(crate) use claims::{Claim, Claims};
pub(crate) use job::Job;
pub(crate) use lease::{Lease, Standing};
pub(crate) use past::Past;
pub(crate) use place::Yard;
pub(crate) use report::{Told, look_at, result_ref, say_alone};
pub(crate) use stop::Stop;

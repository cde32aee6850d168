//! What a CI job has around it and brings with it: the system that runs it, the secrets that it must not tell, the report of a
//! tool; and how a commit stands by what was said of it. Asks no hub and shows nothing.

pub(crate) mod annotations;
pub(crate) mod environment;
pub(crate) mod findings;
mod fingerprint;
pub(crate) mod report;
pub(crate) mod secrets;
pub(crate) mod statuses;

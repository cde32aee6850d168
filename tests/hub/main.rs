//! The hub over HTTP: the real one, in this process, on a port that the system chooses.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;
mod uploads;

mod access_log;
mod admit;
mod backup;
mod blobs;
mod bundles;
mod check;
mod checked_jobs;
mod claims;
mod client;
mod deleted_rooms;
mod dms;
mod documented;
mod drain;
mod fixtures;
mod guard;
mod hints;
mod hung_up;
mod invites;
mod join_requests;
mod limits;
mod local;
mod log;
mod membership;
mod messages;
mod metrics;
mod names;
mod odd_requests;
mod oidc;
mod operating;
mod program;
mod pushes;
mod receipts;
mod retention;
mod rooms;
mod schema_fuzz;
mod schemas;
mod secrets;
mod service_members;
mod services;
mod sessions;
mod streams;
mod tls;
mod tokens;
mod watchers;

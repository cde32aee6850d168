//! The Parler hub: rooms with a durable log, refs and blobs, over HTTP.
//!
//! [`Hub::open`] takes a data directory, [`Hub::serve`] a listener and a future that ends it. The library reads no
//! environment, prints nothing and never ends the process; what it has to tell goes through `tracing`. It runs no git
//! and never looks into a pack.

pub mod blob_store;
pub mod fail_point;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod store;
pub mod wake;
mod while_member;

mod access_log;
mod admin;
mod answer;
mod auth;
mod authority;
mod backup;
mod body;
mod byte_range;
mod calls;
mod challenge;
mod check;
mod clock;
mod connection;
mod directory;
mod disk_space;
mod fetches;
mod forwarded;
mod guard;
mod handlers;
mod hub;
mod hub_limits;
mod log_events;
mod message_parts;
mod metrics;
mod metrics_page;
mod oidc;
mod openapi;
mod options;
mod orphans;
mod posted_message;
mod presence;
mod problem;
mod query;
mod rate;
mod ref_fold;
mod reserved_name;
mod retention;
mod room_blob;
mod room_call;
mod router;
mod server;
mod sessions;
mod shared_pages;
mod state;
mod streams;
mod tls;
mod to_its_end;
mod token_access;
mod uploads;

pub use admin::{AdmitError, admit};
pub use backup::{BackedUp, BackupError, BackupOptions, Restored, backup, restore};
pub use check::{
    CheckError, CheckEvent, CheckOptions, CheckSummary, Finding, FindingKind, Place, Progress, Severity, check,
};
pub use clock::Clock;
pub use disk_space::FreeFloor;
pub use forwarded::{ForwardedHeader, NotANetwork, ProxyNetwork, TrustedProxies};
pub use hub::{Hub, HubError};
pub use hub_limits::HubLimits;
pub use oidc::{OidcError, OidcTrust};
pub use options::{HubOptions, LocalPolicy};
pub use retention::{PruneError, RetentionOptions, RetentionSummary, prune, shrink};
pub use tls::{TlsError, TlsIdentity};

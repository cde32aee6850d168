//! What the end-to-end suites share: a [`World`] with homes, settings and programs of its own, the [`Agent`]s and
//! [`Repository`]s in it, real hubs, and ways to see what a command did and what it left alone.
//!
//! Everything here is real: git, the built programs, sockets, files. A test that uses it touches nothing outside its
//! own temporary directory, waits for events instead of sleeping, and leaves no process behind.

mod agent;
mod arguments;
mod cutting_proxy;
mod directory;
mod executable;
mod gate;
mod git_counter;
mod history;
mod hub_process;
mod issuer;
mod large_history;
mod local_hub;
mod log_reader;
mod lying_proxy;
mod noise;
mod output;
mod plain_http;
mod process;
mod raw_client;
mod repository;
mod request_log;
mod room_audit;
mod seeds;
mod set_on_drop;
mod signals;
mod smart_http;
mod snapshot;
mod spent;
mod system_calls;
mod world;

pub use agent::Agent;
pub use arguments::Arguments;
pub use cutting_proxy::{Carried, Cut, CuttingProxy, Mishap, Point};
pub use directory::copy_directory;
pub use executable::{copy_executable, write_executable};
pub use gate::Gate;
pub use git_counter::GitCounter;
pub use history::{Anomaly, Event, History, Operation};
pub use hub_process::HubProcess;
pub use issuer::{Issuer, KeysAnswer, SigningKey, base64url};
pub use large_history::large_history;
pub use local_hub::LocalHub;
pub use log_reader::{ReadLog, read_log};
pub use lying_proxy::{Asked, Lie, LyingProxy, Told};
pub use noise::noise;
pub use output::{Answer, Output};
pub use plain_http::{PlainAnswer, PlainHttp};
pub use process::{
    DEADLINE, Running, context_switches, end_process, look_for, peak_memory_kib, started_with_mention_of,
    wait_for_end_of,
};
pub use raw_client::{RawClient, now_ms};
pub use repository::Repository;
pub use request_log::{Mark, RequestLog};
pub use room_audit::{Acknowledged, audit_acknowledged, audit_room, blobs_of};
pub use seeds::each as each_seed;
pub use set_on_drop::SetOnDrop;
pub use smart_http::SmartHttp;
pub use snapshot::{Change, Snapshot};
pub use spent::Spent;
pub use system_calls::{Call, CallKind, Fault, SystemCalls, read_trace};
pub use world::World;

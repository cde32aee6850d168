//! What the hub counts of itself, in OpenMetrics text. Labels are routes, methods and classes of status: never a name,
//! path or number that came from outside, so there are no more series than the hub has calls.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::disk_space::DiskSpace;
use crate::store::CommitStats;

/// The media type of [`Metrics::text`].
pub(crate) const TEXT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper ends of the buckets of how long an answer took, in seconds. A long poll waits up to 55 s.
const ANSWER_SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0,
];
/// Files of the database, below the data directory.
const DATABASE_FILES: [&str; 3] = ["hub.db", "hub.db-wal", "hub.db-shm"];

/// The counters of one hub.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    answer_seconds: Family<CallLabels, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) stream_reads: Counter,
    pub(crate) long_polls: Gauge,
    pub(crate) messages: Counter,
    pub(crate) blob_bytes_in: Counter,
    pub(crate) blob_bytes_out: Counter,
    database_bytes: Gauge,
    disk_bytes: Gauge,
    disk_available_bytes: Gauge,
    data_dir: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: Cow<'static, str>,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    route: Cow<'static, str>,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new(data_dir: &Path, version: &str, commits: &CommitStats) -> Self {
        let mut registry = Registry::default();
        let started: Gauge<f64, AtomicU64> = Gauge::default();
        started.set(since_epoch().as_secs_f64());
        registry.register(
            "process_start_time_seconds",
            "When the hub was opened, seconds since 1970",
            started,
        );
        let hub = registry.sub_registry_with_prefix("parler_hub");
        hub.register(
            "build",
            "The version that runs",
            Info::new(vec![("version", version.to_owned())]),
        );
        let new_histogram: fn() -> Histogram = || Histogram::new(ANSWER_SECONDS);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            answer_seconds: Family::new_with_constructor(new_histogram),
            connections: Gauge::default(),
            streams: Gauge::default(),
            stream_reads: Counter::default(),
            long_polls: Gauge::default(),
            messages: Counter::default(),
            blob_bytes_in: Counter::default(),
            blob_bytes_out: Counter::default(),
            database_bytes: Gauge::default(),
            disk_bytes: Gauge::default(),
            disk_available_bytes: Gauge::default(),
            data_dir: data_dir.to_owned(),
        };
        hub.register("requests", "Requests answered", metrics.requests.clone());
        hub.register(
            "answer_seconds",
            "Time from a request's head to its answer's",
            metrics.answer_seconds.clone(),
        );
        hub.register("connections", "Connections open", metrics.connections.clone());
        hub.register("streams", "Streams open", metrics.streams.clone());
        hub.register(
            "stream_reads",
            "Pages of logs read for streams",
            metrics.stream_reads.clone(),
        );
        hub.register(
            "long_polls",
            "Reads that wait for a message",
            metrics.long_polls.clone(),
        );
        hub.register("messages", "Messages appended", metrics.messages.clone());
        hub.register(
            "blob_received_bytes",
            "Bytes of bundles and files taken",
            metrics.blob_bytes_in.clone(),
        );
        hub.register(
            "blob_sent_bytes",
            "Bytes of bundles and files handed out",
            metrics.blob_bytes_out.clone(),
        );
        hub.register(
            "database_bytes",
            "Size of the database and its log",
            metrics.database_bytes.clone(),
        );
        hub.register(
            "disk_bytes",
            "Size of the disk that holds the data",
            metrics.disk_bytes.clone(),
        );
        hub.register(
            "disk_available_bytes",
            "What the hub could still write there",
            metrics.disk_available_bytes.clone(),
        );
        commits.register(hub);
        metrics.registry = registry;
        metrics
    }

    /// One more request was answered. `route` is a template.
    pub(crate) fn answered(&self, method: &Method, route: Cow<'static, str>, status: StatusCode, took: Duration) {
        let call = CallLabels {
            method: method_label(method),
            route,
        };
        self.answer_seconds.get_or_create(&call).observe(took.as_secs_f64());
        let request = RequestLabels {
            method: call.method,
            route: call.route,
            status: status_label(status),
        };
        self.requests.get_or_create(&request).inc();
    }

    /// Everything as it is now. Looks at the disk, so it belongs where that may block.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let size = |file| std::fs::metadata(self.data_dir.join(file)).map_or(0, |file| file.len());
        self.database_bytes.set(gauge(DATABASE_FILES.map(size).iter().sum()));
        if let Ok(disk) = DiskSpace::at(&self.data_dir) {
            self.disk_bytes.set(gauge(disk.total));
            self.disk_available_bytes.set(gauge(disk.available));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// One more of something that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn one_more(of: &Gauge) -> Self {
        of.inc();
        Self(of.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn gauge(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A method that nobody answers is a label that anybody could choose.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

//! The caps and the patience of a hub on the command line, in units that people write: `8GiB`, `24h`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use parler_hub::HubLimits;
use parler_protocol::limits;

/// Far more than anybody needs, and far less than what a clock cannot add.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600); // 10 years

/// Each has the default of [`HubLimits`].
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitOptions {
    /// Connections open at once; further ones wait. Never more than the files this process may open leave room for.
    #[arg(long, value_name = "N", env = "PARLER_HUB_MAX_CONNECTIONS", default_value_t = count(usual().max_connections))]
    max_connections: NonZeroUsize,
    /// Largest bundle or file.
    #[arg(long, value_name = "SIZE", env = "PARLER_HUB_MAX_BLOB", value_parser = size, default_value_t = Size(usual().max_blob_bytes))]
    max_blob: Size,
    /// Part of the disk that stays free: what would cut into it is refused.
    #[arg(long, value_name = "PERCENT", env = "PARLER_HUB_FREE_FLOOR", value_parser = clap::value_parser!(u8).range(0..=90), default_value_t = usual().free_floor_percent)]
    free_floor: u8,
    /// How long a session lives.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_SESSION_TTL", value_parser = time, default_value_t = Time(usual().session_ttl))]
    session_ttl: Time,
    /// How long a TLS handshake and a request's head may take, and a connection may idle.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_HEADER_TIMEOUT", value_parser = time, default_value_t = Time(usual().header_timeout))]
    header_timeout: Time,
    /// Longest silence inside a request's body, and longest an answer waits for its reader.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_STALL_TIMEOUT", value_parser = time, default_value_t = Time(usual().stall_timeout))]
    stall_timeout: Time,
    /// Slowest a request's body may come, each second.
    #[arg(long, value_name = "SIZE", env = "PARLER_HUB_MIN_BODY_RATE", value_parser = size, default_value_t = Size(usual().min_body_rate))]
    min_body_rate: Size,
    /// How long it may come slower than that.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_BODY_GRACE", value_parser = time, default_value_t = Time(usual().body_grace))]
    body_grace: Time,
    /// Uploads that one agent may have under way at once.
    #[arg(long, value_name = "N", env = "PARLER_HUB_MAX_UPLOADS", default_value_t = count(usual().max_uploads))]
    max_uploads: NonZeroUsize,
    /// Uploads that all agents together may have under way. Never more than a quarter of the files this process may open.
    #[arg(long, value_name = "N", env = "PARLER_HUB_MAX_UPLOADS_OF_ALL", default_value_t = count(usual().max_uploads_of_all))]
    max_uploads_of_all: NonZeroUsize,
    /// Bytes that the uploads of one agent may have together, announced ones included.
    #[arg(long, value_name = "SIZE", env = "PARLER_HUB_MAX_UPLOAD_BYTES", value_parser = size, default_value_t = Size(usual().max_upload_bytes))]
    max_upload_bytes: Size,
    /// How long an upload is kept after its last byte.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_UPLOAD_TTL", value_parser = time, default_value_t = Time(usual().upload_ttl))]
    upload_ttl: Time,
    /// An answer with a room's pushes ends when it passes this.
    #[arg(long, value_name = "SIZE", env = "PARLER_HUB_PUSHES_PAGE", value_parser = size, default_value_t = Size(usual().pushes_bytes as u64))]
    pushes_page: Size,
    /// Streams that one agent may have open at once.
    #[arg(long, value_name = "N", env = "PARLER_HUB_MAX_STREAMS", default_value_t = count(usual().max_streams))]
    max_streams: NonZeroUsize,
    /// Longest silence of a stream. Clients take one for lost after 45s.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_HEARTBEAT", value_parser = heartbeat, default_value_t = Time(usual().heartbeat))]
    heartbeat: Time,
    /// How long a stream lives before its client has to open it again.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_STREAM_TTL", value_parser = time, default_value_t = Time(usual().stream_ttl))]
    stream_ttl: Time,
    /// How long requests in flight get when the hub stops.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_DRAIN_TIMEOUT", value_parser = time, default_value_t = Time(usual().drain_timeout))]
    drain_timeout: Time,
    /// Session proofs and invite codes taken at once from one address; from this machine a thousand times as many.
    #[arg(long, value_name = "N", env = "PARLER_HUB_PROOF_BURST", default_value_t = count_of_proofs(usual().proof_burst))]
    proof_burst: NonZeroU32,
    /// How many more of them a minute.
    #[arg(long, value_name = "N", env = "PARLER_HUB_PROOFS_PER_MINUTE", default_value_t = count_of_proofs(usual().proofs_per_minute))]
    proofs_per_minute: NonZeroU32,
}

impl LimitOptions {
    /// What was asked for.
    pub(super) fn limits(&self) -> HubLimits {
        // Named one by one, so that a new limit without an option does not compile.
        HubLimits {
            max_connections: self.max_connections.get(),
            max_blob_bytes: self.max_blob.0,
            free_floor_percent: self.free_floor,
            session_ttl: self.session_ttl.0,
            header_timeout: self.header_timeout.0,
            stall_timeout: self.stall_timeout.0,
            min_body_rate: self.min_body_rate.0,
            body_grace: self.body_grace.0,
            max_uploads: self.max_uploads.get(),
            max_uploads_of_all: self.max_uploads_of_all.get(),
            max_upload_bytes: self.max_upload_bytes.0,
            upload_ttl: self.upload_ttl.0,
            pushes_bytes: usize::try_from(self.pushes_page.0).unwrap_or(usize::MAX),
            max_streams: self.max_streams.get(),
            heartbeat: self.heartbeat.0,
            stream_ttl: self.stream_ttl.0,
            drain_timeout: self.drain_timeout.0,
            proof_burst: self.proof_burst.get(),
            proofs_per_minute: self.proofs_per_minute.get(),
        }
    }
}

fn usual() -> HubLimits {
    HubLimits::default()
}

fn count(usual: usize) -> NonZeroUsize {
    NonZeroUsize::new(usual).expect("no default is zero")
}

fn count_of_proofs(usual: u32) -> NonZeroU32 {
    NonZeroU32::new(usual).expect("no default is zero")
}

/// A number of bytes.
#[derive(Debug, Clone, Copy)]
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = ByteSize::b(self.0).display().iec().to_string();
        // `8GiB`, as one would write it, and not `8.0 GiB`.
        f.write_str(&text.replace(".0 ", "").replace(' ', ""))
    }
}

fn size(text: &str) -> Result<Size, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("it must not be nothing".to_owned()),
        Ok(ByteSize(bytes)) => Ok(Size(bytes)),
        Err(_) => Err("a size is a number with a unit, such as 512MiB or 8GiB".to_owned()),
    }
}

/// A length of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) Duration);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_secs() {
            // `24h`, which people say of sessions, and not `1day`.
            86_400 => f.write_str("24h"),
            _ => humantime::format_duration(self.0).fmt(f),
        }
    }
}

pub(super) fn time(text: &str) -> Result<Time, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must not be nothing".to_owned()),
        Ok(time) if time > LONGEST => Err("ten years are enough".to_owned()),
        Ok(time) => Ok(Time(time)),
        Err(_) => Err("a time is a number with a unit, such as 500ms, 30s or 24h".to_owned()),
    }
}

fn heartbeat(text: &str) -> Result<Time, String> {
    let heartbeat = time(text)?;
    let lost = limits::STREAM_LOST;
    if heartbeat.0 < lost {
        Ok(heartbeat)
    } else {
        Err(format!("clients take a stream for lost after {}s", lost.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_read_back_as_they_are_shown() {
        for bytes in [usual().max_blob_bytes, usual().min_body_rate, 1, 1536, 1 << 40] {
            assert_eq!(size(&Size(bytes).to_string()).unwrap().0, bytes, "{}", Size(bytes));
        }
        assert_eq!(Size(8 << 30).to_string(), "8GiB");
        for time_shown in [usual().session_ttl, usual().stream_ttl, usual().heartbeat] {
            assert_eq!(time(&Time(time_shown).to_string()).unwrap().0, time_shown);
        }
        assert_eq!(Time(usual().session_ttl).to_string(), "24h");
    }
}

//! A meter of ours, in the form of git's own (its progress.c): `Title:  45% (9/20), 9.00 MiB | 5.00 MiB/s`, redrawn in
//! place, then `, done.` and a line feed. Counts nothing itself, and is silent about work that is over soon.

use std::time::{Duration, Instant};

use crate::git::GitEnvironment;
use crate::terminal::Terminal;

/// Work that takes no longer is not worth a meter. Git's own default.
const DELAY: Duration = Duration::from_secs(1);
/// A meter is not redrawn sooner, however fast its percents pass.
const SHORTEST_REDRAW: Duration = Duration::from_millis(100);
/// It is redrawn at least so often while anything moves.
const LONGEST_REDRAW: Duration = Duration::from_secs(1);
/// How often the rate is computed anew.
const RATE_EVERY: Duration = Duration::from_millis(500);
/// The rate is that of this many such times.
const RATE_SPANS: usize = 8;

/// How long git waits before it shows a delayed meter: `GIT_PROGRESS_DELAY`, in seconds.
pub fn delay(environment: &GitEnvironment) -> Duration {
    let told = environment.get("GIT_PROGRESS_DELAY").and_then(|value| value.to_str());
    told.and_then(|seconds| seconds.trim().parse().ok())
        .map_or(DELAY, Duration::from_secs)
}

/// One meter. Dropped before it is done, it leaves its last state on a line of its own.
#[derive(Debug)]
pub struct Meter {
    terminal: Terminal,
    title: &'static str,
    total: u64,
    begun: Instant,
    delay: Duration,
    shown: Option<State>,
    rate: Rate,
    width: usize,
}

/// What was shown last.
#[derive(Debug, Clone, Copy)]
struct State {
    at: Instant,
    percent: u64,
}

/// Bytes in the last few seconds.
#[derive(Debug)]
struct Rate {
    measured: Instant,
    bytes: u64,
    /// Bytes and time of the last spans, the oldest first.
    spans: Vec<(u64, Duration)>,
    told: Option<String>,
}

impl Meter {
    /// A meter of this many units, for work that begins now. Nothing is shown before `delay` is over.
    pub fn delayed(terminal: Terminal, title: &'static str, total: u64, delay: Duration) -> Self {
        let begun = Instant::now();
        Self {
            terminal,
            title,
            total,
            begun,
            delay,
            shown: None,
            rate: Rate {
                measured: begun,
                bytes: 0,
                spans: Vec::new(),
                told: None,
            },
            width: 0,
        }
    }

    /// So many units are done, and so many bytes have passed.
    pub fn moved(&mut self, units: u64, bytes: u64) {
        if self.terminal.is_there() {
            self.moved_at(Instant::now(), units, bytes);
        }
    }

    /// All is done. Shown only where the meter was.
    pub fn done(&mut self, bytes: u64) {
        if self.shown.take().is_some() {
            let elapsed = self.begun.elapsed();
            self.rate.told = Some(throughput(bytes, per_second(bytes, elapsed)));
            let state = self.state(self.total, ", done.\n");
            self.terminal.meter(state.as_bytes());
        }
    }

    fn moved_at(&mut self, now: Instant, units: u64, bytes: u64) {
        let is_new_rate = self.rate.measure(now, bytes);
        if now.duration_since(self.begun) < self.delay {
            return;
        }
        let percent = percent(units, self.total);
        let is_due = self.shown.is_none_or(|shown| {
            let since = now.duration_since(shown.at);
            since >= SHORTEST_REDRAW && (percent != shown.percent || is_new_rate || since >= LONGEST_REDRAW)
        });
        if is_due {
            let state = self.state(units, "\r");
            self.terminal.meter(state.as_bytes());
            self.shown = Some(State { at: now, percent });
        }
    }

    /// The line, padded so that it covers the one before it.
    fn state(&mut self, units: u64, end: &str) -> String {
        let rate = self.rate.told.as_deref().unwrap_or_default();
        let percent = percent(units, self.total);
        let counters = format!("{percent:3}% ({units}/{}){rate}", self.total);
        // As git covers it: the visible part of the end helps.
        let cover = self.width.saturating_sub(counters.len() + end.len() - 1);
        self.width = counters.len();
        format!("{}: {counters}{:cover$}{end}", self.title, "")
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.shown.is_some() {
            self.terminal.end_line();
        }
    }
}

impl Rate {
    /// Takes a new measurement. Gives whether there is something new to tell.
    fn measure(&mut self, now: Instant, bytes: u64) -> bool {
        let span = now.duration_since(self.measured);
        if span < RATE_EVERY {
            return false;
        }
        if self.spans.len() == RATE_SPANS {
            self.spans.remove(0);
        }
        // A transfer that goes on behind a lost connection may be set back.
        self.spans.push((bytes.saturating_sub(self.bytes), span));
        (self.measured, self.bytes) = (now, bytes);
        let sum = self.spans.iter().map(|(bytes, _)| bytes).sum();
        let time = self.spans.iter().map(|(_, span)| *span).sum();
        self.told = Some(throughput(bytes, per_second(sum, time)));
        true
    }
}

fn percent(units: u64, total: u64) -> u64 {
    if total == 0 {
        100
    } else {
        let percent = u128::from(units.min(total)) * 100 / u128::from(total);
        u64::try_from(percent).unwrap_or(100)
    }
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let millis = time.as_millis().max(1);
    u64::try_from(u128::from(bytes) * 1000 / millis).unwrap_or(u64::MAX)
}

fn throughput(bytes: u64, per_second: u64) -> String {
    format!(", {} | {}/s", human(bytes), human(per_second))
}

/// A number of bytes in git's words, its rounding included.
fn human(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    if bytes > GIB {
        // The fraction in hundredths.
        format!("{}.{:02} GiB", bytes / GIB, bytes % GIB / 10_737_419)
    } else if bytes > MIB {
        let rounded = bytes + 5243;
        format!("{}.{:02} MiB", rounded / MIB, rounded % MIB * 100 / MIB)
    } else if bytes > KIB {
        let rounded = bytes + 5;
        format!("{}.{:02} KiB", rounded / KIB, rounded % KIB * 100 / KIB)
    } else if bytes == 1 {
        "1 byte".to_owned()
    } else {
        format!("{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::is_meter;
    use crate::terminal::tests::recording;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_is_drawn_as_git_draws() {
        let (terminal, shown) = recording();
        let mut meter = Meter::delayed(terminal, "Uploading bundle", 20 * MIB, Duration::from_secs(1));
        let begun = meter.begun;
        let after = |millis| begun + Duration::from_millis(millis);
        meter.moved_at(after(500), MIB, MIB);
        assert_eq!(shown(), "", "work that is over soon");
        meter.moved_at(after(1000), 9 * MIB, 9 * MIB);
        meter.moved_at(after(1050), 10 * MIB, 10 * MIB);
        meter.moved_at(after(1100), 10 * MIB, 10 * MIB);
        meter.moved_at(after(1300), 10 * MIB, 10 * MIB);
        meter.done(20 * MIB);
        drop(meter);
        let shown = shown();
        let states: Vec<&str> = shown.split_inclusive(['\r', '\n']).collect();
        assert_eq!(
            states[..2],
            [
                "Uploading bundle:  45% (9437184/20971520), 9.00 MiB | 9.00 MiB/s\r",
                "Uploading bundle:  50% (10485760/20971520), 9.00 MiB | 9.00 MiB/s\r",
            ]
        );
        assert_eq!(states.len(), 3);
        assert!(states[2].starts_with("Uploading bundle: 100% (20971520/20971520), 20.00 MiB | "));
        assert!(states[2].ends_with("/s, done.\n"));
        let own: Vec<u8> = states[2]
            .trim_end()
            .replace("Uploading bundle", "Writing objects")
            .into();
        assert!(is_meter(&own), "git's own meters are recognised by this form");
    }

    #[test]
    fn what_ends_early_ends_its_line() {
        let (terminal, shown) = recording();
        let mut meter = Meter::delayed(terminal.clone(), "Uploading bundle", 4, Duration::ZERO);
        meter.moved(1, 1);
        drop(meter);
        drop(Meter::delayed(terminal, "Uploading bundle", 4, Duration::ZERO));
        assert_eq!(shown(), "Uploading bundle:  25% (1/4)\r\n");
    }

    #[test]
    fn a_shorter_state_covers_the_longer_one() {
        let (terminal, shown) = recording();
        let mut meter = Meter::delayed(terminal, "A", 10, Duration::ZERO);
        let begun = meter.begun;
        meter.rate.told = Some(", x".to_owned());
        meter.moved_at(begun, 1, 0);
        meter.rate.told = None;
        meter.moved_at(begun + Duration::from_millis(200), 2, 0);
        assert_eq!(shown(), "A:  10% (1/10), x\rA:  20% (2/10)   \r");
    }

    #[test]
    fn sizes_are_in_gits_words() {
        for (bytes, words) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (3 * MIB / 2, "1.50 MiB"),
            ((1 << 30) + (1 << 29), "1.49 GiB"),
        ] {
            assert_eq!(human(bytes), words);
        }
    }
}

//! What was measured, as a table in Markdown beside what is aimed at.

use std::fs;
use std::thread::available_parallelism;
use std::time::Duration;

/// The rows so far.
#[derive(Debug)]
pub(crate) struct Report {
    begun: String,
    rows: Vec<[String; 3]>,
}

impl Report {
    pub(crate) fn begin() -> Self {
        Self {
            begun: load(),
            rows: Vec::new(),
        }
    }

    /// What was done, what is aimed at, and what was found.
    pub(crate) fn row(&mut self, what: impl Into<String>, target: &str, found: impl Into<String>) {
        let row = [what.into(), target.to_owned(), found.into()];
        eprintln!("  {}", row.join(": "));
        self.rows.push(row);
    }

    pub(crate) fn print(&self) {
        let processors = available_parallelism().map_or(0, usize::from);
        println!(
            "{processors} processors; load before and after: {} / {}\n",
            self.begun,
            load()
        );
        println!("| what | target | found |\n|---|---|---|");
        for row in &self.rows {
            println!("| {} |", row.join(" | "));
        }
    }
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Times of single answers.
#[derive(Debug, Default)]
pub(crate) struct Times(pub(crate) Vec<Duration>);

impl Times {
    /// The time that so many percent stay within, in milliseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        let at = (self.0.len() * percent / 100).min(last);
        self.0.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// `p50 1.2 ms, p99 3.4 ms`
    pub(crate) fn shown(&mut self) -> String {
        format!("p50 {:.2} ms, p99 {:.2} ms", self.percentile(50), self.percentile(99))
    }
}

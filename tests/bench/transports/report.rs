//! What was measured, as tables in Markdown: medians, and their ratio to git over HTTP in the same run.

use std::collections::BTreeMap;
use std::fs;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::Stage;
use crate::arguments::TransportName;
use crate::meter::Taken;

/// Something that was done, in the order of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    PushOne,
    PushNothing,
    FetchOne,
    FetchNothing,
    PushOneOfManyRefs,
    PushNothingOfManyRefs,
    FetchOneOfManyRefs,
    FetchNothingOfManyRefs,
    Cycles,
    PushMany,
    FirstPush,
    Clone,
    PushBig,
    FetchBig,
}

impl Row {
    /// What is done, and the ratio that is aimed at.
    fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::PushOne => ("push 1 commit", "0.32"),
            Self::PushNothing => ("push nothing", "0.40"),
            Self::FetchOne => ("fetch 1 commit", "0.60"),
            Self::FetchNothing => ("fetch nothing", "0.40"),
            Self::PushOneOfManyRefs => ("push 1 commit, 4,000 refs", ""),
            Self::PushNothingOfManyRefs => ("push nothing, 4,000 refs", ""),
            Self::FetchOneOfManyRefs => ("fetch 1 commit, 4,000 refs", ""),
            Self::FetchNothingOfManyRefs => ("fetch nothing, 4,000 refs", ""),
            Self::Cycles => ("push+fetch cycles", "0.48"),
            Self::PushMany => ("push about 1,000 commits", "0.42"),
            Self::FirstPush => ("first push of a repository", "0.25"),
            Self::Clone => ("clone of it", "0.80"),
            Self::PushBig => ("push a large file", "0.12"),
            Self::FetchBig => ("fetch a large file", "0.24"),
        }
    }
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Report {
    head: Vec<String>,
    columns: Vec<TransportName>,
    taken: BTreeMap<Row, Vec<(TransportName, Taken)>>,
    notes: Vec<String>,
    begun: String,
}

/// The machine's load, as the kernel tells it.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

impl Report {
    /// Nothing is measured yet.
    pub(crate) fn new(stage: &Stage<'_>, begun: String, left_out: Vec<String>) -> Self {
        let commits = stage.world.repository(stage.prepared.long.clone());
        let commits = commits.ask("rev-list --count refs/heads/main");
        let version = stage.world.user().git("--version").success().word().to_owned();
        let mut head = vec![format!(
            "{version}, {} processors, a history of {commits} commits; {} rounds of what takes milliseconds, {} of the rest.",
            available_parallelism().map_or(0, usize::from),
            stage.arguments.rounds(),
            stage.arguments.long_rounds()
        )];
        for transport in &stage.transports {
            head.push(format!("- {}: {}.", transport.name().label(), transport.note()));
        }
        head.extend(left_out.iter().map(|transport| format!("- Left out: {transport}.")));
        Self {
            head,
            columns: stage.transports.iter().map(|transport| transport.name()).collect(),
            taken: BTreeMap::new(),
            notes: Vec::new(),
            begun,
        }
    }

    pub(crate) fn add(&mut self, row: Row, transport: TransportName, taken: Taken) {
        self.taken.entry(row).or_default().push((transport, taken));
    }

    /// A line below the tables, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn print(&self) {
        for line in &self.head {
            println!("{line}");
        }
        println!("\nLoad before and after: {} / {}\n", self.begun, load());
        println!("Time on the clock, with the ratio to smart HTTP:\n");
        self.print_table(|taken| taken.wall.as_secs_f64(), shown_with_ratio);
        println!("\nProcessor time of the command and its children, with the ratio. A server's own is not in it:\n");
        self.print_table(|taken| taken.processor.as_secs_f64(), shown_with_ratio);
        println!("\nLargest process of the command, in MiB:\n");
        self.print_table(|taken| taken.peak_kib as f64, |kib, _| format!("{:.0}", kib / 1024.0));
        for note in &self.notes {
            println!("\n{note}");
        }
    }

    fn print_table(&self, number: impl Fn(&Taken) -> f64, shown: impl Fn(f64, Option<f64>) -> String) {
        let labels: Vec<_> = self.columns.iter().map(|column| column.label()).collect();
        println!("| work | target | {} | rounds |", labels.join(" | "));
        println!("|---|---|{}---|", "---|".repeat(labels.len()));
        for (row, taken) in &self.taken {
            let (work, target) = row.described();
            let numbers = |of: TransportName| -> Vec<f64> {
                let of_transport = taken.iter().filter(|(name, _)| *name == of);
                of_transport.map(|(_, taken)| number(taken)).collect()
            };
            let basis = median(numbers(TransportName::Http));
            let cells: Vec<_> = self
                .columns
                .iter()
                .map(|column| {
                    let ratio_to = basis.filter(|_| *column != TransportName::Http);
                    median(numbers(*column)).map_or("-".to_owned(), |median| shown(median, ratio_to))
                })
                .collect();
            let rounds = taken.len() / self.columns.len().max(1);
            println!("| {work} | {target} | {} | {rounds} |", cells.join(" | "));
        }
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

fn shown_with_ratio(seconds: f64, basis: Option<f64>) -> String {
    let ratio = basis.map(|basis| format!(" ({:.2})", seconds / basis));
    shown_time(seconds) + &ratio.unwrap_or_default()
}

fn shown_time(seconds: f64) -> String {
    let time = Duration::from_secs_f64(seconds);
    match time.as_millis() {
        0..100 => format!("{:.1} ms", seconds * 1e3),
        100..1000 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

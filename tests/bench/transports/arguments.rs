//! What is to be measured, as the command line says.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Rounds of the scenarios that take milliseconds.
const ROUNDS: usize = 15;
/// The same where only a first look is wanted.
const QUICK_ROUNDS: usize = 5;
/// Pushes and fetches in a row.
const CYCLES: usize = 100;

/// Git transports side by side.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A repository whose HEAD has a long history, for what is small: some ten thousand commits or more.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) long: PathBuf,
    /// A repository whose HEAD is moved as a whole: about 90 MiB packed.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) whole: PathBuf,
    /// Scenarios, with commas; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Transports, with commas; all by default. Ratios are to `http`.
    #[arg(long, value_enum, value_delimiter = ',')]
    transports: Vec<TransportName>,
    /// Rounds of what takes milliseconds; a fifth of them where it takes seconds. 15 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    rounds: Option<u8>,
    /// A first look: five rounds, and twenty cycles.
    #[arg(long)]
    quick: bool,
    /// Size of the file that does not compress, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 200)]
    pub(crate) big: usize,
    /// As cargo calls every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Something that is done over every transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Push one commit, push nothing, fetch the commit, fetch nothing.
    Small,
    /// The same where both repositories have 4,000 refs.
    Refs,
    /// Pushes and fetches of a commit in a row.
    Cycles,
    /// Push about 1,000 commits.
    Many,
    /// First push of a whole repository, and a clone of it.
    Whole,
    /// Push and fetch a large file that does not compress.
    Big,
}

/// A way for commits from one repository to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportName {
    /// Git over HTTP: nginx, fcgiwrap, git http-backend.
    Http,
    /// `file://`
    File,
    /// OpenSSH.
    Ssh,
    /// A bundle, made and fetched from by hand.
    Bundle,
    /// A room.
    Room,
}

impl TransportName {
    /// As a column is headed.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Http => "smart HTTP",
            Self::File => "file://",
            Self::Ssh => "ssh",
            Self::Bundle => "by hand",
            Self::Room => "room",
        }
    }
}

impl Arguments {
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        all_or(&self.only)
    }

    pub(crate) fn transports(&self) -> Vec<TransportName> {
        all_or(&self.transports)
    }

    pub(crate) fn rounds(&self) -> usize {
        let default = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.map_or(default, usize::from)
    }

    /// Rounds of what takes seconds.
    pub(crate) fn long_rounds(&self) -> usize {
        self.rounds().div_ceil(5)
    }

    pub(crate) fn cycles(&self) -> usize {
        if self.quick { CYCLES / 5 } else { CYCLES }
    }
}

fn all_or<T: ValueEnum + Clone>(chosen: &[T]) -> Vec<T> {
    match chosen {
        [] => T::value_variants().to_vec(),
        chosen => chosen.to_vec(),
    }
}

//! What one command took: time on the clock, processor time with all its children, and the size of its largest process.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use parler_harness::World;

const SOURCE: &str = include_str!("meter.c");

/// What a command took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// From fork to exit.
    pub(crate) wall: Duration,
    /// User and system, of every process that was waited for.
    pub(crate) processor: Duration,
    /// Of the largest process.
    pub(crate) peak_kib: u64,
}

impl Taken {
    /// Both, one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            wall: self.wall + other.wall,
            processor: self.processor + other.processor,
            peak_kib: self.peak_kib.max(other.peak_kib),
        }
    }
}

/// A command as a transport has it: what to run, and where.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) words: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) variables: Vec<(String, String)>,
}

/// The program that measures, compiled.
#[derive(Debug)]
pub(crate) struct Meter {
    program: PathBuf,
    numbers: PathBuf,
    /// The environment of every command.
    basis: Command,
}

impl Meter {
    pub(crate) fn new(world: &World) -> Self {
        let directory = world.directory("meter");
        let (source, program) = (directory.join("meter.c"), directory.join("meter"));
        fs::write(&source, SOURCE).unwrap();
        let compiled = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "the meter needs a C compiler"
        );
        Self {
            program,
            numbers: directory.join("numbers"),
            basis: world.user().command("true", ""),
        }
    }

    /// Runs a command that must succeed.
    pub(crate) fn run(&self, task: &Task) -> Taken {
        let mut command = Command::new(&self.program);
        command.arg(&self.numbers).args(&task.words).env_clear();
        for (name, value) in self.basis.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = command
            .envs(task.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&task.directory)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{task:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = fs::read_to_string(&self.numbers).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        Taken {
            wall: Duration::from_nanos(numbers[0]),
            processor: Duration::from_micros(numbers[1]),
            peak_kib: numbers[2],
        }
    }
}

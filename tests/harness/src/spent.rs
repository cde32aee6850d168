//! What a command took of the machine, with everything that it started.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use crate::{Agent, Arguments, Output};

/// Runs a program, and tells the kernel's numbers of those that have been waited for: the most memory that one of them
/// held, in KiB, and the processor time of all.
const METER: &str = "import resource,subprocess,sys\n\
code=subprocess.call(sys.argv[2:])\n\
spent=resource.getrusage(resource.RUSAGE_CHILDREN)\n\
print(spent.ru_maxrss,spent.ru_utime+spent.ru_stime,file=open(sys.argv[1],'w'))\n\
sys.exit(code)\n";

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// The most memory that any one process held.
    pub peak_memory_kib: u64,
    /// Processor time of all processes together. Unlike the time on the clock it is the same on a busy machine.
    pub processor: Duration,
}

impl Agent<'_> {
    /// Runs git and says what it took.
    ///
    /// # Panics
    /// Where there is no python3, which counts.
    #[track_caller]
    pub fn measure_git(&self, arguments: impl Arguments) -> (Output, Spent) {
        let numbers = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut all: Vec<OsString> = vec!["-c".into(), METER.into(), numbers.path().into(), "git".into()];
        all.extend(arguments.list());
        let output = self.run("python3", all);
        let text = fs::read_to_string(numbers.path()).expect("just made");
        let mut words = text.split_whitespace();
        let spent = words.next().and_then(|memory| {
            Some(Spent {
                peak_memory_kib: memory.parse().ok()?,
                processor: Duration::from_secs_f64(words.next()?.parse().ok()?),
            })
        });
        (
            output,
            spent.unwrap_or_else(|| panic!("python3 counted nothing: {text:?}")),
        )
    }
}

//! Processes with a deadline: a command that hangs, or that leaves somebody behind who keeps its output open, fails its
//! test with everything it said so far.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::Output;

/// Longest any one command of a test may take. Far above what any needs: only a hang reaches it.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// Between two looks at what nobody tells: who looks all the time takes the processor from those who are waited for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Looks until there is something.
///
/// # Panics
/// Where there is nothing after [`DEADLINE`], with what `missing` says then.
#[track_caller]
pub fn look_for<T>(mut found: impl FnMut() -> Option<T>, missing: impl FnOnce() -> String) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "{}", missing());
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// What a process has written to one of its outputs so far.
#[derive(Debug, Default)]
struct Capture {
    state: Mutex<Captured>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Captured {
    bytes: Vec<u8>,
    closed: bool,
}

impl Capture {
    fn lock(&self) -> MutexGuard<'_, Captured> {
        self.state.lock().expect("no reader panics")
    }

    fn none() -> Arc<Self> {
        Self::follow(std::io::empty())
    }

    fn follow(mut source: impl Read + Send + 'static) -> Arc<Self> {
        let capture = Arc::new(Self::default());
        let writer = Arc::clone(&capture);
        thread::spawn(move || {
            let mut piece = [0; 8192];
            loop {
                let read = source.read(&mut piece).unwrap_or(0);
                let mut state = writer.lock();
                state.bytes.extend_from_slice(&piece[..read]);
                state.closed = read == 0;
                writer.changed.notify_all();
                if state.closed {
                    return;
                }
            }
        });
        capture
    }

    /// Waits until the output so far is enough, or no more will come.
    fn wait_until(&self, deadline: Instant, enough: impl Fn(&Captured) -> bool) -> Option<Vec<u8>> {
        let mut state = self.lock();
        while !enough(&state) {
            let left = deadline.checked_duration_since(Instant::now())?;
            if state.closed {
                return None;
            }
            state = self.changed.wait_timeout(state, left).expect("no reader panics").0;
        }
        Some(state.bytes.clone())
    }

    fn so_far(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }
}

/// A command that runs. Ended with everything it started when it is dropped before [`Running::wait`].
#[derive(Debug)]
pub struct Running {
    child: Child,
    command: String,
    stdout: Arc<Capture>,
    stderr: Arc<Capture>,
    started: Instant,
    waited: bool,
}

impl Running {
    /// Starts a command in a process group of its own, with these bytes on its standard input.
    #[track_caller]
    pub fn start(command: &mut Command, input: &[u8]) -> Self {
        let mut running = Self::start_with(command, Stdio::piped());
        let mut stdin = running.child.stdin.take().expect("piped");
        if !input.is_empty() {
            let input = input.to_vec();
            // A command that ends without reading its input is nothing to complain of.
            thread::spawn(move || stdin.write_all(&input));
        }
        running
    }

    /// Starts a command whose standard output goes there. What goes elsewhere is not captured.
    #[track_caller]
    pub fn start_with(command: &mut Command, stdout: Stdio) -> Self {
        let shown = shown(command);
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {shown}: {error}"));
        let piped = child.stdout.take();
        Self {
            stdout: piped.map_or_else(Capture::none, Capture::follow),
            stderr: Capture::follow(child.stderr.take().expect("piped")),
            child,
            command: shown,
            started: Instant::now(),
            waited: false,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until standard output, as far as it goes, satisfies this, and returns it.
    #[track_caller]
    pub fn wait_for_output(&self, enough: impl Fn(&str) -> bool) -> String {
        self.wait_for(&self.stdout, enough)
    }

    /// As [`Running::wait_for_output`], for standard error.
    #[track_caller]
    pub fn wait_for_errors(&self, enough: impl Fn(&str) -> bool) -> String {
        self.wait_for(&self.stderr, enough)
    }

    #[track_caller]
    fn wait_for(&self, capture: &Capture, enough: impl Fn(&str) -> bool) -> String {
        let found = capture.wait_until(self.started + DEADLINE, |state| {
            enough(&String::from_utf8_lossy(&state.bytes))
        });
        match found {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => panic!("the output never came\n{}", self.so_far()),
        }
    }

    /// Something that becomes readable when the process ends.
    pub(crate) fn end(&self) -> OwnedFd {
        pidfd_open(pid(&self.child), PidfdFlags::empty()).expect("our own child, not waited for yet")
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let end = self.end();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&at_once)), Ok(1))
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: Signal) {
        // One that has ended meanwhile has not been waited for, so its id is still its own.
        let _ = kill_process(pid(&self.child), signal);
    }

    /// Sends a signal to the process and everything that it started in its group, as a terminal does with Ctrl-C.
    pub fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(pid(&self.child), signal);
    }

    /// Waits for its end and the end of its output.
    #[track_caller]
    pub fn wait(mut self) -> Output {
        let deadline = self.started + DEADLINE;
        if !ends_by(pid(&self.child), deadline) {
            panic!("hangs for {DEADLINE:?}\n{}", self.so_far());
        }
        let status = self.child.wait().expect("our own child");
        self.waited = true;
        let outputs = [&self.stdout, &self.stderr].map(|capture| {
            // Some grace for what the pipe still holds: who keeps it open for longer outlives the command.
            let deadline = Instant::now() + Duration::from_secs(30);
            capture.wait_until(deadline, |state| state.closed)
        });
        match outputs {
            [Some(stdout), Some(stderr)] => Output::new(std::mem::take(&mut self.command), status, stdout, stderr),
            _ => panic!(
                "a process that outlives the command keeps its output open\n{}",
                self.so_far()
            ),
        }
    }

    fn so_far(&self) -> String {
        format!(
            "$ {}\n--- stdout so far\n{}\n--- stderr so far\n{}",
            self.command,
            String::from_utf8_lossy(&self.stdout.so_far()),
            String::from_utf8_lossy(&self.stderr.so_far())
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.waited {
            let _ = kill_process_group(pid(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A command as a failure shows it: what was called where, and as whom.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let name = name.to_string_lossy();
        if let (true, Some(value)) = (name.starts_with("PARLER_"), value) {
            words.push(format!("{name}={}", value.to_string_lossy()));
        }
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| format!("{argument:?}")));
    let directory = command.get_current_dir().unwrap_or(Path::new("."));
    format!("{}\n  in {}", words.join(" "), directory.display())
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Waits for the end of a process. False: it still runs.
pub(crate) fn ends_by(pid: Pid, deadline: Instant) -> bool {
    // No such process any more: it has ended.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    let mut waited_for = [PollFd::new(&handle, PollFlags::IN)];
    matches!(poll(&mut waited_for, Some(&left)), Ok(1))
}

/// Ends a process at once, as a power cut would, and waits until it is gone.
#[track_caller]
pub fn end_process(process: u32) {
    let pid = i32::try_from(process)
        .ok()
        .and_then(Pid::from_raw)
        .expect("the id of a process");
    // Who is gone already needs no signal.
    let _ = kill_process(pid, Signal::KILL);
    assert!(
        ends_by(pid, Instant::now() + DEADLINE),
        "process {process} does not end"
    );
}

/// Waits until a process has ended, whoever waits for it besides.
#[track_caller]
pub fn wait_for_end_of(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.expect("the id of a process");
    assert!(
        ends_by(pid, Instant::now() + 4 * DEADLINE),
        "process {process} does not end"
    );
}

/// The most memory that a running process has held so far, in KiB.
#[track_caller]
pub fn peak_memory_kib(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
    number.unwrap_or_else(|| panic!("no peak in {status}"))
}

/// How often the threads of a running process were put to work or aside.
#[track_caller]
pub fn context_switches(process: u32) -> u64 {
    let mut count = 0;
    for task in fs::read_dir(format!("/proc/{process}/task")).expect("a running process") {
        let status = fs::read_to_string(task.expect("a thread").path().join("status")).expect("a thread");
        for line in status.lines().filter(|line| line.contains("ctxt_switches:")) {
            let number = line.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
            count += number.expect("a number");
        }
    }
    count
}

/// The processes, other than this one, that were started with a mention of this path in their command line,
/// environment or working directory.
pub fn started_with_mention_of(path: &Path) -> Vec<u32> {
    let needle = path.as_os_str().as_encoded_bytes();
    let mentions = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let file = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let directory = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        // A zombie has an empty command line: it has ended and waits to be noticed.
        let command_line = file("cmdline");
        if process != own
            && !command_line.is_empty()
            && (mentions(&command_line) || mentions(&file("environ")) || directory.starts_with(path))
        {
            found.push(process);
        }
    }
    found
}

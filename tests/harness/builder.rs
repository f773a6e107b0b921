//! Runs the program under test: in an empty environment, in a process group of its own as cron and
//! CI do, with a bound on its life, and compared to exactly what was expected. What a test does not
//! mention is expected to be nothing: no output and exit 0.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{Seek, Write},
    os::unix::{
        fs::FileExt,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use redlock::child::belt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{MemfdFlags, memfd_create},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
    time::Timespec,
};

use super::{LIMIT, eventually, matching::Pattern};

/// A run of the program that is to be made.
#[derive(Debug)]
pub struct Redlock {
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    stdin: Option<Vec<u8>>,
    expected: Expected,
    limit: Duration,
}

/// What a run has to look like. The first line that differs is a failure.
#[derive(Clone, Debug)]
struct Expected {
    end: End,
    stdout: Pattern,
    stderr: Pattern,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => Self::Exit(status.code().unwrap()),
        }
    }
}

/// What a run was like.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
    /// From just before the start to the end.
    pub took: Duration,
}

impl Redlock {
    /// The program with these arguments and no nodes.
    pub fn new<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let path = std::env::var_os("PATH").unwrap();
        let environment = [
            ("PATH".into(), path),
            // No configuration of whoever runs the tests may matter.
            ("HOME".into(), "/nonexistent".into()),
        ];
        let nothing = || Pattern::Exact(Vec::new());
        Self {
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment: environment.into(),
            stdin: None,
            expected: Expected { end: End::Exit(0), stdout: nothing(), stderr: nothing() },
            limit: LIMIT,
        }
        .args(arguments)
    }

    /// `redlock run --key k` on these nodes, without their restart guard: they are all new.
    pub fn run(nodes: impl AsRef<OsStr>) -> Self {
        Self::new(["run", "--key", "k"]).nodes(nodes)
    }

    pub fn nodes(self, nodes: impl AsRef<OsStr>) -> Self {
        self.env("REDLOCK_NODES", nodes)
            .env("REDLOCK_RESTART_GUARD", "off")
            .env("REDLOCK_CONFIG", "/dev/null")
    }

    /// Trusts the CA in this file.
    pub fn trusting(self, ca: &std::path::Path) -> Self {
        self.env("REDLOCK_TLS_CA", ca)
    }

    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter();
        self.arguments.extend(arguments.map(|text| text.as_ref().to_owned()));
        self
    }

    /// Ends the options and adds a command.
    pub fn command<A: AsRef<OsStr>>(self, words: impl IntoIterator<Item = A>) -> Self {
        self.args(["--"]).args(words)
    }

    /// Ends the options and adds a line for a shell.
    pub fn shell(self, line: &str) -> Self {
        self.command(["sh", "-c", line])
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref().to_owned();
        self.environment.insert(name.as_ref().to_owned(), value);
        self
    }

    /// Runs the program by another one that ends in its place: `env --ignore-signal=...`.
    pub fn under<A: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        self.wrapper = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    pub fn exits(mut self, code: i32) -> Self {
        self.expected.end = End::Exit(code);
        self
    }

    pub fn dies_of(mut self, signal: Signal) -> Self {
        self.expected.end = End::Signal(signal.as_raw());
        self
    }

    pub fn stdout(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.expected.stdout = Pattern::Exact(text.into());
        self
    }

    /// `*` stands for anything within a line.
    pub fn stdout_like(mut self, pattern: &str) -> Self {
        self.expected.stdout = Pattern::Like(pattern.to_owned());
        self
    }

    pub fn stderr(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.expected.stderr = Pattern::Exact(text.into());
        self
    }

    /// `*` stands for anything within a line.
    pub fn stderr_like(mut self, pattern: &str) -> Self {
        self.expected.stderr = Pattern::Like(pattern.to_owned());
        self
    }

    /// Exit by a code of ours, with the one line that every such exit has; `reason` may have stars.
    pub fn fails(self, code: i32, reason: &str) -> Self {
        let line = format!("redlock: exit {code}: {reason}\n");
        self.exits(code).stderr_like(&line)
    }

    /// How long the run may take at most, when that is part of what is tested.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program to its end and compares.
    #[track_caller]
    pub fn check(self) -> Outcome {
        self.start().check()
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn output(self) -> Outcome {
        self.start().output()
    }

    /// Starts the program.
    #[track_caller]
    pub fn start(self) -> Running {
        self.start_as(&mut |_| {})
    }

    /// Starts the program after `adjust` has changed what the builder has no word for.
    #[track_caller]
    pub fn start_as(self, adjust: &mut dyn FnMut(&mut Command)) -> Running {
        let binary = OsString::from(env!("CARGO_BIN_EXE_redlock"));
        let mut words = self.wrapper.into_iter().chain([binary]).chain(self.arguments);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear().envs(&self.environment);
        let (stdout, stderr) = (memory(), memory());
        command
            .stdin(self.stdin.map_or_else(Stdio::null, |bytes| {
                let mut file = memory();
                file.write_all(&bytes).unwrap();
                file.rewind().unwrap();
                file.into()
            }))
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap())
            .process_group(0);
        adjust(&mut command);
        let shown = Shown { command: format!("{command:?}"), expected: self.expected.clone() };
        let start = Instant::now();
        // A test that panics leaves nothing behind.
        let child = belt::die_with_parent(&mut command).spawn().unwrap();
        Running { child, start, stdout, stderr, expected: self.expected, limit: self.limit, shown }
    }
}

/// A file that exists only in memory. Unlike a pipe it cannot fill up, and nobody has to hold it
/// open to read it.
fn memory() -> File {
    memfd_create("redlock-test-output", MemfdFlags::CLOEXEC).unwrap().into()
}

fn contents(file: &File) -> Vec<u8> {
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A run that is under way. It is killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    start: Instant,
    stdout: File,
    stderr: File,
    expected: Expected,
    limit: Duration,
    shown: Shown,
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the program alone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// What came out so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stdout)).into_owned()
    }

    /// What was complained about so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stderr)).into_owned()
    }

    /// Waits until `text` is part of the output.
    #[track_caller]
    pub fn wait_stdout(&mut self, text: &str) {
        self.wait_for(text, Self::stdout);
    }

    /// Waits until `text` is part of the complaints.
    #[track_caller]
    pub fn wait_stderr(&mut self, text: &str) {
        self.wait_for(text, Self::stderr);
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str, output: fn(&Self) -> String) {
        let mut ended = false;
        while !output(self).contains(text) {
            assert!(!ended && self.start.elapsed() < LIMIT, "no {text:?} came\n{self}");
            ended = self.ended().is_some();
            if !ended {
                self.wait(Duration::from_millis(1));
            }
        }
    }

    /// How it ended; none while it runs.
    pub fn ended(&mut self) -> Option<End> {
        self.child.try_wait().unwrap().map(End::from)
    }

    /// Waits for the end and compares.
    #[track_caller]
    pub fn check(self) -> Outcome {
        let shown = self.shown.clone();
        let expected = self.expected.clone();
        let (outcome, stdout, stderr) = self.finish();
        assert!(outcome.end == expected.end, "wrong end\n{shown}\n{outcome}");
        assert!(expected.stdout.fits(&stdout), "wrong stdout\n{shown}\n{outcome}");
        assert!(expected.stderr.fits(&stderr), "wrong stderr\n{shown}\n{outcome}");
        outcome
    }

    /// Waits for the end.
    #[track_caller]
    pub fn output(self) -> Outcome {
        self.finish().0
    }

    #[track_caller]
    fn finish(mut self) -> (Outcome, Vec<u8>, Vec<u8>) {
        let left = self.limit.saturating_sub(self.start.elapsed());
        self.wait(left);
        let took = self.start.elapsed();
        let Some(end) = self.ended() else {
            panic!("still runs after {:?}\n{self}", self.limit);
        };
        let (stdout, stderr) = (contents(&self.stdout), contents(&self.stderr));
        let outcome = Outcome {
            end,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            took,
        };
        (outcome, stdout, stderr)
    }

    /// Sleeps until the end, at most so long.
    fn wait(&self, at_most: Duration) {
        // Fails only for a child that was waited for already.
        if let Ok(end) = pidfd_open(self.pid(), PidfdFlags::empty()) {
            let mut fds = [PollFd::new(&end, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&Timespec::try_from(at_most).unwrap()));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a failure shows besides what came out.
#[derive(Clone, Debug)]
struct Shown {
    command: String,
    expected: Expected,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  command: {}", self.command)?;
        writeln!(f, "  expected end:    {:?}", self.expected.end)?;
        writeln!(f, "  expected stdout: {}", self.expected.stdout)?;
        write!(f, "  expected stderr: {}", self.expected.stderr)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  end:    {:?} after {:?}", self.end, self.took)?;
        writeln!(f, "  stdout: {:?}", self.stdout)?;
        write!(f, "  stderr: {:?}", self.stderr)
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.shown)?;
        writeln!(f, "  running for {:?}", self.start.elapsed())?;
        writeln!(f, "  stdout: {:?}", self.stdout())?;
        write!(f, "  stderr: {:?}", self.stderr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{alive, fixture::child};

    /// The builder with another program in redlock's place: `env` drops the name of the binary.
    fn sh(line: &str) -> Redlock {
        Redlock::new([] as [&str; 0]).under(["sh", "-c", line])
    }

    fn panics(run: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(run).is_err()
    }

    #[test]
    fn builder_expects_silence_and_success() {
        sh("true").check();
        assert!(panics(|| drop(sh("exit 1").check())));
        assert!(panics(|| drop(sh("echo x").check())));
        assert!(panics(|| drop(sh("echo x >&2").check())));
        assert!(panics(|| drop(sh("kill -TERM $$").exits(143).check())));
    }

    #[test]
    fn builder_compares_what_it_was_told() {
        sh("cat; echo e $$ >&2; exit 3")
            .stdin("in")
            .stdout("in")
            .stderr_like("e *\n")
            .exits(3)
            .check();
        sh("kill -TERM $$").dies_of(Signal::TERM).check();
    }

    #[test]
    fn builder_gives_an_empty_environment() {
        let out = sh("env").env("A", "b").output().stdout;
        let mut names: Vec<&str> = out
            .lines()
            .filter_map(|line| line.split_once('=').map(|(name, _)| name))
            .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["A", "HOME", "PATH"]);
    }

    #[test]
    fn run_that_does_not_end_is_a_failure_and_is_killed() {
        let run = sh("exec sleep 60").within(Duration::from_millis(50)).start();
        let pid = run.pid();
        assert!(panics(|| drop(run.check())));
        eventually("the run is gone", || !alive(pid));
    }

    #[test]
    fn output_is_waited_for_and_signals_are_reported_one_by_one() {
        let mut run = Redlock::new([] as [&str; 0])
            .under([child().as_os_str(), OsStr::new("signals")])
            .start();
        // The mode's second argument is the name of the binary, which no signal has: end by KILL.
        run.wait_stdout("ready\n");
        for (count, signal) in [(1, Signal::INT), (2, Signal::INT), (3, Signal::INT)] {
            run.signal(signal);
            run.wait_stdout(&format!("ready\n{}", "got INT\n".repeat(count)));
        }
        run.signal(Signal::KILL);
        assert_eq!(run.output().end, End::Signal(9));
    }

    #[test]
    fn text_that_never_comes_is_a_failure() {
        assert!(panics(|| sh("echo a").start().wait_stdout("b")));
    }
}

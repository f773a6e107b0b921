//! Starting `fake_run` (redlock run with a pretended lock) in a scratch directory, and looking at
//! what becomes of it. Waiting is always for a condition, with a bound that no healthy machine
//! reaches.

use std::{
    fs::{self, File},
    io::{Seek, Write},
    os::fd::OwnedFd,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use tempfile::TempDir;

/// No condition takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The example of this name.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let dir = test.parent().and_then(Path::parent).unwrap();
    dir.join("examples").join(name)
}

/// Waits until `condition` yields something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter of a process; `None` when it is gone or a zombie. (`kill -0` succeeds on
/// zombies, and not every process 1 reaps.)
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(state)
}

pub fn alive(pid: i32) -> bool {
    state(pid).is_some()
}

pub fn stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

/// A field of /proc/PID/status.
pub fn status_field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

pub fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[track_caller]
pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A scratch directory in which one pretended lock lives.
pub struct Lock {
    dir: TempDir,
}

impl Lock {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a file: `frozen`, `stolen`, `busy`, `slow`, or one of the test's own.
    pub fn make(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn held(&self) -> bool {
        self.has("held")
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits for a number in a file, as shells write their pids.
    #[track_caller]
    pub fn number(&self, name: &str) -> i32 {
        wait_for(name, || self.read(name).strip_suffix('\n')?.trim().parse().ok())
    }

    #[track_caller]
    pub fn wait_for_file(&self, name: &str) {
        wait_for(name, || self.has(name).then_some(()));
    }

    /// A copy of a program that runs as root for everybody, in a directory that everybody may use.
    /// `None` where that is impossible.
    pub fn set_user_id_copy(&self, program: &str) -> Option<String> {
        use std::os::unix::fs::PermissionsExt;
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o777)).ok()?;
        let path = std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|dir| dir.join(program))
            .find(|path| path.is_file())?;
        let copy = self.path(program);
        fs::copy(path, &copy).ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).ok()?;
        let uid = Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups"])
            .arg(&copy)
            .args(["--reuid=0", "--clear-groups", "id", "-u"])
            .output()
            .ok()?;
        (uid.stdout == b"0\n").then(|| copy.to_str().map(str::to_owned))?
    }

    /// A run of `sh -c script`, in which `$D` is the scratch directory.
    pub fn sh(&self, script: &str) -> Builder<'_> {
        self.run(&["sh", "-c", script])
    }

    pub fn run(&self, command: &[&str]) -> Builder<'_> {
        Builder {
            lock: self,
            wrapper: Vec::new(),
            options: Vec::new(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            stdin: Stdio::null(),
        }
    }

    /// The words that run a command under the lock.
    pub fn words(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let mut words = vec![
            example("fake_run").to_str().unwrap().to_owned(),
            self.dir.path().to_str().unwrap().to_owned(),
        ];
        words.extend(options.iter().map(|&option| option.to_owned()));
        words.push("--".to_owned());
        words.extend(command.iter().map(|&word| word.to_owned()));
        words
    }
}

pub struct Builder<'a> {
    lock: &'a Lock,
    wrapper: Vec<String>,
    options: Vec<String>,
    command: Vec<String>,
    stdin: Stdio,
}

impl Builder<'_> {
    /// An option of the run, `name=value`.
    pub fn opt(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// A program that sets something up and then executes the run in its place.
    pub fn under(mut self, words: &[&str]) -> Self {
        self.wrapper.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.stdin = stdin;
        self
    }

    /// Starts it as cron would: no terminal, a session of its own, clean dispositions.
    pub fn start(self) -> Running {
        let out = self.lock.path("stdout");
        let err = self.lock.path("stderr");
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let command: Vec<&str> = self.command.iter().map(String::as_str).collect();
        let child = Command::new("setsid")
            .args(["env", "--default-signal"])
            .args(&self.wrapper)
            .args(self.lock.words(&options, &command))
            .env("D", self.lock.dir.path())
            .env("SIGCOUNT", example("sigcount"))
            .stdin(self.stdin)
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Running { child, out, err }
    }

    /// Starts it and waits for its end.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }
}

/// A run under way.
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        wait_for(text, || self.stdout().contains(text).then_some(()));
    }

    /// How often a line of the output begins so.
    pub fn count(&self, start: &str) -> usize {
        let out = self.stdout();
        out.lines().filter(|line| line.starts_with(start)).count()
    }

    /// The guardian: the child of ours that has our program's name but not our number.
    pub fn guardian(&self) -> i32 {
        wait_for("the guardian", || {
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid()));
            children.ok()?.split_whitespace().find_map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
                (name == "redlock-guard\n").then(|| pid.parse().ok())?
            })
        })
    }

    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let status = wait_for("the end", || self.child.try_wait().unwrap());
        Finished { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // A failed test leaves nothing behind: the guardian does the rest.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A terminal with an interactive bash on it.
pub struct Terminal {
    master: OwnedFd,
    shell: Child,
    seen: String,
}

impl Terminal {
    pub fn new(lock: &Lock) -> Self {
        Self::with(lock, &["bash", "--norc", "--noediting", "-i"])
    }

    /// A terminal whose session leader is this program.
    pub fn with(lock: &Lock, program: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = || {
            let flags =
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let shell = Command::new("setsid")
            .args(["--ctty", "env", "--default-signal"])
            .args(program)
            .env("D", lock.dir.path())
            .env("RUN", example("fake_run"))
            .env("SIGCOUNT", example("sigcount"))
            .env("PS1", "prompt> ")
            .env_remove("PROMPT_COMMAND")
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .unwrap();
        Self { master, shell, seen: String::new() }
    }

    pub fn write(&mut self, text: &str) {
        rustix::io::write(&self.master, text.as_bytes()).unwrap();
    }

    /// Types a line once the shell asks for it.
    #[track_caller]
    pub fn line(&mut self, text: &str) {
        self.wait_for("prompt> ");
        self.write(&format!("{text}\n"));
        // The echo, which may hold the very words that are waited for.
        self.wait_for("\n");
    }

    /// Reads until `text` has been seen, and forgets everything up to it.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(index) = self.seen.find(text) {
                let rest = self.seen.split_off(index + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(
                start.elapsed() < PATIENCE && self.read(),
                "waited in vain for {text:?}, got {:?}",
                self.seen
            );
        }
    }

    /// Reads what there is; false when the terminal is closed.
    fn read(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        if poll(&mut fds, Some(&timeout)).unwrap() == 0 {
            return true;
        }
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
                true
            }
        }
    }

    /// Waits for the end of the session leader.
    #[track_caller]
    pub fn finish(&mut self) -> ExitStatus {
        wait_for("the end of the session", || {
            self.read();
            self.shell.try_wait().unwrap()
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A standard input that holds this text.
pub fn input(text: &str) -> Stdio {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file.into()
}

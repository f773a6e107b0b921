//! `redlock sandbox`: Redis masters for a first try and for tests, gone when it ends.
//!
//! Nothing of it shall outlive it. The servers die with us by the kernel's hand (`child::belt`)
//! and need no directory once they run, so that holds for a KILL too; on any other end they are
//! killed before we say how we ended.

pub mod launcher;
pub mod servers;

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    io::{self, Write},
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    process::{Child, Command, ExitStatus},
};

use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Pid,
};

use self::{launcher::ServerError, servers::Fleet};
use crate::{
    child::{Inherited, belt, signal_process},
    exit::{Code, Exit},
    signal::{Received, Sender, Signals},
};

/// What every variable of ours begins with.
const PREFIX: &[u8] = b"REDLOCK_";

/// The signals that ask a sandbox to end.
const STOPS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Why a sandbox could not do its work.
#[derive(Debug)]
#[non_exhaustive]
pub enum SandboxError {
    /// The servers could not be started.
    Server(ServerError),
    /// The command could not be started.
    Command(OsString, io::Error),
    /// The `export` lines could not be written.
    Output(io::Error),
    /// The system refused something that it never refuses.
    System(io::Error),
}

impl SandboxError {
    /// The exit code for this error, as env(1) and timeout(1) have it.
    pub fn code(&self) -> Code {
        match self {
            Self::Command(_, error) if error.kind() == io::ErrorKind::NotFound => Code::NotFound,
            Self::Command(..) => Code::NotExecutable,
            Self::Server(_) | Self::Output(_) | Self::System(_) => Code::Failure,
        }
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "{error}"),
            Self::Command(program, error) => {
                write!(f, "cannot run '{}': {error}", program.display())
            }
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
            Self::System(error) => write!(f, "cannot watch signals and processes: {error}"),
        }
    }
}

impl std::error::Error for SandboxError {}

impl From<ServerError> for SandboxError {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

/// Starts `count` masters, runs `command` beside them and ends them after it. Without a command
/// writes the lines that make a shell use them to `stdout` and stays until a signal comes.
///
/// Call it from the thread that lives longest: the servers die with it.
pub fn run(count: u8, command: &[OsString], stdout: &mut dyn Write) -> Result<Exit, SandboxError> {
    // Before there is anything to clean up, so that no signal can come too early.
    let mut signals = watch_signals().map_err(SandboxError::System)?;
    let fleet = Fleet::start(count)?;
    fleet.drop_directory();
    let environment = Environment::of(&fleet);
    let Some((program, arguments)) = command.split_first() else {
        environment.write_exports(stdout).map_err(SandboxError::Output)?;
        return wait_for_stop(&mut signals).map_err(SandboxError::System);
    };
    if let Some(exit) = stop(&mut signals) {
        return Ok(exit);
    }
    let mut command = Command::new(program);
    command.args(arguments);
    environment.apply(&mut command);
    let child = belt::die_with_parent(&mut command)
        .spawn()
        .map_err(|error| SandboxError::Command(program.clone(), error))?;
    wait_for_child(child, &mut signals).map_err(SandboxError::System)
}

/// What a command needs to find the masters.
struct Environment([(&'static str, String); 3]);

impl Environment {
    fn of(fleet: &Fleet) -> Self {
        Self([
            ("REDLOCK_NODES", fleet.nodes()),
            // The servers are new and have nothing to remember.
            ("REDLOCK_RESTART_GUARD", "off".to_owned()),
            ("REDLOCK_CONFIG", "/dev/null".to_owned()),
        ])
    }

    /// Gives `command` these variables and takes every other one of ours: the user's nodes and
    /// passwords are none of the sandbox's business.
    fn apply(&self, command: &mut Command) {
        for name in foreign_variables(env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        command.envs(self.0.iter().map(|(name, value)| (name, value)));
    }

    fn write_exports(&self, out: &mut dyn Write) -> io::Result<()> {
        for (name, value) in &self.0 {
            // No value holds a quote: ports and constants.
            writeln!(out, "export {name}='{value}'")?;
        }
        out.flush()
    }
}

/// The names that begin as ours do.
fn foreign_variables(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| OsStr::as_bytes(name).starts_with(PREFIX))
}

/// Watches for the signals that ask us to end and for the end of children. What our caller told us
/// to ignore (nohup, `&` in a script) stays ignored, for the command as well.
fn watch_signals() -> io::Result<Signals> {
    let inherited = Inherited::take(&STOPS);
    Inherited::unblock();
    let wanted = STOPS.into_iter().filter(|&signal| !inherited.ignores(signal));
    Signals::watch(wanted.chain([SIGCHLD]))
}

/// Sleeps until something arrived.
fn sleep(signals: &Signals) -> io::Result<()> {
    match poll(&mut [PollFd::new(signals, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A signal that asks us to end, if one has arrived.
fn stop(signals: &mut Signals) -> Option<Exit> {
    let stop = signals.drain().find(|received| received.signal != SIGCHLD);
    stop.map(|received| Exit::Signal(received.signal))
}

fn wait_for_stop(signals: &mut Signals) -> io::Result<Exit> {
    loop {
        if let Some(exit) = stop(signals) {
            return Ok(exit);
        }
        sleep(signals)?;
    }
}

/// Waits for the command's end. A signal from the terminal has reached it already, one that
/// somebody sent to us is handed on: it is the command that the sender means to end.
fn wait_for_child(mut child: Child, signals: &mut Signals) -> io::Result<Exit> {
    let pid = Pid::from_child(&child);
    loop {
        for Received { signal, sender } in signals.drain() {
            if signal != SIGCHLD && sender != Sender::Kernel {
                // A command of another user cannot be signalled; its end is waited for all the
                // same.
                let _ = signal_process(pid, signal);
            }
        }
        if let Some(status) = child.try_wait()? {
            return Ok(exit_of(status));
        }
        sleep(signals)?;
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::from(Code::Failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_ours_are_taken_away() {
        let names = ["PATH", "REDLOCK_NODES", "XREDLOCK_A", "REDLOCK_", "redlock_b"];
        let taken: Vec<_> = foreign_variables(names.into_iter().map(Into::into)).collect();
        assert_eq!(taken, ["REDLOCK_NODES", "REDLOCK_"]);
    }

    #[test]
    fn exports_are_three_lines_for_a_shell() {
        let environment = Environment([
            ("REDLOCK_NODES", "redis://127.0.0.1:1".to_owned()),
            ("REDLOCK_RESTART_GUARD", "off".to_owned()),
            ("REDLOCK_CONFIG", "/dev/null".to_owned()),
        ]);
        let mut out = Vec::new();
        environment.write_exports(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "export REDLOCK_NODES='redis://127.0.0.1:1'\n\
             export REDLOCK_RESTART_GUARD='off'\n\
             export REDLOCK_CONFIG='/dev/null'\n"
        );
    }

    #[test]
    fn command_that_cannot_run_has_the_codes_of_env() {
        let error = |kind: io::ErrorKind| SandboxError::Command("x".into(), kind.into()).code();
        assert_eq!(error(io::ErrorKind::NotFound), Code::NotFound);
        assert_eq!(error(io::ErrorKind::PermissionDenied), Code::NotExecutable);
        assert_eq!(SandboxError::from(ServerError::Missing).code(), Code::Failure);
    }
}

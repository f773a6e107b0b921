//! Starting the command: fork(2) and execvp(3), with a report through a pipe when the exec fails.
//!
//! std's `Command` is not used because its `spawn` blocks for as long as the new process is
//! stopped before its exec, and because a closed standard descriptor could not stay closed. All
//! that the new process needs is laid out before the fork; after it only async-signal-safe calls
//! are made. A script without `#!` runs through /bin/sh, as with env(1) and timeout(1).

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    ptr,
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal},
};

use super::{
    guardian::Guardian,
    inherited::Inherited,
    sys::{self, Mask},
    terminal::Placement,
};

/// What to start, and how.
pub struct Launch<'a> {
    /// The program and its arguments; at least one word.
    pub command: &'a [OsString],
    /// The whole environment.
    pub environment: &'a [(OsString, OsString)],
    /// Its process group.
    pub placement: &'a Placement,
    /// What our caller handed down.
    pub inherited: &'a Inherited,
    /// The signals whose disposition we changed.
    pub changed: &'a [i32],
    /// Who must know the new process before it does anything.
    pub guardian: Option<&'a Guardian>,
}

/// The command's process between its fork and its exec.
pub struct Birth {
    /// Its number.
    pub pid: Pid,
    report: OwnedFd,
}

/// How the exec went.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing is known yet.
    Pending,
    /// The command's program runs (or the process was killed before).
    Started,
    /// It could not be executed; the process ends at once.
    Failed(io::Error),
}

impl Birth {
    /// Looks whether the exec has happened. Never blocks.
    pub fn outcome(&self) -> Outcome {
        let mut errno = [0; 4];
        match rustix::io::read(&self.report, &mut errno) {
            Ok(4) => Outcome::Failed(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Outcome::Pending,
            _ => Outcome::Started,
        }
    }
}

impl AsFd for Birth {
    /// Readable when the outcome is known.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

/// Forks the command's process; to be called on a thread that lives to the end, since the death
/// of the thread that forked is what PDEATHSIG means by the parent's death.
///
/// # Errors
/// No process or pipe could be had, or a word holds a NUL byte.
pub fn spawn(launch: &Launch<'_>) -> io::Result<Birth> {
    let words = strings(launch.command.iter().map(|word| word.as_bytes().to_vec()))?;
    let variables = strings(launch.environment.iter().map(|(name, value)| entry(name, value)))?;
    let (argv, envp) = (pointers(&words), pointers(&variables));
    let (report, to_report) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let parent = getpid();
    // A handler of ours must not run in the new process.
    let mask = Mask::full().set();
    // SAFETY: the child calls `become_command` only, which is async-signal-safe and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        become_command(launch, parent, &argv, &envp, &to_report);
    }
    let error = io::Error::last_os_error();
    mask.set();
    let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)?;
    Ok(Birth { pid, report })
}

fn entry(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

fn strings(words: impl Iterator<Item = Vec<u8>>) -> io::Result<Vec<CString>> {
    words.map(|word| CString::new(word).map_err(io::Error::from)).collect()
}

fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
}

/// The new process's life before its exec. Async-signal-safe: no allocation, no locks.
fn become_command(
    launch: &Launch<'_>,
    parent: Pid,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    report: &OwnedFd,
) -> ! {
    let me = getpid().as_raw_nonzero().get();
    let own_group = !matches!(launch.placement, Placement::Shared);
    if let Some(guardian) = launch.guardian {
        guardian.crib().note(me, if own_group { me } else { 0 });
    }
    // The second belt. A parent that died before it was put on is seen by its number, not by 1:
    // under an init or a subreaper it would be another.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        sys::exit_now(125);
    }
    if own_group {
        let _ = rustix::process::setpgid(None, None);
    }
    if let Placement::Handover(terminal) = launch.placement {
        terminal.give_to(getpid());
    }
    launch.inherited.restore(launch.changed);
    // SAFETY: both arrays hold pointers to NUL-terminated strings that outlive this process's
    // use, and end with a null pointer; there is at least one word.
    unsafe { libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr()) };
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let _ = rustix::io::write(report, &errno.to_ne_bytes());
    sys::exit_now(127)
}

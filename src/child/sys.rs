//! The few system calls that no crate of ours offers in safe form: dispositions, the signal mask,
//! waitid(2) with the pid of whom it found, signals with numbers beyond the named ones.

use std::{io, mem::MaybeUninit, ptr};

use rustix::process::{Pid, getpid};

/// The process ids of this file as the system has them.
fn raw(pid: Pid) -> libc::pid_t {
    pid.as_raw_nonzero().get()
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What clone(2) returned to the parent; to be called right after it.
///
/// # Errors
/// No process could be had: its number is -1, which as a process id would mean everybody.
pub fn made(pid: libc::pid_t) -> io::Result<Pid> {
    let error = io::Error::last_os_error();
    if pid > 0 { Pid::from_raw(pid).ok_or(error) } else { Err(error) }
}

/// Sends `signal` (any number, real-time ones too) to one process.
///
/// # Errors
/// `EPERM`: not ours to signal. `ESRCH`: it is gone.
pub fn signal_process(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes two numbers and touches no memory of ours.
    check(unsafe { libc::kill(raw(pid), signal) })
}

/// The number of our session; 0 where its leader is outside our pid namespace.
pub fn own_session() -> i32 {
    // SAFETY: getsid(2) takes a number and touches no memory of ours.
    unsafe { libc::getsid(0) }
}

/// Our process group, unless its leader is outside our pid namespace.
pub fn own_group() -> Option<Pid> {
    // SAFETY: getpgrp(2) takes nothing and touches no memory of ours.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Whether we lead our session: then the terminal's hang-up reaches us alone.
pub fn leads_session() -> bool {
    own_session() == getpid().as_raw_nonzero().get()
}

/// Sends `signal` to every process of a group.
///
/// # Errors
/// `EPERM`: none of them is ours to signal. `ESRCH`: the group is empty.
pub fn signal_group(group: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: as above; the group's id is positive, so its negation is no special value but -1,
    // which would need the group 1, init's, that nobody can join.
    check(unsafe { libc::kill(-raw(group), signal) })
}

/// Sends `signal` to our own process group, ourselves included.
pub fn signal_own_group(signal: i32) {
    // SAFETY: as above.
    let _ = unsafe { libc::kill(0, signal) };
}

/// Sends `signal` to the calling thread; for SIGSTOP it returns when the process was continued.
pub fn raise(signal: i32) {
    // SAFETY: raise(3) takes a number and touches no memory of ours.
    let _ = unsafe { libc::raise(signal) };
}

/// What a signal does by default or by choice of our caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// `SIG_DFL`.
    Default,
    /// `SIG_IGN`.
    Ignore,
}

/// Whether `signal` is ignored at present.
pub fn is_ignored(signal: i32) -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sigaction(2) with no new action only writes the old one into `old`, which is large
    // enough, and all-zero bytes are a valid `sigaction` should it fail.
    unsafe {
        libc::sigaction(signal, ptr::null(), old.as_mut_ptr());
        old.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Sets what `signal` does. Async-signal-safe.
pub fn set_disposition(signal: i32, disposition: Disposition) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all-zero bytes are a valid `sigaction` (no flags, empty mask); SIG_DFL and SIG_IGN
    // run no code of ours.
    unsafe {
        (*action.as_mut_ptr()).sa_sigaction = match disposition {
            Disposition::Default => libc::SIG_DFL,
            Disposition::Ignore => libc::SIG_IGN,
        };
        libc::sigaction(signal, action.as_ptr(), ptr::null_mut());
    }
}

/// A set of blocked signals.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

impl Mask {
    /// No signal.
    pub fn empty() -> Self {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: sigemptyset(3) initialises the set it is given.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            Self(set.assume_init())
        }
    }

    /// Every signal.
    pub fn full() -> Self {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: sigfillset(3) initialises the set it is given.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            Self(set.assume_init())
        }
    }

    /// The calling thread's mask.
    pub fn current() -> Self {
        let mut set = Self::empty();
        // SAFETY: without a new set the call only writes the present one.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set.0) };
        set
    }

    /// Makes this the calling thread's mask and returns the one before. Async-signal-safe.
    pub fn set(&self) -> Self {
        let mut old = Self::empty();
        // SAFETY: both sets are initialised and outlive the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, &raw mut old.0) };
        old
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(u8),
    /// It died of this signal.
    Signaled(i32),
}

/// What waitid(2) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This child ended.
    Ended(Pid, Ending),
    /// This child was stopped by the signal.
    Stopped(Pid, i32),
    /// This child was continued.
    Continued(Pid),
}

/// Whom to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Any child whose end is told by SIGCHLD, so never the guardian.
    Any,
    /// This child.
    One(Pid),
}

/// waitid(2) with `options` of libc's `W...`. `None`: nothing to tell (`WNOHANG`).
///
/// # Errors
/// `ECHILD`: there is no such child.
pub fn wait(whom: Whom, options: i32) -> io::Result<Option<Change>> {
    let (kind, id) = match whom {
        Whom::Any => (libc::P_ALL, 0),
        Whom::One(pid) => (libc::P_PID, raw(pid).unsigned_abs()),
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let info = loop {
        // SAFETY: `info` is large enough and all-zero bytes are a valid `siginfo_t`.
        let result = unsafe { libc::waitid(kind, id, info.as_mut_ptr(), options) };
        match check(result) {
            // SAFETY: zeroed above and filled by the call.
            Ok(()) => break unsafe { info.assume_init() },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    // SAFETY: after waitid(2) the fields of a SIGCHLD siginfo are valid; where it found nothing
    // they are still zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    Ok(Some(match info.si_code {
        // The kernel hands over the low eight bits of the status.
        libc::CLD_EXITED => Change::Ended(pid, Ending::Exited(status.to_le_bytes()[0])),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => Change::Stopped(pid, status),
        libc::CLD_CONTINUED => Change::Continued(pid),
        _ => Change::Ended(pid, Ending::Signaled(status)),
    }))
}

/// Closes every descriptor from `first` to `last`. Works on descriptors that are not open.
pub fn close_range(first: i32, last: i32) {
    let (low, high) = (first.unsigned_abs(), last.unsigned_abs());
    // SAFETY: the caller is a process of its own in which no owner of these descriptors runs.
    let result = unsafe { libc::syscall(libc::SYS_close_range, low, high, 0) };
    if result != 0 {
        // Before Linux 5.9: one by one, as far as there can be any.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile)
            .current
            .and_then(|limit| i32::try_from(limit).ok())
            .unwrap_or(65_536);
        for fd in first..=last.min(limit) {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}

/// Ends the calling process at once: no destructors, no buffers, no handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) never returns and runs nothing.
    unsafe { libc::_exit(status) }
}

//! Starting the command: a clone(2) that shares our memory until its exec, as vfork(2) and
//! `posix_spawn(3)` do it. That saves a tenth of the whole run's time against fork(2), and a failed
//! exec is told by a variable. The main thread waits for the exec; the node thread does not, so
//! the lock is extended even if the exec hangs, and the guardian keeps the deadline meanwhile.
//!
//! std's `Command` is not used because a closed standard descriptor could not stay closed, and
//! because it forks as soon as there is anything to set up. A script without `#!` runs through
//! /bin/sh, as with env(1) and timeout(1): that is execvp(3)'s doing.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    ptr,
};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::{
    guardian::{Crib, Guardian},
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

/// A process that was made for the command.
#[derive(Debug)]
pub struct Spawned {
    /// Its number. It must be reaped, whatever came of it.
    pub pid: Pid,
    /// Whether the command runs in it, or why it cannot be executed.
    pub exec: io::Result<()>,
}

/// Makes the command's process and waits for its exec; to be called on a thread that lives to the
/// end, since its death is what PDEATHSIG means by the parent's death.
///
/// # Errors
/// No process could be had, or a word holds a NUL byte.
pub fn spawn(launch: &Launch<'_>) -> io::Result<Spawned> {
    let words = strings(launch.command.iter().map(|word| word.as_bytes().to_vec()))?;
    let variables = strings(launch.environment.iter().map(|(name, value)| entry(name, value)))?;
    let argv = pointers(&words);
    let envp = pointers(&variables);
    let mut newborn = Newborn {
        parent: getpid(),
        crib: launch.guardian.map(Guardian::crib),
        launch,
        argv: &argv,
        envp: &envp,
        errno: 0,
    };
    // execvp(3) puts a path and, for a script without `#!`, a copy of argv on the stack.
    let size = 64 * 1024 + 2 * size_of_val(argv.as_slice());
    let mut stack: Vec<u128> = Vec::with_capacity(size / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    // A handler of ours must not run in the new process.
    let mask = Mask::full().set();
    // SAFETY: `top` is the end of a live allocation, aligned to 16 bytes, large enough for
    // `become_command`, and nobody else's. With CLONE_VFORK this thread sleeps until the child has
    // called exec or ended, so the child is alone with `newborn` and everything it borrows.
    // Signal dispositions, descriptors and the mask are copies of its own.
    let pid = unsafe {
        libc::clone(
            become_command,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut newborn).cast(),
        )
    };
    let pid = sys::made(pid);
    mask.set();
    let pid = pid?;
    // SAFETY: a plain read of our own variable; volatile because another process wrote it, behind
    // the compiler's back.
    let errno = unsafe { ptr::read_volatile(&raw const newborn.errno) };
    let exec = match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    };
    Ok(Spawned { pid, exec })
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

/// What the new process works with. All of it is laid out before, since it must not allocate.
struct Newborn<'a> {
    launch: &'a Launch<'a>,
    parent: Pid,
    crib: Option<Crib>,
    argv: &'a [*const libc::c_char],
    envp: &'a [*const libc::c_char],
    /// Why the exec failed.
    errno: i32,
}

/// The new process's life before its exec. Async-signal-safe: no allocation, no locks, no panic.
extern "C" fn become_command(newborn: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes a `Newborn` that outlives this process's use of it and that nobody
    // else touches meanwhile.
    let newborn = unsafe { &mut *newborn.cast::<Newborn<'_>>() };
    let launch = newborn.launch;
    let me = getpid();
    let own_group = !matches!(launch.placement, Placement::Shared);
    if let Some(crib) = newborn.crib {
        let pid = me.as_raw_nonzero().get();
        crib.note(pid, if own_group { pid } else { 0 });
    }
    // The second belt. A parent that died before it was put on is seen by its number, not by 1:
    // under an init or a subreaper it would be another.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(newborn.parent) {
        sys::exit_now(125);
    }
    if own_group {
        let _ = rustix::process::setpgid(None, None);
    }
    if let Placement::Handover(terminal) = launch.placement {
        terminal.give_to(me);
    }
    launch.inherited.restore(launch.changed);
    // SAFETY: both arrays hold pointers to NUL-terminated strings that outlive this process's
    // use, and end with a null pointer; there is at least one word.
    unsafe {
        libc::execvpe(newborn.argv[0], newborn.argv.as_ptr(), newborn.envp.as_ptr());
    }
    newborn.errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    sys::exit_now(127)
}

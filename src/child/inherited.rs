//! What our caller handed down and the command must find again: the signal mask, ignored signals,
//! closed standard descriptors. The Rust runtime changes two of these before `main` (SIGPIPE is
//! ignored, closed descriptors 0, 1, 2 become /dev/null), so they are looked at earlier, by a
//! constructor.

use std::sync::atomic::{AtomicU8, Ordering};

use super::sys::{self, Disposition, Mask};

/// Bits 0 to 2: the descriptor was closed. Bit 3: SIGPIPE was ignored.
static AT_ENTRY: AtomicU8 = AtomicU8::new(0);
const SIGPIPE_IGNORED: u8 = 1 << 3;

/// Runs before the runtime's start, where nothing but plain system calls is allowed.
extern "C" fn look() {
    let mut found = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD only asks about a descriptor, open or not.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            found |= 1 << fd;
        }
    }
    if sys::is_ignored(libc::SIGPIPE) {
        found |= SIGPIPE_IGNORED;
    }
    AT_ENTRY.store(found, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to `extern "C"` functions, which the C runtime calls before
// main (the arguments it passes are ignored); `look` touches an atomic and the kernel only.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = look;

/// What was there when we were started.
#[derive(Clone)]
pub struct Inherited {
    mask: Mask,
    ignored: u128,
    closed: u8,
}

impl Inherited {
    /// Looks at the mask and at the dispositions of `signals`; to be called before any of them is
    /// handled. The mask itself is not changed.
    pub fn take(signals: &[i32]) -> Self {
        let at_entry = AT_ENTRY.load(Ordering::Relaxed);
        let mut ignored = 0;
        // What the runtime made of SIGPIPE is not our caller's doing.
        for &signal in signals.iter().filter(|&&signal| signal != libc::SIGPIPE) {
            if sys::is_ignored(signal) {
                ignored |= bit(signal);
            }
        }
        if at_entry & SIGPIPE_IGNORED != 0 {
            ignored |= bit(libc::SIGPIPE);
        }
        Self { mask: Mask::current(), ignored, closed: at_entry & 0b111 }
    }

    /// Whether our caller ignored `signal`.
    pub const fn ignores(&self, signal: i32) -> bool {
        self.ignored & bit(signal) != 0
    }

    /// Whether the standard descriptor `fd` was closed. The runtime has made it /dev/null since,
    /// where whatever is written is lost without an error.
    pub const fn closed(&self, fd: u8) -> bool {
        fd < 3 && self.closed & (1 << fd) != 0
    }

    /// Unblocks every signal for us: a blocked TERM would never reach its handler.
    pub fn unblock() {
        Mask::empty().set();
    }

    /// Ignores the signals by which a terminal stops a process that writes to it, so that a
    /// message of ours cannot stop the one who extends the lock.
    pub fn defy_terminal() {
        sys::set_disposition(libc::SIGTTIN, Disposition::Ignore);
        sys::set_disposition(libc::SIGTTOU, Disposition::Ignore);
    }

    /// Puts everything back in the command's process, just before its program is loaded: `changed`
    /// are the signals that we handle or ignore. Async-signal-safe. Signals must be blocked, since
    /// handlers of ours must not run here; they are unblocked at the end.
    pub(super) fn restore(&self, changed: &[i32]) {
        for &signal in changed {
            let disposition =
                if self.ignores(signal) { Disposition::Ignore } else { Disposition::Default };
            sys::set_disposition(signal, disposition);
        }
        for fd in 0..3 {
            if self.closed & (1 << fd) != 0 {
                sys::close_range(fd, fd);
            }
        }
        self.mask.set();
    }
}

const fn bit(signal: i32) -> u128 {
    1 << (signal.unsigned_abs() & 127)
}

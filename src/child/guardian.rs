//! The guardian: a second process that ends the command's tree when redlock cannot, because it was
//! killed, stopped or starved.
//!
//! It is made first of all, while there is one thread, sits in a group of its own, blocks every
//! signal, and holds one end of a pipe whose other end only redlock has: the pipe's end is
//! redlock's end. What it must know (until when the lock is certain, who the leader is) stands in
//! a page of memory that both share. So it is never out of date, costs no message, and a frozen
//! guardian that wakes up late judges by the present state.
//!
//! It finds the tree by the leader and its group, by parentage as long as redlock lives, and by
//! the run's id in `/proc/PID/environ`, and looks again until nothing but zombies is left.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, getpid, getppid, getsid},
};

use super::{
    proc::{self, Stat},
    sys::{self, Mask, Whom},
};
use crate::{
    clock::{BootClock, Clock, Tick},
    wake::Alarm,
};

/// The variable that names the runs a process belongs to, the innermost last.
pub const RUN_VARIABLE: &str = "REDLOCK_RUN";

/// What redlock, the guardian and the command's process before its exec see of each other.
struct Page {
    /// When the guardian strikes, in nanoseconds of the boot-time clock; `u64::MAX`: not by time.
    strike: AtomicU64,
    /// When it looks at this page next, in the same way; before that it needs no waking.
    look: AtomicU64,
    /// The command's process; 0: none yet, or its number may belong to somebody else by now.
    leader: AtomicI32,
    /// The command's own process group; 0: none, or as above.
    group: AtomicI32,
    /// Nothing of the command is left: the pipe's end means nothing any more.
    at_ease: AtomicBool,
}

impl Page {
    /// A page that stays shared with every process made from this one.
    fn new() -> io::Result<&'static Self> {
        // SAFETY: a fresh anonymous mapping, nobody else's memory; page-aligned, so aligned for
        // `Page`; all-zero bytes are valid for its atomics; never unmapped, so 'static.
        let page: &'static Self = unsafe {
            let memory = mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Self>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?;
            &*memory.cast::<Self>()
        };
        page.strike.store(u64::MAX, SeqCst);
        page.look.store(u64::MAX, SeqCst);
        Ok(page)
    }
}

/// redlock's handle on its guardian.
pub struct Guardian {
    pid: Pid,
    page: &'static Page,
    /// `None` once it stood down.
    pipe: Option<OwnedFd>,
}

impl Guardian {
    /// Starts the guardian of the run `run`, which leaves the `older` processes below us alone. The
    /// process must have one thread.
    ///
    /// # Errors
    /// No process, page or pipe could be had.
    pub fn start(run: &str, older: &[Pid]) -> io::Result<Self> {
        let page = Page::new()?;
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let redlock = getpid();
        // SAFETY: clone(2) without flags is fork(2) whose child's end is told by no signal, so
        // that waitid(P_ALL) never sees it. The arguments are all zero, in whatever order the
        // architecture has them. There is one thread, so no lock is held by another and the child
        // may allocate.
        let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
        if pid == 0 {
            Watch { page, pipe: read, redlock, run: run.as_bytes(), older }.live()
        }
        let pid = i32::try_from(pid).unwrap_or(-1);
        Ok(Self { pid: sys::made(pid)?, page, pipe: Some(write) })
    }

    /// The guardian's own process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells it when to strike by itself. Wakes it only if it would sleep beyond that.
    pub fn strike_at(&self, at: Option<Tick>) {
        let nanos = at.map_or(u64::MAX, nanos);
        self.page.strike.store(nanos, SeqCst);
        if self.page.look.load(SeqCst) > nanos {
            self.poke();
        }
    }

    /// Tells it that the leader's number and group must not be used any more.
    pub fn leader_gone(&self) {
        self.page.leader.store(0, SeqCst);
        self.page.group.store(0, SeqCst);
    }

    /// Where the command's process writes down its own number, before its exec.
    pub(super) fn crib(&self) -> Crib {
        Crib(self.page)
    }

    /// The descriptor that polls as hung up when the guardian is gone.
    pub fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Lets it go: nothing of the command is left, or what is left is not to be ended.
    pub fn stand_down(&mut self) {
        self.page.at_ease.store(true, SeqCst);
        self.pipe = None;
    }

    /// Waits for its end, after [`Guardian::stand_down`], and reaps it.
    pub fn reap(self) {
        let _ = sys::wait(Whom::One(self.pid), libc::WEXITED | libc::__WALL);
    }

    fn poke(&self) {
        if let Some(pipe) = &self.pipe {
            // A full pipe wakes it as well.
            let _ = rustix::io::write(pipe, &[0]);
        }
    }
}

/// Most commands are over before the guardian's first look: then it is woken once, by their end.
const FIRST_LOOK: Duration = Duration::from_millis(80);

fn nanos(at: Tick) -> u64 {
    // 2^64 ns are 584 years.
    u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX - 1)
}

/// The part of the shared page that the command's process may write.
#[derive(Clone, Copy)]
pub(super) struct Crib(&'static Page);

impl Crib {
    /// Async-signal-safe.
    pub(super) fn note(self, leader: i32, group: i32) {
        self.0.leader.store(leader, SeqCst);
        self.0.group.store(group, SeqCst);
    }
}

/// The guardian's own side.
struct Watch<'a> {
    page: &'static Page,
    pipe: OwnedFd,
    redlock: Pid,
    run: &'a [u8],
    older: &'a [Pid],
}

impl Watch<'_> {
    fn live(&self) -> ! {
        Mask::full().set();
        let _ = rustix::thread::set_name(c"redlock-guard");
        let _ = rustix::process::setpgid(None, None);
        let keep = self.pipe.as_raw_fd();
        sys::close_range(0, keep - 1);
        sys::close_range(keep + 1, i32::MAX);
        if let Ok(alarm) = Alarm::new() {
            self.watch(&alarm);
        } else {
            // Without a clock the pipe's end still tells.
            self.until_end();
        }
        if !self.page.at_ease.load(SeqCst) {
            self.strike();
        }
        sys::exit_now(0)
    }

    /// Sleeps until redlock is gone, or strikes when its time has come.
    fn watch(&self, alarm: &Alarm) {
        let first = BootClock.now().after(FIRST_LOOK);
        let mut alarm_at = None;
        let mut struck = false;
        while !self.ended() {
            let strike = self.page.strike.load(SeqCst);
            let due = Tick::from_boot(Duration::from_nanos(strike));
            let now = BootClock.now();
            let look = if strike == u64::MAX {
                (now < first).then_some(first)
            } else if now < due {
                struck = false;
                Some(due)
            } else if struck {
                None
            } else {
                struck = true;
                self.strike();
                continue;
            };
            self.page.look.store(look.map_or(u64::MAX, nanos), SeqCst);
            if self.page.strike.load(SeqCst) != strike {
                // Moved before our next look was known, so perhaps without waking us.
                continue;
            }
            if alarm_at != look {
                let _ = alarm.set(look);
                alarm_at = look;
            }
            let mut fds =
                [PollFd::new(&self.pipe, PollFlags::IN), PollFd::new(alarm, PollFlags::IN)];
            let _ = poll(&mut fds, None);
        }
    }

    fn until_end(&self) {
        while !self.ended() {
            let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
            let _ = poll(&mut fds, None);
        }
    }

    /// Empties the pipe; true when nobody holds its other end any more.
    fn ended(&self) -> bool {
        let mut buffer = [0; 64];
        loop {
            match rustix::io::read(&self.pipe, &mut buffer) {
                Ok(0) => return true,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Kills until nothing but zombies is left, or only what we may not kill.
    fn strike(&self) {
        let born = Stat::of(getpid()).map_or(0, |stat| stat.start);
        let mut pause = Duration::from_millis(1);
        loop {
            let left = self.kill_once(born);
            if left == 0 || self.page.at_ease.load(SeqCst) {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// One look, one KILL for everything found; how many may still be alive.
    fn kill_once(&self, born: u64) -> usize {
        // The leader first: it is the one most likely to start more.
        let leader = Pid::from_raw(self.page.leader.load(SeqCst)).and_then(Stat::of);
        if let Some(leader) = leader.filter(|leader| leader.start >= born) {
            let _ = leader.signal(libc::SIGKILL);
        }
        let mut left = 0;
        for process in self.find(born) {
            match process.signal(libc::SIGKILL) {
                Ok(()) => left += 1,
                Err(error) => left += usize::from(error.raw_os_error() == Some(libc::EINTR)),
            }
        }
        left
    }

    /// The living processes of the run.
    fn find(&self, born: u64) -> Vec<Stat> {
        let me = getpid();
        let all = proc::all();
        let leader = self.page.leader.load(SeqCst);
        let group = self.page.group.load(SeqCst);
        let session = getsid(None).map_or(0, |sid| sid.as_raw_nonzero().get());
        let redlock = self.redlock.as_raw_nonzero().get();
        // Its number is redlock's own only while we are its child.
        let parent_lives = getppid() == Some(self.redlock);
        let candidate = |process: &Stat| {
            process.start >= born
                && process.pid != me
                && process.pid != self.redlock
                && !self.older.contains(&process.pid)
        };
        let mut found: Vec<Stat> = all
            .iter()
            .filter(|process| candidate(process))
            .filter(|process| {
                let pid = process.pid.as_raw_nonzero().get();
                pid == leader
                    || (group != 0 && process.group == group && process.session == session)
                    || (parent_lives && process.parent == redlock)
                    || proc::mentions(process.pid, RUN_VARIABLE.as_bytes(), self.run)
            })
            .cloned()
            .collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|process| process.pid.as_raw_nonzero().get()) {
            next += 1;
            let children: Vec<Stat> = all
                .iter()
                .filter(|process| candidate(process) && process.parent == parent)
                .filter(|process| !found.iter().any(|known| known.pid == process.pid))
                .cloned()
                .collect();
            found.extend(children);
        }
        found.retain(Stat::is_alive);
        found
    }
}

//! The command's process tree as seen from redlock, its subreaper: whatever the command started,
//! with `setsid` or a double fork too, ends up as a descendant of ours and is found, signalled and
//! reaped here. ECHILD says that nothing is left (prctl(2), `PR_SET_CHILD_SUBREAPER`).

use std::io;

use rustix::process::{Pid, getpid, set_child_subreaper};

use super::{
    proc::{self, Stat},
    sys::{self, Change, Ending, Whom},
};

/// Something that happened to the leader, or that there is nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeEvent {
    /// The command itself ended.
    LeaderEnded(Ending),
    /// The command itself was stopped by this signal.
    LeaderStopped(i32),
    /// The command itself was continued.
    LeaderContinued,
    /// Some descendant ended.
    Reaped,
}

/// Whether anything of the command is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// At least one process.
    Something,
    /// Nothing.
    Nothing,
}

/// The processes below us that were there before the command: `x & exec redlock run ...` leaves us
/// a child that is none of our business. They are reaped, never signalled and never waited for.
/// Nearly always there are none, and one call says so. To be asked before the guardian is made.
pub fn older() -> Vec<Pid> {
    let peek = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    if sys::wait(Whom::Any, peek).is_err() {
        return Vec::new();
    }
    let nobody = Tree { me: getpid(), leader: None, not_ours: Vec::new(), older: true };
    nobody.descendants().iter().map(|process| process.pid).collect()
}

/// Everything below us but the guardian and the processes that were there before.
#[derive(Debug)]
pub struct Tree {
    me: Pid,
    leader: Option<Pid>,
    not_ours: Vec<Pid>,
    older: bool,
}

impl Tree {
    /// Makes us the subreaper of what we are about to start. `guardian` is a child of ours that
    /// waitid(2) never tells us about.
    ///
    /// # Errors
    /// The kernel has no subreapers.
    pub fn new(guardian: Option<Pid>, older: &[Pid]) -> io::Result<Self> {
        let me = getpid();
        set_child_subreaper(Some(me))?;
        Ok(Self {
            me,
            leader: None,
            not_ours: older.iter().copied().chain(guardian).collect(),
            older: !older.is_empty(),
        })
    }

    /// Takes note of the command.
    pub fn plant(&mut self, leader: Pid) {
        self.leader = Some(leader);
    }

    /// The command's process, as long as its number cannot belong to anybody else.
    pub fn leader(&self) -> Option<Pid> {
        self.leader
    }

    /// Collects what happened since the last call. `last_look` runs between the leader's end and
    /// the moment when its number becomes free.
    pub fn reap(&mut self, mut last_look: impl FnMut()) -> (Vec<TreeEvent>, Left) {
        let mut events = Vec::new();
        let peek = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let left = loop {
            match sys::wait(Whom::Any, peek) {
                Ok(Some(Change::Ended(pid, ending))) => {
                    if Some(pid) == self.leader {
                        last_look();
                        self.leader = None;
                        events.push(TreeEvent::LeaderEnded(ending));
                    } else if !self.not_ours.contains(&pid) {
                        events.push(TreeEvent::Reaped);
                    }
                    let _ = sys::wait(Whom::One(pid), libc::WEXITED);
                    self.not_ours.retain(|&other| other != pid);
                }
                Ok(_) if self.older && self.leader.is_none() => break self.look_closely(),
                Ok(_) => break Left::Something,
                Err(_) => break Left::Nothing,
            }
        };
        if let Some(leader) = self.leader {
            let options = libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG;
            match sys::wait(Whom::One(leader), options) {
                Ok(Some(Change::Stopped(_, signal))) => {
                    events.push(TreeEvent::LeaderStopped(signal));
                }
                Ok(Some(Change::Continued(_))) => events.push(TreeEvent::LeaderContinued),
                _ => {}
            }
        }
        (events, left)
    }

    /// With older children about, ECHILD will not come: looks whether anything else is there.
    fn look_closely(&self) -> Left {
        if self.descendants().is_empty() { Left::Nothing } else { Left::Something }
    }

    /// What is alive of the command, as far as one look can tell.
    pub fn descendants(&self) -> Vec<Stat> {
        let mut found = Vec::new();
        let mut parents = vec![self.me];
        while let Some(parent) = parents.pop() {
            let Some(children) = proc::children(parent) else {
                if parent == self.me {
                    return self.descendants_by_scan();
                }
                continue;
            };
            for pid in children {
                if self.not_ours.contains(&pid) {
                    continue;
                }
                parents.push(pid);
                found.extend(Stat::of(pid).filter(Stat::is_alive));
            }
        }
        found
    }

    /// The same where the kernel keeps no list of children.
    fn descendants_by_scan(&self) -> Vec<Stat> {
        let all = proc::all();
        let mut parents = vec![self.me.as_raw_nonzero().get()];
        let mut found = Vec::new();
        while let Some(parent) = parents.pop() {
            for process in all.iter().filter(|process| process.parent == parent) {
                if self.not_ours.contains(&process.pid) {
                    continue;
                }
                parents.push(process.pid.as_raw_nonzero().get());
                if process.is_alive() {
                    found.push(process.clone());
                }
            }
        }
        found
    }

    /// Sends each of `signals` to every process of the tree, those that appear meanwhile included.
    /// Returns the ones that we may not signal.
    pub fn signal(&self, signals: &[i32]) -> Vec<Stat> {
        // A tree that forks faster than we look is caught by the caller's next call.
        const ROUNDS: usize = 8;
        let mut told: Vec<(Pid, u64)> = Vec::new();
        let mut refused = Vec::new();
        for _ in 0..ROUNDS {
            let mut fresh = self.descendants();
            fresh.retain(|process| !told.contains(&(process.pid, process.start)));
            if fresh.is_empty() {
                break;
            }
            for process in fresh {
                told.push((process.pid, process.start));
                for &signal in signals {
                    if process
                        .signal(signal)
                        .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
                    {
                        refused.push(process);
                        break;
                    }
                }
            }
        }
        refused
    }
}

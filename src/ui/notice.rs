//! What a run has to say to people, as data: the words are made in `ui`.

use std::time::Duration;

use crate::clock::Tick;
use crate::protocol::{Denial, NodeIndex, NodeView, Note};

/// The sink for what a run has to say.
pub trait Say {
    /// Says it, or does not: that depends on `-q`, `-v` and the terminal. Must not block for long
    /// and must not fail.
    fn say(&mut self, notice: Notice);

    /// When [`Say::repeat`] is due.
    fn due(&self) -> Option<Tick> {
        None
    }

    /// Says once more what goes on, if it is time.
    fn repeat(&mut self) {}
}

/// A process, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The name of its program, as /proc/PID/stat has it (15 bytes at most, any characters).
    pub name: String,
}

/// One thing to say. The sentence in each comment is what a person should read on standard error,
/// behind `redlock: `; [`Level`] says when it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Progress of the lock: waiting, outages, extensions. The sentences are the protocol's.
    Note(Note),
    /// `warning: everybody on this machine can read the password in ...; to mend it: chmod o-r ...`: what
    /// works and should be mended all the same.
    Warning(String),
    /// Nothing by itself: from now on it is about this one of the slots.
    Slot(usize),
    /// `got 'K' after 3m 12s`, when the wait was announced
    Acquired {
        /// How long it took.
        waited: Duration,
    },
    /// `TERM while waiting: giving up`
    Cancelled {
        /// The signal that ended the wait.
        signal: i32,
    },
    /// `the lock cannot be extended and ends in 1.2s: the command gets TERM now, KILL in 1s`
    Ending {
        /// How long the lock is certain from now on.
        left: Duration,
        /// When KILL follows, from now on.
        kill_in: Duration,
    },
    /// `the lock has run out: the command gets KILL`
    RanOut,
    /// `the lock is lost: db1 and db2 do not hold it any more; the command gets KILL`
    /// (TERM, then KILL after the grace; or runs on without a lock).
    Lost {
        /// The last that is known of each node.
        nodes: Vec<NodeView>,
        /// What happens to the command.
        policy: OnLost,
    },
    /// `the command has run for 1h: TERM now, KILL in 10s`
    MaxRuntime {
        /// The limit.
        limit: Duration,
        /// When KILL follows, from now on.
        kill_in: Duration,
    },
    /// `our parent has ended: the command gets TERM now, KILL in 10s`
    ParentDied {
        /// When KILL follows, from now on.
        kill_in: Duration,
    },
    /// `the command (pid 4242) has been stopped by TTIN for 30s and keeps the lock; it gets KILL
    /// in 4m 30s (--max-stopped)`
    Stopped {
        /// The signal that stopped it.
        signal: i32,
        /// For so long.
        since: Duration,
        /// When KILL follows, from now on.
        kill_in: Duration,
    },
    /// `the command has ended, its descendants have not: waiting for 4243 (sleep), 4244 (sh); see
    /// --leftover`
    Leftover {
        /// Who is left.
        processes: Vec<Process>,
        /// For how long after the command's end.
        since: Duration,
    },
    /// `TERM: ending the descendants that are left`
    EndingLeftover {
        /// The signal that asked for it; `None` for `--leftover kill`.
        signal: Option<i32>,
    },
    /// `not allowed to signal 4243 (sudo): the lock is kept until it is gone or the lock ends; run
    /// redlock with its rights (sudo redlock run ...)`
    CannotSignal {
        /// Who they are.
        processes: Vec<Process>,
    },
    /// `the guardian process is gone: the run goes on without it`
    GuardianDied,
    /// `the connections to the nodes are gone: the lock cannot be extended any more`
    NodesGone,
    /// `could not tell db1 and db2: the lock may stay there for up to 21s`
    Untold {
        /// Nodes that may still carry the lock.
        nodes: Vec<NodeIndex>,
        /// How long at most.
        at_most: Duration,
    },
    /// `the lock could not be given back in time and may stay for up to 30s`
    NotReleased {
        /// How long at most.
        at_most: Duration,
    },
    /// `the report was not written: cannot create /x/y: permission denied`
    NotReported {
        /// What could not be done, and the system's words.
        error: String,
    },
    /// `let go of 'K' after 3m 12s, extended 19 times`: a lock that was had is no more ours.
    Over {
        /// How long it was had.
        held: Duration,
        /// How often a quorum confirmed an extension.
        extensions: u64,
    },
    /// The one last line: `exit 75: ...reason...`. Comes exactly once, last of all, whenever the
    /// exit code is ours.
    Exit {
        /// The code.
        code: u8,
        /// Why.
        reason: Reason,
    },
}

/// What becomes of the command when the lock is lost for certain (`--on-lost`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// KILL at once: somebody else may already run.
    #[default]
    Kill,
    /// TERM now, KILL after the grace.
    Term,
    /// Nothing: it runs on without a lock.
    Continue,
}

/// Why the exit code is one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `'K' is held by ...`, `no quorum: ...`: the lock could not be had.
    Denied(Denial),
    /// `the lock was acquired too late: 1.1s of it are left, starting needs 1.3s`
    TooLate {
        /// What was left of its validity.
        left: Duration,
        /// What the command must have at the least.
        needed: Duration,
    },
    /// `the lock was lost while the command ran` (definite: nodes proved it).
    Lost,
    /// `the lock could not be extended in time` (its validity ran out, or was about to).
    RanOut,
    /// `the command ran longer than 1h and was ended by TERM` (or `needed KILL`).
    MaxRuntime {
        /// The limit.
        limit: Duration,
        /// What it took.
        by: EndedBy,
    },
    /// `the command was stopped for longer than 5m and got KILL (--max-stopped)`
    MaxStopped {
        /// The limit.
        limit: Duration,
    },
    /// `command not found: x`
    NotFound {
        /// The program.
        program: String,
    },
    /// `cannot execute x: permission denied`
    NotExecutable {
        /// The program.
        program: String,
        /// The system's words.
        error: String,
    },
    /// `cannot start the command: resource temporarily unavailable`: redlock itself failed.
    Failed {
        /// The whole sentence: what could not be done, and the system's words.
        error: String,
    },
}

/// What ended the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// TERM.
    Term,
    /// KILL.
    Kill,
}

/// When a notice is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// With `-v`.
    Detail,
    /// On a terminal, and with `-v`: cron mails every byte.
    Warning,
    /// Unless `-q`: waiting and busy.
    Progress,
    /// Always.
    Error,
}

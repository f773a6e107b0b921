//! What the machine decides by, what it is told and what it answers.

use std::time::Duration;

use super::record::Figures;
use crate::{
    child::{Ending, Left},
    clock::Tick,
    exit::Exit,
    protocol::{Event, Timing},
    settings::{Conflict, Leftover},
    signal::{Placing, Source},
    ui::{Notice, OnLost, Process, Reason},
};

/// What the machine decides by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The lock's durations.
    pub timing: Timing,
    /// Where the command sits.
    pub placing: Placing,
    /// What a definite loss does.
    pub on_lost: OnLost,
    /// What becomes of descendants.
    pub leftover: Leftover,
    /// The longest the command and its descendants may run.
    pub max_runtime: Option<Duration>,
    /// KILL this long after TERM, when given: then it also bounds a relayed HUP, INT or TERM.
    pub kill_after: Option<Duration>,
    /// How long the command may be stopped.
    pub max_stopped: Duration,
    /// When the line about leftover descendants is repeated first; doubles up to 5 minutes.
    pub heartbeat: Option<Duration>,
    /// What "held by somebody else" means.
    pub conflict: Conflict,
    /// How long the lock is waited for at most, when that is bounded.
    pub wait: Option<Duration>,
}

impl Rules {
    /// KILL this long after TERM where nothing was given.
    pub const KILL_AFTER: Duration = Duration::from_secs(10);
    /// The first line about leftover descendants comes after so much.
    pub const NAME_LEFTOVER_AFTER: Duration = Duration::from_secs(1);
    /// Heartbeats are at most so far apart.
    pub const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(300);
    /// The release takes at most so long, whatever the nodes do: a second of theirs and a little
    /// for the way.
    pub const RELEASE: Duration = Duration::from_millis(1150);

    /// How long after TERM KILL follows where a limit of ours sent the TERM.
    pub(super) fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(Self::KILL_AFTER)
    }

    /// What must be left of the validity when the command starts: room for TERM and KILL, and the
    /// spawn itself.
    pub(super) fn needed(&self) -> Duration {
        let spawn = (self.timing.ttl / 20).min(Duration::from_millis(20));
        self.timing.reserve().saturating_add(spawn)
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time.
    Time,
    /// The lock has news.
    Lock(Event),
    /// Nothing more will come from the lock.
    LockGone,
    /// A signal reached us.
    Signal(i32, Source),
    /// The process that started us has ended (`--die-with-parent`).
    ParentDied,
    /// There is no command: it could not be executed, or no process could be had. In the first
    /// case something is left, whose end is told as the leader's.
    NotStarted(Reason, Left),
    /// The command itself ended.
    LeaderEnded(Ending, Left),
    /// The command itself was stopped by this signal.
    LeaderStopped(i32),
    /// The command itself was continued.
    LeaderContinued,
    /// Nothing of the command is left.
    TreeEmpty,
    /// We are not allowed to signal these.
    Refused(Vec<Process>),
    /// The guardian has ended before its time.
    GuardianDied,
}

/// What to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the command.
    Spawn,
    /// Send the signal to the command: its group, when it leads one and runs.
    Relay(i32),
    /// Send TERM, then CONT, to the whole tree.
    TermTree,
    /// Send KILL to the whole tree.
    KillTree,
    /// Stop the command's group: by STOP, since an orphaned group ignores TSTP.
    StopCommand,
    /// Let ourselves be stopped.
    StopSelf,
    /// The terminal's owner was stopped: take the terminal back and stop our whole group.
    Suspend,
    /// Give the terminal back, if it is ours to give, and continue the command.
    Resume,
    /// The guardian is to strike at this time.
    Guard(Option<Tick>),
    /// The guardian is not needed any more.
    StandDown,
    /// Give up the attempt or release the lock; [`Event::Settled`] follows.
    Release,
    /// The same after a command that ran: a lock that is to be kept for a time stays until then.
    Finish,
    /// The lock may have missed its time: extend at once.
    Extend,
    /// Say it.
    Say(Notice),
    /// The run is over: report it, if that is wanted.
    Report(Figures),
    /// Say who is left of the command, so long after its end.
    NameLeftover(Duration),
    /// The end.
    End(Exit),
}

//! `redlock run`: a command under a lock. `machine` decides, `shell` does, and what people should
//! know leaves as `Notice`s.

mod environment;
mod machine;
mod notice;
mod shell;
mod start;

use std::{ffi::OsString, io, time::Duration};

pub use environment::{Credentials, Facts};
pub use machine::{Leftover, Rules};
pub use notice::{EndedBy, Level, Notice, OnLost, Process, Reason, Say};

use crate::{
    child::GroupChoice,
    exit::Exit,
    protocol::{Event, Timing},
    wake::Sender,
};

/// The lock's side, as the run sees it: a handle on the thread that talks to the nodes. Its news
/// come through the [`Sender`] that it was started with, [`Event::Settled`] last.
pub trait Lock {
    /// Gives the attempt up or releases the lock. Must not block. A second call does nothing.
    fn stop(&mut self);

    /// We were stopped for a while: extend at once. Must not block.
    fn extend(&mut self);
}

/// Whether the guardian process is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardianChoice {
    /// It is started, and the run fails where that is impossible.
    #[default]
    On,
    /// `--no-guardian`.
    Off,
}

/// What the death of our parent means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentDeath {
    /// Nothing.
    #[default]
    Ignore,
    /// TERM, then KILL (`--die-with-parent`).
    Terminate,
}

/// Everything that was decided about a run before it starts: all that follows from the command
/// line, the environment and the configuration.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The program and its arguments; at least one word.
    pub command: Vec<OsString>,
    /// What the command's environment is to say.
    pub facts: Facts,
    /// The lock's durations.
    pub timing: Timing,
    /// The command's process group.
    pub group: GroupChoice,
    /// What a definite loss does.
    pub on_lost: OnLost,
    /// What becomes of descendants that outlive the command.
    pub leftover: Leftover,
    /// The longest that the command and its descendants may run.
    pub max_runtime: Option<Duration>,
    /// KILL this long after TERM, when given; [`Rules::KILL_AFTER`] where it is needed and was not.
    pub kill_after: Option<Duration>,
    /// How long the command may be stopped; [`RunPlan::max_stopped`] when not given.
    pub max_stopped: Option<Duration>,
    /// When a waiting line is repeated first (doubles up to 5 minutes); `None`: never.
    pub heartbeat: Option<Duration>,
    /// Whether there is a guardian.
    pub guardian: GuardianChoice,
    /// What the death of our parent means.
    pub parent_death: ParentDeath,
    /// The exit code for "held by somebody else".
    pub conflict_exit_code: u8,
}

impl RunPlan {
    /// How long the command may be stopped: ten times the ttl unless something else was asked for.
    pub fn max_stopped(&self) -> Duration {
        self.max_stopped
            .unwrap_or_else(|| self.timing.ttl.saturating_mul(10))
    }
}

/// Runs the command of `plan` under the lock that `connect` starts to acquire. The process must
/// have one thread when this is called: the guardian is made first of all, then `connect` makes
/// the threads, and only then the lock is asked for.
pub fn run<L: Lock>(
    plan: &RunPlan,
    connect: impl FnOnce(Sender<Event>) -> io::Result<L>,
    say: &mut dyn Say,
) -> Exit {
    start::run(plan, connect, say)
}

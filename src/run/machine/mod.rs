//! Every decision of a run, without the operating system: what happened and the time go in, what to
//! do comes out. The deadline comes first: each call compares the time with the end of the
//! validity before it looks at what happened, so whatever woke us (a continue after a stop, a
//! resume after suspend) finds the command dead if it had no right to live.
//!
//! `lease` keeps the deadline, `command` looks after the command and its signals, `outcome` decides
//! how it ends, `record` counts.

mod command;
mod lease;
mod outcome;
mod record;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::time::Duration;

pub use record::{Fate, Figures};
pub use vocabulary::{Action, Input, Rules};

use self::{
    command::{Halt, Kick, Overtime, Refusal, Rest},
    lease::Lease,
    outcome::Outcome,
    record::Record,
};
use crate::ui::{Notice, Reason};
use crate::{
    child::{Ending, Left},
    clock::Tick,
    exit::{Code, Exit},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For the lock.
    Waiting,
    /// The lock is ours, nothing has been started.
    Ready,
    /// The command runs.
    Running,
    /// The command has ended, or never was, and something of it is left.
    Leftover,
    /// Nothing is left but the lock.
    Releasing,
    /// Nothing is left.
    Done,
}

/// The state of one run.
#[derive(Debug)]
pub struct Machine {
    rules: Rules,
    phase: Phase,

    lease: Lease,
    /// The end of the validity, as far as known.
    validity: Option<Tick>,
    /// Why the status is 79.
    loss: Option<Reason>,
    /// No more news of the lock will come.
    lock_gone: bool,

    spawned: Option<Tick>,
    ended: Option<(Tick, Ending)>,
    never_started: Option<Reason>,
    overtime: Overtime,
    halt: Halt,
    rest: Rest,
    /// KILL at this time, for reasons that leave the status to the command.
    kill_at: Option<Tick>,
    /// KILL is under way, and repeated until nothing is left.
    killing: Option<Kick>,
    /// Whether somebody of the tree is not ours to signal.
    refusal: Refusal,

    record: Record,
    outcome: Option<Outcome>,
    release_by: Option<Tick>,
    actions: Vec<Action>,
}

impl Machine {
    /// A run that begins to wait for its lock at `now`.
    pub fn new(rules: Rules, now: Tick) -> Self {
        Self {
            rules,
            phase: Phase::Waiting,
            lease: Lease::Armed,
            validity: None,
            loss: None,
            lock_gone: false,
            spawned: None,
            ended: None,
            never_started: None,
            overtime: Overtime::No,
            halt: Halt::No,
            rest: Rest::Quiet,
            kill_at: None,
            killing: None,
            refusal: Refusal::None,
            record: Record::new(now),
            outcome: None,
            release_by: None,
            actions: Vec::new(),
        }
    }

    /// Takes the actions that have gathered, in order.
    pub fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether the lock is ours and the command is to be started: once whatever waits in the
    /// signal queue has been told, call [`Machine::proceed`].
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Starts the command, if there is still time for it.
    pub fn proceed(&mut self, now: Tick) {
        if self.phase != Phase::Ready {
            return;
        }
        let left = self.validity.map_or(Duration::ZERO, |end| end.since(now));
        let needed = self.rules.needed();
        if left < needed {
            let reason = Reason::TooLate { left, needed };
            self.release(now, Code::Unavailable.into(), Some(reason));
        } else {
            self.phase = Phase::Running;
            self.spawned = Some(now);
            self.push(Action::Spawn);
        }
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Tick) {
        self.judge(now);
        match input {
            Input::Time => {}
            Input::Lock(event) => self.lock(event, now),
            Input::LockGone => self.lock_gone(now),
            Input::Signal(signal, source) => self.signal(signal, source, now),
            Input::ParentDied => self.parent_died(now),
            Input::NotStarted(reason, left) => {
                self.never_started = Some(reason);
                if left == Left::Nothing {
                    self.finish(now);
                }
            }
            Input::LeaderEnded(ending, left) => self.leader_ended(ending, left, now),
            Input::LeaderStopped(signal) => self.leader_stopped(signal, now),
            Input::LeaderContinued => self.leader_continued(),
            Input::TreeEmpty => {
                if self.command_may_live() {
                    self.finish(now);
                }
            }
            Input::Refused(processes) => self.refused(processes),
            Input::GuardianDied => {
                if !matches!(self.phase, Phase::Releasing | Phase::Done) {
                    self.say(Notice::GuardianDied);
                }
            }
        }
        self.judge(now);
    }

    /// When to call again at the latest, with [`Input::Time`].
    pub fn deadline(&self) -> Option<Tick> {
        match self.phase {
            Phase::Releasing => self.release_by,
            Phase::Running | Phase::Leftover => {
                let times = [self.lease_due(), self.command_due(), self.rest.due()];
                times.into_iter().flatten().min()
            }
            Phase::Waiting | Phase::Ready | Phase::Done => None,
        }
    }

    /// Acts on what time alone has decided; the end of the validity first.
    fn judge(&mut self, now: Tick) {
        if self.phase == Phase::Releasing && self.release_by.is_some_and(|by| by <= now) {
            self.give_up_release(now);
        }
        if self.command_may_live() {
            self.judge_lease(now);
        }
        // The lease may have ended it.
        if self.command_may_live() {
            self.judge_command(now);
        }
    }

    fn command_may_live(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Leftover)
    }

    fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn say(&mut self, notice: Notice) {
        self.push(Action::Say(notice));
    }

    /// A signal, or our parent's death, ends the wait for the lock.
    fn cancel(&mut self, signal: i32, now: Tick) {
        self.say(Notice::Cancelled { signal });
        self.release(now, Exit::Signal(signal), None);
    }
}

//! How a run ends: the status, the release, the last line (docs/supervision.md rules 46 to 50).

use std::time::Duration;

use super::{
    Action, Machine, Phase, Rules,
    command::{Halt, Overtime},
};
use crate::{
    child::Ending,
    clock::Tick,
    exit::{Code, Exit},
    protocol::NodeIndex,
    ui::{EndedBy, Notice, Reason},
};

/// How it ends, when it is decided.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    exit: Exit,
    /// Why, when the code is ours and that has not been said.
    reason: Option<Reason>,
}

impl Machine {
    /// Nothing of the command is left, or nothing that we wait for.
    pub(super) fn finish(&mut self, now: Tick) {
        if self.validity.is_none_or(|end| end <= now) {
            // Held to the end? No: whatever the command said, it said it without the lock.
            self.loss.get_or_insert(Reason::RanOut);
        }
        let deed = match self.never_started {
            None => Action::Finish,
            Some(_) => Action::Release,
        };
        let Outcome { exit, reason } = self.verdict();
        self.give_back(deed, now, exit, reason);
    }

    /// 79 beats 124 and 137, which beat the command's own status.
    fn verdict(&mut self) -> Outcome {
        let ours = |code: Code, reason| Outcome { exit: code.into(), reason: Some(reason) };
        if let Some(reason) = self.never_started.take() {
            let code = match reason {
                Reason::NotFound { .. } => Code::NotFound,
                Reason::NotExecutable { .. } => Code::NotExecutable,
                _ => Code::Failure,
            };
            return ours(code, reason);
        }
        if let Some(reason) = self.loss.take() {
            return ours(Code::Lost, reason);
        }
        let over = match self.overtime {
            Overtime::No => None,
            Overtime::Termed(_) => Some((Code::TimedOut, EndedBy::Term)),
            Overtime::Killed => Some((Code::Killed, EndedBy::Kill)),
        };
        if let (Some((code, by)), Some(limit)) = (over, self.rules.max_runtime) {
            return ours(code, Reason::MaxRuntime { limit, by });
        }
        if self.halt == Halt::Overdue {
            let limit = self.rules.max_stopped;
            return ours(Code::Killed, Reason::MaxStopped { limit });
        }
        let exit = match self.ended {
            Some((_, Ending::Exited(status))) => Exit::Status(status),
            Some((_, Ending::Signaled(signal))) => Exit::Signal(signal),
            // Nothing is left of a leader whose end nobody saw: it cannot be.
            None => Code::Failure.into(),
        };
        Outcome { exit, reason: None }
    }

    /// Gives the attempt up, or a lock under which nothing has run.
    pub(super) fn release(&mut self, now: Tick, exit: Exit, reason: Option<Reason>) {
        self.give_back(Action::Release, now, exit, reason);
    }

    /// Lets the guardian go and has the lock given back.
    fn give_back(&mut self, deed: Action, now: Tick, exit: Exit, reason: Option<Reason>) {
        self.phase = Phase::Releasing;
        self.release_by = Some(now.after(Rules::RELEASE));
        self.outcome = Some(Outcome { exit, reason });
        self.push(Action::StandDown);
        if self.lock_gone {
            self.give_up_release(now);
        } else {
            self.push(deed);
        }
    }

    /// The attempt has ended by itself, and `code` has been explained; its clean-up remains.
    pub(super) fn settle_for(&mut self, code: u8, now: Tick) {
        self.phase = Phase::Releasing;
        self.release_by = Some(now.after(Rules::RELEASE));
        self.outcome = Some(Outcome { exit: Exit::Status(code), reason: None });
        self.push(Action::StandDown);
    }

    /// The lock is given back, but for the nodes that could not be told.
    pub(super) fn settled(&mut self, untold: &[NodeIndex], at_most: Duration) {
        if self.validity.is_some() && !untold.is_empty() {
            let nodes = untold.to_vec();
            self.say(Notice::Untold { nodes, at_most });
        }
        self.end();
    }

    /// The release has had its time, or nobody is there to do it. The nodes forget by themselves.
    pub(super) fn give_up_release(&mut self, now: Tick) {
        let timing = &self.rules.timing;
        if self.validity.is_some_and(|end| end.after(timing.drift) > now) {
            let at_most = self.acquired.map_or(timing.ttl, |at| timing.expiry(at, now));
            self.say(Notice::NotReleased { at_most });
        }
        self.end();
    }

    fn end(&mut self) {
        self.phase = Phase::Done;
        let Some(Outcome { exit, reason }) = self.outcome.take() else {
            return;
        };
        if let (Exit::Status(code), Some(reason)) = (exit, reason) {
            self.say(Notice::Exit { code, reason });
        }
        self.push(Action::End(exit));
    }
}

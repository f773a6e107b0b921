//! How a run ends: the status, the release, the last line (docs/supervision.md rules 46 to 50).

use std::time::Duration;

use super::{
    Action, Machine, Phase, Rules,
    command::{Halt, Overtime},
    record::Fate,
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
    /// What is to be reported, when that has not been done.
    fate: Option<Fate>,
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
        let (exit, reason) = self.verdict();
        let fate = reason.as_ref().map_or(Fate::Ran, |reason| self.fate(reason));
        self.give_back(deed, now, Outcome { exit, fate: Some(fate), reason });
    }

    /// 79 beats 124 and 137, which beat the command's own status.
    fn verdict(&mut self) -> (Exit, Option<Reason>) {
        let ours = |code: Code, reason| (code.into(), Some(reason));
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
        (exit, None)
    }

    fn fate(&self, reason: &Reason) -> Fate {
        Fate::of(reason, self.rules.conflict, self.rules.wait)
    }

    /// Gives the attempt up, or a lock under which nothing has run.
    pub(super) fn release(&mut self, now: Tick, exit: Exit, reason: Option<Reason>) {
        let fate = reason.as_ref().map_or(Fate::Cancelled, |reason| self.fate(reason));
        self.give_back(Action::Release, now, Outcome { exit, fate: Some(fate), reason });
    }

    /// Lets the guardian go and has the lock given back.
    fn give_back(&mut self, deed: Action, now: Tick, outcome: Outcome) {
        self.leave(now);
        self.outcome = Some(outcome);
        if self.lock_gone {
            self.give_up_release(now);
        } else {
            self.push(deed);
        }
    }

    /// The attempt has ended by itself. The verdict is out at once; the clean-up behind it needs no
    /// words.
    pub(super) fn settle_for(&mut self, code: u8, reason: Reason, now: Tick) {
        let exit = Exit::Status(code);
        self.report(self.fate(&reason), exit, now);
        self.say(Notice::Exit { code, reason });
        self.outcome = Some(Outcome { exit, fate: None, reason: None });
        self.leave(now);
    }

    /// Nothing of the command is left, or never was.
    fn leave(&mut self, now: Tick) {
        self.phase = Phase::Releasing;
        self.release_by = Some(now.after(Rules::RELEASE));
        self.record.end(self.validity, now);
        self.push(Action::StandDown);
    }

    /// Comes before the last line, since it may have something to say.
    fn report(&mut self, fate: Fate, exit: Exit, now: Tick) {
        let figures = self.record.figures(fate, exit, now);
        self.push(Action::Report(figures));
    }

    /// The lock is given back, but for the nodes that could not be told.
    pub(super) fn settled(&mut self, untold: &[NodeIndex], at_most: Duration, now: Tick) {
        if self.validity.is_some() && !untold.is_empty() {
            let nodes = untold.to_vec();
            self.say(Notice::Untold { nodes, at_most });
        }
        self.end(now);
    }

    /// The release has had its time, or nobody is there to do it. The nodes forget by themselves.
    pub(super) fn give_up_release(&mut self, now: Tick) {
        let timing = &self.rules.timing;
        if self.validity.is_some_and(|end| end.after(timing.drift) > now) {
            let at_most = self.record.acquired().map_or(timing.ttl, |at| timing.expiry(at, now));
            self.say(Notice::NotReleased { at_most });
        }
        self.end(now);
    }

    fn end(&mut self, now: Tick) {
        self.phase = Phase::Done;
        let Some(Outcome { exit, fate, reason }) = self.outcome.take() else {
            return;
        };
        if let Some(fate) = fate {
            self.report(fate, exit, now);
        }
        if let (Exit::Status(code), Some(reason)) = (exit, reason) {
            self.say(Notice::Exit { code, reason });
        }
        self.push(Action::End(exit));
    }
}

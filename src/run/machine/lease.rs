//! The deadline: never outlive the validity V (docs/supervision.md rules 31 to 36).
//!
//! T1 = V - grace - margin: TERM. T2 = V - margin: KILL. A later answer moves T2 but never takes
//! back a TERM; past its end a lease is dead for ever. A definite loss is no deadline: somebody
//! else may run already, and what happens then is the user's choice.

use super::{Action, Machine, Phase, command::Refusal};
use crate::{
    clock::Tick,
    exit::Code,
    protocol::{Denial, Event, NodeView, Verdict},
    settings::Conflict,
    ui::{Notice, OnLost, Reason},
};

/// How the lock stands, as far as it matters to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// T1 and T2 follow from the validity.
    Armed,
    /// TERM was sent at T1; T2 still follows from the validity.
    Termed,
    /// Lost for certain, TERM sent: KILL at this time.
    Doomed(Tick),
    /// KILL was sent, or is to be sent at once.
    Over,
    /// Lost for certain, and the command runs on by the user's wish.
    Disarmed,
}

impl Machine {
    fn t1(&self) -> Option<Tick> {
        Some(self.validity?.before(self.rules.timing.reserve()))
    }

    fn t2(&self) -> Option<Tick> {
        Some(self.validity?.before(self.rules.timing.margin))
    }

    /// When the lease wants to be judged.
    pub(super) fn lease_due(&self) -> Option<Tick> {
        match self.lease {
            Lease::Armed => self.t1(),
            Lease::Termed => self.t2(),
            Lease::Doomed(at) => Some(at),
            Lease::Over => self.validity.filter(|_| self.refusal == Refusal::OfKill),
            Lease::Disarmed => None,
        }
    }

    pub(super) fn judge_lease(&mut self, now: Tick) {
        let Some(end) = self.validity else { return };
        let due = |at: Option<Tick>| at.is_some_and(|at| at <= now);
        match self.lease {
            Lease::Armed | Lease::Termed if due(self.t2()) => {
                self.loss.get_or_insert(Reason::RanOut);
                self.lease = Lease::Over;
                self.say(Notice::RanOut);
                self.kill(now);
            }
            Lease::Armed if due(self.t1()) => {
                self.loss.get_or_insert(Reason::RanOut);
                self.lease = Lease::Termed;
                self.say(Notice::Ending {
                    left: end.since(now),
                    kill_in: end.before(self.rules.timing.margin).since(now),
                });
                self.push(Action::TermTree);
            }
            Lease::Doomed(at) if at <= now => {
                self.lease = Lease::Over;
                self.kill(now);
            }
            // What is left cannot be ended by us, and the lock is over: there is nothing to keep.
            Lease::Over if self.refusal == Refusal::OfKill && end <= now => self.finish(now),
            _ => {}
        }
    }

    pub(super) fn lock(&mut self, event: Event, now: Tick) {
        self.record.hear(&event, self.validity, now);
        match event {
            Event::Acquired { validity, waited, .. } if self.phase == Phase::Waiting => {
                self.phase = Phase::Ready;
                self.say(Notice::Acquired { waited });
                self.extended_to(validity);
            }
            Event::Validity(validity) => self.extended_to(validity),
            Event::Lost(nodes) => self.lost(nodes, now),
            Event::Denied(denial) if self.phase == Phase::Waiting => self.denied(denial, now),
            Event::Settled { untold, at_most } => {
                if self.phase == Phase::Releasing {
                    self.settled(&untold, at_most, now);
                } else {
                    // Nobody asked it to end.
                    self.lock_gone(now);
                }
            }
            Event::Note(note) => self.say(Notice::Note(note)),
            Event::Slot(slot) => self.say(Notice::Slot(slot)),
            Event::Fenced(_) | Event::Acquired { .. } | Event::Denied(_) => {}
        }
    }

    fn extended_to(&mut self, validity: Tick) {
        if matches!(self.lease, Lease::Armed | Lease::Termed) && self.validity != Some(validity) {
            self.validity = Some(validity);
            if self.phase != Phase::Releasing {
                self.guard(validity.before(self.rules.timing.margin));
            }
        }
    }

    /// We kill at `at`; the guardian waits for half of the margin more, so that it strikes only
    /// where we do not.
    fn guard(&mut self, at: Tick) {
        let strike = at.after(self.rules.timing.margin / 2);
        self.push(Action::Guard(Some(strike)));
    }

    fn lost(&mut self, nodes: Vec<NodeView>, now: Tick) {
        if self.phase == Phase::Ready {
            self.release(now, Code::Lost.into(), Some(Reason::Lost));
        }
        if !self.command_may_live() || !matches!(self.lease, Lease::Armed | Lease::Termed) {
            return;
        }
        self.loss = Some(Reason::Lost);
        let policy = self.rules.on_lost;
        self.say(Notice::Lost { nodes, policy });
        match policy {
            OnLost::Kill => {
                self.lease = Lease::Over;
                self.guard(now);
                self.kill(now);
            }
            OnLost::Term => {
                let kill_at = now.after(self.rules.timing.grace);
                self.lease = Lease::Doomed(kill_at);
                self.guard(kill_at);
                self.push(Action::TermTree);
            }
            OnLost::Continue => {
                self.lease = Lease::Disarmed;
                self.push(Action::Guard(None));
            }
        }
    }

    fn denied(&mut self, denial: Denial, now: Tick) {
        let code = match denial.verdict {
            Verdict::Held | Verdict::Contended => match (self.rules.conflict, denial.verdict) {
                (Conflict::Exit(code), _) => code,
                (Conflict::Skip, Verdict::Held) => Code::Success.number(),
                // Nobody really holds it, so nobody does the work.
                (Conflict::Skip, _) => Code::Busy.number(),
            },
            Verdict::Unfit | Verdict::Ourselves { .. } => Code::Config.number(),
            Verdict::NotOurs | Verdict::NotInherited => Code::Lost.number(),
            Verdict::Unavailable if denial.is_about_rights() => Code::Refused.number(),
            Verdict::Unavailable | Verdict::TooSlow | Verdict::Guarded(_) => {
                Code::Unavailable.number()
            }
        };
        self.settle_for(code, Reason::Denied(denial), now);
    }

    pub(super) fn lock_gone(&mut self, now: Tick) {
        if self.lock_gone {
            return;
        }
        self.lock_gone = true;
        match self.phase {
            Phase::Waiting | Phase::Ready => {
                let error = "the thread that talks to the nodes has ended".to_owned();
                let reason = Reason::Failed { error };
                self.release(now, Code::Failure.into(), Some(reason));
            }
            Phase::Releasing => self.give_up_release(now),
            Phase::Done => {}
            // The lock runs out by itself, and T1 and T2 come with it.
            Phase::Running | Phase::Leftover => self.say(Notice::NodesGone),
        }
    }
}

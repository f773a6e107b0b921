//! How a session tries to have the lock, and what follows from an attempt's end.

use super::{
    super::{Event, Verdict},
    Phase, Session, quorum, valuer,
};
use crate::{
    clock::Tick,
    protocol::{
        attempt::{Attempt, Desk, Outcome},
        hold::Hold,
        views::Place,
        wait::Beginning,
    },
};

impl Session {
    /// Runs `work` with everything that an attempt needs.
    fn with_desk<T>(&mut self, now: Tick, work: impl FnOnce(&mut Phase, &mut Desk<'_>) -> T) -> T {
        let value = valuer(&self.holder, now.since(self.started));
        let electorate = self.guard.electorate(&self.links.told(), now);
        let mut desk = Desk {
            links: &mut self.links,
            electorate: &electorate,
            fencing: self.fencing,
            views: &mut self.views,
            random: &mut self.random,
            timing: &self.timing,
            value: &value,
            now,
        };
        work(&mut self.phase, &mut desk)
    }

    /// Runs `work` on the attempt, if one is under way.
    pub(super) fn with_attempt<T>(
        &mut self,
        now: Tick,
        work: impl FnOnce(&mut Attempt, &mut Desk<'_>) -> T,
    ) -> Option<T> {
        self.with_desk(now, |phase, desk| match phase {
            Phase::Trying(attempt) => Some(work(attempt, desk)),
            _ => None,
        })
    }

    pub(super) fn attempt(&mut self, place: Place, now: Tick) {
        self.focus(place.key());
        let (nodes, strategy) = (self.nodes, self.strategy);
        self.with_desk(now, |phase, desk| {
            *phase = Phase::Trying(Attempt::start(nodes, strategy, desk));
        });
    }

    pub(super) fn step_attempt(&mut self, now: Tick) {
        let outcome = self.with_attempt(now, Attempt::step).flatten();
        match outcome {
            Some(Outcome::Acquired) => self.acquired(now),
            Some(Outcome::Denied(verdict)) => self.denied(verdict, now),
            None => {
                if self.out_of_patience().is_some_and(|at| now >= at) {
                    let verdict = match &self.phase {
                        Phase::Trying(attempt) => attempt
                            .verdict(&self.views, &self.guard.electorate(&self.links.told(), now)),
                        _ => return,
                    };
                    self.denied(verdict, now);
                }
            }
        }
    }

    pub(super) fn acquired(&mut self, now: Tick) {
        let Phase::Trying(attempt) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let electorate = self.guard.electorate(&self.links.told(), now);
        let (token, mut lease) = (attempt.token(), attempt.lease().clone());
        lease.retain(|node| electorate.counts(node));
        self.recovered();
        let nodes = lease.nodes();
        let validity = lease.validity().unwrap_or(now);
        let waited = now.since(self.started);
        let value = valuer(&self.holder, now.since(self.started))(token);
        let number = attempt.number();
        let heal = Some((value, number));
        let hold = Hold::start(token, heal, lease, &self.links, &self.views, &self.timing, now);
        hold.keep(&mut self.links, &self.timing, now);
        self.phase = Phase::Holding(hold);
        if let Some(slot) = self.views.focused() {
            self.tell(Event::Slot(slot));
        }
        if let Some(number) = number {
            self.tell(Event::Fenced(number));
        }
        self.tell(Event::Acquired { token, validity, nodes, waited });
        self.step(now);
    }

    /// An attempt ended without the lock: its votes are given back, and we wait or give up.
    pub(super) fn denied(&mut self, verdict: Verdict, now: Tick) {
        let Phase::Trying(attempt) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let denial = self.denial(verdict, now);
        self.links.release(attempt.token(), false, now);
        self.focus(None);
        if self.has_others(verdict, attempt.trip(), now) {
            self.around_since.get_or_insert(now);
            return self.sleep_from(Beginning::Deaf, verdict, attempt.trip(), now);
        }
        if self.is_final(verdict, now) {
            let denial = self.of_all(denial);
            self.tell(Event::Denied(denial));
            self.settle(now);
            return;
        }
        self.note(denial, now);
        if self.links.listening() >= quorum(self.nodes) {
            self.sleep(verdict, attempt.trip(), now);
        } else {
            self.sleep_from(Beginning::Deaf, verdict, attempt.trip(), now);
        }
    }
}

//! How long a session waits, and for what.

use std::time::Duration;

use super::{
    super::{Denial, Event, Note, Patience, Verdict},
    Phase, Session,
};
use crate::{
    clock::Tick,
    protocol::wait::{Beginning, Wait, Waking},
};

impl Session {
    /// Whether a verdict ends the session.
    pub(super) fn is_final(&mut self, verdict: Verdict, now: Tick) -> bool {
        // Time in which only age is missing is no outage.
        let answered = matches!(verdict, Verdict::Held | Verdict::Contended | Verdict::Guarded(_));
        if answered {
            self.recovered();
        }
        // What only an operator can mend is not waited for.
        let hopeless = matches!(verdict, Verdict::Unfit | Verdict::Ourselves { .. });
        if hopeless || !answered && self.views.is_forbidden() {
            return true;
        }
        match self.patience {
            Patience::NoWait => true,
            Patience::Within(limit) => now >= self.started.after(limit),
            Patience::Forever { outage } => {
                !answered && now.since(*self.outage_since.get_or_insert(now)) >= outage
            }
        }
    }

    /// When patience ends, whatever is going on then.
    pub(super) fn out_of_patience(&self) -> Option<Tick> {
        match self.patience {
            Patience::NoWait => None,
            Patience::Within(limit) => Some(self.started.after(limit)),
            Patience::Forever { outage } => self.outage_since.map(|since| since.after(outage)),
        }
    }

    pub(super) fn recovered(&mut self) {
        if self.outage_since.take().is_some() {
            self.tell(Event::Note(Note::Recovered));
        }
    }

    /// Says what we wait for.
    pub(super) fn note(&mut self, denial: Denial, now: Tick) {
        let note = match denial.verdict {
            Verdict::Held | Verdict::Contended | Verdict::Guarded(_) => Note::Waiting(denial),
            Verdict::Unavailable
            | Verdict::TooSlow
            | Verdict::Unfit
            | Verdict::Ourselves { .. }
            | Verdict::NotOurs
            | Verdict::NotInherited => {
                self.outage_since.get_or_insert(now);
                Note::Outage(denial)
            }
        };
        self.tell(Event::Note(note));
    }

    pub(super) fn denial(&self, verdict: Verdict, now: Tick) -> Denial {
        Denial { verdict, nodes: self.views.all(), waited: now.since(self.started) }
    }

    /// Sleeps until there is a reason to look, which can be there already.
    pub(super) fn sleep(&mut self, verdict: Verdict, trip: Option<Duration>, now: Tick) {
        let open = self.rumours.settle(&self.views);
        let beginning = open.map_or(Beginning::Quiet, Beginning::Announced);
        self.sleep_from(beginning, verdict, trip, now);
    }

    pub(super) fn sleep_from(
        &mut self,
        beginning: Beginning,
        verdict: Verdict,
        trip: Option<Duration>,
        now: Tick,
    ) {
        let electorate = self.guard.electorate(&self.links.told(), now);
        let (rumours, known) = (&mut self.rumours, (&self.links, &self.views, &electorate));
        let wait = Wait::start(beginning, verdict, trip, rumours, known, &mut self.random, now);
        self.phase = Phase::Waiting(wait);
        // It may be time to look already.
        self.step(now);
    }

    pub(super) fn step_wait(&mut self, now: Tick) {
        let Phase::Waiting(wait) = &mut self.phase else {
            return;
        };
        let electorate = self.guard.electorate(&self.links.told(), now);
        let known = (&mut self.links, &mut self.views, &electorate);
        let waking = wait.step(known, &mut self.random, &self.timing, now);
        let (verdict, trip) = (wait.verdict(), wait.trip());
        match waking {
            Waking::NotYet => {
                if self.out_of_patience().is_some_and(|at| now >= at) {
                    let denial = self.denial(verdict, now);
                    let denial = self.of_all(denial);
                    self.tell(Event::Denied(denial));
                    self.settle(now);
                }
            }
            Waking::Free(place) => {
                self.recovered();
                self.attempt(place, now);
                self.step(now);
            }
            Waking::Taken => {
                let denial = self.denial(verdict, now);
                if self.slots > 1 {
                    self.looked = Some(denial.clone());
                }
                if self.looks_again(verdict, trip, now) {
                    return self.sleep_from(Beginning::Soon, verdict, trip, now);
                }
                if self.is_final(verdict, now) {
                    self.tell(Event::Denied(denial));
                    self.settle(now);
                } else {
                    self.note(denial, now);
                    self.sleep(verdict, trip, now);
                }
            }
        }
    }
}

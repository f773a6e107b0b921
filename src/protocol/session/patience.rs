//! Whether to go on without the lock, and what is said of it.

use super::{
    super::{Denial, Event, Note, Patience, Verdict},
    Session,
};
use crate::clock::Tick;

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
}

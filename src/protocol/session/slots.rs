//! One of several slots, any: which of them is attempted, and when the others are looked at.
//!
//! Each slot is a lock of its own. One is attempted at random; when somebody else has it, all are
//! looked at, and one of those that are free is attempted. They are held when each of them is.

use std::time::Duration;

use super::{
    super::{Denial, Patience, Verdict, attempt::contended_after, views::Place},
    Session,
};
use crate::clock::Tick;

impl Session {
    /// From now on requests and answers are about one slot, or about all of them.
    pub(super) fn focus(&mut self, key: Option<usize>) {
        self.links.focus(key);
        self.views.focus(key);
    }

    /// One of what can be had.
    pub(super) fn any_place(&mut self) -> Place {
        let chosen = if self.slots > 1 { self.random.place(self.slots) } else { 0 };
        self.views.places().nth(chosen).unwrap_or(Place::All)
    }

    /// Whether what an attempt at one slot came to says little: the others have to be looked at.
    pub(super) fn has_others(&self, verdict: Verdict, trip: Option<Duration>, now: Tick) -> bool {
        use Verdict::{Contended, Held, Ourselves};
        let busy = matches!(verdict, Held | Contended | Ourselves { .. });
        self.slots > 1 && busy && !self.is_late(trip, now)
    }

    /// Whether slots that are about to be taken are looked at once more before the verdict.
    pub(super) fn looks_again(&self, verdict: Verdict, trip: Option<Duration>, now: Tick) -> bool {
        self.patience == Patience::NoWait
            && self.has_others(verdict, trip, now)
            && verdict == Verdict::Contended
    }

    /// Whether there is no time left to look around: there always is for the first look. Where
    /// others come and go all the time, a slot can be free in every look and taken in every attempt.
    fn is_late(&self, trip: Option<Duration>, now: Tick) -> bool {
        match self.patience {
            Patience::NoWait => {
                let long = contended_after(trip.unwrap_or_default());
                self.around_since.is_some_and(|since| now.since(since) >= long)
            }
            _ => self.out_of_patience().is_some_and(|at| now >= at),
        }
    }

    /// The last look at all slots tells more than an attempt at one of them.
    pub(super) fn of_all(&mut self, denial: Denial) -> Denial {
        match self.looked.take() {
            Some(looked) => Denial { waited: denial.waited, ..looked },
            None => denial,
        }
    }
}

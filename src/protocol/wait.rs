//! Waiting for a lock that somebody else holds: when to look again. The only module that decides
//! about waking up; a hand-over in the order of arrival would be built here.
//!
//! A waiter looks first and acquires only when a quorum of nodes is free, so that waiters do not
//! steal votes from each other. It wakes when the holder's keys run out on enough nodes, and at
//! intervals in any case.

use std::time::Duration;

use super::{
    Links, NodeIndex, NodeView, Request, Timing, Verdict, lease::quorum, random::Random,
    views::Views,
};
use crate::clock::Tick;

/// How often to look without a reason, on average.
const POLL: Duration = Duration::from_secs(1);
/// The jitter after an expiry, in round trips.
const JITTER_TRIPS: f64 = 2.0;

/// What a step of waiting amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// Sleep on, or the look is not over.
    NotYet,
    /// A quorum of nodes is free: try to acquire.
    Free,
    /// We looked: it is not to be had.
    Taken,
}

#[derive(Clone, Debug)]
enum Phase {
    Asleep { until: Tick },
    Looking { since: Tick, judge: Option<Tick>, until: Tick, asked: Vec<Look> },
}

/// One node's part in a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Missing,
    Answered,
    Failed,
}

/// The state of a waiter.
#[derive(Debug)]
pub struct Wait {
    nodes: usize,
    /// The last verdict, which decides when patience ends in the middle of a look.
    verdict: Verdict,
    trip: Duration,
    phase: Phase,
}

impl Wait {
    /// Goes to sleep after `verdict`, on what the nodes said last.
    pub fn start(
        nodes: usize,
        verdict: Verdict,
        trip: Option<Duration>,
        views: &Views,
        random: &mut Random,
        now: Tick,
    ) -> Self {
        let trip = trip.unwrap_or_default();
        let poll = random.share(POLL, 0.5..1.5);
        let jitter = random.share(trip, 0.0..JITTER_TRIPS);
        // A lock that looks free although we failed is contended: that is what the poll is for.
        let expiry = views.free_in().filter(|time| !time.is_zero());
        let sleep = expiry.map_or(poll, |time| poll.min(time.saturating_add(jitter)));
        Self { nodes, verdict, trip, phase: Phase::Asleep { until: now.after(sleep) } }
    }

    /// The last measured round trip.
    pub fn trip(&self) -> Option<Duration> {
        (!self.trip.is_zero()).then_some(self.trip)
    }

    /// `node` answered the look.
    pub fn answer(&mut self, node: NodeIndex) {
        self.mark(node, Look::Answered);
    }

    /// `node` failed.
    pub fn failed(&mut self, node: NodeIndex) {
        self.mark(node, Look::Failed);
    }

    fn mark(&mut self, node: NodeIndex, look: Look) {
        if let Phase::Looking { asked, .. } = &mut self.phase {
            asked[node.get()] = look;
        }
    }

    /// Does what is due.
    pub fn step(
        &mut self,
        links: &mut Links,
        views: &mut Views,
        timing: &Timing,
        now: Tick,
    ) -> Waking {
        match &mut self.phase {
            Phase::Asleep { until } => {
                if now >= *until {
                    views.forget();
                    for node in links.nodes() {
                        links.refresh(node);
                        links.ask(node, Request::Look, now);
                    }
                    let until =
                        now.after(timing.connect_timeout.saturating_add(timing.node_timeout));
                    let asked = vec![Look::Missing; self.nodes];
                    self.phase = Phase::Looking { since: now, judge: None, until, asked };
                }
                Waking::NotYet
            }
            Phase::Looking { since, judge, until, asked } => {
                let quorum = quorum(self.nodes);
                let count = |wanted| asked.iter().filter(|look| **look == wanted).count();
                let answered = count(Look::Answered);
                let free = links.nodes().zip(asked.iter()).filter(|(node, look)| {
                    **look == Look::Answered && *views.of(*node) == NodeView::Free
                });
                if free.count() >= quorum {
                    return Waking::Free;
                }
                if answered >= quorum && judge.is_none() {
                    self.trip = now.since(*since);
                    *judge = Some(now.after(self.trip * 2));
                }
                let missing = count(Look::Missing);
                let certain = views.is_held()
                    || missing == 0
                    || answered + missing < quorum
                    || judge.is_some_and(|at| now >= at)
                    || now >= *until;
                if !certain {
                    return Waking::NotYet;
                }
                self.verdict = if views.is_held() {
                    Verdict::Held
                } else if answered < quorum {
                    Verdict::Unavailable
                } else {
                    Verdict::Contended
                };
                Waking::Taken
            }
        }
    }

    /// When [`Wait::step`] is due.
    pub fn deadline(&self) -> Tick {
        match &self.phase {
            Phase::Asleep { until } => *until,
            Phase::Looking { judge, until, .. } => judge.map_or(*until, |at| at.min(*until)),
        }
    }

    /// What the nodes' answers amounted to the last time.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

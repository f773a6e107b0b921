//! Waiting for a lock that somebody else holds: when to look again. The only module that decides
//! about waking up; a hand-over in the order of arrival would be built here.
//!
//! A waiter has every node tell it of releases, looks once more, and sleeps. It wakes for a release,
//! when the holder's keys run out on enough nodes, and at intervals in any case. Then it looks
//! first, and acquires only when a quorum of nodes is free, so that waiters do not steal votes from
//! each other. Where many wait, each wakes at another moment, as far apart as a hand-over takes:
//! the first finds the lock free, the others find it taken.

use std::time::Duration;

use super::{
    Links, NodeIndex, NodeView, Request, Timing, Verdict, lease::quorum, random::Random,
    views::Views,
};
use crate::clock::Tick;

/// How often to look without a reason, on average.
const POLL: Duration = Duration::from_secs(1);
/// The same while a quorum of nodes tells us of releases.
const POLL_LISTENING: Duration = Duration::from_secs(5);
/// The jitter after an expiry, in round trips.
const JITTER_TRIPS: f64 = 2.0;
/// How far apart those wake who hear of the same release, at the least and at the most.
const SHORTEST_TURN: Duration = Duration::from_micros(300);
const LONGEST_TURN: Duration = Duration::from_millis(20);
/// However many wait, the last wakes after so long.
const ALL_TURNS: Duration = Duration::from_secs(1);

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

/// Why a wait begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing was heard since the last look: sleep.
    Quiet,
    /// We do not listen yet, or a release was announced since: look at once.
    Alert,
}

/// The state of a waiter.
#[derive(Debug)]
pub struct Wait {
    nodes: usize,
    /// The last verdict, which decides when patience ends in the middle of a look.
    verdict: Verdict,
    trip: Duration,
    phase: Phase,
    /// A release was announced in the middle of a look, which may have missed it.
    again: bool,
}

impl Wait {
    /// Begins to wait after `verdict`, on what the nodes said last.
    pub fn start(
        beginning: Beginning,
        verdict: Verdict,
        trip: Option<Duration>,
        links: &Links,
        views: &Views,
        random: &mut Random,
        now: Tick,
    ) -> Self {
        let nodes = links.nodes().count();
        let trip = trip.unwrap_or_default();
        let listening = links.listening() >= quorum(nodes);
        let poll = random.share(if listening { POLL_LISTENING } else { POLL }, 0.5..1.5);
        let jitter = random.share(trip, 0.0..JITTER_TRIPS);
        // A lock that looks free although we failed is contended: that is what the poll is for.
        let expiry = views.free_in().filter(|time| !time.is_zero());
        let sleep = match beginning {
            Beginning::Alert => Duration::ZERO,
            Beginning::Quiet => expiry.map_or(poll, |time| poll.min(time.saturating_add(jitter))),
        };
        Self {
            nodes,
            verdict,
            trip,
            phase: Phase::Asleep { until: now.after(sleep) },
            again: false,
        }
    }

    /// The last measured round trip.
    pub fn trip(&self) -> Option<Duration> {
        (!self.trip.is_zero()).then_some(self.trip)
    }

    /// A release was announced, and `listeners` hear of it.
    pub fn released(&mut self, listeners: u32, random: &mut Random, now: Tick) {
        match &mut self.phase {
            Phase::Asleep { until } => {
                let turn = self.trip.clamp(SHORTEST_TURN, LONGEST_TURN);
                let turns = turn.saturating_mul(listeners.saturating_sub(1)).min(ALL_TURNS);
                *until = now.after(random.share(turns, 0.0..1.0)).min(*until);
            }
            Phase::Looking { .. } => self.again = true,
        }
    }

    /// How the next wait begins.
    pub fn next(&self) -> Beginning {
        if self.again { Beginning::Alert } else { Beginning::Quiet }
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
                        links.listen(node, now);
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

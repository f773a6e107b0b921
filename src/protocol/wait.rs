//! Waiting for a lock that somebody else holds: when to look again. The only module that decides
//! about waking up; a hand-over in the order of arrival would be built here.
//!
//! A waiter has every node tell it of releases, looks once more, and sleeps. It wakes for a release,
//! when the holder's keys run out on enough nodes, and at intervals in any case. Then it looks
//! first, and acquires only when a quorum of nodes is free, so that waiters do not steal votes from
//! each other. Where many wait, each wakes at another moment, as far apart as a hand-over takes:
//! the first finds the lock free, and most of the others hear of the next release before their turn
//! has come, and draw a new one.

use std::time::Duration;

use super::{
    Links, NodeIndex, NodeView, Request, Timing, Token, Verdict, guard::Electorate, lease::quorum,
    link::Release, random::Random, views::Views,
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

/// What was heard of releases, from one look to the next. Every node tells of the same release, at
/// its own time, and it wakes us once.
#[derive(Debug, Default)]
pub struct Rumours {
    /// Heard since the last look began, each lock once.
    heard: Vec<Release>,
    /// Releases after which somebody else has taken the lock: what nodes still tell of them is old.
    past: Vec<Token>,
}

impl Rumours {
    /// So many are told apart; where more happened, some wake us once more than they need.
    const MOST: usize = 16;

    /// A node told of a release. Whether it is news.
    pub fn hear(&mut self, release: Release) -> bool {
        let known = |token| self.past.contains(&token);
        if release.by.is_some_and(known) {
            return false;
        }
        if let Some(same) = self.heard.iter_mut().find(|other| other.by == release.by) {
            // Nodes count for themselves; the fullest is right.
            same.listeners = same.listeners.max(release.listeners);
            return false;
        }
        if self.heard.len() < Self::MOST {
            self.heard.push(release);
        }
        true
    }

    /// The nodes have answered. What is left to go by, when they do not explain what was heard:
    /// then some were asked before they had executed the release.
    pub fn settle(&mut self, views: &Views) -> Option<u32> {
        let taken = views.is_held();
        let mut open = None;
        for Release { by, listeners } in self.heard.drain(..) {
            match by {
                Some(token) if taken && !views.shows(token) => {
                    if self.past.len() >= Self::MOST {
                        self.past.remove(0);
                    }
                    self.past.push(token);
                }
                _ => open = open.max(Some(listeners)),
            }
        }
        open
    }
}

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
    Asleep { until: Tick, turn: Option<Tick> },
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
    /// We do not listen yet: do, and look once more.
    Deaf,
    /// A release was announced that the last look does not explain, to so many listeners.
    Announced(u32),
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
    /// Begins to wait after `verdict`, on what the nodes said last.
    pub fn start(
        beginning: Beginning,
        verdict: Verdict,
        trip: Option<Duration>,
        links: &Links,
        views: &Views,
        electorate: &Electorate,
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
        let sleep = expiry.map_or(poll, |time| poll.min(time.saturating_add(jitter)));
        let sleep = electorate.comes_of_age().map_or(sleep, |at| sleep.min(at.since(now)));
        let turn = match beginning {
            Beginning::Quiet => None,
            Beginning::Deaf => Some(Duration::ZERO),
            Beginning::Announced(listeners) => Some(draw(trip, listeners, random)),
        };
        let turn = turn.map(|pause| now.after(pause));
        Self { nodes, verdict, trip, phase: Phase::Asleep { until: now.after(sleep), turn } }
    }

    /// The last measured round trip.
    pub fn trip(&self) -> Option<Duration> {
        (!self.trip.is_zero()).then_some(self.trip)
    }

    /// There is news of a release that `listeners` hear of. A turn that was drawn for an earlier
    /// one is void: the lock has been taken since.
    pub fn released(&mut self, listeners: u32, random: &mut Random, now: Tick) {
        if let Phase::Asleep { turn, .. } = &mut self.phase {
            *turn = Some(now.after(draw(self.trip, listeners, random)));
        }
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
        electorate: &Electorate,
        timing: &Timing,
        now: Tick,
    ) -> Waking {
        match &mut self.phase {
            Phase::Asleep { until, turn } => {
                if now >= *until || turn.is_some_and(|turn| now >= turn) {
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
                let free: Vec<NodeIndex> = free.map(|(node, _)| node).collect();
                let voters = free.iter().filter(|node| electorate.counts(**node)).count();
                if voters >= quorum && !views.is_unfit() {
                    return Waking::Free;
                }
                let guarded = free.len() >= quorum;
                if answered >= quorum && judge.is_none() {
                    self.trip = now.since(*since);
                    *judge = Some(now.after(self.trip * 2));
                }
                let missing = count(Look::Missing);
                if guarded && missing > 0 {
                    // All of them are heard: they may be of one age.
                    *judge = Some(*until);
                }
                let certain = views.is_held()
                    || views.is_unfit()
                    || missing == 0
                    || answered + missing < quorum
                    || judge.is_some_and(|at| now >= at)
                    || now >= *until;
                if !certain {
                    return Waking::NotYet;
                }
                self.verdict = if views.is_unfit() {
                    Verdict::Unfit
                } else if views.is_held() {
                    Verdict::Held
                } else if guarded {
                    Verdict::Guarded(electorate.youth())
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
            Phase::Asleep { until, turn } => turn.map_or(*until, |turn| turn.min(*until)),
            Phase::Looking { judge, until, .. } => judge.map_or(*until, |at| at.min(*until)),
        }
    }

    /// What the nodes' answers amounted to the last time.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// How long after a release it is our turn to look, when so many hear of it.
fn draw(trip: Duration, listeners: u32, random: &mut Random) -> Duration {
    let turn = trip.clamp(SHORTEST_TURN, LONGEST_TURN);
    let turns = turn.saturating_mul(listeners.saturating_sub(1)).min(ALL_TURNS);
    random.share(turns, 0.0..1.0)
}

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
    Extent, Links, NodeIndex, Request, Timing, Token, Verdict,
    guard::Electorate,
    lease::quorum,
    link::Release,
    random::Random,
    views::{Place, Views},
};
use crate::clock::Tick;

/// How often to look without a reason, on average.
const POLL: Duration = Duration::from_secs(1);
/// The same while a quorum of nodes tells us of releases.
const POLL_LISTENING: Duration = Duration::from_secs(5);
/// The jitter after an expiry, in round trips.
const JITTER_TRIPS: f64 = 2.0;
/// In which time the first of those have their turn who hear of the same release: half a round trip,
/// at the least and at the most so long.
const SHORTEST_TURNS: Duration = Duration::from_micros(300);
const LONGEST_TURNS: Duration = Duration::from_millis(100);
/// So many of them, on average.
const EARLY: f64 = 2.0;
/// And so many in each doubling of the time after it.
const PER_DOUBLING: f64 = 1.0;
/// Where votes are split, whoever looks comes back after so many times that.
const SOON_TURNS: u32 = 8;
/// However many wait, the last wakes after so long.
const ALL_TURNS: Duration = Duration::from_secs(1);

/// What was heard of releases, from one look to the next. Every node tells of the same release, at
/// its own time, and it wakes us once.
#[derive(Debug, Default)]
pub struct Rumours {
    /// Heard since the last look began, each lock once.
    heard: Vec<Rumour>,
    /// Releases after which somebody else has taken the lock: what nodes still tell of them is old.
    past: Vec<Token>,
    /// The shortest round trip so far. The last one says more about how busy this machine was when
    /// many of us began than about how long a hand-over takes.
    fastest: Option<Duration>,
}

/// One release.
#[derive(Clone, Copy, Debug)]
pub struct Rumour {
    by: Option<Token>,
    listeners: u32,
    /// Which nodes are free by it, as a bit mask.
    free: u16,
    /// When we heard of it first.
    since: Tick,
}

impl Rumours {
    /// So many are told apart; where more happened, some wake us once more than they need.
    const MOST: usize = 16;

    fn measured(&mut self, trip: Duration) {
        self.fastest = Some(self.fastest.map_or(trip, |fastest| fastest.min(trip)));
    }

    /// In which time the first of those have their turn who hear of a release.
    fn first_turns(&self) -> Duration {
        (self.fastest.unwrap_or_default() / 2).clamp(SHORTEST_TURNS, LONGEST_TURNS)
    }

    /// A node told of a release. What is known of it, unless it is old.
    pub fn hear(&mut self, release: Release, now: Tick) -> Option<Rumour> {
        let Release { node, extent, by, listeners } = release;
        if by.is_some_and(|token| self.past.contains(&token)) {
            return None;
        }
        let free = if extent == Extent::Whole && by.is_some() { 1 << node.0 } else { 0 };
        if let Some(same) = self.heard.iter_mut().find(|other| other.by == by) {
            // Nodes count for themselves; the fullest is right.
            same.listeners = same.listeners.max(listeners);
            same.free |= free;
            return Some(*same);
        }
        let rumour = Rumour { by, listeners, free, since: now };
        if self.heard.len() < Self::MOST {
            self.heard.push(rumour);
        }
        Some(rumour)
    }

    /// The nodes have answered. How many hear of what their answers do not explain: then some were
    /// asked before they had executed the release.
    pub fn settle(&mut self, views: &Views) -> Option<u32> {
        let held = views.is_held();
        let mut open = None;
        for Rumour { by, listeners, .. } in self.heard.drain(..) {
            match by {
                Some(token) if held && !views.shows(token) => {
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
    /// A quorum of nodes is free there: try to acquire it.
    Free(Place),
    /// We looked: it is not to be had.
    Taken,
}

#[derive(Clone, Debug)]
enum Phase {
    Asleep { until: Tick, turn: Option<Turn> },
    Looking { since: Tick, judge: Option<Tick>, until: Tick, asked: Vec<Look> },
}

/// When we look, and why.
#[derive(Clone, Copy, Debug)]
struct Turn {
    at: Tick,
    /// The release that we heard of.
    rumour: Option<Rumour>,
    /// All nodes that tell of it have told, or it does not matter.
    told: bool,
}

impl Turn {
    /// When to look. Nodes that have not told yet get as long as a look would take.
    fn due(&self, trip: Duration) -> Tick {
        match self.rumour {
            Some(rumour) if !self.told => self.at.max(rumour.since.after(trip)),
            _ => self.at,
        }
    }
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
    /// Somebody is about to take what we could take: look again soon.
    Soon,
    /// A release was announced that the last look does not explain, to so many listeners.
    Announced(u32),
}

/// The state of a waiter.
#[derive(Debug)]
pub struct Wait {
    nodes: usize,
    /// One of several keys is enough.
    slots: bool,
    /// The last verdict, which decides when patience ends in the middle of a look.
    verdict: Verdict,
    trip: Duration,
    first_turns: Duration,
    phase: Phase,
}

impl Wait {
    /// Begins to wait after `verdict`, on what the nodes said last.
    pub fn start(
        beginning: Beginning,
        verdict: Verdict,
        trip: Option<Duration>,
        rumours: &mut Rumours,
        (links, views, electorate): (&Links, &Views, &Electorate),
        random: &mut Random,
        now: Tick,
    ) -> Self {
        let nodes = links.nodes().count();
        if let Some(trip) = trip {
            rumours.measured(trip);
        }
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
            Beginning::Soon => Some(random.share(rumours.first_turns() * SOON_TURNS, 0.3..1.0)),
            Beginning::Announced(listeners) => Some(draw(rumours.first_turns(), listeners, random)),
        };
        let turn = turn.map(|pause| Turn { at: now.after(pause), rumour: None, told: true });
        let phase = Phase::Asleep { until: now.after(sleep), turn };
        let slots = views.places().count() > 1;
        Self { nodes, slots, verdict, trip, first_turns: rumours.first_turns(), phase }
    }

    /// The last measured round trip.
    pub fn trip(&self) -> Option<Duration> {
        (!self.trip.is_zero()).then_some(self.trip)
    }

    /// A node told of a release. A turn that was drawn for an earlier one is void: the lock has
    /// been taken since.
    pub fn released(&mut self, rumour: Rumour, links: &Links, random: &mut Random, now: Tick) {
        let Phase::Asleep { turn, .. } = &mut self.phase else {
            return;
        };
        let same = turn.filter(|turn| {
            turn.rumour.is_some_and(|known| known.by == rumour.by && known.since == rumour.since)
        });
        let at = if let Some(turn) = same {
            turn.at
        } else {
            let drawn = now.after(draw(self.first_turns, rumour.listeners, random));
            // Another slot may still be free.
            turn.filter(|_| self.slots).map_or(drawn, |turn| turn.at.min(drawn))
        };
        let told = rumour.free.count_ones() as usize >= links.listening().max(quorum(self.nodes));
        *turn = Some(Turn { at, rumour: Some(rumour), told });
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
        (links, views, electorate): (&mut Links, &mut Views, &Electorate),
        random: &mut Random,
        timing: &Timing,
        now: Tick,
    ) -> Waking {
        match &mut self.phase {
            Phase::Asleep { until, turn } => {
                let turn = turn.filter(|turn| now >= turn.due(self.first_turns));
                if now < *until && turn.is_none() {
                    return Waking::NotYet;
                }
                // What a quorum has just told need not be asked.
                let fresh = |rumour: &Rumour| {
                    let voters = links.nodes().filter(|node| {
                        rumour.free & (1 << node.0) != 0 && electorate.counts(*node)
                    });
                    voters.count() >= quorum(self.nodes)
                        && now.since(rumour.since) <= self.first_turns * 2
                };
                if turn.and_then(|turn| turn.rumour).is_some_and(|rumour| fresh(&rumour))
                    && let Some(only) = views.places().next()
                {
                    return Waking::Free(only);
                }
                views.forget();
                for node in links.nodes() {
                    links.refresh(node);
                    links.listen(node, now);
                    links.ask(node, Request::Look, now);
                }
                let until = now.after(timing.connect_timeout.saturating_add(timing.node_timeout));
                let asked = vec![Look::Missing; self.nodes];
                self.phase = Phase::Looking { since: now, judge: None, until, asked };
                Waking::NotYet
            }
            Phase::Looking { since, judge, until, asked } => {
                let quorum = quorum(self.nodes);
                let count = |wanted| asked.iter().filter(|look| **look == wanted).count();
                let answered = count(Look::Answered);
                let free = |place: Place| {
                    let nodes = links.nodes().zip(asked.iter()).filter(|(node, look)| {
                        **look == Look::Answered && views.is_free(*node, place)
                    });
                    nodes.map(|(node, _)| node).collect::<Vec<_>>()
                };
                let votes = |place: &Place| {
                    free(*place).iter().filter(|node| electorate.counts(**node)).count() >= quorum
                };
                let open: Vec<Place> = views.places().filter(votes).collect();
                if !open.is_empty() && !views.is_unfit() {
                    let place = if open.len() > 1 { random.place(open.len()) } else { 0 };
                    return Waking::Free(open[place]);
                }
                let guarded = views.places().any(|place| free(place).len() >= quorum);
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
                } else if let Some(key) = views.kin() {
                    Verdict::Ourselves { key }
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
            Phase::Asleep { until, turn } => {
                turn.map_or(*until, |turn| turn.due(self.first_turns).min(*until))
            }
            Phase::Looking { judge, until, .. } => judge.map_or(*until, |at| at.min(*until)),
        }
    }

    /// What the nodes' answers amounted to the last time.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// How long after a release it is our turn, when so many hear of it. Few come early, and ever fewer
/// in each doubling of the time, so that those who come while the next holder works are few however
/// long that takes; whoever is left comes in the end, in case that all of these are stopped or dead.
fn draw(first: Duration, listeners: u32, random: &mut Random) -> Duration {
    if listeners <= 1 {
        return Duration::ZERO;
    }
    let place = random.share(Duration::from_secs(1), 0.0..f64::from(listeners)).as_secs_f64();
    if place <= EARLY {
        return first.mul_f64(place / EARLY);
    }
    // The cap is for the arithmetic: far beyond ALL_TURNS.
    let turn = first.mul_f64(((place - EARLY) / PER_DOUBLING).min(30.0).exp2());
    if turn <= ALL_TURNS / 4 { turn } else { random.share(ALL_TURNS, 0.25..1.0) }
}

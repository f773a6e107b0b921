//! One attempt to acquire: rounds of votes until the outcome is certain. `vote` asks for them,
//! `verdict` says what they amount to, and `tie_break` keeps simultaneous starters from blocking
//! each other.

mod tie_break;
mod verdict;
mod vote;

pub use verdict::contended_after;

use std::time::Duration;

use super::{
    Fence, Fencing, Lease, Links, NodeIndex, NodeView, Reply, Request, Sealing, Strategy, Timing,
    Token, Trouble, Verdict,
    guard::Electorate,
    link::{Ask, Sent},
    random::Random,
    views::Views,
};
use crate::clock::Tick;

/// What every step of an attempt works with.
pub struct Desk<'a> {
    /// The connections.
    pub links: &'a mut Links,
    /// What the nodes said.
    pub views: &'a mut Views,
    /// Chance.
    pub random: &'a mut Random,
    /// Whose votes count.
    pub electorate: &'a Electorate,
    /// Whether a fencing token is wanted.
    pub fencing: Fencing,
    /// The durations.
    pub timing: &'a Timing,
    /// The value that holds the lock for a token.
    pub value: &'a dyn Fn(Token) -> String,
    /// The present.
    pub now: Tick,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A quorum is ours and leaves enough validity.
    Acquired,
    /// It is not to be had now.
    Denied(Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ballot {
    /// Not asked in this round.
    Unasked,
    /// Asked, no answer yet.
    Asked,
    /// Voted for us.
    Ours,
    /// Voted for somebody else.
    Other,
    /// Refuses, cannot be reached, or left us without an answer beyond its time-out.
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    ballot: Ballot,
    /// It left us without an answer when a round was judged: not asked again in this attempt, and
    /// skipped by the tie-break, until it answers something.
    quiet: bool,
    /// It gave an answer that counts in the course of this attempt.
    spoke: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nodes are asked for their votes; judged at `judge` at the latest.
    Vote { since: Tick, judge: Option<Tick> },
    /// We own the first node and ask the others again at `until`.
    Hope { until: Tick },
    /// The first node was asked alone.
    Lead { node: NodeIndex, until: Tick },
    /// The first node was somebody else's; the others are asked what they carry.
    Look { since: Tick, judge: Option<Tick> },
    /// A quorum is ours, and takes the fencing token.
    Seal,
    /// We yielded and come back at `until`.
    Rest { until: Tick, then: Comeback },
}

#[derive(Clone, Copy, Debug)]
enum Comeback {
    FirstNodeFirst,
    AllAtOnce,
}

/// The state of one attempt.
#[derive(Debug)]
pub struct Attempt {
    started: Tick,
    token: Token,
    lease: Lease,
    fence: Fence,
    seats: Vec<Seat>,
    phase: Phase,
    strategy: Strategy,
    trip: Option<Duration>,
    /// How long the last vote took to come.
    took: Duration,
    hopes: u32,
    hoping_since: Option<Tick>,
    yields: u32,
    slow_rounds: u32,
}

impl Attempt {
    /// Starts an attempt under a fresh token.
    pub fn start(nodes: usize, strategy: Strategy, desk: &mut Desk<'_>) -> Self {
        desk.views.forget();
        let mut attempt = Self {
            started: desk.now,
            token: desk.random.token(),
            lease: Lease::new(nodes),
            fence: Fence::new(nodes),
            seats: vec![Seat { ballot: Ballot::Unasked, quiet: false, spoke: false }; nodes],
            phase: Phase::Vote { since: desk.now, judge: None },
            strategy,
            trip: None,
            took: Duration::ZERO,
            hopes: 0,
            hoping_since: None,
            yields: 0,
            slow_rounds: 0,
        };
        for node in desk.links.nodes() {
            desk.links.refresh(node);
        }
        attempt.vote(desk);
        attempt
    }

    /// The token under which votes are gathered now.
    pub fn token(&self) -> Token {
        self.token
    }

    /// What the nodes carry of it.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The time from a send to the quorum-th answer, as last measured.
    pub fn trip(&self) -> Option<Duration> {
        self.trip
    }

    /// A node answered.
    pub fn answer(&mut self, node: NodeIndex, sent: Sent, reply: &Reply, desk: &mut Desk<'_>) {
        let place = &mut self.seats[node.get()];
        place.quiet = false;
        place.spoke |= !matches!(reply, Reply::Refused(_));
        match sent.ask {
            Ask::Acquire(token) if token == self.token => {
                self.took = desk.now.since(sent.at);
                desk.views.learn(node, reply, desk.now);
                if let Reply::Counted(counters) = reply {
                    self.fence.count(node, counters);
                }
                if reply.is_done() {
                    self.lease.raise(node, sent.at, desk.timing.ttl, desk.timing.drift);
                }
            }
            Ask::Seal(token) if token == self.token => {
                match reply {
                    Reply::Done => self.fence.sealed(node),
                    _ => self.fence.failed(node),
                }
                return;
            }
            Ask::Look if matches!(self.phase, Phase::Look { .. }) => {
                desk.views.learn(node, reply, desk.now);
            }
            _ => {
                // Also an answer to what was given up meanwhile tells who is there.
                if matches!(reply, Reply::Held(_)) {
                    desk.views.learn(node, reply, desk.now);
                }
                // Whatever it answers late, it is not silent any more.
                if *desk.views.of(node) == NodeView::Troubled(Trouble::Silent) {
                    desk.views.set(node, NodeView::Unknown);
                    self.seats[node.get()].ballot = Ballot::Unasked;
                }
                return;
            }
        }
        self.seats[node.get()].ballot = match reply {
            Reply::Done | Reply::Already | Reply::Extended(_) | Reply::Counted(_) => Ballot::Ours,
            Reply::Held(_) | Reply::Absent => Ballot::Other,
            Reply::Refused(_) | Reply::Data(_) => Ballot::Failed,
        };
    }

    /// A node failed.
    pub fn failed(&mut self, node: NodeIndex) {
        self.fence.failed(node);
        let seat = &mut self.seats[node.get()];
        if seat.ballot != Ballot::Ours {
            seat.ballot = Ballot::Failed;
        }
    }

    /// A node turned out to be no independent master: whatever it said does not count.
    pub fn unfit(&mut self, node: NodeIndex) {
        self.seats[node.get()].ballot = Ballot::Failed;
        self.lease.clear(node);
        self.fence.failed(node);
    }

    /// Does what is due. To be called after every answer and failure, and at the deadline.
    pub fn step(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        if desk.views.is_unfit() {
            return Some(Outcome::Denied(Verdict::Unfit));
        }
        if matches!(self.phase, Phase::Seal) {
            return self.step_seal(desk);
        }
        if self.is_acquired(desk) && !self.is_premature(desk) {
            return match desk.fencing {
                Fencing::Off => Some(Outcome::Acquired),
                Fencing::On => self.seal(desk),
            };
        }
        if desk.views.is_held() {
            return Some(Outcome::Denied(self.verdict(desk.views, desk.electorate)));
        }
        match self.phase {
            Phase::Vote { since, judge } => self.step_vote(since, judge, desk),
            Phase::Hope { until } => {
                if self.is_too_slow(desk) {
                    return self.too_slow(desk);
                }
                if desk.now >= until {
                    for seat in &mut self.seats {
                        if seat.ballot == Ballot::Other {
                            seat.ballot = Ballot::Unasked;
                        }
                    }
                    // Where nobody is left to ask, no answer would bring us back here.
                    self.vote(desk);
                    return self.step(desk);
                }
                None
            }
            Phase::Seal => None,
            Phase::Lead { node, until } => self.step_lead(node, until, desk),
            Phase::Look { since, judge } => self.step_look(since, judge, desk),
            Phase::Rest { until, then } => {
                if desk.now >= until {
                    match then {
                        Comeback::FirstNodeFirst => return self.lead(desk),
                        Comeback::AllAtOnce => {
                            self.vote(desk);
                            return self.step(desk);
                        }
                    }
                }
                None
            }
        }
    }

    /// When [`Attempt::step`] is due.
    pub fn deadline(&self, timing: &Timing) -> Option<Tick> {
        let slow = || self.lease.oldest().map(|oldest| oldest.before(timing.reserve()));
        match self.phase {
            Phase::Vote { judge, .. } => judge.into_iter().chain(slow()).min(),
            Phase::Hope { until } => std::iter::once(until).chain(slow()).min(),
            Phase::Lead { until, .. } | Phase::Rest { until, .. } => Some(until),
            Phase::Look { judge, .. } => judge,
            Phase::Seal => slow(),
        }
    }

    /// The fencing token, when one was wanted.
    pub fn number(&self) -> Option<u64> {
        self.fence.number()
    }

    /// Phase 2 of fencing: those whose votes are counted take the number.
    fn seal(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        self.phase = Phase::Seal;
        let (number, asked) = self.fence.seal(|node| desk.electorate.counts(node));
        for (node, counted) in asked {
            let request = Request::Seal { token: self.token, counted, number };
            desk.links.ask(node, request, desk.now);
        }
        self.step_seal(desk)
    }

    fn step_seal(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        if !self.is_acquired(desk) {
            return self.too_slow(desk);
        }
        match self.fence.sealing() {
            Sealing::Done => Some(Outcome::Acquired),
            Sealing::Open => None,
            Sealing::Failed if self.is_over(desk.now) => {
                Some(Outcome::Denied(self.verdict(desk.views, desk.electorate)))
            }
            Sealing::Failed => {
                self.give_way(Comeback::AllAtOnce, desk);
                None
            }
        }
    }
}

//! One attempt to acquire: rounds of votes until the outcome is certain, with the tie-break that
//! keeps simultaneous starters from blocking each other.
//!
//! When many start in the same instant, votes split. The rule that resolves it: the first node, in
//! canonical order, that answered breaks the tie. Whoever owns it keeps what it has and asks the
//! others again; everybody else yields at once, backs off, and comes back *first node first*, so
//! that contenders queue up at one node instead of stealing each other's votes.

use std::time::Duration;

use super::{
    Fence, Fencing, Lease, Links, NodeIndex, NodeView, Reply, Request, Sealing, Strategy, Timing,
    Token, Trouble, Verdict,
    guard::Electorate,
    lease::quorum,
    link::{Ask, Sent},
    random::Random,
    views::Views,
};
use crate::clock::Tick;

/// How often the owner of the first node asks the others again before it yields.
const HOPES: u32 = 15;
/// How long a contended attempt goes on at the least before its verdict is "contended".
const CONTENDED: Duration = Duration::from_secs(1);
/// The same in round trips.
const CONTENDED_TRIPS: u32 = 40;
/// A foreign token that stands unchanged on a node for so many round trips is a leftover.
const LEFTOVER_TRIPS: u32 = 8;
/// The first of the contenders to ask the first node waits so many round trips for its answer.
const LEAD_TRIPS: u32 = 4;
/// Below this, differences between round trips are the scheduler's.
const SHORTEST_TRIP: Duration = Duration::from_micros(250);

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
            return Some(Outcome::Denied(Verdict::Held));
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

    /// What the answers so far amount to, for a verdict that cannot wait any longer.
    pub fn verdict(&self, views: &Views, electorate: &Electorate) -> Verdict {
        if views.is_held() {
            Verdict::Held
        } else if self.is_guarded() {
            Verdict::Guarded(electorate.youth())
        } else if self.count(|seat| seat.spoke) < quorum(self.seats.len()) {
            Verdict::Unavailable
        } else {
            Verdict::Contended
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

    /// A quorum is ours and leaves what ending the command in time takes.
    fn is_acquired(&self, desk: &Desk<'_>) -> bool {
        let enough = desk.now.after(desk.timing.reserve());
        let counts = |node| desk.electorate.counts(node);
        self.lease.validity_with(counts).is_some_and(|validity| validity > enough)
    }

    /// Somebody who was asked may still turn the outcome: show that a server is in the list twice,
    /// or a lock that is longer than those who voted are old. They get as long as every round has.
    fn is_premature(&self, desk: &Desk<'_>) -> bool {
        let Phase::Vote { judge, .. } = self.phase else {
            return false;
        };
        let waits = judge.is_none_or(|at| desk.now < at);
        let mut hopeful = self.asked(desk).peekable();
        let stranger = |node| !desk.electorate.is_introduced(node);
        let surely = desk.links.nodes().filter(|node| {
            self.seats[node.get()].ballot == Ballot::Ours && desk.electorate.is_beyond_doubt(*node)
        });
        waits
            && hopeful.peek().is_some()
            && (surely.count() < quorum(self.seats.len()) || hopeful.any(stranger))
    }

    /// The nodes whose answer is awaited.
    fn asked<'a>(&'a self, desk: &Desk<'_>) -> impl Iterator<Item = NodeIndex> + use<'a> {
        desk.links.nodes().filter(|node| self.seats[node.get()].ballot == Ballot::Asked)
    }

    /// Only the age of nodes keeps us from having the lock.
    fn is_guarded(&self) -> bool {
        self.count(|seat| seat.ballot == Ballot::Ours) >= quorum(self.seats.len())
    }

    fn count(&self, wanted: impl Fn(&Seat) -> bool) -> usize {
        self.seats.iter().filter(|seat| wanted(seat)).count()
    }

    /// Nodes that gave an answer that counts, in this round.
    fn answered(&self) -> usize {
        self.count(|seat| matches!(seat.ballot, Ballot::Ours | Ballot::Other))
    }

    fn measured_trip(&self) -> Duration {
        self.trip.unwrap_or(self.took).max(SHORTEST_TRIP)
    }

    /// Asks for the votes that are still missing: all at once, or the next one.
    fn vote(&mut self, desk: &mut Desk<'_>) {
        self.phase = Phase::Vote { since: desk.now, judge: None };
        let missing = desk.links.nodes().filter(|node| self.may_ask(*node));
        let missing: Vec<_> = match self.strategy {
            Strategy::Concurrent => missing.collect(),
            Strategy::Sequential => missing.take(1).collect(),
        };
        for node in missing {
            self.acquire(node, desk);
        }
    }

    fn may_ask(&self, node: NodeIndex) -> bool {
        let seat = self.seats[node.get()];
        seat.ballot == Ballot::Unasked && !seat.quiet
    }

    fn acquire(&mut self, node: NodeIndex, desk: &mut Desk<'_>) {
        self.seats[node.get()].ballot = Ballot::Asked;
        let (token, value, ttl) = (self.token, (desk.value)(self.token), desk.timing.ttl);
        let request = match desk.fencing {
            Fencing::Off => Request::Acquire { token, value, ttl },
            Fencing::On => Request::AcquireCounted { token, value, ttl },
        };
        desk.links.ask(node, request, desk.now);
    }

    fn step_vote(
        &mut self,
        since: Tick,
        judge: Option<Tick>,
        desk: &mut Desk<'_>,
    ) -> Option<Outcome> {
        let quorum = quorum(self.seats.len());
        let own = self.count(|seat| seat.ballot == Ballot::Ours);
        if self.is_too_slow(desk) {
            return self.too_slow(desk);
        }
        if let Some(verdict) = self.out_of_reach() {
            return Some(Outcome::Denied(verdict));
        }
        // Also when a quorum cannot be had any more: which verdict it is, the others have to tell.
        if self.strategy == Strategy::Sequential
            && self.count(|seat| seat.ballot == Ballot::Asked) == 0
            && let Some(next) = desk.links.nodes().find(|node| self.may_ask(*node))
        {
            self.acquire(next, desk);
            return None;
        }
        let hopeful = self.count(|seat| seat.ballot == Ballot::Asked);
        let answered = self.answered();
        if answered >= quorum && judge.is_none() {
            let took = match self.strategy {
                // A late answer to an earlier round says nothing about this one's speed.
                Strategy::Concurrent => desk.now.since(since).max(self.took),
                // The whole round includes the time-outs of those before.
                Strategy::Sequential => self.took,
            };
            self.trip = Some(took);
            // Twice the time that it took, once more: a silent node costs nothing like its time-out.
            let patience = (took * 2).max(self.measured_trip() / 2);
            let judge = match self.strategy {
                Strategy::Concurrent => Some(desk.now.after(patience)),
                // Every node gets its whole time-out.
                Strategy::Sequential => None,
            };
            self.phase = Phase::Vote { since, judge };
        }
        let impossible = own + hopeful < quorum && answered >= quorum;
        let late = judge.is_some_and(|at| desk.now >= at);
        if self.is_guarded() && hopeful > 0 && late {
            // All of them are heard: a fleet that is new as a whole may vote.
            let until = since.after(desk.timing.node_timeout);
            if desk.now < until {
                self.phase = Phase::Vote { since, judge: Some(until) };
                return None;
            }
        }
        if hopeful == 0 || impossible || late {
            return self.judge(desk);
        }
        None
    }

    /// Fewer than a quorum of nodes can give an answer that counts.
    fn out_of_reach(&self) -> Option<Verdict> {
        let failed = self.count(|seat| seat.ballot == Ballot::Failed);
        (self.seats.len() - failed < quorum(self.seats.len())).then_some(Verdict::Unavailable)
    }

    /// A round is over without a winner.
    fn judge(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        for seat in &mut self.seats {
            seat.quiet |= seat.ballot == Ballot::Asked;
        }
        if self.is_guarded() {
            return Some(Outcome::Denied(Verdict::Guarded(desk.electorate.youth())));
        }
        if self.is_over(desk.now) {
            return Some(Outcome::Denied(self.verdict(desk.views, desk.electorate)));
        }
        let leftovers = self.leftovers(desk);
        let first = desk.links.nodes().find(|node| {
            matches!(self.seats[node.get()].ballot, Ballot::Ours | Ballot::Other)
                && !leftovers.contains(node)
        });
        let owned = first.is_some_and(|node| self.seats[node.get()].ballot == Ballot::Ours);
        if owned {
            let since = *self.hoping_since.get_or_insert(desk.now);
            self.hopes += 1;
            if self.hopes <= HOPES || desk.now.since(since) < desk.timing.node_timeout {
                // On a fast network hundreds of round trips fit into the node-timeout.
                let slower = 1 << self.hopes.saturating_sub(HOPES).min(16);
                let pace = (self.measured_trip() * slower).min(desk.timing.node_timeout);
                let pause = desk.random.share(pace, 0.1..0.6);
                self.phase = Phase::Hope { until: desk.now.after(pause) };
                return None;
            }
        }
        self.give_way(Comeback::FirstNodeFirst, desk);
        None
    }

    fn is_over(&self, now: Tick) -> bool {
        let bound = CONTENDED.max(self.measured_trip() * CONTENDED_TRIPS);
        // While fewer have been heard the others have to be asked, or to fail: only that tells a
        // contended lock from an outage.
        let heard = self.count(|seat| seat.spoke) >= quorum(self.seats.len());
        heard && now.since(self.started) >= bound
    }

    /// The nodes that the tie-break skips since they show a leftover. None, when no quorum is left
    /// without them: then only its end helps, and whoever took another node for the first one would
    /// stand in the way of an owner that merely needs long.
    fn leftovers(&self, desk: &Desk<'_>) -> Vec<NodeIndex> {
        let age = self.measured_trip() * LEFTOVER_TRIPS;
        let stale = |node: &NodeIndex| desk.views.is_leftover(*node, age, desk.now);
        let leftovers: Vec<NodeIndex> = desk.links.nodes().filter(stale).collect();
        let usable = desk.links.nodes().filter(|node| {
            let seat = self.seats[node.get()];
            seat.ballot != Ballot::Failed && !seat.quiet && !leftovers.contains(node)
        });
        if usable.count() < quorum(self.seats.len()) { Vec::new() } else { leftovers }
    }

    /// Undoes what is or may be ours, and comes back later under a fresh token.
    fn give_way(&mut self, then: Comeback, desk: &mut Desk<'_>) {
        self.abandon(desk);
        let doubling = 1 << self.yields.min(3);
        self.yields += 1;
        let pause = desk.random.share(self.measured_trip() * doubling, 0.3..1.0);
        self.phase = Phase::Rest { until: desk.now.after(pause), then };
    }

    fn abandon(&mut self, desk: &mut Desk<'_>) {
        desk.links.release(self.token, false, desk.now);
        self.token = desk.random.token();
        self.lease = Lease::new(self.seats.len());
        self.fence = Fence::new(self.seats.len());
        self.hopes = 0;
        self.hoping_since = None;
        for (node, seat) in desk.links.nodes().zip(&mut self.seats) {
            if matches!(desk.views.of(node), NodeView::Ours) {
                desk.views.set(node, NodeView::Free);
            }
            if seat.ballot != Ballot::Failed {
                seat.ballot = Ballot::Unasked;
            }
        }
    }

    fn is_too_slow(&self, desk: &Desk<'_>) -> bool {
        let needed = desk.now.after(desk.timing.reserve());
        self.lease.oldest().is_some_and(|oldest| oldest <= needed)
    }

    fn too_slow(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        self.slow_rounds += 1;
        if self.slow_rounds >= 2 {
            return Some(Outcome::Denied(Verdict::TooSlow));
        }
        self.give_way(Comeback::AllAtOnce, desk);
        None
    }

    /// Asks the first node alone.
    fn lead(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        if let Some(verdict) = self.out_of_reach() {
            return Some(Outcome::Denied(verdict));
        }
        if self.is_over(desk.now) {
            return Some(Outcome::Denied(self.verdict(desk.views, desk.electorate)));
        }
        let open = |node: &NodeIndex| self.may_ask(*node);
        let leftovers = self.leftovers(desk);
        let first = desk.links.nodes().filter(open).find(|node| !leftovers.contains(node));
        // When leftovers stand everywhere, one of them is asked whether it is still there.
        let Some(node) = first.or_else(|| desk.links.nodes().find(open)) else {
            self.hear_everybody();
            self.give_way(Comeback::FirstNodeFirst, desk);
            return None;
        };
        let until =
            desk.now.after((self.measured_trip() * LEAD_TRIPS).min(desk.timing.node_timeout));
        self.phase = Phase::Lead { node, until };
        self.acquire(node, desk);
        None
    }

    /// Every node that could answer left us without one lately: ask them all the same.
    fn hear_everybody(&mut self) {
        for seat in &mut self.seats {
            seat.quiet = false;
        }
    }

    fn step_lead(&mut self, node: NodeIndex, until: Tick, desk: &mut Desk<'_>) -> Option<Outcome> {
        match self.seats[node.get()].ballot {
            Ballot::Ours => {
                self.vote(desk);
                self.step(desk)
            }
            Ballot::Other => {
                let others: Vec<_> = desk.links.nodes().filter(|n| self.may_ask(*n)).collect();
                for other in others {
                    self.seats[other.get()].ballot = Ballot::Asked;
                    desk.links.ask(other, Request::Look, desk.now);
                }
                self.phase = Phase::Look { since: desk.now, judge: None };
                self.step(desk)
            }
            Ballot::Asked if desk.now < until => None,
            Ballot::Asked | Ballot::Unasked | Ballot::Failed => {
                self.seats[node.get()].quiet = true;
                if self.seats[node.get()].ballot == Ballot::Asked {
                    // Where round trips became longer than they were measured, asking one node
                    // after the other at the old pace would hear none of them.
                    self.trip = Some(self.measured_trip() * 2);
                }
                self.abandon(desk);
                self.lead(desk)
            }
        }
    }

    fn step_look(
        &mut self,
        since: Tick,
        judge: Option<Tick>,
        desk: &mut Desk<'_>,
    ) -> Option<Outcome> {
        if let Some(verdict) = self.out_of_reach() {
            return Some(Outcome::Denied(verdict));
        }
        let hopeful = self.count(|seat| seat.ballot == Ballot::Asked);
        if self.answered() >= quorum(self.seats.len()) && judge.is_none() {
            let took = desk.now.since(since).max(self.measured_trip() / 2);
            self.phase = Phase::Look { since, judge: Some(desk.now.after(took * 2)) };
        }
        if hopeful == 0 || judge.is_some_and(|at| desk.now >= at) {
            if self.is_over(desk.now) {
                return Some(Outcome::Denied(self.verdict(desk.views, desk.electorate)));
            }
            self.give_way(Comeback::FirstNodeFirst, desk);
        }
        None
    }
}

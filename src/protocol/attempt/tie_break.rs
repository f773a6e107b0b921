//! What keeps simultaneous starters from blocking each other.
//!
//! When many start in the same instant, votes split. The rule that resolves it: the first node, in
//! canonical order, that answered breaks the tie. Whoever owns it keeps what it has and asks the
//! others again; everybody else yields at once, backs off, and comes back *first node first*, so
//! that contenders queue up at one node instead of stealing each other's votes.

use super::{
    super::{Fence, Lease, NodeIndex, NodeView, Request, Verdict, lease::quorum},
    Attempt, Ballot, Comeback, Desk, Outcome, Phase,
};
use crate::clock::Tick;

/// How often the owner of the first node asks the others again before it yields.
const HOPES: u32 = 15;
/// A foreign token that stands unchanged on a node for so many round trips is a leftover.
const LEFTOVER_TRIPS: u32 = 8;
/// The first of the contenders to ask the first node waits so many round trips for its answer.
const LEAD_TRIPS: u32 = 4;

impl Attempt {
    /// A round is over without a winner.
    pub(super) fn judge(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        for seat in &mut self.seats {
            seat.quiet |= seat.ballot == Ballot::Asked;
        }
        if self.is_guarded() {
            return Some(Outcome::Denied(Verdict::Guarded(desk.electorate.youth())));
        }
        if desk.views.kin().is_some() || self.is_over(desk.now) {
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

    /// The nodes that the tie-break skips since they show a leftover. None, when no quorum is left
    /// without them: then only its end helps, and whoever took another node for the first one would
    /// stand in the way of an owner that merely needs long.
    pub(super) fn leftovers(&self, desk: &Desk<'_>) -> Vec<NodeIndex> {
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
    pub(super) fn give_way(&mut self, then: Comeback, desk: &mut Desk<'_>) {
        self.abandon(desk);
        let doubling = 1 << self.yields.min(3);
        self.yields += 1;
        let pause = desk.random.share(self.measured_trip() * doubling, 0.3..1.0);
        self.phase = Phase::Rest { until: desk.now.after(pause), then };
    }

    pub(super) fn abandon(&mut self, desk: &mut Desk<'_>) {
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

    pub(super) fn too_slow(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        self.slow_rounds += 1;
        if self.slow_rounds >= 2 {
            return Some(Outcome::Denied(Verdict::TooSlow));
        }
        self.give_way(Comeback::AllAtOnce, desk);
        None
    }

    /// Asks the first node alone.
    pub(super) fn lead(&mut self, desk: &mut Desk<'_>) -> Option<Outcome> {
        if let Some(verdict) = self.out_of_reach(desk.views) {
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
    pub(super) fn hear_everybody(&mut self) {
        for seat in &mut self.seats {
            seat.quiet = false;
        }
    }

    pub(super) fn step_lead(
        &mut self,
        node: NodeIndex,
        until: Tick,
        desk: &mut Desk<'_>,
    ) -> Option<Outcome> {
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

    pub(super) fn step_look(
        &mut self,
        since: Tick,
        judge: Option<Tick>,
        desk: &mut Desk<'_>,
    ) -> Option<Outcome> {
        if let Some(verdict) = self.out_of_reach(desk.views) {
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

//! Asking the nodes for their votes: all at once, or one after the other.

use super::{
    super::{Fencing, NodeIndex, Request, Strategy, lease::quorum},
    Attempt, Ballot, Desk, Outcome, Phase,
};
use crate::clock::Tick;

impl Attempt {
    /// Asks for the votes that are still missing: all at once, or the next one.
    pub(super) fn vote(&mut self, desk: &mut Desk<'_>) {
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

    pub(super) fn may_ask(&self, node: NodeIndex) -> bool {
        let seat = self.seats[node.get()];
        seat.ballot == Ballot::Unasked && !seat.quiet
    }

    pub(super) fn acquire(&mut self, node: NodeIndex, desk: &mut Desk<'_>) {
        self.seats[node.get()].ballot = Ballot::Asked;
        // Nobody is overdue twice on one connection: there its answer would be awaited without end.
        desk.links.renew(node);
        let (token, value, ttl) = (self.token, (desk.value)(self.token), desk.timing.ttl);
        let request = match desk.fencing {
            Fencing::Off => Request::Acquire { token, value, ttl },
            Fencing::On => Request::AcquireCounted { token, value, ttl },
        };
        desk.links.ask(node, request, desk.now);
    }

    pub(super) fn step_vote(
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
        if let Some(verdict) = self.out_of_reach(desk.views) {
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
}

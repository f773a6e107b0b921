//! Holding a lock that somebody else acquired: as one step of a pipeline whose steps share a lock,
//! or as a run inside of the run that has it.
//!
//! The token is checked by a strict extension on all nodes; a quorum of them makes the lock ours to
//! run under. It is extended as any other, and lost as any other, and it is never released. A step
//! of a pipeline is the only one who looks after the lock: it heals nodes that lost it, and leaves
//! a full ttl to the next. A run inside of another leaves both to that.

use std::time::Duration;

use super::{
    Action, ConnId, Denial, Event, Holder, Lease, LinkEvent, Links, Machine, NodeIndex, NodeView,
    Reply, Request, Timing, Token, Verdict,
    hold::{Finding, Hold},
    lease::quorum,
    link::{Ask, Heard, Sent},
    views::Views,
};
use crate::clock::Tick;

#[derive(Debug)]
enum Phase {
    Idle,
    /// The first extension is under way.
    Checking,
    Holding(Hold),
    /// The last extension is under way, until then at the latest.
    Leaving {
        until: Tick,
    },
    Over,
}

/// Who looks after an adopted lock.
#[derive(Clone, Debug)]
enum Care {
    /// We do. This is what nodes that lose the lock are healed with.
    Ours(Holder),
    /// A run around us, whose token is one of those that are tried.
    Theirs,
}

/// The state of an adopted lock.
#[derive(Debug)]
pub struct Adoption {
    token: Token,
    /// The tokens that are tried when this one does not hold the lock, the next one last.
    others: Vec<Token>,
    care: Care,
    timing: Timing,
    links: Links,
    views: Views,
    lease: Lease,
    phase: Phase,
    started: Tick,
    lost: bool,
}

impl Adoption {
    /// The lock on `nodes` nodes that `token` holds, to be kept for the ttl of `timing` at a time
    /// by `holder`.
    pub fn of_token(nodes: usize, token: Token, holder: Holder, timing: Timing) -> Self {
        Self::new(nodes, token, Vec::new(), Care::Ours(holder), timing)
    }

    /// The lock on `nodes` nodes that a run around us holds under `token`, or under one of `others`,
    /// of which the last is tried first.
    pub fn of_kin(nodes: usize, token: Token, others: Vec<Token>, timing: Timing) -> Self {
        Self::new(nodes, token, others, Care::Theirs, timing)
    }

    fn new(nodes: usize, token: Token, others: Vec<Token>, care: Care, timing: Timing) -> Self {
        Self {
            token,
            others,
            care,
            timing,
            links: Links::new(nodes, timing),
            views: Views::new(nodes, None, Vec::new()),
            lease: Lease::new(nodes),
            phase: Phase::Idle,
            started: Tick::default(),
            lost: false,
        }
    }
}

impl Machine for Adoption {
    type Event = Event;

    /// The first extension checks the token.
    fn start(&mut self, now: Tick) {
        self.started = now;
        self.phase = Phase::Checking;
        self.extend(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        if let Some(heard) = self.links.handle(conn, event, now) {
            self.hear(heard, now);
        }
        self.step(now);
    }

    fn wake(&mut self, now: Tick) {
        for heard in self.links.overdue(now) {
            self.hear(heard, now);
        }
        self.step(now);
    }

    /// Extends at once.
    fn resume(&mut self, now: Tick) {
        if let Phase::Holding(hold) = &mut self.phase {
            hold.hurry(now);
        }
        self.wake(now);
    }

    /// Leaves a full ttl behind, where nobody else does.
    fn stop(&mut self, now: Tick) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Holding(_) if !self.lost && matches!(self.care, Care::Ours(_)) => {
                self.extend(now);
                let until = now.after(self.timing.node_timeout);
                self.phase = Phase::Leaving { until };
                self.step(now);
            }
            Phase::Over => {}
            Phase::Leaving { until } => self.phase = Phase::Leaving { until },
            Phase::Idle | Phase::Checking | Phase::Holding(_) => self.settled(),
        }
    }

    fn deadline(&self) -> Option<Tick> {
        let phase = match &self.phase {
            Phase::Idle | Phase::Over => return None,
            Phase::Checking => None,
            Phase::Holding(hold) => hold.deadline(),
            Phase::Leaving { until } => Some(*until),
        };
        phase.into_iter().chain(self.links.deadline()).min()
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(self.links.actions())
    }

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }
}

impl Adoption {
    fn extend(&mut self, now: Tick) {
        for node in self.links.nodes() {
            // A second one behind an unanswered one would tell nothing new.
            if !self.links.owes(node, Ask::Extend(self.token)) {
                let request = Request::Extend { token: self.token, ttl: self.timing.ttl };
                self.links.ask(node, request, now);
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.links.actions().push(Action::Tell(event));
    }

    fn settled(&mut self) {
        self.phase = Phase::Over;
        // What stays on the nodes is meant to.
        self.tell(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO });
    }

    fn hear(&mut self, heard: Heard, now: Tick) {
        match heard {
            Heard::Answer { node, sent, reply } => self.answer(node, sent, &reply, now),
            // What makes a server unfit makes its answers refusals.
            Heard::Introduced(_) | Heard::Released(_) => {}
            Heard::Called(token) => {
                if let Phase::Holding(hold) = &mut self.phase
                    && hold.token() == token
                {
                    hold.hurry(now);
                }
            }
            Heard::Broken { node, trouble, opened } => {
                if *self.views.of(node) != NodeView::Ours {
                    self.views.set(node, NodeView::Troubled(trouble));
                }
                if let Phase::Holding(hold) = &mut self.phase {
                    hold.failed(node, opened, &self.timing, now);
                }
            }
        }
    }

    fn answer(&mut self, node: NodeIndex, sent: Sent, reply: &Reply, now: Tick) {
        // What another token does not hold says nothing about this one.
        if matches!(sent.ask, Ask::Extend(token) if token != self.token) {
            return;
        }
        self.views.learn(node, reply, now);
        match &mut self.phase {
            Phase::Checking => {
                if reply.is_done() {
                    self.lease.raise(node, sent.at, self.timing.ttl, self.timing.drift);
                }
            }
            Phase::Holding(hold) => {
                let findings = hold.answer(node, sent, reply, true, &self.timing, now);
                self.report(findings);
            }
            Phase::Idle | Phase::Leaving { .. } | Phase::Over => {}
        }
    }

    fn report(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let event = match finding {
                Finding::Validity(validity) => Event::Validity(validity),
                Finding::Lost => {
                    self.lost = true;
                    Event::Lost(self.views.all())
                }
                Finding::Note(note) => Event::Note(note),
            };
            self.tell(event);
        }
    }

    fn step(&mut self, now: Tick) {
        match &mut self.phase {
            Phase::Idle | Phase::Over => {}
            Phase::Checking => self.check(now),
            Phase::Holding(hold) => {
                let findings = hold.step(&mut self.links, &self.timing, now);
                self.report(findings);
            }
            Phase::Leaving { until } => {
                let ask = Ask::Extend(self.token);
                let waits =
                    |node: NodeIndex| self.links.owes(node, ask) && !self.links.is_silent(node);
                if now >= *until || !self.links.nodes().any(waits) {
                    self.settled();
                }
            }
        }
    }

    /// Judges the first extension.
    fn check(&mut self, now: Tick) {
        let all = self.views.all();
        let count = |wanted: fn(&NodeView) -> bool| all.iter().filter(|view| wanted(view)).count();
        let gone = count(|view| matches!(view, NodeView::Free | NodeView::Held(_)));
        let waiting = count(|view| *view == NodeView::Unknown);
        let needed = quorum(all.len());
        if let Some(validity) = self.lease.validity().filter(|end| end.since(now) > Duration::ZERO)
        {
            let (token, lease) = (self.token, self.lease.clone());
            let nodes = lease.nodes();
            let heal = match &self.care {
                Care::Ours(holder) => Some((holder.value(token), None)),
                Care::Theirs => None,
            };
            let hold = Hold::start(token, heal, lease, &self.links, &self.views, &self.timing, now);
            self.phase = Phase::Holding(hold);
            let waited = now.since(self.started);
            self.tell(Event::Acquired { token, validity, nodes, waited });
        } else if all.len() - gone < needed {
            match (self.others.pop(), &self.care) {
                (Some(token), _) => self.turn_to(token, now),
                (None, Care::Ours(_)) => self.deny(Verdict::NotOurs, now),
                (None, Care::Theirs) => self.deny(Verdict::NotInherited, now),
            }
        } else if waiting == 0 {
            self.deny(Verdict::Unavailable, now);
        }
    }

    /// Tries another token.
    fn turn_to(&mut self, token: Token, now: Tick) {
        self.token = token;
        self.lease = Lease::new(self.links.nodes().count());
        for node in self.links.nodes() {
            if matches!(self.views.of(node), NodeView::Ours | NodeView::Free | NodeView::Held(_)) {
                self.views.set(node, NodeView::Unknown);
            }
        }
        self.extend(now);
    }

    fn deny(&mut self, verdict: Verdict, now: Tick) {
        let waited = now.since(self.started);
        let nodes = self.views.all();
        self.tell(Event::Denied(Denial { verdict, nodes, waited }));
        self.settled();
    }
}

#[cfg(test)]
mod tests;

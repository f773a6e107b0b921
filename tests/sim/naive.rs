//! A small client of Redlock, written for these tests alone: it shows that the simulator lets a
//! sound client pass, and, with one of its rules broken, that the checks see it. It has no
//! tie-break, no verdict finer than "held" and no way back to a node whose connection ended.

use std::{collections::VecDeque, time::Duration};

use redlock::{
    clock::Tick,
    protocol::{
        Action, ConnId, Contract, Denial, Event, LinkEvent, Machine, NodeIndex, NodeView, Patience,
        Reply, Request, Session, Token, Verdict,
    },
};

use super::{brain::Brain, link::Kind};

/// The rule that this client breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// One token for all tries.
    SameToken,
    /// Attempts that did not win are left to run out.
    NoUndo,
    /// N/2 nodes are enough.
    HalfQuorum,
    /// The clocks are trusted to run alike.
    NoDrift,
    /// The time-out counts from the answer.
    CountsFromAnswer,
    /// An undo wakes everybody who waits.
    UndoAnnounces,
    /// A silent connection is closed as it is.
    Abandons,
    /// A lease that was over is taken up again by the next extension that succeeds.
    Revives,
    /// Nodes that proved that the lock is gone still count.
    IgnoresProof,
    /// Asks again at once, for ever.
    Floods,
    /// Extends once more after its release.
    ExtendsReleased,
}

/// Makes a client with this flaw.
pub fn naive(flaw: Flaw) -> impl Fn(Contract) -> Box<Brain> {
    move |contract| Box::new(Naive::new(contract, flaw))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking { since: Tick },
    Resting { until: Tick },
    Holding { extend: Tick },
    Clearing { until: Tick, denied: bool },
    Settled,
}

#[derive(Default)]
struct Node {
    conn: Option<ConnId>,
    serial: u32,
    /// What was asked, for whom and when.
    asked: VecDeque<(Kind, Tick)>,
    until: Option<Tick>,
    held: bool,
    /// Gave an answer to the present attempt, or will give none.
    done: bool,
}

struct Naive {
    contract: Contract,
    flaw: Flaw,
    state: State,
    nodes: Vec<Node>,
    token: Token,
    validity: Option<Tick>,
    lost: bool,
    start: Tick,
    out: Vec<Action>,
}

impl Naive {
    fn new(mut contract: Contract, flaw: Flaw) -> Self {
        let token = Token::from_random((contract.random)());
        Self {
            nodes: (0..contract.nodes).map(|_| Node::default()).collect(),
            contract,
            flaw,
            state: State::Settled,
            token,
            validity: None,
            lost: false,
            start: Tick::default(),
            out: Vec::new(),
        }
    }

    fn quorum(&self) -> usize {
        let more = usize::from(self.flaw != Flaw::HalfQuorum);
        (self.contract.nodes / 2 + more).max(1)
    }

    fn send(&mut self, node: usize, request: Request, now: Tick) {
        let n = &mut self.nodes[node];
        let conn = *n.conn.get_or_insert_with(|| {
            n.serial += 1;
            let conn =
                ConnId { node: NodeIndex(u8::try_from(node).unwrap_or(0)), serial: n.serial };
            self.out.push(Action::Open(conn));
            conn
        });
        n.asked.push_back((Kind::of(&request), now));
        self.out.push(Action::Send(conn, request));
    }

    fn attempt(&mut self, now: Tick) {
        if self.flaw != Flaw::SameToken {
            self.token = Token::from_random((self.contract.random)());
        }
        self.state = State::Asking { since: now };
        for node in 0..self.nodes.len() {
            (self.nodes[node].until, self.nodes[node].held) = (None, false);
            self.nodes[node].done = false;
            let value = self.contract.holder.value(self.token);
            let (token, ttl) = (self.token, self.contract.timing.ttl);
            self.send(node, Request::Acquire { token, value, ttl }, now);
        }
    }

    fn undo(&mut self, announce: bool, now: Tick) {
        if self.flaw == Flaw::NoUndo && !announce {
            return;
        }
        let announce = announce || self.flaw == Flaw::UndoAnnounces;
        let token = self.token;
        for node in 0..self.nodes.len() {
            // Where no answer came and the connection ended there is nobody to tell.
            if self.nodes[node].conn.is_some() {
                self.send(node, Request::Release { token, announce }, now);
            }
        }
    }

    fn judge(&mut self, now: Tick) {
        let since = match self.state {
            State::Asking { since } => since,
            State::Holding { .. } => return self.measure(now),
            _ => return,
        };
        let validity = self.calculate();
        let reserve = self.contract.timing.reserve();
        let gone = validity.is_some_and(|validity| validity.since(now) <= reserve);
        if let (Some(validity), false) = (validity, gone) {
            self.validity = Some(validity);
            self.state = State::Holding { extend: now.after(self.contract.timing.every) };
            return self.out.push(Action::Tell(Event::Acquired {
                token: self.token,
                validity,
                nodes: self.quorum(),
                waited: now.since(self.start),
            }));
        }
        let late = now.since(since) >= self.contract.timing.node_timeout * 4;
        let hopeful = |n: &&Node| n.until.is_some() || !n.done;
        let hope = self.nodes.iter().filter(hopeful).count() >= self.quorum();
        if hope && !late && !gone {
            return;
        }
        self.undo(false, now);
        self.drop_silent();
        let given_up = match self.contract.patience {
            Patience::NoWait => true,
            Patience::Within(limit) => now.since(self.start) >= limit,
            Patience::Forever { .. } => false,
        };
        if given_up {
            return self.deny(now);
        }
        let rest = if self.flaw == Flaw::Floods {
            Duration::ZERO
        } else {
            let spread = u64::try_from((self.contract.random)() % 60).unwrap_or(0);
            Duration::from_millis(5 + spread * spread)
        };
        self.state = State::Resting { until: now.after(rest) };
    }

    /// Connections that owe an answer are of no use to the next attempt.
    fn drop_silent(&mut self) {
        for n in &mut self.nodes {
            let silent = n.asked.iter().any(|(kind, _)| matches!(kind, Kind::Acquire(_)));
            if let (true, Some(conn)) = (silent, n.conn) {
                if self.flaw == Flaw::Abandons {
                    // The undo that was just queued is taken back.
                    self.out.retain(
                        |a| !matches!(a, Action::Send(c, Request::Release { .. }) if *c == conn),
                    );
                }
                self.out.push(Action::Close(conn));
                n.conn = None;
                n.asked.clear();
            }
        }
    }

    fn deny(&mut self, now: Tick) {
        self.out.push(Action::Tell(Event::Denied(Denial {
            verdict: Verdict::Contended,
            nodes: Vec::new(),
            waited: now.since(self.start),
        })));
        self.clear(true, now);
    }

    fn clear(&mut self, denied: bool, now: Tick) {
        self.state =
            State::Clearing { until: now.after(self.contract.timing.node_timeout), denied };
        self.maybe_settle(now);
    }

    fn maybe_settle(&mut self, now: Tick) {
        let State::Clearing { until, .. } = self.state else {
            return;
        };
        let owes = |n: &Node| n.conn.is_some() && !n.asked.is_empty();
        if self.nodes.iter().any(owes) && now < until {
            return;
        }
        let index = |(i, n): (usize, &Node)| {
            let index = NodeIndex(u8::try_from(i).unwrap_or(0));
            (n.conn.is_none() || owes(n)).then_some(index)
        };
        let untold = self.nodes.iter().enumerate().filter_map(index).collect();
        self.out.push(Action::Tell(Event::Settled { untold, at_most: self.contract.timing.ttl }));
        self.state = State::Settled;
    }

    fn calculate(&self) -> Option<Tick> {
        let mut all: Vec<Tick> = self.nodes.iter().filter_map(|n| n.until).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.get(self.quorum() - 1).copied()
    }

    /// In a hold: the validity moves, or the lock is lost.
    fn measure(&mut self, now: Tick) {
        let gone = self.nodes.iter().filter(|n| n.held).count();
        if gone > self.contract.nodes - self.quorum() && !self.lost {
            self.lost = true;
            self.out.push(Action::Tell(Event::Lost(vec![NodeView::Free; gone])));
        }
        let validity = self.calculate();
        let over = self.validity.is_some_and(|validity| validity <= now);
        if validity != self.validity && (!over || self.flaw == Flaw::Revives) {
            self.validity = validity;
            let validity = validity.unwrap_or(now);
            self.out.push(Action::Tell(Event::Validity(validity)));
        }
    }

    fn extend(&mut self, now: Tick) {
        let (token, ttl) = (self.token, self.contract.timing.ttl);
        for node in 0..self.nodes.len() {
            if self.nodes[node].conn.is_some() && self.nodes[node].asked.is_empty() {
                self.send(node, Request::Extend { token, ttl }, now);
            }
        }
    }

    fn replied(&mut self, node: usize, reply: &Reply, now: Tick) {
        let timing = self.contract.timing;
        let n = &mut self.nodes[node];
        let Some((kind, at)) = n.asked.pop_front() else {
            return;
        };
        let (Kind::Acquire(token) | Kind::Extend(token)) = kind else {
            return;
        };
        if token != self.token {
            return;
        }
        n.done = true;
        let from = if self.flaw == Flaw::CountsFromAnswer { now } else { at };
        let drift = if self.flaw == Flaw::NoDrift { Duration::ZERO } else { timing.drift };
        match (reply, kind) {
            (reply, _) if reply.is_done() && !n.held => {
                n.until = n.until.max(Some(from.after(timing.ttl).before(drift)));
            }
            (Reply::Absent | Reply::Held(_), Kind::Extend(_))
                if self.flaw != Flaw::IgnoresProof =>
            {
                (n.until, n.held) = (None, true);
            }
            _ => {}
        }
    }
}

impl Machine for Naive {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        Session::is_last(event)
    }

    fn start(&mut self, now: Tick) {
        self.start = now;
        self.attempt(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        let node = conn.node.get();
        if self.nodes[node].conn != Some(conn) {
            return;
        }
        match event {
            LinkEvent::Securing
            | LinkEvent::Secured { .. }
            | LinkEvent::Ready
            | LinkEvent::Introduced(_)
            | LinkEvent::Released { .. }
            | LinkEvent::Called(_) => {}
            LinkEvent::Replied(reply) => self.replied(node, &reply, now),
            LinkEvent::Ended(_) => {
                let n = &mut self.nodes[node];
                n.conn = None;
                n.done = true;
                n.asked.clear();
            }
        }
        self.judge(now);
        self.maybe_settle(now);
    }

    fn wake(&mut self, now: Tick) {
        match self.state {
            State::Resting { until } if now >= until => self.attempt(now),
            State::Holding { extend } if now >= extend => {
                self.state = State::Holding { extend: now.after(self.contract.timing.every) };
                self.extend(now);
            }
            _ => self.judge(now),
        }
        self.maybe_settle(now);
    }

    fn stop(&mut self, now: Tick) {
        let held = matches!(self.state, State::Holding { .. });
        if matches!(self.state, State::Asking { .. }) || held {
            self.undo(held, now);
        }
        if self.flaw == Flaw::ExtendsReleased && held {
            self.nodes.iter_mut().for_each(|n| n.asked.clear());
            self.extend(now);
        }
        if !matches!(self.state, State::Settled | State::Clearing { .. }) {
            self.clear(false, now);
        }
    }

    fn deadline(&self) -> Option<Tick> {
        match self.state {
            State::Asking { since } => Some(since.after(self.contract.timing.node_timeout * 4)),
            State::Resting { until } | State::Clearing { until, .. } => Some(until),
            State::Holding { extend } => Some(extend),
            State::Settled => None,
        }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }
}

//! The real session with one of its rules broken from outside: its requests are changed on their
//! way out, and the answers put in order again on their way back, so that it notices nothing.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use redlock::{
    clock::Tick,
    protocol::{
        Action, ConnId, Contract, Event, LinkEvent, Machine, Reply, Request, Session, Token,
    },
};

use super::brain::{Brain, session};

/// What is done to the session's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// Releases go out on a connection of their own.
    ReleaseElsewhere,
    /// Undos are not sent.
    UndoDropped,
    /// Undos are announced.
    UndoAnnounced,
    /// Every attempt uses the token of the first.
    SameToken,
    /// In a hold, a connection that is left with an unanswered acquire gets a release.
    UndoInHold,
    /// Extensions set keys that are absent: a node that lost the lock counts again at once.
    HealsAtOnce,
    /// A definite loss is kept from the shell.
    LossUnsaid,
    /// A lock that is to be kept for a time is released with its command.
    NotKept,
    /// No extension asks for more than the ttl.
    KeptAtTheEndOnly,
    /// What nobody ran under is kept as well.
    KeptWithoutCommand,
}

/// Makes sessions with this twist.
pub fn twisted(twist: Twist) -> impl Fn(Contract) -> Box<Brain> {
    move |contract| {
        let ttl = contract.timing.ttl;
        Box::new(Twisted {
            ttl,
            inner: session(contract),
            twist,
            owed: HashMap::new(),
            detours: HashMap::new(),
            token: None,
            held: None,
            serial: 1_000_000,
            out: Vec::new(),
        })
    }
}

/// One answer that the session waits for, in its order.
#[derive(Debug)]
enum Owed {
    /// It comes on the same connection.
    Here,
    /// It comes on another one.
    There(ConnId),
    /// It is here, and waits for its turn.
    Arrived(Reply),
}

struct Twisted {
    ttl: Duration,
    inner: Box<Brain>,
    twist: Twist,
    owed: HashMap<ConnId, VecDeque<Owed>>,
    /// Connections of our own, and the one that they stand in for.
    detours: HashMap<ConnId, ConnId>,
    token: Option<Token>,
    held: Option<Token>,
    serial: u32,
    out: Vec<Action>,
}

impl Twisted {
    /// Passes on what the session wants, and what it is owed, until both are quiet.
    fn pump(&mut self, now: Tick) {
        loop {
            for action in self.inner.actions() {
                self.pass(action);
            }
            let Some((conn, reply)) = self.next_reply() else {
                break;
            };
            self.inner.handle(conn, LinkEvent::Replied(reply), now);
        }
    }

    fn next_reply(&mut self) -> Option<(ConnId, Reply)> {
        let ready = |owed: &VecDeque<Owed>| matches!(owed.front(), Some(Owed::Arrived(_)));
        let (conn, owed) = self.owed.iter_mut().find(|(_, owed)| ready(owed))?;
        match owed.pop_front() {
            Some(Owed::Arrived(reply)) => Some((*conn, reply)),
            _ => None,
        }
    }

    fn pass(&mut self, action: Action) {
        match action {
            Action::Send(conn, request) => self.send(conn, request),
            Action::Open(conn) => {
                if self.twist == Twist::UndoInHold {
                    self.undo_older(conn);
                }
                self.out.push(Action::Open(conn));
            }
            Action::Close(conn) => {
                self.owed.remove(&conn);
                self.out.push(Action::Close(conn));
            }
            Action::Tell(Event::Lost(_)) if self.twist == Twist::LossUnsaid => {}
            Action::Tell(event) => {
                if let Event::Acquired { token, .. } = event {
                    self.held = Some(token);
                }
                self.out.push(Action::Tell(self.rename(event)));
            }
        }
    }

    fn rename(&self, event: Event) -> Event {
        match (event, self.token) {
            (Event::Acquired { validity, nodes, waited, .. }, Some(token)) => {
                Event::Acquired { token, validity, nodes, waited }
            }
            (event, _) => event,
        }
    }

    /// A successor of a connection that may still owe the acquire of the lock that is held.
    fn undo_older(&mut self, successor: ConnId) {
        let Some(token) = self.held else { return };
        let owes = |owed: &VecDeque<Owed>| !owed.is_empty();
        let older = self.owed.iter().find(|(conn, owed)| conn.node == successor.node && owes(owed));
        if let Some((conn, _)) = older {
            self.out.push(Action::Send(*conn, Request::Release { token, announce: true }));
        }
    }

    fn send(&mut self, conn: ConnId, request: Request) {
        let undo = matches!(request, Request::Release { announce: false, .. });
        let owed = self.owed.entry(conn).or_default();
        match self.twist {
            Twist::ReleaseElsewhere if matches!(request, Request::Release { .. }) => {
                self.serial += 1;
                let detour = ConnId { node: conn.node, serial: self.serial };
                self.detours.insert(detour, conn);
                owed.push_back(Owed::There(detour));
                self.out.push(Action::Open(detour));
                self.out.push(Action::Send(detour, request));
            }
            Twist::UndoDropped if undo => owed.push_back(Owed::Arrived(Reply::Absent)),
            _ => {
                owed.push_back(Owed::Here);
                let request = self.change(request);
                self.out.push(Action::Send(conn, request));
            }
        }
    }

    fn change(&mut self, request: Request) -> Request {
        match (self.twist, request) {
            (Twist::UndoAnnounced, Request::Release { token, .. })
            | (Twist::NotKept, Request::Finish { token, .. }) => {
                Request::Release { token, announce: true }
            }
            (Twist::SameToken, Request::Acquire { token, value, ttl }) => {
                let first = *self.token.get_or_insert(token);
                let value = value.replace(&token.to_string(), &first.to_string());
                Request::Acquire { token: first, value, ttl }
            }
            (Twist::KeptAtTheEndOnly, Request::Extend { token, ttl }) => {
                Request::Extend { token, ttl: ttl.min(self.ttl) }
            }
            (Twist::HealsAtOnce, Request::Extend { token, ttl }) => {
                Request::Heal { token, value: token.to_string(), ttl, number: None }
            }
            (Twist::SameToken, Request::Extend { token, ttl }) => {
                Request::Extend { token: self.token.unwrap_or(token), ttl }
            }
            (Twist::SameToken, Request::Release { token, announce }) => {
                Request::Release { token: self.token.unwrap_or(token), announce }
            }
            (_, request) => request,
        }
    }

    fn arrive(&mut self, conn: ConnId, reply: Reply) {
        let (home, via) = match self.detours.get(&conn) {
            Some(home) => (*home, Some(conn)),
            None => (conn, None),
        };
        let due = |owed: &&mut Owed| match (owed, via) {
            (Owed::Here, None) => true,
            (Owed::There(on), Some(via)) => *on == via,
            _ => false,
        };
        if let Some(owed) = self.owed.get_mut(&home).and_then(|all| all.iter_mut().find(due)) {
            *owed = Owed::Arrived(reply);
        }
    }
}

impl Machine for Twisted {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        Session::is_last(event)
    }

    fn start(&mut self, now: Tick) {
        self.inner.start(now);
        self.pump(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        match event {
            LinkEvent::Replied(reply) => self.arrive(conn, reply),
            LinkEvent::Ended(_) if self.detours.contains_key(&conn) => {
                self.arrive(conn, Reply::Absent);
            }
            _ if self.detours.contains_key(&conn) => {}
            _ => self.inner.handle(conn, event, now),
        }
        self.pump(now);
    }

    fn wake(&mut self, now: Tick) {
        self.inner.wake(now);
        self.pump(now);
    }

    fn stop(&mut self, now: Tick) {
        if self.twist == Twist::KeptWithoutCommand {
            self.inner.finish(now);
        } else {
            self.inner.stop(now);
        }
        self.pump(now);
    }

    fn finish(&mut self, now: Tick) {
        self.inner.finish(now);
        self.pump(now);
    }

    fn deadline(&self) -> Option<Tick> {
        self.inner.deadline()
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }
}

//! The real session with one of its rules broken from outside: its requests are changed on their
//! way out, and what it hears on its way back, so that it notices nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use redlock::{
    clock::Tick,
    protocol::{
        Action, ConnId, Contract, Event, Introduction, LinkEvent, Machine, Obstacle, Occupant,
        Reply, Request, Server, Session, Token,
    },
};

use super::brain::{Brain, session};

/// What is done to what the session says and hears.
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
    /// A node that lost the lock in phase 2 of fencing is healed, and counts as one that took the
    /// number.
    HealsBeforeSealed,
    /// The restart guard opens when those who have answered so far are of one age.
    OpensForTheAnswering,
    /// The restart guard is the own ttl, whatever others' there are.
    OwnTtlAlone,
    /// Pauses are as short as they may be. Nothing is wrong with that.
    Hasty,
    /// The same, and what stands on a node unchanged is taken for something new each time.
    NoLeftovers,
    /// A lock that is to be kept for a time is released with its command.
    NotKept,
    /// No extension asks for more than the ttl.
    KeptAtTheEndOnly,
    /// What nobody ran under is kept as well.
    KeptWithoutCommand,
}

/// Makes sessions with this twist.
pub fn twisted(twist: Twist) -> impl Fn(Contract) -> Box<Brain> {
    move |mut contract| {
        if matches!(twist, Twist::Hasty | Twist::NoLeftovers) {
            let mut random = contract.random;
            // The low 32 bits are a share of what is allowed.
            contract.random = Box::new(move || random() & !(0b111 << 29));
        }
        Box::new(Twisted {
            twist,
            ttl: contract.timing.ttl,
            inner: session(contract),
            owed: BTreeMap::new(),
            sent: BTreeMap::new(),
            homes: BTreeMap::new(),
            heard: BTreeMap::new(),
            token: None,
            held: None,
            serial: 1_000_000,
            out: Vec::new(),
        })
    }
}

/// One answer that the session waits for.
#[derive(Debug)]
struct Owed {
    serial: u32,
    request: Request,
    /// It is here, and waits for its turn.
    reply: Option<Reply>,
}

struct Twisted {
    inner: Box<Brain>,
    twist: Twist,
    ttl: Duration,
    /// What the session waits for on each of its connections, in order.
    owed: BTreeMap<ConnId, VecDeque<Owed>>,
    /// What goes over each real connection, in order, by its serial number.
    sent: BTreeMap<ConnId, VecDeque<u32>>,
    /// Connections of our own, and the one that they stand in for.
    homes: BTreeMap<ConnId, ConnId>,
    /// What servers said of themselves, and when.
    heard: BTreeMap<ConnId, (Server, Tick)>,
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
        let ready = |owed: &VecDeque<Owed>| owed.front().is_some_and(|owed| owed.reply.is_some());
        let (conn, owed) = self.owed.iter_mut().find(|(_, owed)| ready(owed))?;
        Some((*conn, owed.pop_front()?.reply?))
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
        let release = matches!(request, Request::Release { .. });
        let dropped = self.twist == Twist::UndoDropped && undo;
        self.serial += 1;
        let (serial, mut via) = (self.serial, conn);
        let reply = dropped.then_some(Reply::Absent);
        let request = self.change(request);
        let owed = Owed { serial, request: request.clone(), reply };
        self.owed.entry(conn).or_default().push_back(owed);
        if self.twist == Twist::ReleaseElsewhere && release {
            via.serial = serial;
            self.homes.insert(via, conn);
            self.out.push(Action::Open(via));
        }
        if !dropped {
            self.dispatch(via, serial, request);
        }
    }

    fn dispatch(&mut self, via: ConnId, serial: u32, request: Request) {
        self.sent.entry(via).or_default().push_back(serial);
        self.out.push(Action::Send(via, request));
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

    fn arrive(&mut self, via: ConnId, mut reply: Reply) {
        let home = self.homes.get(&via).copied().unwrap_or(via);
        let Some(serial) = self.sent.get_mut(&via).and_then(VecDeque::pop_front) else { return };
        let Some(all) = self.owed.get_mut(&home) else { return };
        let Some(owed) = all.iter_mut().find(|owed| owed.serial == serial) else { return };
        if let (Twist::HealsBeforeSealed, Request::Seal { token, number, .. }, Reply::Absent) =
            (self.twist, &owed.request, &reply)
        {
            let (token, value, number) = (*token, token.to_string(), Some(*number));
            let heal = Request::Heal { token, value, ttl: self.ttl, number };
            owed.request = heal.clone();
            return self.dispatch(via, serial, heal);
        }
        if let Reply::Held(obstacles) = &mut reply {
            for obstacle in obstacles {
                self.twist.disguise(obstacle, self.ttl, serial);
            }
        }
        owed.reply = Some(reply);
    }

    /// A server says who it is: lets the session believe what opens the guard too early.
    fn introduced(&mut self, conn: ConnId, server: Server, now: Tick) {
        self.heard.insert(conn, (server, now));
        let age = |(server, at): &(Server, Tick)| server.uptime + now.since(*at);
        let ages = || self.heard.values().map(age);
        let apart = ages()
            .max()
            .zip(ages().min())
            .map(|(oldest, youngest)| oldest.saturating_sub(youngest));
        for (conn, heard) in &self.heard {
            let uptime = age(heard)
                + if apart.is_some_and(|apart| apart < self.ttl) { OLD } else { Duration::ZERO };
            let server = Server { uptime, ..heard.0.clone() };
            let event = LinkEvent::Introduced(Introduction::Known(server));
            self.inner.handle(*conn, event, now);
        }
    }
}

/// Older than any guard.
const OLD: Duration = Duration::from_secs(1_000_000);

impl Twist {
    /// What the session is told instead of what stands in its way.
    fn disguise(self, obstacle: &mut Obstacle, ttl: Duration, serial: u32) {
        let Occupant::Value(value) = &mut obstacle.occupant else { return };
        match self {
            Self::OwnTtlAlone => {
                value.truncate(36);
                obstacle.expires_in = obstacle.expires_in.map(|rest| rest.min(ttl));
            }
            Self::NoLeftovers if Token::of_value(value).is_none() => {
                value.extend(serial.to_string().bytes());
            }
            _ => {}
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
            LinkEvent::Ended(_) if self.homes.contains_key(&conn) => {
                self.arrive(conn, Reply::Absent);
            }
            _ if self.homes.contains_key(&conn) => {}
            LinkEvent::Introduced(Introduction::Known(server))
                if self.twist == Twist::OpensForTheAnswering =>
            {
                self.introduced(conn, server, now);
            }
            LinkEvent::Ended(_) => {
                self.heard.remove(&conn);
                self.inner.handle(conn, event, now);
            }
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

//! The whole thread against real servers and impostors, driven by a machine that follows a script.

mod connections;
mod names;
mod owner;
mod preamble;

use std::{
    collections::VecDeque,
    sync::mpsc::{self, RecvTimeoutError, TryRecvError},
    time::Duration,
};

use redis::Value;
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use super::{
    Fleet, Nodes,
    resolver::{self, Lookup},
    start, start_with,
    testing::Server,
};
use crate::{
    clock::{BootClock, Clock as _, Tick},
    protocol::{
        Action, ConnId, Event, Extent, Introduction, Key, LinkEvent, Machine, Mode, NodeIndex,
        Refusal, RefusalKind, Reply, Request, Role, Token, Trouble,
    },
    wake,
};

/// No healthy machine takes that long for anything in here.
const BOUND: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(60);

/// What happened, in order.
type Log = mpsc::Receiver<(ConnId, LinkEvent)>;

/// A machine that follows a script.
struct Actor {
    /// What it does whenever it is started, woken or stopped; at the end of its acts it settles.
    acts: VecDeque<Vec<Action>>,
    /// What it does at each reply.
    reactions: VecDeque<Vec<Action>>,
    log: mpsc::Sender<(ConnId, LinkEvent)>,
    introductions: mpsc::Sender<(ConnId, LinkEvent)>,
    actions: Vec<Action>,
    deadlines: Vec<Tick>,
}

impl Actor {
    fn act(&mut self) {
        self.actions.extend(self.acts.pop_front().unwrap_or_default());
    }
}

impl Machine for Actor {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }

    fn start(&mut self, _: Tick) {
        self.act();
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, _: Tick) {
        if matches!(event, LinkEvent::Replied(_)) {
            self.actions.extend(self.reactions.pop_front().unwrap_or_default());
        }
        // Comes on every connection, and matters to one test.
        let log = match event {
            LinkEvent::Introduced(_) => &self.introductions,
            _ => &self.log,
        };
        let _ = log.send((conn, event));
    }

    fn wake(&mut self, now: Tick) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.deadlines.retain(|due| *due > now);
            self.actions.push(Action::Tell(Event::Validity(now)));
        } else {
            self.act();
        }
    }

    fn stop(&mut self, _: Tick) {
        if self.acts.is_empty() {
            self.actions.push(settled());
        } else {
            self.act();
        }
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadlines.iter().min().copied()
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}

/// A running thread as its owner sees it.
struct Rig {
    nodes: Option<Nodes>,
    events: wake::Receiver<Event>,
    log: Log,
    introduced: Log,
}

impl Rig {
    fn new(addresses: &[&str], acts: Vec<Vec<Action>>) -> Self {
        Self::with(addresses, acts, Vec::new(), &resolver::system(), &[])
    }

    fn reacting(address: &str, acts: Vec<Vec<Action>>, reactions: Vec<Vec<Action>>) -> Self {
        Self::with(&[address], acts, reactions, &resolver::system(), &[])
    }

    fn with(
        addresses: &[&str],
        acts: Vec<Vec<Action>>,
        reactions: Vec<Vec<Action>>,
        lookup: &Lookup,
        deadlines: &[Tick],
    ) -> Self {
        let fleet = Fleet::parse(addresses.iter().copied(), None).unwrap();
        let (log, heard) = mpsc::channel();
        let (introductions, introduced) = mpsc::channel();
        let actor = Actor {
            acts: acts.into(),
            log,
            introductions,
            actions: Vec::new(),
            deadlines: deadlines.to_vec(),
            reactions: reactions.into(),
        };
        let (sender, events) = wake::channel().unwrap();
        let keys = [Key::new("", b"k").unwrap()];
        let nodes = start_with(fleet, actor, &keys, sender, lookup).unwrap();
        Self { nodes: Some(nodes), events, log: heard, introduced }
    }

    fn begin(&self) {
        self.nodes.as_ref().unwrap().begin();
    }

    fn next_act(&self) {
        self.nodes.as_ref().unwrap().resume();
    }

    /// What happens next.
    fn next(&self) -> (ConnId, LinkEvent) {
        self.log.recv_timeout(BOUND).expect("something happens")
    }

    /// What happens next, on the only connection.
    fn event(&self) -> LinkEvent {
        self.next().1
    }

    fn reply(&self) -> Reply {
        match self.event() {
            LinkEvent::Replied(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self) -> (RefusalKind, String) {
        match self.reply() {
            Reply::Refused(Refusal { kind, text }) => (kind, text),
            other => panic!("{other:?}"),
        }
    }

    fn told(&self) -> Result<Event, TryRecvError> {
        loop {
            let mut fds = [PollFd::new(&self.events, PollFlags::IN)];
            match self.events.try_recv() {
                Err(TryRecvError::Empty) => {}
                other => return other,
            }
            let bound = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&bound)), Ok(1), "the owner hears nothing");
            self.events.hush();
        }
    }

    /// Stops the machine; the thread must end.
    fn stop(self) {
        self.nodes.as_ref().unwrap().stop();
        assert!(matches!(self.told(), Ok(Event::Settled { .. })));
        assert_eq!(self.told(), Err(TryRecvError::Disconnected));
        assert_eq!(self.log.recv_timeout(BOUND), Err(RecvTimeoutError::Disconnected));
    }
}

fn settled() -> Action {
    Action::Tell(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO })
}

const fn conn(node: u8) -> ConnId {
    ConnId { node: NodeIndex(node), serial: 0 }
}

fn token() -> Token {
    Token::from_random(7)
}

fn acquire(node: u8) -> Action {
    let (token, value) = (token(), token().to_string());
    Action::Send(conn(node), Request::Acquire { token, value, ttl: TTL })
}

fn release(node: u8) -> Action {
    Action::Send(conn(node), Request::Release { token: token(), announce: false })
}

fn open(node: u8) -> Action {
    Action::Open(conn(node))
}

fn close(node: u8) -> Action {
    Action::Close(conn(node))
}

const DONE: LinkEvent = LinkEvent::Replied(Reply::Done);

fn exists(server: &Server) -> bool {
    server.call("EXISTS k") == Value::Int(1)
}

/// How often a server has executed `command`.
fn calls(server: &Server, command: &str) -> usize {
    let Value::BulkString(text) = server.call("INFO commandstats") else {
        panic!("no statistics");
    };
    let text = String::from_utf8(text).unwrap();
    let found =
        text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    found.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

//! The node thread: one poll(2) over all connections, the owner's commands, the resolvers and an
//! alarm. It makes no decision: a pure machine is told what happened and says what to do.

use std::{io, os::fd::AsFd as _, sync::mpsc::TryRecvError};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    closing::Closing,
    connection::{Connection, Events},
    endpoint::{Address, Endpoint},
    fleet::Fleet,
    resolver::{Resolution, Resolver},
    wire::Wire,
};
use crate::{
    clock::{BootClock, Clock as _, Tick},
    protocol::{Action, ConnId, Machine, NodeIndex},
    wake,
};

/// What the owner tells the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start the machine.
    Start,
    /// Stop it: give up or release.
    Stop,
    /// Stop it after its work: a lock that is to be kept for a time stays.
    Finish,
    /// Stop it and leave the lock on the nodes.
    Keep,
    /// Go on with the next page.
    More,
    /// This process was stopped for a while.
    Resume,
}

/// How much is read at once: more than any answer of ours on one key.
const BUFFER: usize = 16 * 1024;

/// Everything the thread owns.
pub struct EventLoop<M: Machine> {
    machine: M,
    fleet: Fleet,
    wire: Wire,
    resolver: Resolver,
    resolutions: wake::Receiver<Resolution>,
    commands: wake::Receiver<Command>,
    owner: wake::Sender<M::Event>,
    alarm: wake::Alarm,
    armed: Option<Tick>,
    connections: Vec<Connection>,
    closing: Closing,
    events: Events,
    buffer: Vec<u8>,
    leave: Leave,
    end: Option<End<M::Event>>,
}

/// Whether the owner may go away.
#[derive(PartialEq, Eq)]
enum Leave {
    /// Not before it has said what is to become of the lock.
    Missed,
    /// It has told the machine to stop, which is all it had to say.
    Taken,
}

/// Why the loop is over.
enum End<E> {
    /// The machine has settled; this is to be told when everything is written.
    Settled(E),
    /// The owner is gone. Nothing is released on its behalf: its command may be alive.
    Abandoned,
}

/// How many descriptors are polled before those of the connections: commands, resolutions, alarm.
const FIXED: usize = 3;

impl<M: Machine> EventLoop<M> {
    /// Makes the loop with all that can fail: descriptors. Nothing is contacted yet.
    pub fn new(
        machine: M,
        fleet: Fleet,
        wire: Wire,
        (resolver, resolutions): (Resolver, wake::Receiver<Resolution>),
        commands: wake::Receiver<Command>,
        owner: wake::Sender<M::Event>,
    ) -> io::Result<Self> {
        Ok(Self {
            machine,
            fleet,
            wire,
            resolver,
            resolutions,
            commands,
            owner,
            alarm: wake::Alarm::new()?,
            armed: None,
            connections: Vec::new(),
            closing: Closing::default(),
            events: Events::new(),
            buffer: vec![0; BUFFER],
            leave: Leave::Missed,
            end: None,
        })
    }

    /// Runs until the machine has settled or the owner is gone.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            let flags = self.poll()?;
            self.turn(&flags);
            if let Some(end) = self.end.take() {
                let all = self.connections.drain(..);
                let (mut answered, rest): (Vec<_>, Vec<_>) = all.partition(Connection::is_answered);
                answered.iter_mut().for_each(Connection::part);
                let remains = rest.into_iter().filter_map(|c| c.close(&self.wire));
                self.closing.extend(remains, BootClock.now());
                self.closing.finish(&mut self.buffer);
                if let End::Settled(event) = end {
                    // The owner may end the process now, and need not wait for sockets to close.
                    self.owner.send(event);
                }
                drop(answered);
                return Ok(());
            }
        }
    }

    /// Sleeps until something happens and says to whom.
    fn poll(&mut self) -> io::Result<Vec<PollFlags>> {
        self.arm()?;
        let fixed: [_; FIXED] =
            [self.commands.as_fd(), self.resolutions.as_fd(), self.alarm.as_fd()];
        let mut fds: Vec<PollFd<'_>> = fixed
            .into_iter()
            .map(|fd| (fd, PollFlags::IN))
            .chain(self.connections.iter().filter_map(Connection::interest))
            .chain(self.closing.interests())
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        match poll(&mut fds, None) {
            Ok(_) => {}
            // A signal handler ran on this thread: look around, nothing is lost by it.
            Err(rustix::io::Errno::INTR) => return Ok(vec![PollFlags::empty(); fds.len()]),
            Err(error) => return Err(error.into()),
        }
        Ok(fds.iter().map(PollFd::revents).collect())
    }

    /// Sets the alarm when it would ring too late. One that rings too early costs less than the
    /// system calls that would set it each time the deadline moves.
    fn arm(&mut self) -> io::Result<()> {
        let due = [self.machine.deadline(), self.closing.deadline()];
        if let Some(due) = due.into_iter().flatten().min()
            && self.armed.is_none_or(|armed| due < armed)
        {
            self.alarm.set(Some(due))?;
            self.armed = Some(due);
        }
        Ok(())
    }

    /// Everything that follows from one return of poll(2).
    fn turn(&mut self, flags: &[PollFlags]) {
        let (fixed, sockets) = flags.split_at(FIXED);
        let mut sockets = sockets.iter().copied();
        let Self { connections, events, buffer, wire, .. } = self;
        for connection in connections {
            // Asked as in poll(), and nothing has changed since, so the order is the same.
            if connection.interest().is_some()
                && let Some(flags) = sockets.next()
                && !flags.is_empty()
            {
                connection.turn(flags, wire, buffer, events);
            }
        }
        self.closing.turn(sockets, &mut self.buffer, BootClock.now());
        if let [commands, resolutions, alarm] = *fixed {
            if !resolutions.is_empty() {
                self.resolve();
            }
            self.dispatch();
            if !commands.is_empty() {
                self.obey();
            }
            if !alarm.is_empty() {
                // Readable until it is set anew or switched off.
                self.armed = None;
                let _ = self.alarm.set(None);
            }
        }
        let now = BootClock.now();
        if self.machine.deadline().is_some_and(|due| due <= now) {
            self.machine.wake(now);
            self.execute();
        }
        self.dispatch();
    }

    /// Takes the owner's commands.
    fn obey(&mut self) {
        self.commands.hush();
        loop {
            let now = BootClock.now();
            match self.commands.try_recv() {
                Ok(Command::Start) => self.machine.start(now),
                Ok(Command::Stop) => {
                    self.leave = Leave::Taken;
                    self.machine.stop(now);
                }
                Ok(Command::Finish) => {
                    self.leave = Leave::Taken;
                    self.machine.finish(now);
                }
                Ok(Command::Keep) => {
                    self.leave = Leave::Taken;
                    self.machine.keep(now);
                }
                Ok(Command::More) => self.machine.more(now),
                Ok(Command::Resume) => self.machine.resume(now),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if self.leave == Leave::Missed {
                        self.end.get_or_insert(End::Abandoned);
                    }
                    return;
                }
            }
            self.execute();
        }
    }

    /// Hands addresses to those who wait for them.
    fn resolve(&mut self) {
        self.resolutions.hush();
        while let Ok(resolution) = self.resolutions.try_recv() {
            let Some(answer) = self.resolver.answer(resolution) else {
                continue;
            };
            for connection in self.connections.iter_mut().filter(|c| c.is_resolving()) {
                let node = self.fleet.get(connection.id().node).map(Endpoint::address);
                if let Some(Address::Name(host, port)) = node
                    && *host == answer.host
                {
                    connection.connect(answer.at(*port), &mut self.events);
                }
            }
        }
    }

    /// Tells the machine what happened, does what it says, and writes, until nothing is left.
    fn dispatch(&mut self) {
        loop {
            while let Some((id, event)) = self.events.pop_front() {
                self.machine.handle(id, event, BootClock.now());
                self.execute();
            }
            let Self { connections, events, buffer, wire, .. } = self;
            for connection in connections.iter_mut() {
                connection.flush(wire, buffer, events);
            }
            connections.retain(|connection| !connection.has_ended());
            if self.events.is_empty() {
                return;
            }
        }
    }

    /// Carries out the machine's actions.
    fn execute(&mut self) {
        for action in self.machine.actions() {
            match action {
                Action::Open(id) => self.open(id),
                Action::Send(id, request) => {
                    if let Some(connection) = self.connections.iter_mut().find(|c| c.id() == id) {
                        connection.send(&request, &self.wire);
                    }
                }
                Action::Close(id) => self.close(id),
                Action::Tell(event) if M::is_last(&event) => self.end = Some(End::Settled(event)),
                Action::Tell(event) => self.owner.send(event),
            }
        }
    }

    fn open(&mut self, id: ConnId) {
        let Some(endpoint) = self.fleet.get(id.node) else {
            return;
        };
        let mut connection = Connection::new(id, endpoint);
        let events = &mut self.events;
        match endpoint.address() {
            Address::Literal(address) => connection.connect(Ok(vec![*address]), events),
            Address::Unix(path) => connection.connect_unix(path, events),
            Address::Name(host, port) => {
                if let Some(known) = self.resolver.ask(host, *port) {
                    connection.connect(Ok(known), events);
                }
            }
        }
        self.connections.push(connection);
    }

    fn close(&mut self, id: ConnId) {
        self.events.retain(|(of, _)| *of != id);
        let Some(place) = self.connections.iter().position(|c| c.id() == id) else {
            return;
        };
        let connection = self.connections.remove(place);
        if let (Some(address), Some(host)) = (connection.tries(), self.host(id.node)) {
            // Given up while an address did not answer: another may.
            self.resolver.avoid(&host, address);
        }
        self.closing.extend(connection.close(&self.wire), BootClock.now());
    }

    fn host(&self, node: NodeIndex) -> Option<String> {
        match self.fleet.get(node)?.address() {
            Address::Name(host, _) => Some(host.clone()),
            _ => None,
        }
    }
}

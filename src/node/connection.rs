//! One connection to one node: a name or an address, then a socket, then an ordered pipeline of
//! requests and answers, then an end. Time-outs are none of its business: whoever opened it closes
//! it when it has waited long enough.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{event::PollFlags, io::Errno};

use super::{
    endpoint::Endpoint,
    pipeline::{Pipeline, Voice},
    preamble::{self, Dialect},
    socket::{self, Progress},
    wire::Wire,
};
use crate::protocol::{ConnId, LinkEvent, Request, Trouble};

/// What connections have to tell, in order.
pub type Events = VecDeque<(ConnId, LinkEvent)>;

/// A connection from Open to its end.
pub struct Connection {
    id: ConnId,
    stage: Stage,
    out: Outgoing,
    /// What waits for the node to tell its dialect, behind a subscription that would end all other
    /// talk in the older one.
    held: Vec<Request>,
    pipeline: Pipeline,
}

enum Stage {
    /// Waits for addresses.
    Resolving,
    /// One address is being tried, more are left.
    Connecting {
        socket: OwnedFd,
        address: SocketAddr,
        rest: std::vec::IntoIter<SocketAddr>,
    },
    Ready {
        socket: OwnedFd,
    },
    Ended,
}

/// What is left of a connection that was closed: bytes that must still go out, and answers that
/// nobody wants. A reset would destroy what is on its way, so it is read to its end.
pub struct Remains {
    /// The socket.
    pub socket: OwnedFd,
    /// What is still to be written.
    pub out: Outgoing,
    /// Whether the node ever said anything on this connection.
    pub voice: Voice,
}

impl Connection {
    /// A connection without an address yet. Requests may be queued at once.
    pub fn new(id: ConnId, endpoint: &Endpoint) -> Self {
        let mut out = Outgoing::default();
        let steps = preamble::pack(endpoint, &mut out.bytes);
        Self {
            id,
            stage: Stage::Resolving,
            out,
            held: Vec::new(),
            pipeline: Pipeline::new(steps, endpoint.credentials()),
        }
    }

    /// Which one it is.
    pub const fn id(&self) -> ConnId {
        self.id
    }

    /// Whether it waits for its addresses.
    pub const fn is_resolving(&self) -> bool {
        matches!(self.stage, Stage::Resolving)
    }

    /// Whether it is of no use any more.
    pub const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Whether everything was sent and answered, so that nothing is on its way.
    pub fn is_answered(&self) -> bool {
        self.out.is_empty() && self.pipeline.is_empty()
    }

    /// The address that is being tried, while it is not known to work.
    pub const fn tries(&self) -> Option<SocketAddr> {
        match self.stage {
            Stage::Connecting { address, .. } => Some(address),
            _ => None,
        }
    }

    /// Queues a request behind all others.
    pub fn send(&mut self, request: &Request, wire: &Wire) {
        if self.has_ended() {
            return;
        }
        self.pipeline.expect(request, wire);
        let subscribes = matches!(request, Request::Subscribe | Request::Attend);
        match self.pipeline.dialect() {
            Dialect::Unknown if subscribes || !self.held.is_empty() => {
                self.held.push(request.clone());
            }
            Dialect::Resp2 if subscribes => {}
            _ => wire.pack(request, &mut self.out.bytes),
        }
    }

    /// Queues what was held back.
    fn let_go(&mut self, wire: &Wire) {
        for request in self.held.drain(..) {
            let subscribes = matches!(request, Request::Subscribe | Request::Attend);
            if !subscribes || self.pipeline.dialect() == Dialect::Resp3 {
                wire.pack(&request, &mut self.out.bytes);
            }
        }
    }

    /// The addresses are known: tries one after the other.
    pub fn connect(&mut self, addresses: Result<Vec<SocketAddr>, String>, events: &mut Events) {
        match addresses {
            Ok(addresses) => self.try_next(addresses.into_iter(), None, events),
            Err(words) => self.end(Trouble::Unresolvable(words), events),
        }
    }

    /// Connects to a socket in the file system.
    pub fn connect_unix(&mut self, path: &Path, events: &mut Events) {
        match socket::unix(path) {
            Ok(socket) => self.ready(socket, events),
            // Not "would block": the server's queue is full and nobody will tell when it is not.
            Err(Errno::AGAIN) => {
                let words = "the server does not accept connections".to_owned();
                self.end(Trouble::Unreachable(words), events);
            }
            Err(error) => self.end(Trouble::Unreachable(socket::words(error)), events),
        }
    }

    fn try_next(
        &mut self,
        mut rest: std::vec::IntoIter<SocketAddr>,
        mut failure: Option<Errno>,
        events: &mut Events,
    ) {
        for address in rest.by_ref() {
            match socket::tcp(address) {
                Ok((socket, Progress::Connected)) => return self.ready(socket, events),
                Ok((socket, Progress::UnderWay)) => {
                    self.stage = Stage::Connecting { socket, address, rest };
                    return;
                }
                // The first address is the preferred one: its failure says most.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let words = failure.map_or_else(|| "no address".to_owned(), socket::words);
        self.end(Trouble::Unreachable(words), events);
    }

    fn ready(&mut self, socket: OwnedFd, events: &mut Events) {
        self.stage = Stage::Ready { socket };
        events.push_back((self.id, LinkEvent::Ready));
    }

    fn end(&mut self, trouble: Trouble, events: &mut Events) {
        self.stage = Stage::Ended;
        events.push_back((self.id, LinkEvent::Ended(trouble)));
    }

    /// What poll(2) is to watch for.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.stage {
            Stage::Connecting { socket, .. } => Some((socket.as_fd(), PollFlags::OUT)),
            Stage::Ready { socket } if self.out.is_empty() => Some((socket.as_fd(), PollFlags::IN)),
            Stage::Ready { socket } => Some((socket.as_fd(), PollFlags::IN | PollFlags::OUT)),
            Stage::Resolving | Stage::Ended => None,
        }
    }

    /// The socket has something to say. `buffer` is for the time of the call only.
    pub fn turn(&mut self, flags: PollFlags, wire: &Wire, buffer: &mut [u8], events: &mut Events) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Connecting { socket, rest, .. } => {
                // Without an error flag the system's question for one can be saved.
                let failed = flags.intersects(PollFlags::ERR | PollFlags::HUP);
                match if failed { socket::outcome(&socket) } else { Ok(()) } {
                    Ok(()) => self.ready(socket, events),
                    Err(error) => self.try_next(rest, Some(error), events),
                }
            }
            Stage::Ready { socket } => {
                // Writing is tried at the end of each turn of the loop anyway.
                if flags.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
                    && let Err(trouble) = self.read(&socket, wire, buffer, events)
                {
                    self.end(trouble, events);
                } else {
                    self.stage = Stage::Ready { socket };
                }
            }
            stage @ (Stage::Resolving | Stage::Ended) => self.stage = stage,
        }
    }

    /// Reads once and says whether anything was there; what is left makes poll(2) return again.
    fn read(
        &mut self,
        socket: &OwnedFd,
        wire: &Wire,
        buffer: &mut [u8],
        events: &mut Events,
    ) -> Result<Option<()>, Trouble> {
        match socket::read(socket, buffer) {
            Ok(None) => Ok(None),
            Ok(Some(0)) | Err(_) => Err(Trouble::Cut),
            Ok(Some(count)) => {
                self.pipeline.feed(&buffer[..count], wire, |event| {
                    events.push_back((self.id, event));
                })?;
                Ok(Some(()))
            }
        }
    }

    /// Writes what is queued, as far as it goes.
    pub fn flush(&mut self, wire: &Wire, buffer: &mut [u8], events: &mut Events) {
        if self.pipeline.dialect() != Dialect::Unknown {
            self.let_go(wire);
        }
        self.pipeline.answer_the_unwritten(|event| events.push_back((self.id, event)));
        let Stage::Ready { socket } = &self.stage else {
            return;
        };
        if self.out.write(socket).is_ok() {
            return;
        }
        // What the node said before it hung up is still worth hearing: it may say why.
        if let Stage::Ready { socket } = std::mem::replace(&mut self.stage, Stage::Ended) {
            let trouble = loop {
                match self.read(&socket, wire, buffer, events) {
                    Ok(Some(())) => {}
                    Ok(None) => break Trouble::Cut,
                    Err(trouble) => break trouble,
                }
            };
            self.end(trouble, events);
        }
    }

    /// Ends it in an orderly way: writes what is queued and leaves what has to be waited for.
    /// Nothing remains of a connection that was not ready or whose requests are all answered.
    pub fn close(mut self, wire: &Wire) -> Option<Remains> {
        // Nobody listens any more, but a release behind it must go out.
        self.let_go(wire);
        let Stage::Ready { socket } = &self.stage else {
            return None;
        };
        self.out.write(socket).ok()?;
        if self.is_answered() {
            return None;
        }
        if self.out.is_empty() {
            socket::finish(socket);
        }
        let Self { stage, out, pipeline, .. } = self;
        match stage {
            Stage::Ready { socket } => Some(Remains { socket, out, voice: pipeline.voice() }),
            _ => None,
        }
    }
}

/// Bytes on their way out.
#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Whether everything is with the kernel.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes as much as the kernel takes.
    pub fn write(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.sent < self.bytes.len() {
            match socket::write(socket, &self.bytes[self.sent..])? {
                Some(count) => self.sent += count,
                None => return Ok(()),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }
}

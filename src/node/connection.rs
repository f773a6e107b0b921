//! One connection to one node: a name or an address, then a socket, then TLS where it is wanted,
//! then an ordered pipeline of requests and answers, then an end. Time-outs are none of its business: whoever opened it closes
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
    stream::{Outgoing, Stream},
    tls::{Peer, Session, Shaken},
    wire::Wire,
};
use crate::protocol::{ConnId, LinkEvent, Request, Trouble};

/// What connections have to tell, in order.
pub type Events = VecDeque<(ConnId, LinkEvent)>;

/// A connection from Open to its end.
pub struct Connection {
    id: ConnId,
    stage: Stage,
    /// With whom TLS is to be spoken.
    peer: Option<Peer>,
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
    /// Connected, and TLS is being agreed on.
    Securing {
        session: Box<Session>,
        address: SocketAddr,
    },
    Ready(Stream),
    Ended,
}

/// What is left of a connection that was closed: bytes that must still go out, and answers that
/// nobody wants. A reset would destroy what is on its way, so it is read to its end.
pub struct Remains {
    /// The stream.
    pub stream: Stream,
    /// What is still to be written.
    pub out: Outgoing,
    /// Whether the node ever said anything on this connection.
    pub voice: Voice,
}

impl Remains {
    /// Whether everything is with the kernel.
    pub fn is_written(&self) -> bool {
        self.out.is_empty() && self.stream.is_flushed()
    }
}

impl Connection {
    /// A connection without an address yet. Requests may be queued at once.
    pub fn new(id: ConnId, endpoint: &Endpoint) -> Self {
        let mut out = Outgoing::default();
        let steps = preamble::pack(endpoint, &mut out.bytes);
        Self {
            id,
            stage: Stage::Resolving,
            peer: endpoint.peer().cloned(),
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
            Stage::Connecting { address, .. } | Stage::Securing { address, .. } => Some(address),
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
            Ok(socket) => self.ready(Stream::Plain(socket), events),
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
                Ok((socket, Progress::Connected)) => {
                    return self.connected(socket, address, events);
                }
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

    /// The network is there: TLS begins where it is wanted.
    fn connected(&mut self, socket: OwnedFd, address: SocketAddr, events: &mut Events) {
        let Some(peer) = &self.peer else {
            return self.ready(Stream::Plain(socket), events);
        };
        match Session::new(socket, peer) {
            Ok(session) => {
                self.stage = Stage::Securing { session: Box::new(session), address };
                events.push_back((self.id, LinkEvent::Securing));
            }
            Err(trouble) => self.end(Trouble::Tls(trouble), events),
        }
    }

    fn shake(&mut self, mut session: Box<Session>, address: SocketAddr, events: &mut Events) {
        match session.shake() {
            Ok(Shaken::UnderWay) => self.stage = Stage::Securing { session, address },
            Ok(Shaken::Done) => {
                let ends = session.certificate_ends();
                events.push_back((self.id, LinkEvent::Secured { ends }));
                self.ready(Stream::Tls(session), events);
            }
            Err(trouble) => self.end(Trouble::Tls(trouble), events),
        }
    }

    fn ready(&mut self, stream: Stream, events: &mut Events) {
        self.stage = Stage::Ready(stream);
        events.push_back((self.id, LinkEvent::Ready));
    }

    fn end(&mut self, trouble: Trouble, events: &mut Events) {
        self.stage = Stage::Ended;
        events.push_back((self.id, LinkEvent::Ended(trouble)));
    }

    /// What poll(2) is to watch for.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let both = PollFlags::IN | PollFlags::OUT;
        match &self.stage {
            Stage::Connecting { socket, .. } => Some((socket.as_fd(), PollFlags::OUT)),
            Stage::Securing { session, .. } => {
                let flags = if session.is_flushed() { PollFlags::IN } else { both };
                Some((session.as_fd(), flags))
            }
            Stage::Ready(stream) => {
                let idle = self.out.is_empty() && stream.is_flushed();
                Some((stream.as_fd(), if idle { PollFlags::IN } else { both }))
            }
            Stage::Resolving | Stage::Ended => None,
        }
    }

    /// The socket has something to say. `buffer` is for the time of the call only.
    pub fn turn(&mut self, flags: PollFlags, wire: &Wire, buffer: &mut [u8], events: &mut Events) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Connecting { socket, address, rest } => {
                // Without an error flag the system's question for one can be saved.
                let failed = flags.intersects(PollFlags::ERR | PollFlags::HUP);
                match if failed { socket::outcome(&socket) } else { Ok(()) } {
                    Ok(()) => self.connected(socket, address, events),
                    Err(error) => self.try_next(rest, Some(error), events),
                }
            }
            Stage::Securing { session, address } => self.shake(session, address, events),
            Stage::Ready(mut stream) => {
                // Writing is tried at the end of each turn of the loop anyway.
                if flags.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
                    && let Err(trouble) = self.read(&mut stream, wire, buffer, events)
                {
                    self.end(trouble, events);
                } else {
                    self.stage = Stage::Ready(stream);
                }
            }
            stage @ (Stage::Resolving | Stage::Ended) => self.stage = stage,
        }
    }

    /// Reads once and says whether anything was there; what is left makes poll(2) return again.
    fn read(
        &mut self,
        stream: &mut Stream,
        wire: &Wire,
        buffer: &mut [u8],
        events: &mut Events,
    ) -> Result<Option<()>, Trouble> {
        let mut heard = None;
        while let Some(count) = stream.read(buffer)? {
            self.pipeline.feed(&buffer[..count], wire, |event| {
                events.push_back((self.id, event));
            })?;
            heard = Some(());
            if !stream.is_ahead() {
                break;
            }
        }
        Ok(heard)
    }

    /// Writes what is queued, as far as it goes.
    pub fn flush(&mut self, wire: &Wire, buffer: &mut [u8], events: &mut Events) {
        if self.pipeline.dialect() != Dialect::Unknown {
            self.let_go(wire);
        }
        self.pipeline.answer_the_unwritten(|event| events.push_back((self.id, event)));
        let written = match &mut self.stage {
            Stage::Securing { session, .. } => session.flush(),
            Stage::Ready(stream) => self.out.write(stream),
            Stage::Resolving | Stage::Connecting { .. } | Stage::Ended => Ok(()),
        };
        if written.is_ok() {
            return;
        }
        // What the node said before it hung up is still worth hearing: it may say why.
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Securing { session, address } => self.shake(session, address, events),
            Stage::Ready(mut stream) => {
                let trouble = loop {
                    match self.read(&mut stream, wire, buffer, events) {
                        Ok(Some(())) => {}
                        Ok(None) => break Trouble::Cut,
                        Err(trouble) => break trouble,
                    }
                };
                self.end(trouble, events);
            }
            stage => self.stage = stage,
        }
    }

    /// The last word on a connection with nothing on its way.
    pub fn part(&mut self) {
        if let Stage::Ready(stream) = &mut self.stage {
            stream.part();
        }
    }

    /// Ends it in an orderly way: writes what is queued and leaves what has to be waited for.
    /// Nothing remains of a connection that was not ready or whose requests are all answered.
    pub fn close(mut self, wire: &Wire) -> Option<Remains> {
        // Nobody listens any more, but a release behind it must go out.
        self.let_go(wire);
        let Stage::Ready(mut stream) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return None;
        };
        self.out.write(&mut stream).ok()?;
        if self.is_answered() {
            stream.part();
            return None;
        }
        if self.out.is_empty() && stream.is_flushed() {
            stream.finish();
        }
        Some(Remains { stream, out: self.out, voice: self.pipeline.voice() })
    }
}

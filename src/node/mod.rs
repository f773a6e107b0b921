//! Talking to the nodes: one background thread with one poll(2) loop over all connections, and a
//! resolver thread per host name. The thread decides nothing; it drives a pure machine and tells
//! its owner what the machine has to say.
//!
//! `redis` is used here and nowhere else, and only as a codec: its own connections have no
//! deadline that a dribbling node respects, and cannot write an undo behind an unanswered request.

mod closing;
mod codec;
mod connection;
mod endpoint;
mod endpoint_error;
mod event_loop;
mod fleet;
mod introduction;
mod pipeline;
mod preamble;
mod resolver;
mod socket;
mod stream;
mod tls;
mod wire;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::{io, thread};

pub use endpoint::{Address, Credentials, Endpoint, Transport};
pub use endpoint_error::{EndpointError, Problem, masked};
pub use fleet::Fleet;
pub use tls::{Identity, Roots, TlsClient, TlsError, Trust};

use crate::{
    protocol::{Key, Machine},
    wake,
};
use event_loop::{Command, EventLoop};
use resolver::{Lookup, Resolver};
use wire::Wire;

/// The owner's handle of the node thread.
///
/// Dropping it before [`Nodes::stop`] ends the thread without a release: an owner that vanished may
/// have left a running command behind, and then the lock must run out by itself.
#[derive(Debug)]
pub struct Nodes {
    commands: wake::Sender<Command>,
}

impl Nodes {
    /// Lets the machine begin, which is the first thing that contacts a node.
    pub fn begin(&self) {
        self.commands.send(Command::Start);
    }

    /// Gives up or releases. The last event of a session is then [`crate::protocol::Event::Settled`]; when it comes everything
    /// is written, and the process may end.
    pub fn stop(&self) {
        self.commands.send(Command::Stop);
    }

    /// As [`Nodes::stop`] after the work was done: a lock that is to be kept for a time stays until
    /// then.
    pub fn finish(&self) {
        self.commands.send(Command::Finish);
    }

    /// As [`Nodes::stop`], but a lock that is held stays on the nodes.
    pub fn keep(&self) {
        self.commands.send(Command::Keep);
    }

    /// Lets a machine that tells in pages go on with the next.
    pub fn more(&self) {
        self.commands.send(Command::More);
    }

    /// Makes the machine compare the clock and extend, after this process was stopped for a while.
    pub fn resume(&self) {
        self.commands.send(Command::Resume);
    }
}

/// Starts the node thread, and one thread for each host name. All that can fail for want of
/// threads or descriptors fails here, before a lock is asked for.
///
/// What `machine` tells comes to `events`. The end of the thread, by a panic too, shows there as
/// [`std::sync::mpsc::TryRecvError::Disconnected`].
pub fn start<M: Machine<Event: Send> + Send + 'static>(
    fleet: Fleet,
    machine: M,
    keys: &[Key],
    events: wake::Sender<M::Event>,
) -> io::Result<Nodes> {
    start_with(fleet, machine, keys, events, &resolver::system())
}

fn start_with<M: Machine<Event: Send> + Send + 'static>(
    fleet: Fleet,
    machine: M,
    keys: &[Key],
    events: wake::Sender<M::Event>,
    lookup: &Lookup,
) -> io::Result<Nodes> {
    let hosts = fleet.iter().filter_map(|node| match node.address() {
        Address::Name(host, _) => Some(host.as_str()),
        Address::Literal(_) | Address::Unix(_) => None,
    });
    let resolver = Resolver::start(hosts, lookup)?;
    let (commands, inbox) = wake::channel()?;
    let event_loop = EventLoop::new(machine, fleet, Wire::new(keys), resolver, inbox, events)?;
    thread::Builder::new().name("nodes".into()).spawn(move || {
        // A failure of poll(2) itself shows to the owner as the end of the events.
        let _ = event_loop.run();
    })?;
    Ok(Nodes { commands })
}

//! Asking all nodes once and waiting for what they say.

use std::{io, sync::mpsc::TryRecvError};

use rustix::event::{PollFd, PollFlags, poll};

use crate::{
    node::{self, Fleet},
    protocol::{Interview, Key, Machine, Round, Testimony, Timing},
    wake::{self, Receiver},
};

/// Puts the same `rounds` of questions to every node.
pub fn interview(
    fleet: &Fleet,
    keys: &[Key],
    timing: Timing,
    rounds: &[Round],
) -> io::Result<Vec<Testimony>> {
    last(fleet, keys, Interview::new(fleet.len(), timing, rounds))
}

/// Runs a machine to its end; what it told last.
pub fn last<M: Machine<Event: Send> + Send + 'static>(
    fleet: &Fleet,
    keys: &[Key],
    machine: M,
) -> io::Result<M::Event> {
    let (events, news) = wake::channel()?;
    let nodes = node::start(fleet.clone(), machine, keys, events)?;
    nodes.begin();
    loop {
        let event = next(&news)?;
        if M::is_last(&event) {
            return Ok(event);
        }
    }
}

/// Waits for the next event.
pub fn next<E>(news: &Receiver<E>) -> io::Result<E> {
    loop {
        news.hush();
        match news.try_recv() {
            Ok(event) => return Ok(event),
            Err(TryRecvError::Disconnected) => {
                return Err(io::Error::other("the connections to the nodes ended"));
            }
            Err(TryRecvError::Empty) => match poll(&mut [PollFd::new(news, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
        }
    }
}

//! Signals as events with their sender. signal-hook's handlers ring a socket that the main loop
//! polls together with everything else; no thread waits for signals.

mod cancel;
mod relay;

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use signal_hook::{
    iterator::{backend::SignalDelivery, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};

pub use cancel::on_interrupt;
pub use relay::{Placing, Source, Verdict, name, relay};

/// Who sent a signal, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The kernel itself: the terminal's driver, or a timer.
    Kernel,
    /// This process; 0 for one outside of our pid namespace.
    Process(i32),
    /// The kernel does not say.
    Unknown,
}

/// One signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Who sent it.
    pub sender: Sender,
}

/// The signals that we handle.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
}

impl Signals {
    /// Installs handlers for `signals` from now on.
    ///
    /// # Errors
    /// No socket could be had, or a signal cannot be handled.
    pub fn watch(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)?;
        Ok(Self { delivery })
    }

    /// What arrived since the last call; never blocks.
    pub fn drain(&mut self) -> impl Iterator<Item = Received> {
        self.delivery.pending().map(|origin| Received {
            signal: origin.signal,
            sender: match (origin.cause, origin.process) {
                (Cause::Kernel, _) => Sender::Kernel,
                (_, Some(process)) => Sender::Process(process.pid),
                (_, None) => Sender::Unknown,
            },
        })
    }
}

impl AsFd for Signals {
    /// Readable when something arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

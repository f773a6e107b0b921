//! What a connection reads from and writes to: a socket, with or without TLS around its bytes.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{socket, tls};
use crate::protocol::Trouble;

/// A connected stream, ready for requests.
pub enum Stream {
    /// The socket itself: TCP, or one in the file system.
    Plain(OwnedFd),
    /// TLS, its handshake done.
    Tls(Box<tls::Session>),
}

impl Stream {
    /// Reads what is there; `None` when nothing is, and `Some(0)` when it was no data. The end is an
    /// error.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Trouble> {
        match self {
            Self::Plain(socket) => match socket::read(socket, buffer) {
                Ok(Some(0)) | Err(_) => Err(Trouble::Cut),
                Ok(count) => Ok(count),
            },
            Self::Tls(session) => session.read(buffer),
        }
    }

    /// Whether there is more to read than the socket shows: then poll(2) is not to be waited for.
    pub const fn is_ahead(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(session) => session.is_ahead(),
        }
    }

    /// Takes what there is room for; `None` when there is none at present.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => Ok(socket::write(socket, bytes)?),
            Self::Tls(session) => session.write(bytes),
        }
    }

    /// Gives the kernel what was taken.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(session) => session.flush(),
        }
    }

    /// Whether everything that was taken is with the kernel.
    pub fn is_flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(session) => session.is_flushed(),
        }
    }

    /// What has to be said before the stream may be closed with nothing on its way.
    pub fn part(&mut self) {
        if let Self::Tls(session) = self {
            session.part();
        }
    }

    /// Tells the other side that nothing more comes.
    pub fn finish(&mut self) {
        match self {
            Self::Plain(socket) => socket::finish(socket),
            Self::Tls(session) => session.finish(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Tls(session) => session.as_fd(),
        }
    }
}

/// Bytes on their way out.
#[derive(Default)]
pub struct Outgoing {
    /// What is queued.
    pub bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Whether nothing is queued. TLS may still have something of it: [`Stream::is_flushed`].
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes as much as the kernel takes.
    pub fn write(&mut self, stream: &mut Stream) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            match stream.write(&self.bytes[self.sent..])? {
                Some(count) => self.sent += count,
                None => return Ok(()),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        stream.flush()
    }
}

//! One connection's TLS over its non-blocking socket: it reads and writes what is there and never
//! waits. What is written before the handshake is through stays with whoever writes it.

use std::{
    io::{self, ErrorKind, IoSlice, Read as _, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustls::ClientConnection;

use super::{Peer, failure, validity};
use crate::{
    node::socket,
    protocol::{TlsTrouble, Trouble},
};

/// TLS on one socket.
pub struct Session {
    socket: OwnedFd,
    tls: ClientConnection,
    identified: Identified,
    /// Bytes that are deciphered and not fetched: poll(2) knows nothing of them.
    ahead: usize,
}

/// Whether we have a certificate to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified {
    /// We have.
    Yes,
    /// We have not.
    No,
}

/// How far the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shaken {
    /// The node owes us something.
    UnderWay,
    /// Through: what is written now goes out together with its last message.
    Done,
}

impl Session {
    /// TLS with `peer`, whose first message waits for [`Session::flush`].
    pub fn new(socket: OwnedFd, peer: &Peer) -> Result<Self, TlsTrouble> {
        let config = std::sync::Arc::clone(&peer.config);
        let identified = if config.client_auth_cert_resolver.has_certs() {
            Identified::Yes
        } else {
            Identified::No
        };
        match ClientConnection::new(config, peer.name.clone()) {
            Ok(tls) => Ok(Self { socket, tls, identified, ahead: 0 }),
            Err(error) => Err(TlsTrouble::Broken(error.to_string())),
        }
    }

    /// Goes on with the handshake.
    pub fn shake(&mut self) -> Result<Shaken, TlsTrouble> {
        match self.take_in() {
            Ok(Taken::Something | Taken::Nothing) if !self.tls.is_handshaking() => Ok(Shaken::Done),
            Ok(Taken::Something | Taken::Nothing) => Ok(Shaken::UnderWay),
            Err(Trouble::Tls(trouble)) => Err(trouble),
            Ok(Taken::End) | Err(_) => Err(TlsTrouble::HungUp),
        }
    }

    /// When the node's certificate ends, since 1970.
    pub fn certificate_ends(&self) -> Option<Duration> {
        validity::end(self.tls.peer_certificates()?.first()?)
    }

    /// Reads what is there; `None` when nothing is, and `Some(0)` when it was TLS' own talk.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Trouble> {
        if self.ahead == 0 {
            match self.take_in()? {
                Taken::Something => {}
                Taken::Nothing => return Ok(None),
                Taken::End => return Err(Trouble::Cut),
            }
        }
        match self.tls.reader().read(buffer) {
            Ok(0) => Err(Trouble::Cut),
            Ok(count) => {
                self.ahead = self.ahead.saturating_sub(count);
                Ok(Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Some(0)),
            Err(_) => Err(Trouble::Cut),
        }
    }

    /// Whether [`Session::read`] has something that the socket does not show any more.
    pub const fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// Enciphers what there is room for; `None` when there is none at present.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let count = self.tls.writer().write(bytes)?;
        if count > 0 {
            return Ok(Some(count));
        }
        // Room is made by what the kernel takes.
        self.flush()?;
        let count = self.tls.writer().write(bytes)?;
        Ok(Some(count).filter(|count| *count > 0))
    }

    /// Writes what the kernel takes of the enciphered.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether everything that was written is with the kernel.
    pub fn is_flushed(&self) -> bool {
        !self.tls.wants_write()
    }

    /// Says in TLS that nothing more comes: servers and what stands before them take an end
    /// without it for an attack, and some log it as one.
    pub fn part(&mut self) {
        self.tls.send_close_notify();
        // It fails when the connection is gone, and then there is nobody to tell.
        let _ = self.flush();
    }

    /// The same, and the socket's own word for it.
    pub fn finish(&mut self) {
        self.part();
        socket::finish(&self.socket);
    }

    /// Takes in what the socket has, once.
    fn take_in(&mut self) -> Result<Taken, Trouble> {
        match self.tls.read_tls(&mut Socket(&self.socket)) {
            Ok(0) => return Ok(Taken::End),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Taken::Nothing),
            Err(_) => return Ok(Taken::End),
        }
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.ahead = state.plaintext_bytes_to_read();
                Ok(Taken::Something)
            }
            Err(error) => {
                // The node is told why, as far as that still goes.
                let _ = self.flush();
                Err(Trouble::Tls(failure::of(&error, self.identified)))
            }
        }
    }
}

/// What the socket had.
enum Taken {
    Something,
    Nothing,
    /// It is closed.
    End,
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket as rustls sees it.
struct Socket<'a>(&'a OwnedFd);

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::read(self.0, buffer)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// The end of the handshake and the first requests are several records: one system call, one
    /// packet.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::write_parts(self.0, parts)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

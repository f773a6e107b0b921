//! A non-blocking stream socket: the few system calls that connections are made of.

use std::{io::IoSlice, net::SocketAddr, os::fd::OwnedFd, path::Path};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
        SocketFlags, SocketType, connect, recv, send, sendmsg, shutdown, socket_with, sockopt,
    },
};

/// How far a new socket has come.
pub enum Progress {
    /// Connected already.
    Connected,
    /// Writable or in error when it is decided.
    UnderWay,
}

fn new(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Starts to connect over TCP.
pub fn tcp(address: SocketAddr) -> Result<(OwnedFd, Progress), Errno> {
    let socket = new(match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    })?;
    // Without it an undo written behind an unanswered request would wait for its acknowledgement.
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) => Ok((socket, Progress::Connected)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, Progress::UnderWay)),
        Err(error) => Err(error),
    }
}

/// Connects to a socket in the file system; that never takes time.
pub fn unix(path: &Path) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new(AddressFamily::UNIX)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// How the connecting ended, once poll(2) says that it did.
pub fn outcome(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// Writes what the kernel takes; `None` when it takes nothing at present.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<Option<usize>, Errno> {
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// As [`write`], for bytes that lie in several places.
pub fn write_parts(socket: &OwnedFd, parts: &[IoSlice<'_>]) -> Result<Option<usize>, Errno> {
    loop {
        match sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Reads what is there; `None` when nothing is, and `Some(0)` at the end.
pub fn read(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((count, _)) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Tells the other side that nothing more comes.
pub fn finish(socket: &OwnedFd) {
    // It fails when the connection is gone, and then there is nobody to tell.
    let _ = shutdown(socket, Shutdown::Write);
}

/// The system's words for `error`.
pub fn words(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    words.to_lowercase()
}

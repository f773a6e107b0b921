//! Descriptors that our caller opened for us and names by their number (`fd:N`).

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

/// Takes descriptor `number` over: it is ours to use and to close, and no command inherits it.
///
/// # Errors
/// `EBADF`: our caller handed none down with this number, or it was taken over already.
pub fn take_descriptor(number: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: F_GETFD only asks about a descriptor, open or not.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 {
        return Err(io::Error::last_os_error());
    }
    // What an exec handed down was not marked; whatever this process opened or took over is.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_SETFD only marks a descriptor, and fails for one that is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and came from our caller: nothing in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

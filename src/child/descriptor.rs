//! Descriptors that our caller opened for us and names by their number (`fd:N`).

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

/// Takes descriptor `number` over: it is ours to read and to close, and no command inherits it.
/// For descriptors that our caller handed down only, before any of our own is opened, and once for
/// each.
pub fn take_descriptor(number: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: F_SETFD only marks a descriptor, and fails for one that is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and came from our caller: nothing in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

//! Connections that are over for the machine and not yet for the network: their last bytes (an
//! undo, say) must arrive, and a socket that is dropped with unread answers resets the connection,
//! which destroys what is on its way. So they are written, shut down, and read to their end, for a
//! bounded time.

use std::{os::fd::AsFd as _, os::fd::BorrowedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use super::{connection::Remains, pipeline::Voice};
use crate::clock::{BootClock, Clock as _, Tick};

/// How long a connection lingers while the thread lives anyway.
const LINGER: Duration = Duration::from_secs(1);

/// How long the thread stays for all of them together when nothing else is left to do.
const FAREWELL: Duration = Duration::from_millis(50);

/// The connections that linger.
#[derive(Default)]
pub struct Closing {
    list: Vec<(Remains, Tick)>,
}

impl Closing {
    /// Takes over what is left of closed connections.
    pub fn extend(&mut self, remains: impl IntoIterator<Item = Remains>, now: Tick) {
        let until = now.after(LINGER);
        self.list.extend(remains.into_iter().map(|remains| (remains, until)));
    }

    /// When [`Self::turn`] is due even if no socket has anything to say.
    pub fn deadline(&self) -> Option<Tick> {
        self.list.iter().map(|(_, until)| *until).min()
    }

    /// What poll(2) is to watch for.
    pub fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.list.iter().map(|(remains, _)| {
            let flags =
                if remains.is_written() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            (remains.stream.as_fd(), flags)
        })
    }

    /// Takes the results of poll(2), in the order of [`Self::interests`].
    pub fn turn(
        &mut self,
        mut flags: impl Iterator<Item = PollFlags>,
        buffer: &mut [u8],
        now: Tick,
    ) {
        self.list.retain_mut(|(remains, until)| {
            let flags = flags.next().unwrap_or(PollFlags::empty());
            *until > now && (flags.is_empty() || goes_on(remains, buffer))
        });
    }

    /// The last thing the thread does: everything is written, and those that still answer may do
    /// so. A node that was never heard is not waited for.
    pub fn finish(mut self, buffer: &mut [u8]) {
        let until = BootClock.now().after(FAREWELL);
        let mut patience = Duration::ZERO;
        while !self.list.is_empty() {
            let mut fds: Vec<_> =
                self.interests().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let flags: Vec<_> = fds.iter().map(PollFd::revents).collect();
            let now = BootClock.now();
            self.turn(flags.into_iter(), buffer, now);
            self.list.retain(|(remains, _)| !remains.is_written() || remains.voice == Voice::Heard);
            patience = until.since(now);
            if patience.is_zero() {
                return;
            }
        }
    }
}

/// Writes and reads; says whether anything is left to do.
fn goes_on(remains: &mut Remains, buffer: &mut [u8]) -> bool {
    if !remains.is_written() {
        if remains.out.write(&mut remains.stream).is_err() {
            return false;
        }
        if remains.is_written() {
            remains.stream.finish();
        }
    }
    match remains.stream.read(buffer) {
        Ok(None | Some(0)) => true,
        Err(_) => false,
        Ok(Some(_)) => {
            remains.voice = Voice::Heard;
            true
        }
    }
}

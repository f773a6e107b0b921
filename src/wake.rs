//! What wakes a poll loop besides its sockets: a channel that shows up as a descriptor, and an
//! alarm on the boot-time clock. Both loops of the program (the main thread's and the node
//! thread's) sleep in poll(2) and nowhere else.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, mpsc},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use crate::clock::Tick;

/// A channel whose receiving end can be polled for readability.
pub fn channel<T>() -> io::Result<(Sender<T>, Receiver<T>)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (queue, inbox) = mpsc::channel();
    Ok((Sender { queue, bell: Bell(Arc::clone(&bell)) }, Receiver { inbox, bell }))
}

/// The end that any thread may keep a copy of.
#[derive(Debug)]
pub struct Sender<T> {
    // The order counts: fields are dropped from the first to the last, and the receiver must not
    // wake before this one is gone, or it would find the channel whole and sleep for ever.
    queue: mpsc::Sender<T>,
    bell: Bell,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), bell: self.bell.clone() }
    }
}

impl<T> Sender<T> {
    /// Queues `message` and wakes the receiver. A receiver that is gone needs no messages.
    pub fn send(&self, message: T) {
        if self.queue.send(message).is_ok() {
            self.bell.ring();
        }
    }
}

/// What wakes the receiver. It also rings when it goes away, so that the receiver finds out that
/// nobody is left, even when the thread that had this end panicked.
#[derive(Clone, Debug)]
struct Bell(Arc<OwnedFd>);

impl Bell {
    fn ring(&self) {
        // The counter can only be full when the receiver is woken already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

/// The end that belongs to one loop.
#[derive(Debug)]
pub struct Receiver<T> {
    inbox: mpsc::Receiver<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Receiver<T> {
    /// Makes the descriptor quiet until the next message. Call it before taking the messages.
    pub fn hush(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.bell, &mut count);
    }

    /// The next message, if there is one; [`mpsc::TryRecvError::Disconnected`] when no sender is
    /// left.
    pub fn try_recv(&self) -> Result<T, mpsc::TryRecvError> {
        self.inbox.try_recv()
    }
}

impl<T> AsFd for Receiver<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A timer that fires at a [`Tick`], also when the machine was suspended at that time: then at
/// once after it wakes (`timerfd_create(2)`, `CLOCK_BOOTTIME`).
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Boottime, flags)? })
    }

    /// Makes the descriptor readable from `at` on; never for `None`. Replaces what was set.
    pub fn set(&self, at: Option<Tick>) -> io::Result<()> {
        let off = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = at.map_or(off, |tick| {
            let time = tick.since_boot();
            Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                // Zero would switch the timer off.
                tv_nsec: i64::from(time.subsec_nanos().max(1)),
            }
        });
        let timer = Itimerspec { it_interval: off, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;
    use crate::clock::{BootClock, Clock};

    fn readable(fd: &impl AsFd) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).unwrap() == 1
    }

    fn wait(fd: &impl AsFd) {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut fds, None).unwrap();
    }

    #[test]
    fn message_wakes_the_receiver_until_it_is_hushed() {
        let (sender, receiver) = channel().unwrap();
        assert!(!readable(&receiver));
        sender.send(1);
        sender.send(2);
        assert!(readable(&receiver));
        receiver.hush();
        assert!(!readable(&receiver));
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
    }

    #[test]
    fn end_of_the_last_sender_wakes_the_receiver() {
        let (sender, receiver) = channel::<()>().unwrap();
        drop(sender);
        assert!(readable(&receiver));
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn receiver_is_not_woken_before_the_end_can_be_seen() {
        for _ in 0..2000 {
            let (sender, receiver) = channel::<()>().unwrap();
            let thread = std::thread::spawn(move || drop(sender));
            wait(&receiver);
            receiver.hush();
            assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
            thread.join().unwrap();
        }
    }

    #[test]
    fn alarm_fires_at_its_tick_and_not_before() {
        let alarm = Alarm::new().unwrap();
        let at = BootClock.now().after(Duration::from_millis(20));
        alarm.set(Some(at)).unwrap();
        wait(&alarm);
        assert!(BootClock.now() >= at);
        alarm.set(None).unwrap();
        assert!(!readable(&alarm));
    }

    #[test]
    fn alarm_in_the_past_fires_at_once() {
        let alarm = Alarm::new().unwrap();
        alarm.set(Some(Tick::default())).unwrap();
        assert!(readable(&alarm));
    }
}

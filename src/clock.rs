//! Time as the lock sees it: a clock that also counts the time a machine was suspended.
//!
//! A lease runs out on the nodes whether or not this machine sleeps, so the deadline is judged by
//! `CLOCK_BOOTTIME` (see `clock_gettime(2)`). `std::time::Instant` is `CLOCK_MONOTONIC`, which stops in
//! suspend, and must not be used for anything that decides about a lock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time, as the time since boot. Ticks of different machines or boots mean nothing to
/// each other. All arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(Duration);

impl Tick {
    /// The tick that lies `since_boot` after the machine's start.
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time from the machine's start to this tick.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// The tick `by` later.
    #[must_use]
    pub const fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// The tick `by` earlier, at the earliest the machine's start.
    #[must_use]
    pub const fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How much later than `earlier` this tick is; zero when it is not later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where the shells of the pure machines take the time from.
pub trait Clock {
    /// The present moment.
    fn now(&self) -> Tick;
}

/// The machine's boot-time clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Tick {
        let time = clock_gettime(ClockId::Boottime);
        // The kernel never hands out a negative boot time.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Tick(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let start = Tick::default();
        assert_eq!(start.before(Duration::from_secs(1)), start);
        assert_eq!(start.since(start.after(Duration::from_secs(1))), Duration::ZERO);
        let end = Tick::from_boot(Duration::MAX);
        assert_eq!(end.after(Duration::from_secs(1)), end);
    }

    #[test]
    fn boot_clock_moves_forward() {
        let first = BootClock.now();
        assert!(first > Tick::default());
        assert!(BootClock.now() >= first);
    }
}

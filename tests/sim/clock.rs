//! Virtual time. `Real` nanoseconds are what the simulator counts; every client and every node
//! sees them through a clock of its own, which started elsewhere and runs a little apart.

use std::time::Duration;

use redlock::clock::Tick;

/// Nanoseconds since the start of the history.
pub type Real = u64;

pub const US: Real = 1000;
pub const MS: Real = 1_000_000;
pub const SEC: Real = 1_000_000_000;

/// A duration in nanoseconds; those of a history all fit.
pub fn nanos(duration: Duration) -> Real {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct LocalClock {
    /// What it showed at the start of the history.
    pub offset: u64,
    /// By how many millionths it runs fast.
    pub ppm: i64,
    /// A wall clock that somebody sets back: when, and by how much. Boot time has none of this.
    pub set_back: Option<(Real, u64)>,
}

impl LocalClock {
    /// Runs with the simulator, from `offset` on.
    pub fn exact(offset: u64) -> Self {
        Self { offset, ppm: 0, set_back: None }
    }

    /// What it shows at `real`.
    pub fn at(self, real: Real) -> u64 {
        let shown = self.offset + stretch(real, self.ppm);
        match self.set_back {
            Some((when, by)) if real >= when => shown.saturating_sub(by),
            _ => shown,
        }
    }

    /// The same as the protocol has it.
    pub fn tick(self, real: Real) -> Tick {
        Tick::from_boot(Duration::from_nanos(self.at(real)))
    }

    /// The first moment at which it shows at least `tick`.
    pub fn real(self, tick: Tick) -> Real {
        let shown = nanos(tick.since_boot());
        let real = self.uncorrected(shown);
        match self.set_back {
            Some((when, by)) if real >= when => self.uncorrected(shown.saturating_add(by)),
            _ => real,
        }
    }

    fn uncorrected(self, shown: u64) -> Real {
        let elapsed = shown.saturating_sub(self.offset);
        let scaled = i128::from(elapsed) * 1_000_000;
        let rate = i128::from(1_000_000 + self.ppm);
        // Rounded up: woken too early, the machine would see that it is not yet time.
        let mut real = u64::try_from((scaled + rate - 1) / rate).unwrap_or(u64::MAX);
        while stretch(real, self.ppm) < elapsed && real < u64::MAX {
            real += 1;
        }
        real
    }
}

fn stretch(real: Real, ppm: i64) -> u64 {
    let gain = i128::from(real) * i128::from(ppm) / 1_000_000;
    u64::try_from(i128::from(real) + gain).unwrap_or(u64::MAX)
}

#[test]
fn clock_is_inverted_to_the_first_moment_that_shows_the_tick() {
    for ppm in [-10_000, -3, 0, 7, 10_000] {
        for set_back in [None, Some((SEC, MS))] {
            let clock = LocalClock { offset: 5 * SEC, ppm, set_back };
            for real in [0, 1, 999, SEC - 1, SEC, 7 * SEC + 3] {
                let found = clock.real(clock.tick(real));
                let (shown, wanted) = (clock.at(found), clock.at(real));
                assert!(
                    shown >= wanted && found <= real.max(SEC + 2 * MS) + 1,
                    "{clock:?} {real} {found}"
                );
            }
        }
    }
}

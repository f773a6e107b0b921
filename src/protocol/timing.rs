//! Every duration that follows from the ttl, computed and checked in one place.

use std::{fmt, time::Duration};

use crate::clock::Tick;

/// How long a lock survives its holder: a whole number of milliseconds between 100 ms and the
/// limit in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(Duration);

impl Ttl {
    /// The shortest ttl whose chain of durations leaves room to act.
    pub const MIN: Duration = Duration::from_millis(100);
    /// The longest ttl, unless the configuration says otherwise.
    pub const DEFAULT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// `ttl`, cut to whole milliseconds, when it lies between [`Ttl::MIN`] and `max`.
    pub fn new(ttl: Duration, max: Duration) -> Result<Self, TimingError> {
        let ttl = whole_millis(ttl);
        if ttl < Self::MIN {
            return Err(TimingError::TooShort { ttl });
        }
        if ttl > max {
            return Err(TimingError::TooLong { ttl, max });
        }
        Ok(Self(ttl))
    }

    /// The ttl as a duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// How long a lock is kept at the least from its acquisition, also when its holder is done before:
/// whole milliseconds, up to the limit in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinHold(Duration);

impl MinHold {
    /// `hold`, in whole milliseconds, when it is not above `max`.
    pub fn new(hold: Duration, max: Duration) -> Result<Self, TimingError> {
        if hold > max {
            return Err(TimingError::HeldTooLong { hold, max });
        }
        Ok(Self(millis_up(hold)))
    }

    /// It as a duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// What the user may have set by hand; `None` follows from the ttl.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How long a connection may take to be ready.
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take.
    pub node_timeout: Option<Duration>,
    /// How long before the end the command gets TERM.
    pub grace: Option<Duration>,
    /// How long before the end of the validity the command gets KILL.
    pub margin: Option<Duration>,
}

/// The whole chain of durations of one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long the lock survives us.
    pub ttl: Duration,
    /// What the clocks may differ by in one ttl: ttl/100 + 2 ms, as Redlock has it.
    pub drift: Duration,
    /// How long an answer may take: ttl/20 between 20 and 500 ms.
    pub node_timeout: Duration,
    /// How long resolving, connecting and TLS may take: ttl/5 between 20 ms and 1 s.
    pub connect_timeout: Duration,
    /// TERM this long before KILL: ttl/6, at most 5 s.
    pub grace: Duration,
    /// KILL this long before the validity ends: ttl/30 between 200 ms and 1 s; ttl/10 below 2 s.
    pub margin: Duration,
    /// Extend this often: ttl/3, at most every 30 s.
    pub every: Duration,
    /// Ask a node that failed again this often: ttl/10, at most every 3 s.
    pub retry: Duration,
    /// Keep the lock at least so long from its acquisition, whoever lives; zero unless it was asked
    /// for.
    pub min_hold: Duration,
}

/// Why a ttl cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimingError {
    /// Below [`Ttl::MIN`].
    TooShort {
        /// What was asked for.
        ttl: Duration,
    },
    /// Above the limit in force.
    TooLong {
        /// What was asked for.
        ttl: Duration,
        /// The limit.
        max: Duration,
    },
    /// A [`MinHold`] above the limit in force.
    HeldTooLong {
        /// What was asked for.
        hold: Duration,
        /// The limit.
        max: Duration,
    },
    /// One missed extension would already end the command.
    Chain(Box<Timing>),
}

impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = humantime::format_duration;
        match self {
            Self::TooShort { ttl } => {
                write!(f, "a ttl of {} is below the shortest, {}", show(*ttl), show(Ttl::MIN))
            }
            Self::TooLong { ttl, max } => write!(
                f,
                "a ttl of {} ({} s) is above the longest allowed, {} ({} s)",
                show(*ttl),
                ttl.as_secs(),
                show(*max),
                max.as_secs()
            ),
            Self::HeldTooLong { hold, max } => write!(
                f,
                "a min-hold of {} ({} s) is above the longest allowed, {} ({} s)",
                show(*hold),
                hold.as_secs(),
                show(*max),
                max.as_secs()
            ),
            Self::Chain(t) => write!(
                f,
                "a ttl of {} is too short for its chain: an extension after {} and a node-timeout \
                 of {} do not fit before ttl - drift {} - grace {} - margin {}; raise the ttl or \
                 lower what you set",
                show(t.ttl),
                show(whole_millis(t.ttl / 3)),
                show(t.node_timeout),
                show(t.drift),
                show(t.grace),
                show(t.margin),
            ),
        }
    }
}

impl std::error::Error for TimingError {}

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn whole_millis(d: Duration) -> Duration {
    millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Whole milliseconds, never less than `d`.
fn millis_up(d: Duration) -> Duration {
    whole_millis(d.saturating_add(Duration::from_nanos(999_999)))
}

impl Timing {
    /// The chain that follows from `ttl` and what was set by hand. Refused when one extension and
    /// its time-out do not fit before the command would be ended.
    pub fn new(ttl: Ttl, limits: &Limits) -> Result<Self, TimingError> {
        let ttl = ttl.get();
        let timing = Self {
            ttl,
            drift: ttl / 100 + millis(2),
            node_timeout: limits
                .node_timeout
                .unwrap_or_else(|| (ttl / 20).clamp(millis(20), millis(500))),
            connect_timeout: limits
                .connect_timeout
                .unwrap_or_else(|| (ttl / 5).clamp(millis(20), millis(1000))),
            grace: limits.grace.unwrap_or_else(|| (ttl / 6).min(millis(5000))),
            margin: limits.margin.unwrap_or_else(|| {
                if ttl < millis(2000) {
                    ttl / 10
                } else {
                    (ttl / 30).clamp(millis(200), millis(1000))
                }
            }),
            every: (ttl / 3).min(millis(30_000)),
            retry: (ttl / 10).min(millis(3000)),
            min_hold: Duration::ZERO,
        };
        let room = ttl
            .saturating_sub(timing.drift)
            .saturating_sub(timing.grace)
            .saturating_sub(timing.margin);
        if (ttl / 3).saturating_add(timing.node_timeout) < room {
            Ok(timing)
        } else {
            Err(TimingError::Chain(Box::new(timing)))
        }
    }

    /// The same of a lock that is kept for `hold`.
    #[must_use]
    pub const fn keeping(self, hold: MinHold) -> Self {
        Self { min_hold: hold.get(), ..self }
    }

    /// How long a lock that was acquired at `acquired` is to be kept from `now` on, whoever lives.
    pub fn rest(&self, acquired: Tick, now: Tick) -> Duration {
        millis_up(acquired.after(self.min_hold).since(now))
    }

    /// The expiry that an extension at `now` asks for.
    pub fn expiry(&self, acquired: Tick, now: Tick) -> Duration {
        self.ttl.max(self.rest(acquired, now))
    }

    /// The longest that a key of ours can last from now on.
    pub fn longest(&self) -> Duration {
        self.ttl.max(self.min_hold)
    }

    /// What an acquisition must leave at the least: the command gets TERM and KILL before its end.
    pub fn reserve(&self) -> Duration {
        self.grace.saturating_add(self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(ms: u64) -> Timing {
        let ttl = Ttl::new(millis(ms), Ttl::DEFAULT_MAX).unwrap();
        Timing::new(ttl, &Limits::default()).unwrap()
    }

    /// The table of the specification: ttl, drift, node-timeout, grace, margin, and T1, the time
    /// from the last extension to TERM.
    #[test]
    fn chain_follows_the_table() {
        for (ttl, drift, node, grace, margin, t1) in [
            (100, 3, 20, 17, 10, 70),
            (1000, 12, 50, 167, 100, 721),
            (3000, 32, 150, 500, 200, 2268),
            (30_000, 302, 500, 5000, 1000, 23_698),
            (600_000, 6002, 500, 5000, 1000, 587_998),
        ] {
            let t = timing(ttl);
            let round = |d: Duration| (d.as_micros() + 500) / 1000;
            assert_eq!(round(t.drift), drift, "drift of {ttl}");
            assert_eq!(round(t.node_timeout), node, "node-timeout of {ttl}");
            assert_eq!(round(t.grace), grace, "grace of {ttl}");
            assert_eq!(round(t.margin), margin, "margin of {ttl}");
            let before_term = t.drift + t.grace + t.margin;
            assert_eq!(round(t.ttl.checked_sub(before_term).unwrap()), t1, "T1 of {ttl}");
        }
    }

    #[test]
    fn extension_is_every_third_and_at_most_thirty_seconds_apart() {
        assert_eq!(timing(30_000).every, millis(10_000));
        assert_eq!(timing(600_000).every, millis(30_000));
        assert_eq!(timing(3_000).retry, millis(300));
        assert_eq!(timing(600_000).retry, millis(3000));
    }

    #[test]
    fn ttl_outside_its_bounds_is_refused() {
        let max = Duration::from_secs(60);
        assert!(matches!(Ttl::new(millis(99), max), Err(TimingError::TooShort { .. })));
        assert!(matches!(Ttl::new(Duration::ZERO, max), Err(TimingError::TooShort { .. })));
        assert!(matches!(Ttl::new(millis(60_001), max), Err(TimingError::TooLong { .. })));
        assert!(Ttl::new(max, max).is_ok());
    }

    #[test]
    fn fractions_of_a_millisecond_never_lengthen_the_lock() {
        let ttl = Ttl::new(Duration::from_micros(100_999), Ttl::DEFAULT_MAX).unwrap();
        assert_eq!(ttl.get(), millis(100));
    }

    #[test]
    fn chain_that_leaves_no_room_for_one_extension_is_refused_with_its_numbers() {
        let ttl = Ttl::new(millis(3000), Ttl::DEFAULT_MAX).unwrap();
        let limits = Limits { grace: Some(millis(1700)), ..Limits::default() };
        let error = Timing::new(ttl, &limits).unwrap_err();
        let text = error.to_string();
        for part in ["3s", "1s", "150ms", "32ms", "1s 700ms", "200ms"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn min_hold_is_what_is_left_of_it_and_an_extension_asks_for_the_longer() {
        let max = Duration::from_secs(60);
        assert!(matches!(MinHold::new(millis(60_001), max), Err(TimingError::HeldTooLong { .. })));
        let hold = MinHold::new(Duration::from_micros(49_999_001), max).unwrap();
        assert_eq!(hold.get(), millis(50_000), "never less than was asked for");
        let kept = timing(30_000).keeping(hold);
        let at = |ms: u64| Tick::from_boot(millis(1_000_000 + ms));
        for (now, rest, expiry) in [
            (0, 50_000, 50_000),
            (19_000, 31_000, 31_000),
            (20_001, 29_999, 30_000),
            (50_000, 0, 30_000),
            (90_000, 0, 30_000),
        ] {
            assert_eq!(kept.rest(at(0), at(now)), millis(rest), "rest at {now}");
            assert_eq!(kept.expiry(at(0), at(now)), millis(expiry), "expiry at {now}");
        }
        assert_eq!((kept.longest(), timing(30_000).longest()), (millis(50_000), millis(30_000)));
        assert_eq!(timing(30_000).rest(at(0), at(0)), Duration::ZERO);
    }

    proptest::proptest! {
        #[test]
        fn every_allowed_ttl_has_a_working_chain(ms in 100_u64..86_400_000) {
            let t = timing(ms);
            proptest::prop_assert!(t.ttl / 3 + t.node_timeout + t.drift + t.reserve() < t.ttl);
            proptest::prop_assert!(t.every < t.ttl && t.retry <= t.every);
        }
    }
}

//! Whether a node's clock runs as ours does, judged for free by the time that comes with its
//! answers. A node whose clock jumps or races drops keys before their time, and a lease that counts
//! on it would promise too much.

use std::time::Duration;

use crate::clock::Tick;

/// What one node's clock showed the last time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    last: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    heard: Tick,
    sent: Tick,
    shows: Duration,
}

impl Pace {
    /// A node answered at `heard`, to what was sent at `sent`, that its clock shows `shows`.
    /// Whether it went on since the last time as ours did, give or take `drift`. This reading is
    /// what the next is compared with, in any case.
    pub fn is_true(&mut self, sent: Tick, heard: Tick, shows: Duration, drift: Duration) -> bool {
        let last = self.last.replace(Reading { heard, sent, shows });
        let Some(last) = last else { return true };
        // Both were read at some time between their question and their answer, so what lies between
        // the readings, which can be less than nothing, is at least sent - last.heard - drift and
        // at most heard - last.sent + drift. Every term stands on the side where it is added.
        let fast_enough = sent.after(last.shows) <= last.heard.after(shows).after(drift);
        let slow_enough = last.sent.after(shows) <= heard.after(last.shows).after(drift);
        fast_enough && slow_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Tick {
        Tick::from_boot(ms(n))
    }

    /// Asked at 1000, answered at 1010 that it is 500,000; then asked at 2000, answered at 2010.
    fn second(shows: u64) -> bool {
        let mut pace = Pace::default();
        assert!(pace.is_true(at(1000), at(1010), ms(500_000), ms(30)));
        pace.is_true(at(2000), at(2010), ms(shows), ms(30))
    }

    #[test]
    fn clock_that_runs_as_ours_is_true_whenever_it_was_read() {
        assert!(second(501_000) && second(500_990) && second(501_010));
        assert!(second(500_960) && second(501_040));
    }

    #[test]
    fn clock_that_jumps_either_way_is_not() {
        assert!(!second(500_959) && !second(501_041));
        assert!(!second(499_000) && !second(600_000));
    }

    #[test]
    fn first_reading_and_the_one_after_a_jump_are_true() {
        let mut pace = Pace::default();
        assert!(pace.is_true(at(1000), at(1010), ms(9), ms(30)));
        assert!(!pace.is_true(at(2000), at(2010), ms(700_000), ms(30)));
        assert!(pace.is_true(at(3000), at(3010), ms(701_000), ms(30)));
    }

    /// Asked at 1000, answered at 1010 that it is 500,000; then `back` less than that is answered,
    /// 10 ms after it was asked for at `sent`.
    fn steps_back(sent: u64, back: u64) -> bool {
        let mut pace = Pace::default();
        assert!(pace.is_true(at(1000), at(1010), ms(500_000), ms(30)));
        pace.is_true(at(sent), at(sent + 10), ms(500_000 - back), ms(30))
    }

    #[test]
    fn step_back_is_drift_as_far_as_the_time_between_the_questions_allows() {
        // Between the first answer and the second question, 20 of the 30 ms are used up.
        assert!(steps_back(1030, 10) && !steps_back(1030, 11));
        // The questions touch.
        assert!(steps_back(1010, 30) && !steps_back(1010, 31));
        // They overlap: the second may have been read 5 ms before the first.
        assert!(steps_back(1005, 35) && !steps_back(1005, 36));
        // Where all is used up the clock must have gone on.
        assert!(steps_back(1040, 0) && !steps_back(1040, 1));
        assert!(!steps_back(1041, 0));
    }

    #[test]
    fn clock_at_the_end_of_all_numbers_is_not_true() {
        let mut pace = Pace::default();
        assert!(pace.is_true(at(1000), at(1010), ms(500), ms(30)));
        assert!(!pace.is_true(at(2000), at(2010), Duration::MAX, ms(30)));
        assert!(!pace.is_true(at(3000), at(3010), ms(2500), ms(30)));
    }
}

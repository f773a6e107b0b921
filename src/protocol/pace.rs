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
        // Both were read at some time between their question and their answer.
        let fewest = sent.since(last.heard).saturating_sub(drift);
        let most = heard.since(last.sent).saturating_add(drift);
        let slack = last.heard.since(sent).saturating_add(drift);
        match shows.checked_sub(last.shows) {
            Some(went_on) => (fewest..=most).contains(&went_on),
            None => sent.since(last.heard) <= slack && last.shows.saturating_sub(shows) <= slack,
        }
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

    #[test]
    fn small_step_back_between_two_overlapping_questions_is_drift() {
        let mut pace = Pace::default();
        assert!(pace.is_true(at(1000), at(1010), ms(500), ms(30)));
        assert!(pace.is_true(at(1005), at(1015), ms(480), ms(30)));
        assert!(!pace.is_true(at(1010), at(1020), ms(400), ms(30)));
    }
}

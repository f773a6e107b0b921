//! Clocks that stand elsewhere than the others, or run at another rate than ours.

use std::time::Duration;

use super::{Finding, Gravity, Patient};
use crate::{commands::doctor::facts::ClockReading, duration::show};

/// The clocks of two nodes may differ by so much.
const APART: Duration = Duration::from_secs(1);
impl Patient<'_> {
    /// The clocks of all nodes.
    pub(super) fn clocks(&self, found: &mut Vec<Finding>) {
        // Where each clock stood at the same moment of ours.
        let mut offsets: Vec<(usize, i128)> = self
            .facts
            .iter()
            .enumerate()
            .filter_map(|(node, facts)| {
                let ClockReading { sent, came, time } = *facts.clock.first()?;
                let middle = sent.after(came.since(sent) / 2).since_boot();
                let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
                Some((node, nanos(time) - nanos(middle)))
            })
            .collect();
        offsets.sort_by_key(|(_, offset)| *offset);
        let median = offsets.get(offsets.len() / 2).map_or(0, |(_, offset)| *offset);
        for (node, offset) in &offsets {
            let apart = Duration::from_nanos(
                u64::try_from((offset - median).unsigned_abs()).unwrap_or(u64::MAX),
            );
            if apart > APART {
                let way = if *offset > median { "ahead of" } else { "behind" };
                found.push(Finding {
                    gravity: Gravity::Warning,
                    check: "clock",
                    nodes: vec![self.names[*node].clone()],
                    what: format!("its clock is {} {way} the others", show(apart)),
                    endangers: "fencing tokens and the times that people read; locks only if it \
                                is set while they are held"
                        .into(),
                    mend: "synchronise its clock (chrony, ntpd)".into(),
                });
            }
        }
        for (name, facts) in self.names.iter().zip(self.facts) {
            let [first, last] = facts.clock.as_slice() else { continue };
            let progress = last.time.saturating_sub(first.time);
            let fewest = last.sent.since(first.came).mul_f64(0.99);
            let most = last.came.since(first.sent).mul_f64(1.01);
            if progress < fewest || progress > most || last.time < first.time {
                let ours = last.sent.since(first.sent);
                found.push(Finding {
                    gravity: Gravity::Warning,
                    check: "clock-rate",
                    nodes: vec![name.clone()],
                    what: format!(
                        "its clock ran for {}ms in {}ms of ours",
                        progress.as_millis(),
                        ours.as_millis()
                    ),
                    endangers: "held locks: it drops them earlier or later than we count".into(),
                    mend: "find out who sets its clock; slew it instead of stepping".into(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{checks, examine, facts},
        *,
    };
    use crate::{clock::Tick, commands::doctor::facts::Facts};

    fn reading(sent: u64, came: u64, time: u64) -> ClockReading {
        let at = |ms| Tick::from_boot(Duration::from_millis(ms));
        ClockReading { sent: at(sent), came: at(came), time: Duration::from_millis(time) }
    }

    #[test]
    fn clock_that_is_set_wrong_is_told_from_one_that_runs_wrong() {
        let clock = |readings: [ClockReading; 2]| Facts {
            clock: readings.to_vec(),
            ..facts("role:master\r\n")
        };
        let right = || clock([reading(100, 102, 5_101), reading(1100, 1102, 6_101)]);
        let ahead = clock([reading(100, 102, 55_101), reading(1100, 1102, 56_101)]);
        let (found, voters) = examine(&[right(), ahead, right()]);
        assert_eq!((checks(&found), voters), (vec!["clock"], vec![true; 3]));
        assert_eq!(found[0].what, "its clock is 50s ahead of the others");
        assert_eq!(found[0].nodes, ["db2:1"]);
        let fast = clock([reading(100, 102, 5_101), reading(1100, 1102, 6_120)]);
        let (found, _) = examine(&[right(), right(), fast]);
        assert_eq!(checks(&found), ["clock-rate"]);
        // What the way may have taken is no fault of the clock.
        let slow_way = clock([reading(100, 160, 5_101), reading(1100, 1102, 6_046)]);
        let (found, _) = examine(&[right(), right(), slow_way]);
        assert_eq!(checks(&found), [""; 0]);
    }
}

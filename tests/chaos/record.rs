//! What the workers wrote down (tests/fixtures/worker.rs), and what is wrong with it.

use std::{collections::BTreeMap, fmt, fs, path::Path, time::Duration};

/// One worker's stay, from its first sign of life to its last. It may have been there a little
/// longer, never shorter: where two stays overlap, both did run at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    pub token: String,
    pub pid: i32,
    /// On the clock that counts suspend.
    pub first: Duration,
    pub last: Duration,
    /// It said goodbye, so nobody ended it.
    pub whole: bool,
    /// The value that it began to write, and the one that it had written.
    pub writing: Option<u64>,
    pub wrote: Option<u64>,
    /// Its fencing token, when the register took it.
    pub fence: Option<u64>,
    /// How often the register refused its token.
    pub refused: usize,
}

/// All stays, in the order of their beginnings.
pub fn stays(record: &str) -> Vec<Stay> {
    let mut stays: BTreeMap<(&str, &str), Stay> = BTreeMap::new();
    // The last line may be under way.
    let lines = record.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [token, pid, time, word, number @ ..] = &words[..] else { panic!("{line}") };
        let time = Duration::from_nanos(time.parse().unwrap());
        let number = number.first().map(|number| number.parse().unwrap());
        let stay = stays.entry((token, pid)).or_insert_with(|| Stay {
            token: (*token).to_owned(),
            pid: pid.parse().unwrap(),
            first: time,
            ..Stay::default()
        });
        stay.last = time;
        match *word {
            "enter" | "read" | "alive" => {}
            "writing" => stay.writing = number,
            "wrote" => stay.wrote = number,
            "claimed" => stay.fence = number,
            "refused" => stay.refused += 1,
            "exit" => stay.whole = true,
            _ => panic!("{line}"),
        }
    }
    let mut stays: Vec<Stay> = stays.into_values().collect();
    stays.sort_by_key(|stay| stay.first);
    stays
}

/// What came of a suite.
#[derive(Debug, Default)]
pub struct Findings {
    /// How many workers ran.
    pub acquisitions: usize,
    /// How many of them were ended before they were done.
    pub ended: usize,
    /// Pairs of workers that ran at the same time.
    pub overlaps: Vec<(Stay, Stay)>,
    /// Finished increments that the counter does not show.
    pub lost: u64,
    /// Fencing tokens that did not grow from one holder to the next.
    pub regressions: usize,
}

impl Findings {
    /// Of the record, and the counter's last value, in this directory.
    pub fn of(place: &Path) -> Self {
        let record = fs::read_to_string(place.join("record")).unwrap_or_default();
        let counter = fs::read(place.join("counter")).unwrap_or_default();
        let counter = counter.try_into().map_or(0, u64::from_le_bytes);
        Self::judge(&stays(&record), counter)
    }

    fn judge(stays: &[Stay], counter: u64) -> Self {
        let count = |is: &dyn Fn(&Stay) -> bool| stays.iter().filter(|stay| is(stay)).count();
        Self {
            acquisitions: stays.len(),
            ended: count(&|stay| !stay.whole),
            overlaps: overlaps(stays),
            lost: lost(stays, counter),
            regressions: regressions(stays),
        }
    }

    pub fn is_clean(&self) -> bool {
        self.overlaps.is_empty() && self.lost == 0 && self.regressions == 0
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "acquisitions = {} ({} ended before their time), overlaps = {}, lost = {}, \
             regressions = {}",
            self.acquisitions,
            self.ended,
            self.overlaps.len(),
            self.lost,
            self.regressions
        )?;
        self.overlaps
            .iter()
            .try_for_each(|(one, other)| writeln!(f, "at the same time:\n  {one:?}\n  {other:?}"))
    }
}

fn overlaps(stays: &[Stay]) -> Vec<(Stay, Stay)> {
    let mut found = Vec::new();
    // Who of those before is there longest: whoever overlaps with anybody overlaps with him.
    let mut longest: Option<&Stay> = None;
    for stay in stays {
        if let Some(other) = longest.filter(|other| stay.first <= other.last) {
            found.push((other.clone(), stay.clone()));
        }
        if longest.is_none_or(|other| stay.last > other.last) {
            longest = Some(stay);
        }
    }
    found
}

/// Two that wrote the same value lost one increment. A counter that is behind lost the rest. Who
/// was ended while it wrote may have written or not.
fn lost(stays: &[Stay], counter: u64) -> u64 {
    let mut wrote: Vec<u64> = stays.iter().filter_map(|stay| stay.wrote).collect();
    let all = wrote.len() as u64;
    wrote.sort_unstable();
    wrote.dedup();
    let same = all - wrote.len() as u64;
    let unsure = stays.iter().filter(|stay| stay.writing.is_some() && stay.wrote.is_none());
    assert!(counter <= all + unsure.count() as u64, "the counter is ahead");
    same.max(all.saturating_sub(counter))
}

/// A refused token was overtaken; a token that two have is no token.
fn regressions(stays: &[Stay]) -> usize {
    let fences: Vec<u64> = stays.iter().filter_map(|stay| stay.fence).collect();
    let falls = fences.windows(2).filter(|pair| pair[1] <= pair[0]).count();
    falls + stays.iter().map(|stay| stay.refused).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(record: &str, counter: u64) -> Findings {
        Findings::judge(&stays(record), counter)
    }

    const GOOD: &str = "a 1 10 enter\na 1 11 claimed 7\na 1 12 read 0\na 1 13 writing 1\n\
                        a 1 14 wrote 1\na 1 15 exit\nb 2 16 enter\nb 2 17 claimed 8\nb 2 18 read 1\n\
                        b 2 19 alive\nc 3 20 enter\nc 3 21 claimed 9\nc 3 22 read 1\n\
                        c 3 23 writing 2\nc 3 24 wrote 2\nc 3 25 exit\n";

    #[test]
    fn good_record_has_nothing_wrong_although_one_was_ended() {
        let findings = judge(GOOD, 2);
        assert!(findings.is_clean(), "{findings}");
        assert_eq!((findings.acquisitions, findings.ended), (3, 1));
    }

    #[test]
    fn sign_of_life_after_somebody_else_came_is_an_overlap() {
        let findings = judge(&format!("{GOOD}b 2 21 alive\n"), 2);
        assert_eq!(findings.overlaps.len(), 1, "{findings}");
        assert_eq!(findings.overlaps[0].0.token, "b");
        // Not only with a neighbour.
        let findings = judge("a 1 1 enter\nb 2 2 enter\nb 2 3 exit\nc 3 4 enter\na 1 5 exit\n", 0);
        assert_eq!(findings.overlaps.len(), 2, "{findings}");
    }

    #[test]
    fn same_value_written_twice_and_a_counter_that_is_behind_are_lost_increments() {
        assert_eq!(judge(GOOD, 1).lost, 1);
        let twice = GOOD.replace("2\nc 3 25", "1\nc 3 25");
        assert_eq!(judge(&twice, 2).lost, 1);
    }

    #[test]
    fn who_was_ended_while_it_wrote_may_have_written() {
        let ended = "a 1 1 enter\na 1 2 writing 1\n";
        assert_eq!((judge(ended, 0).lost, judge(ended, 1).lost), (0, 0));
    }

    #[test]
    fn token_that_is_refused_or_does_not_grow_is_a_regression() {
        assert_eq!(judge(&GOOD.replace("claimed 9", "claimed 8"), 2).regressions, 1);
        assert_eq!(judge(&GOOD.replace("claimed 9", "refused 9"), 2).regressions, 1);
    }
}

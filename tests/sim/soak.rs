//! The long run: histories of all families, one seed one history, on all cores. `make test` plays a
//! hundred thousand of them, `make soak` goes on until it is stopped (scripts/sim).

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    brain::session,
    check::{Rule, Violation},
    histories::{
        adopted, alone, alone_with_a_minority_away, crowd, crowd_with_faults, crowd_with_pauses,
        crowd_with_several_keys, emptied, fenced, fenced_by_count, forced, handful, kept,
        kept_in_a_storm, restarts, restarts_unnoticed, storm,
    },
    plan::Plan,
    rng::Rng,
    seeds::{fail, number, play},
};

/// The families. The storm has most of what can go wrong, and comes up most often.
const FAMILIES: [fn(&mut Rng) -> Plan; 19] = [
    adopted,
    alone,
    alone_with_a_minority_away,
    crowd,
    crowd_with_faults,
    crowd_with_pauses,
    crowd_with_several_keys,
    emptied,
    fenced,
    fenced_by_count,
    forced,
    handful,
    kept,
    kept_in_a_storm,
    restarts,
    restarts_unnoticed,
    storm,
    storm,
    storm,
];

/// How often progress is shown.
const PACE: Duration = Duration::from_secs(10);

fn any(rng: &mut Rng) -> Plan {
    rng.pick(&FAMILIES)(rng)
}

/// What was played so far.
#[derive(Default)]
struct Tally {
    histories: AtomicU64,
    acquisitions: AtomicU64,
    faults: AtomicU64,
    steps: AtomicU64,
    found: Mutex<Option<(u64, Violation)>>,
}

impl Tally {
    /// Plays the histories of `first..` until `last`, or until it is stopped or a rule is broken.
    fn play(&self, first: u64, last: Option<u64>, stopped: &AtomicBool) {
        let next = AtomicU64::new(first);
        let over = AtomicBool::new(false);
        let work = || {
            while !over.load(Relaxed) && !stopped.load(Relaxed) {
                let seed = next.fetch_add(1, Relaxed);
                if last.is_some_and(|last| seed >= last) {
                    break;
                }
                match play(seed, &any, &session) {
                    Ok(report) => {
                        let acquired = report.outcomes.iter().filter(|o| o.acquired.is_some());
                        self.histories.fetch_add(1, Relaxed);
                        self.acquisitions.fetch_add(acquired.count() as u64, Relaxed);
                        self.faults.fetch_add(report.faults, Relaxed);
                        self.steps.fetch_add(report.steps, Relaxed);
                    }
                    Err(violation) => {
                        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.get_or_insert((seed, violation));
                        over.store(true, Relaxed);
                    }
                }
            }
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let mut shown = Instant::now();
            while workers.iter().any(|worker| !worker.is_finished()) {
                thread::sleep(Duration::from_millis(20));
                if shown.elapsed() >= PACE {
                    shown = Instant::now();
                    self.show("so far");
                }
            }
        });
        self.show("in all");
    }

    fn show(&self, when: &str) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = found.as_ref().map(|(_, violation)| violation.rule);
        eprintln!(
            "simulator, {when}: {} histories, {} acquisitions, {} faults injected, {} steps; \
             overlaps = {}, violations = {}",
            self.histories.load(Relaxed),
            self.acquisitions.load(Relaxed),
            self.faults.load(Relaxed),
            self.steps.load(Relaxed),
            u8::from(rule == Some(Rule::OneHolder)),
            u8::from(rule.is_some()),
        );
    }

    fn judge(self, test: &str) {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((seed, violation)) = found {
            fail(test, seed, &violation, &any, &session);
        }
    }
}

/// A thousand, or `REDLOCK_SIM_HISTORIES`; the one of `REDLOCK_SIM_SEED` alone.
#[test]
fn histories_of_every_kind_keep_every_rule() {
    let (first, last) = match number("REDLOCK_SIM_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, number("REDLOCK_SIM_HISTORIES").unwrap_or(1000)),
    };
    let tally = Tally::default();
    tally.play(first, Some(last), &AtomicBool::new(false));
    tally.judge("sim::soak::histories_of_every_kind_keep_every_rule");
}

static STOPPED: AtomicBool = AtomicBool::new(false);

#[test]
#[ignore = "goes on until it is stopped: make soak"]
fn soak() {
    ctrlc::set_handler(|| STOPPED.store(true, Relaxed)).unwrap();
    // Fresh ones each time, and far from those of the suite.
    let (first, _) = uuid::Uuid::new_v4().as_u64_pair();
    eprintln!("simulator: seeds from {first} on, until ^C");
    let tally = Tally::default();
    tally.play(first, None, &STOPPED);
    tally.judge("sim::soak::histories_of_every_kind_keep_every_rule");
}

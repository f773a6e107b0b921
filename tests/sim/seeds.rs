//! Plays families of histories: all seeds of a range, or the one that somebody wants to see again.

use std::{env, thread};

use super::{
    brain::Maker,
    check::{Rule, Violation},
    clock::MS,
    plan::Plan,
    rng::Rng,
    world::{Report, World},
};

/// Makes the plan of one history.
pub type Family<'a> = &'a dyn Fn(&mut Rng) -> Plan;

/// How much of a trace is enough to understand its end.
const TAIL: usize = 80;

pub fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// One history.
pub fn play(seed: u64, family: Family, maker: &Maker) -> Result<Report, Violation> {
    let mut rng = Rng::new(seed);
    let plan = family(&mut rng);
    World::new(&plan, rng.word(), maker).play().0
}

pub fn trace(seed: u64, family: Family, maker: &Maker) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let plan = family(&mut rng);
    World::new(&plan, rng.word(), maker).traced().play().1
}

/// Which seeds to play when `count` are asked for.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match number("REDLOCK_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("REDLOCK_SIM_TIMES").unwrap_or(1),
    }
}

/// Every history of the family keeps every rule. Returns what came of them.
pub fn hold(count: u64, family: Family, maker: &Maker) -> Vec<Report> {
    let mut reports = Vec::new();
    for seed in seeds(count) {
        match play(seed, family, maker) {
            Ok(report) => reports.push(report),
            Err(violation) => {
                let test = thread::current().name().unwrap_or_default().to_owned();
                fail(&test, seed, &violation, family, maker)
            }
        }
        if env::var_os("REDLOCK_SIM_TRACE").is_some() {
            eprintln!("{}", trace(seed, family, maker).join("\n"));
        }
    }
    reports
}

/// Ends the test with the end of the history.
pub fn fail(test: &str, seed: u64, violation: &Violation, family: Family, maker: &Maker) -> ! {
    let lines = trace(seed, family, maker);
    let shown = if env::var_os("REDLOCK_SIM_TRACE").is_some() { lines.len() } else { TAIL };
    let tail = &lines[lines.len().saturating_sub(shown)..];
    panic!(
        "{:?} broken by seed {seed} after {} ms: {}\nagain: REDLOCK_SIM_SEED={seed} cargo test --test main {test}\n{}",
        violation.rule,
        violation.at / MS,
        violation.what,
        tail.join("\n"),
    );
}

/// The family catches what is broken on purpose: each of `rules` alone is broken by some seed.
pub fn catches(count: u64, family: Family, maker: &Maker, rules: &[Rule]) {
    for rule in rules {
        let watching = |rng: &mut Rng| {
            let mut plan = family(rng);
            plan.watched = Some(vec![*rule]);
            plan
        };
        let caught = seeds(count).any(|seed| play(seed, &watching, maker).is_err());
        assert!(caught, "{count} histories do not break {rule:?}");
    }
}

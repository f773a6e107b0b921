//! How a lock passes from one run to the next: from the end of the holder's command to the start of
//! the next one, with 1, 10 and 50 waiters, beside `flock` (and `etcdctl lock` against an etcd of our
//! own, where it is installed) in the same minute; what simultaneous starters do; the same over
//! longer ways; and what those who wait cost.
//!
//! `make bench` runs it. It is never a test: a number above its target is printed as `over`. The
//! program is also its own helper: as `gate` it starts many at once, as `stamp` it is the command
//! that runs under the lock and writes down when it started and ended.

#[path = "../tests/harness/proxy.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "it is the tests' own, which use the rest of it"
)]
mod proxy;
mod support;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use redlock::commands::sandbox::servers::Fleet;

use support::{Outcome, Peer, Scene, Stats, end, eventually, quantiles, verdict};

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["gate", rest @ ..] => support::gate(rest),
        ["stamp", file, until] => support::stamp(file, until),
        // Cargo adds `--bench`.
        _ => bench(words.iter().find(|word| !word.starts_with('-')).copied()),
    };
    end(outcome.map(|()| String::new()))
}

fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// All of it, or the part that is named.
fn bench(part: Option<&str>) -> Outcome<()> {
    let wants = |name: &str| part.is_none_or(|part| part == name);
    let fleet = Fleet::start(5)?;
    let scene = Scene::new(&fleet)?;
    if wants("handover") {
        hand_overs(&scene)?;
    }
    if wants("starts") {
        starts(&scene, &[(2, 10), (10, 10), (50, 3), (200, 1)])?;
    }
    if wants("far") {
        far(&scene)?;
    }
    if wants("cost") {
        cost(&scene)?;
    }
    Ok(())
}

/// Hand-overs one after the other, with so many waiting.
fn hand_overs(scene: &Scene<'_>) -> Outcome<()> {
    say("hand-over in ms: end of one command to the start of the next\n");
    say(&format!(
        "{:<10} {:<10} {:>8} {:>8} {:>12} {:>16}",
        "waiters", "", "median", "p95", "drain", "requests/node"
    ));
    let etcd = support::Etcd::start();
    let mut peers = vec![Peer::Flock, Peer::Redlock];
    peers.extend(etcd.as_ref().map(|etcd| Peer::Etcd(etcd.endpoint())));
    for (waiters, rounds, work) in [(1, 60_u64, 0), (10, 6, 10), (50, 3, 10)] {
        let mut table = Vec::new();
        for peer in &peers {
            let (mut gaps, mut drains) = (Vec::new(), Vec::new());
            let before = scene.requests()?;
            for _ in 0..rounds {
                let (found, drain) = scene.hand_over(peer, waiters, work)?;
                gaps.extend(found);
                drains.push(drain);
            }
            let requests = (scene.requests()? - before) / rounds;
            let (gaps, drains) = (quantiles(gaps), quantiles(drains));
            let shown = if *peer == Peer::Redlock { requests.to_string() } else { String::new() };
            say(&format!(
                "{waiters:<10} {:<10} {:>8.2} {:>8.2} {:>12.1} {shown:>16}",
                peer.name(),
                gaps.median,
                gaps.p95,
                drains.median
            ));
            table.push((gaps, drains));
        }
        let (flock, redlock) = (&table[0], &table[1]);
        if waiters == 1 {
            let most = 1.5 * flock.0.median + 1.0;
            say(&judged("hand-over, 1.5 x flock + 1 ms", redlock.0.median, most));
            if let Some(etcd) = table.get(2) {
                say(&judged("hand-over, below etcdctl", redlock.0.median, etcd.0.median));
            }
        } else if waiters == 50 {
            say(&judged("drain, 1.25 x flock", redlock.1.median, 1.25 * flock.1.median));
        }
    }
    say("");
    Ok(())
}

fn judged(what: &str, have: f64, most: f64) -> String {
    format!("  {what:<34} {have:>8.2} ms  at most {most:>8.2} ms  {}", verdict(have <= most))
}

/// Many start in the same instant.
fn starts(scene: &Scene<'_>, rows: &[(usize, usize)]) -> Outcome<()> {
    say(
        "simultaneous starts: ms to the first command, winners of run -n, drain of run with 10 ms\n",
    );
    say(&format!(
        "{:<8} {:>8} {:>8} {:>14} {:>12} {:>12} {:>14}",
        "N", "median", "worst", "one winner", "req/node/N", "drain", "req/node/N"
    ));
    for &(count, trials) in rows {
        let mut first = Vec::new();
        let (mut single, mut requests) = (0, 0);
        for _ in 0..trials {
            let rush = scene.rush(count, &["-n"], Duration::from_secs(2))?;
            first.push(rush.first);
            single += usize::from(rush.ran == 1);
            requests += rush.requests;
        }
        let drain = scene.rush(count, &[], Duration::from_millis(10))?;
        let first = quantiles(first);
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let each = |requests: u64, runs: usize| requests as f64 / (runs * count) as f64;
        say(&format!(
            "{count:<8} {:>8.1} {:>8.1} {:>14} {:>12.1} {:>12.1} {:>14.1}  {}",
            first.median,
            first.worst,
            format!("{single} of {trials}"),
            each(requests, trials),
            drain.drain,
            each(drain.requests, 1),
            verdict(single == trials && drain.ran == count),
        ));
    }
    say("");
    Ok(())
}

/// The same over longer ways.
fn far(near: &Scene<'_>) -> Outcome<()> {
    for trip in [20, 80] {
        let way = near.far(Duration::from_millis(trip))?;
        say(&format!("through a network of {trip} ms a round trip"));
        let mut gaps = Vec::new();
        for _ in 0..8 {
            gaps.extend(way.scene.hand_over(&Peer::Redlock, 1, 0)?.0);
        }
        let Stats { median, p95, .. } = quantiles(gaps);
        say(&format!("  hand-over, one waiter: median {median:.1} ms, p95 {p95:.1} ms"));
        #[expect(clippy::cast_precision_loss, reason = "a few ms")]
        say(&judged("hand-over, 3 round trips and 5 ms", median, 3.0 * trip as f64 + 5.0));
        starts(&way.scene, &[(10, 3), (50, 1)])?;
    }
    Ok(())
}

/// What two hundred who wait for a lock cost.
fn cost(scene: &Scene<'_>) -> Outcome<()> {
    let (waiters, time) = (200, Duration::from_secs(10));
    let begin = Instant::now();
    let waiting = scene.wait(waiters)?;
    let ready = begin.elapsed();
    let before = scene.requests()?;
    std::thread::sleep(time);
    let requests = scene.requests()? - before;
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let each = requests as f64 / time.as_secs_f64() / waiters as f64;
    let resident = waiting.resident()?;
    waiting.end()?;
    say(&format!("{waiters} waiters, ready after {:.1} s", ready.as_secs_f64()));
    let good = verdict(each <= 0.3);
    say(&format!("  requests per second, node and waiter {each:>6.2}  at most 0.30  {good}"));
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    say(&format!("  resident on average {:>6.2} MB", resident as f64 / 1e6));
    Ok(())
}

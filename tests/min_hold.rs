//! `--min-hold`: a lock that outlives its command, so that hosts whose clocks differ run a job once.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Redlock, eventually, fleet, scratch,
    servers::{Fleet, Inspect, InspectAll},
};

const MS: Duration = Duration::from_millis(1);

/// The expiry of `k` on every node that has it, in milliseconds.
fn expiries(fleet: &Fleet) -> Vec<i64> {
    let pttl = |server| Inspect::client(server).pttl("k");
    fleet.servers().iter().map(pttl).filter(|left| *left != -2).collect()
}

/// What the value of `k` says on the first node.
fn holder(fleet: &Fleet) -> Value {
    let value = fleet.servers()[0].get("k").unwrap();
    serde_json::from_str(&value[37..]).unwrap()
}

fn within(expiries: &[i64], nodes: usize, least: i64, most: i64) -> bool {
    expiries.len() == nodes && expiries.iter().all(|left| (least..=most).contains(left))
}

/// The job of issue 7 at a tenth of its times: a job of 1 s that two hosts start 20 s apart since
/// their clocks differ, with a min-hold of 50 s.
#[test]
fn job_runs_once_on_hosts_whose_clocks_differ() {
    let fleet = fleet(5);
    let place = scratch();
    let log = place.path().join("log");
    let job = |name: &str, hold: &[&str]| {
        let line = format!("echo {name} >> '{}'; sleep 0.1", log.display());
        // Silent, and exit 0, whether it ran or was skipped.
        Redlock::run(fleet.nodes()).args(["--skip"]).args(hold).shell(&line).check()
    };
    let ran = || std::fs::read_to_string(&log).unwrap();
    let start = Instant::now();
    job("first", &["--min-hold", "5s"]);
    while start.elapsed() < 2000 * MS {
        thread::sleep(10 * MS);
    }
    job("second", &["--min-hold", "5s"]);
    assert_eq!(ran(), "first\n");
    // The next time it is due it runs again.
    eventually("the lock runs out", || fleet.holding("k").is_empty());
    assert!(start.elapsed() >= 5000 * MS, "{:?}", start.elapsed());
    job("third", &[]);
    job("fourth", &[]);
    assert_eq!(ran(), "first\nthird\nfourth\n", "without a min-hold both run");
}

#[test]
fn lock_is_kept_for_the_rest_whatever_the_status_and_says_so() {
    let fleet = fleet(3);
    for (line, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", -9)] {
        let run = Redlock::run(fleet.nodes()).args(["-t", "10s", "--min-hold", "30s"]).shell(line);
        let started = Instant::now();
        let run = if code < 0 { run.dies_of(Signal::KILL) } else { run.exits(code) };
        run.check();
        // Kept from the acquisition on, not from the end of the command.
        let gone = i64::try_from(started.elapsed().as_millis()).unwrap();
        let left = expiries(&fleet);
        assert!(within(&left, 3, 30_000 - gone - 500, 30_000), "{line}: {left:?} after {gone}");
        let value = holder(&fleet);
        let (since, until) = (value["since"].as_u64().unwrap(), value["until"].as_u64().unwrap());
        assert!((30_000..35_000).contains(&(until - since)), "{value}");
        assert_eq!(value["every"], Value::Null, "nobody extends it");
        for server in fleet.servers() {
            server.client().del("k");
        }
    }
}

#[test]
fn busy_message_and_status_say_that_it_is_finished() {
    let fleet = fleet(3);
    Redlock::run(fleet.nodes()).args(["--min-hold", "1m"]).command(["true"]).check();
    let busy = Redlock::run(fleet.nodes())
        .args(["-n"])
        .command(["true"])
        .fails(
            75,
            "'k' is held by * (*) since *Z (* ago; finished, held until *:*:*Z, expires in *); *",
        )
        .check();
    let told = busy.stderr.split("held until ").nth(1).unwrap();
    let time = told.split(',').next().unwrap().to_owned();
    assert_eq!(time.len(), "14:03:12Z".len(), "{busy}");
    let status =
        Redlock::new(["status", "--json", "k"]).nodes(fleet.nodes()).stdout_like("*\n").check();
    let report: Value = serde_json::from_str(&status.stdout).unwrap();
    let lock = &report["locks"][0];
    assert_eq!((&lock["state"], &lock["life"]), (&"held".into(), &"finished".into()), "{lock}");
    let advice = lock["advice"].as_str().unwrap();
    let begin = format!("finished, held until {time}, frees itself in ");
    assert!(advice.starts_with(&begin), "{advice}");
    assert!(lock["holder"]["until_ms"].as_u64().is_some(), "{lock}");
    // Nobody's command would be killed by it.
    let freed = Redlock::new(["release", "--force", "--yes", "-k", "k"])
        .nodes(fleet.nodes())
        .stderr_like("redlock: 'k' is held by *finished, held until *\nredlock: released 'k' *\n");
    freed.check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn skip_takes_a_finished_lock_for_a_held_one() {
    let fleet = fleet(3);
    let run = || Redlock::run(fleet.nodes());
    run().args(["--min-hold", "1m"]).command(["true"]).check();
    run().args(["--skip"]).command(["echo", "ran"]).check();
    run().args(["--skip", "-w", "200ms"]).command(["echo", "ran"]).check();
}

/// Each slot is kept for itself, and the others are as free as ever.
#[test]
fn slot_is_kept_too() {
    let fleet = fleet(3);
    let run = || Redlock::run(fleet.nodes()).args(["--slots", "2", "-n"]);
    for _ in 0..2 {
        run().args(["--min-hold", "1m"]).command(["true"]).check();
    }
    for key in ["k", "k#2"] {
        assert_eq!(fleet.holding(key).len(), 3, "{key}");
        assert!(fleet.servers()[0].get(key).unwrap().contains("\"until\":"), "{key}");
    }
    run()
        .command(["true"])
        .fails(75, "all 2 slots of 'k' are held, by *finished, held until *")
        .check();
    fleet.servers().iter().for_each(|server| assert!(server.client().del("k#2")));
    run().command(["true"]).check();
}

#[test]
fn waiter_gets_the_lock_when_the_min_hold_is_over() {
    let fleet = fleet(3);
    let start = Instant::now();
    Redlock::run(fleet.nodes()).args(["--min-hold", "2s"]).command(["true"]).check();
    Redlock::run(fleet.nodes())
        .args(["-q", "-w", "15s"])
        .command(["echo", "ran"])
        .stdout("ran\n")
        .check();
    let took = start.elapsed();
    // It sleeps to the end of the keys' time, and not to the next poll, which may be 7.5 s away.
    assert!((2000 * MS..3500 * MS).contains(&took), "{took:?}");
}

#[test]
fn long_command_is_released_at_once_when_its_min_hold_is_over() {
    let fleet = fleet(3);
    Redlock::run(fleet.nodes())
        .args(["-t", "10s", "--min-hold", "300ms"])
        .command(["sleep", "0.5"])
        .check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn command_that_never_started_gives_the_lock_back() {
    let fleet = fleet(3);
    let place = scratch();
    let dir = place.path().to_str().unwrap();
    for (words, code) in [(["no-such-program"], 127), ([dir], 126)] {
        Redlock::run(fleet.nodes())
            .args(["--min-hold", "1m"])
            .command(words)
            .fails(code, "*")
            .check();
        assert!(fleet.all_keys().is_empty(), "{code}");
    }
    // And so does who never had it.
    fleet.servers()[0].set("k", "x");
    fleet.servers()[1].set("k", "x");
    Redlock::run(fleet.nodes())
        .args(["-n", "--min-hold", "1m"])
        .command(["true"])
        .fails(75, "*")
        .check();
    assert_eq!(fleet.all_keys(), ["0:k", "1:k"]);
}

#[test]
fn lock_is_kept_when_redlock_is_killed() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["-t", "3s", "--min-hold", "30s"])
        .shell("echo ready; sleep 60")
        .stdout("ready\n")
        .dies_of(Signal::KILL)
        .start();
    run.wait_stdout("ready\n");
    eventually("every node keeps it for the whole time", || {
        within(&expiries(&fleet), 3, 25_000, 30_000)
    });
    run.signal(Signal::KILL);
    run.check();
    let left = expiries(&fleet);
    assert!(within(&left, 3, 20_000, 30_000), "{left:?}");
    // Nobody can tell by its expiry that it is alive.
    Redlock::run(fleet.nodes())
        .args(["-n"])
        .command(["true"])
        .fails(75, "'k' is held by * (* ago; kept, expires in *); *")
        .check();
}

#[test]
fn extensions_go_on_as_usual_and_never_shorten_it() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["-t", "900ms", "--min-hold", "30s", "-v"])
        .shell("echo ready; sleep 2.5")
        .stdout("ready\n")
        .stderr_like("*")
        .start();
    run.wait_stdout("ready\n");
    run.wait_stderr("extended 'k' on 3 of 3 nodes");
    let left = expiries(&fleet);
    assert!(within(&left, 3, 20_000, 30_000), "{left:?}");
    let outcome = run.output();
    assert_eq!(outcome.end, crate::harness::builder::End::Exit(0), "{outcome}");
}

#[test]
fn min_hold_is_checked_and_has_no_place_beside_a_lock_of_somebody_elses() {
    let run = || Redlock::run("localhost:1");
    run()
        .args(["--min-hold", "25h", "true"])
        .fails(78, "a min-hold of 1day 1h (90000 s) is above the longest allowed, 1day (86400 s)")
        .check();
    let token = "11111111-1111-4111-8111-111111111111";
    run()
        .args(["--token", token, "--min-hold", "1m", "true"])
        .fails(64, "*cannot be used with*--min-hold*")
        .check();
    run().args(["--min-hold", "20", "true"]).fails(64, "*did you mean 20s?*").check();
}

/// The guard's age counts it: a node that forgot a lock must not vote while that may be kept.
#[test]
fn young_node_does_not_vote_for_a_lock_that_is_kept_for_longer() {
    let mut fleet = fleet(3);
    // Two of three are young, and the fleet is not of one age.
    eventually("the first node is older", || {
        fleet.servers()[0].client().info_number("server", "uptime_in_seconds") >= 4
    });
    for number in [1, 2] {
        fleet.servers_mut()[number].kill();
        fleet.servers_mut()[number].restart().unwrap();
    }
    Redlock::run(fleet.nodes())
        .env("REDLOCK_RESTART_GUARD", "auto")
        .args(["-n", "-t", "1s", "--min-hold", "2s"])
        .command(["true"])
        .fails(69, "*2 nodes restarted less than 2s ago*")
        .check();
}

//! A job that cron starts on many hosts: whatever is written is mailed.

use std::time::Duration;

use crate::harness::{
    Redlock,
    builder::{End, Outcome},
    eventually, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

/// As cron runs it: no terminal, a bare environment.
fn cron(nodes: &str, arguments: &[&str]) -> Outcome {
    Redlock::run(nodes)
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh")
        .env("LOGNAME", "root")
        .args(arguments)
        .output()
}

fn silent(outcome: &Outcome) -> bool {
    outcome.end == End::Exit(0) && outcome.stdout.is_empty() && outcome.stderr.is_empty()
}

/// One line, with the code.
fn loud(outcome: &Outcome, code: i32) -> bool {
    outcome.end == End::Exit(code)
        && outcome.stderr.starts_with(&format!("redlock: exit {code}: "))
        && outcome.stderr.lines().count() == 1
}

fn leftovers(fleet: &Fleet) {
    for (number, server) in fleet.servers()[..4].iter().enumerate() {
        server.set("k", ["dead-one", "dead-two"][number / 2]);
    }
}

#[test]
fn job_that_runs_elsewhere_is_skipped_without_a_byte() {
    let fleet = fleet(5);
    let nodes = fleet.nodes().clone();
    let ran = cron(&nodes, &["--skip", "--", "true"]);
    assert!(silent(&ran), "{ran}");
    fleet.set_everywhere("k", "other host");
    for words in [
        &["--skip", "true"][..],
        &["--skip", "-n", "-q", "true"],
        &["--skip", "-w", "300ms", "true"],
    ] {
        let skipped = cron(&nodes, words);
        assert!(silent(&skipped), "{words:?}\n{skipped}");
    }
    // A minority of nodes that is down is no reason to write either.
    fleet.servers()[4].stop().unwrap();
    let skipped = cron(&nodes, &["--skip", "true"]);
    assert!(silent(&skipped), "{skipped}");
    fleet.servers()[4].cont().unwrap();
    let noisy = cron(&nodes, &["-n", "-E", "0", "true"]);
    assert!(loud(&noisy, 0), "{noisy}");
}

#[test]
fn skip_waits_silently_first_and_runs_when_the_lock_comes_free() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "other host");
    let run =
        Redlock::run(fleet.nodes()).args(["--skip", "-w", "15s", "echo", "ran"]).stdout("ran\n");
    let run = run.start();
    eventually("it listens", || fleet.listeners("k") == 1);
    for server in fleet.servers() {
        server.client().del("k");
        server.client().command(&["PUBLISH", "redlock:released:k", "anything"]);
    }
    run.check();
}

#[test]
fn errors_are_loud_whatever_is_skipped() {
    let fleet = fleet(5);
    let nodes = fleet.nodes().clone();
    for server in &fleet.servers()[..3] {
        server.stop().unwrap();
    }
    let outage = cron(&nodes, &["--skip", "-t", "3s", "true"]);
    assert!(loud(&outage, 69), "{outage}");
    for server in &fleet.servers()[..3] {
        server.cont().unwrap();
    }
    let usage = cron(&nodes, &["--skip", "-E", "3", "true"]);
    assert!(loud(&usage, 64), "{usage}");
    let configuration = cron("", &["--skip", "true"]);
    assert!(loud(&configuration, 78), "{configuration}");
    let missing = cron(&nodes, &["--skip", "no-such-program"]);
    assert!(loud(&missing, 127), "{missing}");
}

#[test]
fn leftovers_of_the_dead_are_named_with_their_end() {
    let fleet = fleet(5);
    leftovers(&fleet);
    let outcome = cron(&fleet.nodes().clone(), &["--skip", "true"]);
    assert!(loud(&outcome, 75), "{outcome}");
    for part in ["dead-one", "dead-two", "contended", "expires in"] {
        assert!(outcome.stderr.contains(part), "{part}: {outcome}");
    }
    // A wait that comes to the same end says the same.
    let waited = cron(&fleet.nodes().clone(), &["--skip", "-w", "1500ms", "true"]);
    assert!(loud(&waited, 75) && waited.took < Duration::from_secs(10), "{waited}");
}

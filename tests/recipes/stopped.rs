//! We are stopped, killed or orphaned, and go on.

use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually,
    fixture::child,
    fleet, processes_with,
    servers::{Fleet, Inspect, InspectAll},
    state,
};

use super::{TREE, pids, run, run_for, send, wait_dead, wait_extensions};

/// Stops redlock and waits until it stands.
fn stop(run: &Running) {
    run.signal(Signal::STOP);
    eventually("the stop", || state(run.pid()) == Some('T'));
}

fn mark() -> (String, String) {
    let value = uuid::Uuid::new_v4().to_string();
    (format!("REDLOCK_TEST_MARK={value}"), value)
}

/// Rule 36: nobody extends, nobody judges, and yet nothing of the tree outlives the validity: while
/// it dies the nodes still hold the lock for us.
#[test]
fn rule_36_tree_of_a_stopped_run_is_dead_before_the_lock_is_free() {
    let fleet = fleet(3);
    let run = run_for(&fleet, "4s")
        .args(["--grace", "500ms", "--margin", "1s"])
        .shell(TREE)
        .exits(79)
        .stdout_like("*\n*\n")
        .stderr_like("redlock: 'k' has run out: the command gets KILL\nredlock: exit 79: *\n")
        .start();
    let pids = pids(&run, 2);
    stop(&run);
    wait_dead("the tree", &pids);
    assert!(fleet.holding("k").len() >= 2, "the lock was free before the command was dead");
    // Rule 43: a stopped run extends nothing, and neither does its guardian.
    eventually("the lock runs out", || fleet.all_keys().is_empty());
    run.signal(Signal::CONT);
    run.check();
}

/// Rule 36: the whole tree goes with us at once; the lock stays until it runs out by itself.
#[test]
fn rule_36_tree_of_a_killed_run_dies_with_it() {
    let fleet = fleet(3);
    let run = run(&fleet).shell(TREE).start();
    let pids = pids(&run, 2);
    run.signal(Signal::KILL);
    wait_dead("the tree", &pids);
    assert_eq!(fleet.holding("k").len(), 3, "nobody is left who could give it back");
    assert_eq!(run.output().end, End::Signal(9));
}

/// A run inside a run, with [`TREE`] inside that.
fn nested(fleet: &Fleet, ttl: &str, value: &str) -> Running {
    run_for(fleet, ttl)
        .args(["--grace", "300ms", "--margin", "500ms"])
        .env("REDLOCK_TEST_MARK", value)
        .command([env!("CARGO_BIN_EXE_redlock"), "run", "-n", "-k", "inner", "--ttl", "90s"])
        .args(["--", "sh", "-c", TREE])
        .start()
}

#[test]
fn rule_36_nested_run_dies_with_the_outer_one() {
    for signal in [Signal::STOP, Signal::KILL] {
        let fleet = fleet(1);
        let (mark, value) = mark();
        let run = nested(&fleet, "3s", &value);
        let pids = pids(&run, 2);
        run.signal(signal);
        wait_dead("the tree", &pids);
        run.signal(Signal::CONT);
        let expected = if signal == Signal::KILL { End::Signal(9) } else { End::Exit(79) };
        assert_eq!(run.output().end, expected);
        eventually("both runs and both guardians are gone", || processes_with(&mark).is_empty());
    }
}

/// An inner run that is killed is a command that was killed: the outer one reports it, and gives its
/// own lock back.
#[test]
fn rule_36_outer_run_survives_the_inner_one() {
    let fleet = fleet(1);
    let (mark, value) = mark();
    let run = nested(&fleet, "90s", &value);
    let pids = pids(&run, 2);
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", run.pid().as_raw_nonzero());
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    };
    // The other child is the guardian.
    let inner = children().into_iter().filter_map(rustix::process::Pid::from_raw).find(|pid| {
        let path = format!("/proc/{}/comm", pid.as_raw_nonzero());
        std::fs::read_to_string(path).is_ok_and(|name| name == "redlock\n")
    });
    send(inner.unwrap(), Signal::KILL);
    wait_dead("the inner tree", &pids);
    assert_eq!(run.output().end, End::Signal(9));
    assert!(!fleet.servers()[0].exists("k"), "the outer lock was not given back");
    eventually("nothing is left", || processes_with(&mark).is_empty());
}

/// Rule 37: the second belt, without the first.
#[test]
fn rule_37_command_dies_with_a_killed_run_without_a_guardian_too() {
    let fleet = fleet(1);
    let run = run(&fleet).args(["--no-guardian"]).shell("echo $$; exec sleep 60").start();
    let pids = pids(&run, 1);
    run.signal(Signal::KILL);
    wait_dead("the command", &pids);
}

/// Rule 35: the clock first. No node answers, so whatever is decided after the wake-up was decided
/// without them, and there is no TERM for a command that has no right to a last word.
#[test]
fn rule_35_run_that_wakes_up_too_late_kills_before_it_talks() {
    let fleet = fleet(3);
    let mut run = run_for(&fleet, "1s")
        .args(["--no-guardian"])
        .command([child().as_os_str(), "signals".as_ref(), "none".as_ref()])
        .start();
    run.wait_stdout("ready\n");
    stop(&run);
    eventually("the lock runs out", || fleet.all_keys().is_empty());
    for server in fleet.servers() {
        server.stop().unwrap();
    }
    run.signal(Signal::CONT);
    let outcome = run.output();
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(outcome.end, End::Exit(79), "{outcome}");
    assert_eq!(outcome.stdout, "ready\n", "it got more than KILL: {outcome}");
    assert_eq!(
        lines.first(),
        Some(&"redlock: 'k' has run out: the command gets KILL"),
        "{outcome}"
    );
}

/// A stop shorter than the time between two extensions costs part of the validity, so the lock is
/// extended at once and not when it would have been due: that is 40 s here, twice as long as
/// anything is waited for.
#[test]
fn rules_35_and_40_run_that_wakes_up_in_time_extends_at_once() {
    let fleet = fleet(3);
    let run = run_for(&fleet, "120s").shell("echo $$; exec sleep 60").start();
    pids(&run, 1);
    eventually("the lock on every node", || fleet.holding("k").len() == 3);
    let start = Instant::now();
    // What is left of the lock and its age from here: never more than the ttl, unless extended.
    let whole = || {
        let left = fleet.servers().iter().map(|server| server.client().pttl("k")).min().unwrap();
        let age = i64::try_from(start.elapsed().as_millis()).unwrap();
        (left, left + age)
    };
    stop(&run);
    eventually("a second of it is gone", || whole().0 < 119_000);
    assert!(whole().1 <= 120_050, "{:?}", whole());
    run.signal(Signal::CONT);
    eventually("all of it is back on every node", || whole().1 > 120_500);
    run.signal(Signal::TERM);
    run.output();
}

/// Rule 39: GitHub Actions kills the step's shell and nothing else.
#[test]
fn rule_39_death_of_the_calling_shell_ends_the_command_and_gives_the_lock_back() {
    let fleet = fleet(3);
    let (mark, value) = mark();
    let shell = run(&fleet)
        .args(["--die-with-parent"])
        .env("REDLOCK_TEST_MARK", &value)
        .under(["bash", "-c", "\"$@\"; :", "bash"])
        .shell("echo $$; exec sleep 60")
        .start();
    let pids = pids(&shell, 1);
    shell.signal(Signal::KILL);
    wait_dead("the command", &pids);
    // The ttl is 90 s.
    eventually("the lock is given back", || fleet.all_keys().is_empty());
    eventually("nothing is left", || processes_with(&mark).is_empty());
}

/// The counterpart: without the option the orphan keeps its lock.
#[test]
fn rule_39_without_it_an_orphaned_run_goes_on() {
    let fleet = fleet(3);
    let shell = run_for(&fleet, "1s")
        .under(["bash", "-c", "\"$@\"; :", "bash"])
        .shell("echo $$; exec sleep 60")
        .start();
    let pids = pids(&shell, 1);
    shell.signal(Signal::KILL);
    wait_extensions(&fleet, 3);
    assert!(crate::harness::alive(pids[0]));
    // Not its parent's business any more, but ours.
    send(pids[0], Signal::TERM);
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

/// Rule 42: TSTP to a run without a terminal stops the command too, and CONT continues both.
#[test]
fn rule_42_tstp_stops_both_and_cont_continues_both() {
    let fleet = fleet(1);
    let run = Redlock::run(fleet.nodes())
        .args(["-n", "--ttl", "90s"])
        .under(["env", "--default-signal"])
        .shell("echo $$; exec sleep 60")
        .start();
    let command = pids(&run, 1)[0];
    run.signal(Signal::TSTP);
    eventually("both stand", || state(run.pid()) == Some('T') && state(command) == Some('T'));
    run.signal(Signal::CONT);
    eventually("both go on", || state(run.pid()) != Some('T') && state(command) != Some('T'));
    assert!(fleet.servers()[0].exists("k"));
    run.signal(Signal::TERM);
    assert_eq!(run.output().end, End::Signal(15));
}

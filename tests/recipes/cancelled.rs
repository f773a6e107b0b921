//! Limits on the command: its run time, its being stopped, its stubbornness.

use rustix::process::Signal;

use crate::harness::{Redlock, fixture::child, fleet, servers::InspectAll};

use super::{pids, run, run_for, send, wait_dead};

fn defiant(run: Redlock) -> Redlock {
    run.command([child().as_os_str(), "signals".as_ref(), "none".as_ref()])
}

/// Rule 38, by TERM.
#[test]
fn rule_38_max_runtime_is_124() {
    let fleet = fleet(3);
    run(&fleet)
        .args(["--max-runtime", "200ms"])
        .command(["sleep", "60"])
        .exits(124)
        .stderr_like(
            "redlock: the command has run for 200ms: TERM now, KILL in 10s (--max-runtime)\n\
             redlock: exit 124: the command ran for 200ms and was ended by TERM (--max-runtime)\n",
        )
        .check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

/// Rule 38, by KILL.
#[test]
fn rule_38_max_runtime_that_needs_kill_is_137() {
    let fleet = fleet(3);
    defiant(run(&fleet).args(["--max-runtime", "200ms", "--kill-after", "100ms"]))
        .exits(137)
        .stdout("ready\ngot TERM\ngot CONT\n")
        .stderr_like("redlock: the command has run *\nredlock: exit 137: * needed KILL *\n")
        .check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

/// Rule 38: a command that was asked to end and succeeds was ended all the same.
#[test]
fn rule_38_max_runtime_is_124_although_the_command_then_succeeds() {
    let fleet = fleet(1);
    run(&fleet)
        .args(["--max-runtime", "300ms"])
        .command([child().as_os_str(), "signals".as_ref(), "TERM".as_ref()])
        .exits(124)
        .stdout_like("ready\ngot TERM\n*")
        .stderr_like("redlock: *\nredlock: exit 124: *\n")
        .check();
}

/// Rule 28: nothing is escalated by itself, and `--kill-after` does.
#[test]
fn rule_28_kill_after_ends_a_command_that_defies_a_relayed_term() {
    let fleet = fleet(3);
    let mut run = defiant(run(&fleet).args(["--kill-after", "200ms"]))
        .dies_of(Signal::KILL)
        .stdout("ready\ngot TERM\n")
        .start();
    run.wait_stdout("ready\n");
    run.signal(Signal::TERM);
    run.check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

/// Rule 22: a command that was stopped holds the lock, but not for ever, and a line says so.
#[test]
fn rule_22_command_that_is_stopped_too_long_is_killed_and_the_lock_given_back() {
    let fleet = fleet(3);
    run_for(&fleet, "1s")
        .args(["--max-stopped", "2s"])
        .shell("kill -STOP $$; echo never")
        .exits(137)
        .stderr_like(
            "redlock: the command has been stopped by STOP for 1*s and keeps 'k'; it gets KILL in \
             * (--max-stopped)\n\
             redlock: exit 137: the command was stopped for longer than 2s and got KILL \
             (--max-stopped)\n",
        )
        .check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

/// Rule 22: one that is continued in time was never in danger.
#[test]
fn rule_22_command_that_is_continued_in_time_goes_on() {
    let fleet = fleet(3);
    let mut run = run_for(&fleet, "1s")
        .args(["--max-stopped", "60s"])
        .shell("echo $$; kill -STOP $$; echo again; exit 6")
        .exits(6)
        .stdout_like("*\nagain\n")
        .stderr_like("redlock: the command has been stopped by STOP for *\n")
        .start();
    let pids = pids(&run, 1);
    run.wait_stderr("has been stopped by STOP");
    assert_eq!(fleet.holding("k").len(), 3);
    send(pids[0], Signal::CONT);
    run.check();
    wait_dead("the command", &pids);
}

/// Rule 23; consul#1367: a shell that has more to do does not pass a TERM on to what it waits for.
#[test]
fn rule_23_term_reaches_what_a_shell_has_started() {
    let fleet = fleet(3);
    let mut run = run(&fleet)
        .shell("echo ready; sleep 60; :")
        .stdout("ready\n")
        .dies_of(Signal::TERM)
        .start();
    run.wait_stdout("ready\n");
    run.signal(Signal::TERM);
    // The sleep would be waited for, as all that the command leaves.
    run.check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

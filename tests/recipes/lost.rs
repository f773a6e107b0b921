//! The lock is lost while the command runs, by the three policies of `--on-lost`; KILL at once is
//! in `hold`.

use rustix::process::Signal;

use crate::harness::{
    Redlock, eventually,
    fixture::child,
    fleet,
    servers::{Fleet, Inspect},
};

use super::{pids, run_for, wait_dead};

/// The majority is somebody else's from now on.
fn steal(fleet: &Fleet) {
    for server in &fleet.servers()[..2] {
        server.set("k", "thief");
    }
}

/// Nobody touched what the thief has.
#[track_caller]
fn thief_is_untouched(fleet: &Fleet) {
    for server in &fleet.servers()[..2] {
        assert_eq!(server.get("k").as_deref(), Some("thief"));
    }
}

/// A command that prints its pid and every signal it gets, and ends by itself with USR1 only.
fn witness(run: Redlock) -> Redlock {
    let line = format!("echo $$; exec {} signals USR1", child().display());
    run.shell(&line)
}

#[test]
fn rule_34_on_lost_kill_asks_nothing() {
    let fleet = fleet(3);
    let mut run = witness(run_for(&fleet, "2s").args(["--on-lost", "kill"]))
        .exits(79)
        .stdout_like("*\nready\n")
        .stderr_like("redlock: lost 'k': *; the command gets KILL\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("ready\n");
    steal(&fleet);
    run.check();
    thief_is_untouched(&fleet);
}

#[test]
fn rule_34_on_lost_term_lets_the_command_clean_up_and_then_kills() {
    let fleet = fleet(3);
    let mut run = witness(run_for(&fleet, "2s").args(["--on-lost", "term"]))
        .exits(79)
        .stdout_like("*\nready\ngot TERM\ngot CONT\n")
        .stderr_like(
            "redlock: lost 'k': *; the command gets TERM, and KILL after the grace\n\
             redlock: exit 79: 'k' was lost while the command ran\n",
        )
        .start();
    run.wait_stdout("ready\n");
    let pids = pids(&run, 1);
    steal(&fleet);
    // It defies TERM, so it is KILL that ends it.
    run.wait_stdout("got TERM\n");
    run.check();
    wait_dead("the command", &pids);
    thief_is_untouched(&fleet);
}

#[test]
fn rule_34_command_that_obeys_on_lost_term_is_79_all_the_same() {
    let fleet = fleet(3);
    let line = "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut run = run_for(&fleet, "2s")
        .args(["--on-lost", "term"])
        .shell(&format!("exec 2>/dev/null; {line}"))
        .exits(79)
        .stdout("ready\ncleaned\n")
        .stderr_like("redlock: lost 'k': *\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("ready\n");
    steal(&fleet);
    run.check();
    thief_is_untouched(&fleet);
}

#[test]
fn rules_34_and_47_on_lost_continue_lets_it_run_and_is_79_although_it_succeeds() {
    let fleet = fleet(3);
    let mut run = witness(run_for(&fleet, "1s").args(["--on-lost", "continue"]))
        .exits(79)
        .stdout_like("*\nready\ngot USR1\n")
        .stderr_like(
            "redlock: lost 'k': *; the command runs on without a lock (--on-lost continue)\n\
             redlock: exit 79: 'k' was lost while the command ran\n",
        )
        .start();
    run.wait_stdout("ready\n");
    steal(&fleet);
    run.wait_stderr("runs on without a lock");
    // Beyond the end of the validity, the guardian's included: ours on the third node expires last.
    eventually("ours has expired", || !fleet.servers()[2].exists("k"));
    assert_eq!(run.ended(), None, "continue means continue");
    run.signal(Signal::USR1);
    run.check();
    thief_is_untouched(&fleet);
}

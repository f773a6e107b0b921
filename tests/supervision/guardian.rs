//! When redlock cannot: killed, stopped, orphaned.

use std::{fs, time::Duration};

use rustix::process::Signal;

use super::support::{Lock, alive, send, wait_for};

/// The pids are in `leader` and `escaped`.
const TREE: &str = "echo $$ >$D/leader; \
     setsid sh -c 'echo $$ >$D/escaped; while :; do sleep .01; done' & \
     while :; do sleep .01; done";

fn dead(pids: &[i32]) -> Option<()> {
    (!pids.iter().any(|&pid| alive(pid))).then_some(())
}

#[test]
fn rule_36_killed_run_takes_its_whole_tree_along() {
    let lock = Lock::new();
    let run = lock.sh(TREE).opt("ttl=30s").start();
    let guardian = run.guardian();
    let pids = [lock.number("leader"), lock.number("escaped")];
    run.send(Signal::KILL);
    wait_for("the end of the tree", || dead(&pids));
    wait_for("the end of the guardian", || dead(&[guardian]));
}

#[test]
fn rule_36_stopped_run_loses_its_whole_tree_before_the_validity_ends() {
    let lock = Lock::new();
    let run = lock.sh(TREE).opt("ttl=1s").start();
    let pids = [lock.number("leader"), lock.number("escaped")];
    run.send(Signal::STOP);
    wait_for("the end of the tree", || dead(&pids));
    run.send(Signal::CONT);
    assert_eq!(run.finish().code(), Some(79));
}

/// The guardian has nothing to wake for while the lock is waited for, so it must be woken.
#[test]
fn rule_36_stop_after_a_long_wait_for_the_lock_is_noticed_too() {
    let lock = Lock::new();
    lock.make("slow");
    let run = lock.sh(TREE).opt("ttl=1s").start();
    run.guardian();
    std::thread::sleep(Duration::from_millis(300));
    lock.remove("slow");
    let pids = [lock.number("leader"), lock.number("escaped")];
    run.send(Signal::STOP);
    wait_for("the end of the tree", || dead(&pids));
    run.send(Signal::CONT);
    assert_eq!(run.finish().code(), Some(79));
}

#[test]
fn rule_36_nested_runs_die_with_the_outer_one() {
    let lock = Lock::new();
    let inner = Lock::new();
    let words = inner.words(&["ttl=30s"], &["sh", "-c", TREE]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = lock.run(&words).opt("ttl=30s").start();
    let pids = [lock.number("leader"), lock.number("escaped")];
    let outer = fs::read_to_string(format!("/proc/{}/environ", pids[1])).unwrap();
    let runs = outer.split('\0').find(|v| v.starts_with("REDLOCK_RUN=")).unwrap();
    assert_eq!(runs.split(' ').count(), 2, "{runs}");
    run.send(Signal::KILL);
    wait_for("the end of the tree", || dead(&pids));
}

#[test]
fn rule_36_guardian_is_unseen_by_the_command_and_by_signals_to_the_group() {
    let lock = Lock::new();
    let run = lock.sh("echo ready; while [ ! -e $D/end ]; do sleep .01; done").start();
    run.wait_for_output("ready");
    let guardian = run.guardian();
    let status = fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
    assert!(status.contains("SigBlk:\tfffffffe7ffbfeff"), "{status}");
    let fds = fs::read_dir(format!("/proc/{guardian}/fd")).unwrap().count();
    assert_eq!(fds, 2, "its pipe and its timer");
    let stat = fs::read_to_string(format!("/proc/{guardian}/stat")).unwrap();
    let group = stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap();
    assert_eq!(group, guardian.to_string(), "a group of its own");
    send(guardian, Signal::TERM);
    lock.make("end");
    assert_eq!(run.finish().code(), Some(0));
    assert!(!alive(guardian));
}

#[test]
fn rule_36_death_of_the_guardian_is_one_warning() {
    let lock = Lock::new();
    let run = lock.sh("echo ready; while [ ! -e $D/end ]; do sleep .01; done; exit 6").start();
    run.wait_for_output("ready");
    send(run.guardian(), Signal::KILL);
    wait_for("the warning", || run.stderr().contains("GuardianDied").then_some(()));
    lock.make("end");
    let done = run.finish();
    assert_eq!(done.code(), Some(6));
    assert_eq!(done.stderr.matches("GuardianDied").count(), 1);
}

#[test]
fn rule_36_frozen_guardian_judges_by_the_present_when_it_wakes() {
    let lock = Lock::new();
    let run = lock
        .sh("echo ready; while [ ! -e $D/end ]; do sleep .01; done; exit 6")
        .opt("ttl=500ms")
        .start();
    run.wait_for_output("ready");
    let guardian = run.guardian();
    send(guardian, Signal::STOP);
    std::thread::sleep(Duration::from_millis(1200));
    send(guardian, Signal::CONT);
    std::thread::sleep(Duration::from_millis(300));
    lock.make("end");
    assert_eq!(run.finish().code(), Some(6));
}

/// The second belt: without a guardian the direct child dies with us all the same.
#[test]
fn rule_37_command_dies_with_a_killed_run() {
    let lock = Lock::new();
    let run = lock.sh(TREE).opt("ttl=30s").opt("guardian=off").start();
    let (leader, escaped) = (lock.number("leader"), lock.number("escaped"));
    run.send(Signal::KILL);
    wait_for("the end of the command", || dead(&[leader]));
    send(escaped, Signal::KILL);
}

#[test]
fn rule_39_death_of_the_parent_ends_the_command() {
    let lock = Lock::new();
    let words = lock
        .words(&["ttl=30s", "die-with-parent"], &["sh", "-c", "echo $$ >$D/leader; exec sleep 60"]);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut parent = std::process::Command::new("setsid")
        .args(["bash", "-c", &format!("{}; :", quoted.join(" "))])
        .env("D", lock.path(""))
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let leader = lock.number("leader");
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the end of the command", || dead(&[leader]));
    lock.wait_for_file("released");
}

#[test]
fn older_children_are_neither_signalled_nor_waited_for() {
    let lock = Lock::new();
    let run = lock
        .sh("echo $$ >$D/leader; while :; do sleep .01; done")
        .under(&["sh", "-c", "sleep 600 & echo $! >$D/older; exec \"$@\"", "sh"])
        .opt("ttl=30s")
        .start();
    let (leader, older) = (lock.number("leader"), lock.number("older"));
    lock.make("stolen");
    wait_for("the end of the command", || dead(&[leader]));
    assert_eq!(run.finish().code(), Some(79), "not held up by the older child");
    assert!(alive(older));
    send(older, Signal::KILL);
}

#[test]
fn older_children_survive_a_killed_or_stopped_run_too() {
    for signal in [Signal::KILL, Signal::STOP] {
        let lock = Lock::new();
        let run = lock
            .sh("echo $$ >$D/leader; while :; do sleep .01; done")
            .under(&["sh", "-c", "sleep 600 & echo $! >$D/older; exec \"$@\"", "sh"])
            .opt("ttl=500ms")
            .start();
        let (leader, older) = (lock.number("leader"), lock.number("older"));
        run.send(signal);
        wait_for("the end of the command", || dead(&[leader]));
        drop(run);
        assert!(alive(older));
        send(older, Signal::KILL);
    }
}

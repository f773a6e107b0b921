//! The checks can fail: what the suite relies on is taken away, and they find it.

use std::{fs, time::Duration};

use rustix::process::{Pid, Signal};

use super::{Findings, Ground, MS, record::stays};
use crate::harness::{alive, builder::End, eventually, proxy::Mode};

/// Waits until a worker has begun.
fn wait_for_a_worker(ground: &Ground) {
    eventually("a worker begins", || ground.findings().acquisitions > 0);
}

/// A holder on three of five nodes, of which two restart empty. It cannot know: the ways on which it
/// would learn are held up. Meanwhile somebody else asks, by ways of his own.
fn two_restarts_during_a_hold(guard: &str) -> Findings {
    let mut ground = Ground::new();
    for proxy in &ground.hosts[0][3..] {
        proxy.set(Mode::Refuse);
    }
    let holder = ground
        .clients
        .run(0, guard)
        .args(["--ttl", "3s", "-w", "15s"])
        .command(ground.clients.worker(1500 * MS))
        .start();
    wait_for_a_worker(&ground);
    for proxy in &ground.hosts[0][..2] {
        proxy.set(Mode::Hold);
    }
    for server in &mut ground.fleet.servers_mut()[..2] {
        server.restart().unwrap();
    }
    let other = ground.clients.run(1, guard).args(["--ttl", "3s", "-n"]);
    other.command(ground.clients.worker(Duration::ZERO)).output();
    holder.output();
    ground.findings()
}

#[test]
fn without_the_restart_guard_two_empty_restarts_are_two_workers_and_that_is_found() {
    let findings = two_restarts_during_a_hold("off");
    assert_eq!((findings.acquisitions, findings.overlaps.len()), (2, 1), "{findings}");
    // The other one counted from the same number, and the first one's token is the older one.
    assert_eq!((findings.lost, findings.regressions), (1, 1), "{findings}");
}

#[test]
fn with_the_restart_guard_the_same_restarts_let_nobody_in() {
    let findings = two_restarts_during_a_hold("strict");
    assert_eq!(findings.acquisitions, 1, "{findings}");
    assert!(findings.is_clean(), "{findings}");
}

/// A redlock that is stopped for longer than its ttl, and somebody who waits. Also returns whether
/// the stopped one says that it lost the lock.
fn stopped_beyond_the_ttl(guardian: &[&str]) -> (Findings, bool) {
    let ground = Ground::new();
    let holder = ground
        .clients
        .run(0, "off")
        .args(["--ttl", "1s"])
        .args(guardian)
        .command(ground.clients.worker(4000 * MS))
        .start();
    wait_for_a_worker(&ground);
    holder.signal(Signal::STOP);
    let other = ground.clients.run(1, "off").args(["--ttl", "1s", "-w", "15s"]);
    other.command(ground.clients.worker(Duration::ZERO)).check();
    // The first one lives, or it is dead.
    eventually("the worker's end", || {
        let record = fs::read_to_string(ground.clients.place.join("record")).unwrap();
        let first = &stays(&record)[0];
        first.whole || !alive(Pid::from_raw(first.pid).unwrap())
    });
    holder.signal(Signal::CONT);
    let outcome = holder.output();
    (ground.findings(), outcome.end == End::Exit(79))
}

#[test]
fn without_the_guardian_a_stopped_redlock_is_two_workers_and_that_is_found() {
    let (findings, _) = stopped_beyond_the_ttl(&["--no-guardian"]);
    assert_eq!((findings.acquisitions, findings.overlaps.len()), (2, 1), "{findings}");
    assert_eq!((findings.lost, findings.regressions), (1, 1), "{findings}");
}

#[test]
fn with_the_guardian_a_stopped_redlock_is_one_worker_after_the_other() {
    let (findings, lost) = stopped_beyond_the_ttl(&[]);
    assert_eq!((findings.acquisitions, findings.ended), (2, 1), "{findings}");
    assert!(findings.is_clean() && lost, "{findings}");
}

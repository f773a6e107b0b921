//! Holders that are cut off, stopped, or have their keys taken away: whoever comes next starts when
//! nothing of them is left.

use std::{fs, path::Path, thread};

use redlock::commands::sandbox::servers::Server;
use rustix::process::Signal;

use crate::harness::{
    Redlock, eventually, fleet,
    proxy::{Mode, Proxy},
    scratch,
    servers::{Fleet, Inspect, InspectAll},
    state,
};

/// A command that says `ready` and ends when the file `go` is there.
fn until(go: &Path) -> String {
    format!("echo ready; until [ -e '{}' ]; do sleep 0.02; done; echo done", go.display())
}

fn proxies(fleet: &Fleet) -> Vec<Proxy> {
    fleet.servers().iter().map(|server| Proxy::to(server.address())).collect()
}

fn list(proxies: &[Proxy]) -> String {
    proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(",")
}

/// How many requests of ours a node has had.
fn requests(fleet: &Fleet, number: usize) -> u64 {
    fleet.servers()[number].client().calls("eval")
}

/// Waits until the node has had `rounds` more requests.
fn wait_rounds(fleet: &Fleet, number: usize, rounds: u64) {
    let before = requests(fleet, number);
    eventually("extensions", || requests(fleet, number) >= before + rounds);
}

/// A command that no TERM ends, with a grandchild in a session of its own. Each prints its pid.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 60' & \
                        echo $$; while :; do sleep 0.05; done";

/// The promise itself: the first command of whoever comes next looks whether one of the last holder
/// lives.
#[test]
fn cut_off_holder_is_dead_before_the_next_one_starts() {
    for guardian in [&[][..], &["--no-guardian"]] {
        let fleet = fleet(5);
        let proxies = proxies(&fleet);
        let run = Redlock::run(list(&proxies)).args(["--ttl", "2s"]).args(guardian);
        let run = run.shell(STUBBORN).start();
        eventually("the command prints its pids", || run.stdout().lines().count() == 2);
        let pids = run.stdout().lines().collect::<Vec<_>>().join(" ");
        // A partition in which the connections stay open.
        for proxy in &proxies[..3] {
            proxy.set(Mode::Hold);
        }
        let look = format!(
            "for pid in {pids}; do s=$(sed 's/.*) //;s/ .*//' /proc/$pid/stat 2>/dev/null); \
             case $s in ''|Z|X) ;; *) echo $pid lives;; esac; done; echo looked"
        );
        Redlock::run(fleet.nodes())
            .args(["-q", "-w", "15s"])
            .shell(&look)
            .stdout("looked\n")
            .check();
        let outcome = run.output();
        assert_eq!(outcome.end, crate::harness::builder::End::Exit(79), "{outcome}");
    }
}

/// RedLock.net#48: the lock was somebody else's in between, and is free again when we come back.
#[test]
fn lock_that_somebody_else_had_meanwhile_is_never_healed() {
    for guardian in [&[][..], &["--no-guardian"]] {
        let fleet = fleet(3);
        let mut run = Redlock::run(fleet.nodes())
            .args(["--ttl", "1s"])
            .args(guardian)
            .shell("echo ready; exec sleep 60")
            .exits(79)
            .stdout("ready\n")
            .stderr_like("redlock: 'k' has run out: the command gets KILL\nredlock: exit 79: *\n")
            .start();
        run.wait_stdout("ready\n");
        run.signal(Signal::STOP);
        eventually("the stop", || state(run.pid()) == Some('T'));
        let other = Redlock::run(fleet.nodes()).args(["-q", "-w", "15s"]);
        other.command(["echo", "other"]).stdout("other\n").check();
        let set = || fleet.servers().iter().map(|s| s.client().calls("set")).sum::<u64>();
        eventually("the other one's lock is given back", || fleet.all_keys().is_empty());
        let before = set();
        run.signal(Signal::CONT);
        run.check();
        assert_eq!((set(), fleet.all_keys()), (before, Vec::new()), "a lock out of nothing");
    }
}

#[test]
fn key_deleted_on_a_minority_comes_back_and_on_a_majority_ends_the_command() {
    let fleet = fleet(5);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "3s"])
        .shell("echo ready; exec sleep 60")
        .exits(79)
        .stdout("ready\n")
        .stderr_like("redlock: lost 'k': *; the command gets KILL\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("ready\n");
    eventually("the lock is everywhere", || fleet.holding("k").len() == 5);
    let token = |server: &Server| server.get("k").map(|value| value[..36].to_owned());
    let ours = token(&fleet.servers()[4]);
    for server in &fleet.servers()[..2] {
        server.client().del("k");
    }
    eventually("the lock is everywhere again", || fleet.holding("k").len() == 5);
    assert!(fleet.servers().iter().all(|server| token(server) == ours));
    assert_eq!(run.ended(), None);
    for server in &fleet.servers()[..3] {
        server.client().del("k");
    }
    run.check();
    eventually("nothing is left", || fleet.all_keys().is_empty());
}

#[test]
fn nodes_that_stop_one_by_one_are_survived_up_to_the_majority() {
    let fleet = fleet(5);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "1500ms"])
        .shell("echo ready; exec sleep 60")
        .exits(79)
        .stdout("ready\n")
        .stderr_like("redlock: 'k' cannot be extended*\nredlock: *\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("ready\n");
    for number in 0..2 {
        fleet.servers()[number].stop().unwrap();
        // More than a ttl.
        wait_rounds(&fleet, 4, 4);
        assert_eq!(run.ended(), None, "{number}");
    }
    fleet.servers()[2].stop().unwrap();
    run.check();
}

/// One side of a partition sees three of five nodes, the other one two.
#[test]
fn partition_leaves_the_lock_to_the_side_with_the_majority() {
    let fleet = fleet(5);
    let (many, few) = (proxies(&fleet), proxies(&fleet));
    for number in 0..5 {
        let proxy = if number < 3 { &few[number] } else { &many[number] };
        proxy.set(Mode::Refuse);
    }
    let place = scratch();
    let go = place.path().join("go");
    let mut run = Redlock::run(list(&many))
        .args(["--ttl", "1500ms"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    run.wait_stdout("ready\n");
    let other = || Redlock::run(list(&few)).args(["-n"]).command(["echo", "ran"]);
    other().fails(69, "no quorum for 'k' *").check();
    // Longer than a ttl.
    wait_rounds(&fleet, 0, 4);
    assert_eq!(fleet.holding("k"), [0, 1, 2]);
    for proxy in many.iter().chain(&few) {
        proxy.set(Mode::Pass);
    }
    other().fails(75, "'k' is held by *").check();
    fs::write(go, "").unwrap();
    run.check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
    other().stdout("ran\n").check();
    eventually("nothing is left", || fleet.all_keys().is_empty());
}

/// Each sees three of five nodes, one of them in common: no two majorities without a common node.
#[test]
fn clients_that_see_different_majorities_exclude_each_other() {
    let fleet = fleet(5);
    let (left, right) = (proxies(&fleet), proxies(&fleet));
    for number in 0..2 {
        left[3 + number].set(Mode::Refuse);
        right[number].set(Mode::Refuse);
    }
    let place = scratch();
    let log = place.path().join("log");
    let line = format!("echo in >>'{0}'; sleep 0.05; echo out >>'{0}'", log.display());
    let (lists, line) = ([list(&left), list(&right)], line.as_str());
    thread::scope(|scope| {
        for nodes in lists.iter().cycle().take(6) {
            let run = Redlock::run(nodes).args(["-q"]).shell(line);
            scope.spawn(move || run.check());
        }
    });
    assert_eq!(fs::read_to_string(log).unwrap(), "in\nout\n".repeat(6));
    eventually("nothing is left", || fleet.all_keys().is_empty());
}

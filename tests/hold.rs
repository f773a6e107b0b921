//! While the command runs: the lock is kept as long as it takes, and when it cannot be kept the
//! command ends first.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::harness::{
    Redlock, alive,
    builder::Running,
    eventually,
    fixture::child,
    fleet, scratch,
    servers::{Fleet, Inspect, InspectAll},
};

const MS: Duration = Duration::from_millis(1);

/// A command that says `ready` and ends when the file `go` is there.
fn until(go: &Path) -> String {
    format!("echo ready; until [ -e '{}' ]; do sleep 0.02; done; echo done", go.display())
}

/// How many scripts this node has run: one for each request.
fn requests(fleet: &Fleet, number: usize) -> u64 {
    let mut client = fleet.servers()[number].client();
    client.calls("eval") + client.calls("evalsha")
}

/// Waits until the node has had `rounds` more requests.
fn wait_rounds(fleet: &Fleet, number: usize, rounds: u64) {
    let before = requests(fleet, number);
    eventually("extensions", || requests(fleet, number) >= before + rounds);
}

#[test]
fn command_that_outlives_four_ttl_keeps_the_lock_and_no_contender_starts() {
    let fleet = fleet(5);
    let place = scratch();
    let (go, marker) = (place.path().join("go"), place.path().join("marker"));
    let start = Instant::now();
    let mut holder = Redlock::run(fleet.nodes())
        .args(["--ttl", "1500ms"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    holder.wait_stdout("ready\n");
    let touch = ["touch", marker.to_str().unwrap()];
    while start.elapsed() < 4 * 1500 * MS {
        Redlock::run(fleet.nodes()).args(["-w", "200ms", "-q"]).command(touch).exits(75).check();
        assert_eq!(fleet.holding("k").len(), 5, "the lock is not on all nodes");
    }
    assert!(!marker.exists());
    fs::write(go, "").unwrap();
    holder.check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
    Redlock::run(fleet.nodes()).args(["-n"]).command(touch).check();
    assert!(marker.exists());
}

#[test]
fn two_of_five_nodes_restarted_empty_are_not_noticed_by_the_command() {
    let mut fleet = fleet(5);
    let place = scratch();
    let go = place.path().join("go");
    let mut holder = Redlock::run(fleet.nodes())
        .args(["--ttl", "1500ms"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    holder.wait_stdout("ready\n");
    for number in [0, 3] {
        fleet.servers_mut()[number].kill();
    }
    // More than a ttl without them.
    wait_rounds(&fleet, 1, 4);
    for number in [0, 3] {
        fleet.servers_mut()[number].restart().unwrap();
    }
    wait_rounds(&fleet, 1, 3);
    fs::write(go, "").unwrap();
    holder.check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

/// What is said when the validity runs out because a majority is silent.
const RUN_OUT: &str = "redlock: 'k' cannot be extended and ends in *: the command gets TERM now, *\n\
                       redlock: 'k' has run out: the command gets KILL\n\
                       redlock: could not tell *: 'k' may stay locked there for up to *\n\
                       redlock: exit 79: 'k' could not be extended in time\n";

/// A command that no TERM ends, with a grandchild in a session of its own; prints both pids.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 60' & \
                        echo $$; while :; do sleep 0.1; done";

/// The pids that a command has printed, one a line.
fn pids(run: &mut Running, count: usize) -> Vec<Pid> {
    let read = |run: &Running| -> Vec<Pid> {
        let text = run.stdout();
        let lines = text.lines().map(|line| line.parse().unwrap());
        lines.filter_map(Pid::from_raw).collect()
    };
    eventually("the command prints its pids", || {
        run.stdout().ends_with('\n') && read(run).len() == count
    });
    read(run)
}

#[test]
fn command_is_dead_before_the_validity_ends_when_a_majority_is_stopped() {
    let fleet = fleet(5);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "2s"])
        .shell(STUBBORN)
        .exits(79)
        .stderr_like(RUN_OUT)
        .stdout_like("*\n*\n")
        .start();
    let pids = pids(&mut run, 2);
    // Not right behind the acquisition: the validity in question is an extension's.
    wait_rounds(&fleet, 4, 1);
    for server in &fleet.servers()[..3] {
        server.stop().unwrap();
    }
    // Whatever they answered was asked before this moment: ttl - drift later it is over.
    let start = Instant::now();
    eventually("the command is dead", || !pids.iter().any(|&pid| alive(pid)));
    let took = start.elapsed();
    assert!(took < Duration::from_millis(2000 - 20 - 2), "{took:?} after the stop");
    run.check();
}

#[test]
fn command_gets_term_first_when_the_validity_runs_out() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "2s"])
        .command([child().as_os_str(), "signals".as_ref(), "none".as_ref()])
        .exits(79)
        .stdout("ready\ngot TERM\ngot CONT\n")
        .stderr_like(RUN_OUT)
        .start();
    run.wait_stdout("ready\n");
    for server in &fleet.servers()[..2] {
        server.stop().unwrap();
    }
    run.wait_stdout("got TERM\n");
    assert_eq!(run.ended(), None, "no grace");
    run.check();
}

#[test]
fn silence_shorter_than_the_validity_is_not_noticed_by_the_command() {
    let fleet = fleet(3);
    let place = scratch();
    let go = place.path().join("go");
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "6s", "--node-timeout", "100ms"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    run.wait_stdout("ready\n");
    wait_rounds(&fleet, 0, 1);
    for server in fleet.servers() {
        server.stop().unwrap();
    }
    // Into the next extension, which is due every 2 s: a fault has to last to be one.
    std::thread::sleep(2300 * MS);
    for server in fleet.servers() {
        server.cont().unwrap();
    }
    wait_rounds(&fleet, 0, 2);
    fs::write(go, "").unwrap();
    run.check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

#[test]
fn lock_that_somebody_took_away_ends_the_command_at_once() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "3s"])
        .shell(STUBBORN)
        .exits(79)
        .stderr_like(
            "redlock: lost 'k': * do not hold it any more; the command gets KILL\n\
             redlock: exit 79: 'k' was lost while the command ran\n",
        )
        .stdout_like("*\n*\n")
        .start();
    let pids = pids(&mut run, 2);
    for server in &fleet.servers()[..2] {
        server.set("k", "thief");
    }
    let start = Instant::now();
    eventually("the command is dead", || !pids.iter().any(|&pid| alive(pid)));
    // Noticed at the next extension, at most a third of the ttl later. KILL, without grace.
    let took = start.elapsed();
    assert!(took < 2000 * MS, "{took:?} after the loss");
    run.check();
    assert_eq!(fleet.servers()[0].get("k").as_deref(), Some("thief"));
    eventually("ours is gone", || fleet.holding("k") == [0, 1]);
}

#[test]
fn lock_is_held_until_the_last_descendant_is_gone() {
    let fleet = fleet(3);
    let place = scratch();
    let go = place.path().join("go");
    let line = format!(
        "setsid sh -c 'until [ -e {} ]; do sleep 0.02; done' & echo ready; exit 3",
        go.display()
    );
    let mut run = Redlock::run(fleet.nodes()).args(["--ttl", "2s"]).shell(&line).start();
    run.wait_stdout("ready\n");
    wait_rounds(&fleet, 0, 2);
    assert_eq!(run.ended(), None);
    assert_eq!(fleet.holding("k").len(), 3);
    fs::write(go, "").unwrap();
    let outcome = run.output();
    assert_eq!(outcome.end, crate::harness::builder::End::Exit(3), "{outcome}");
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

#[test]
fn lock_outlives_a_command_that_takes_its_time_to_end() {
    let fleet = fleet(3);
    // The shell remarks that its sleep was ended too.
    let line = "exec 2>/dev/null; trap 'sleep 2.5; exit 5' TERM; echo ready; \
                while :; do sleep 0.02; done";
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "1s"])
        .shell(line)
        .exits(5)
        .stdout("ready\n")
        .start();
    run.wait_stdout("ready\n");
    run.signal(Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < 2000 * MS {
        assert_eq!(fleet.holding("k").len(), 3);
    }
    run.check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

//! The recipes of the supervision contract that involve the lock: the program itself over real
//! nodes. What they share with a pretended lock is in `supervision`; what other topics guard
//! already is not repeated. Numbers in the names are the contract's rules.

mod cancelled;
mod end;
mod lost;
mod start;
mod stopped;
mod terminal;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    Redlock, alive,
    builder::Running,
    eventually,
    servers::{Fleet, Inspect},
};

/// A run that never waits for its lock, with a lock that outlives every test: what is gone was
/// given back.
fn run(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-n", "--ttl", "90s"])
}

/// The same with another ttl.
fn run_for(fleet: &Fleet, ttl: &str) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-n", "--ttl", ttl])
}

/// A command that no TERM ends, with a grandchild in a session of its own. Each prints its pid.
const TREE: &str = "trap '' TERM; setsid sh -c 'echo $$; exec sleep 60' & \
                    echo $$; while :; do sleep 0.05; done";

/// Waits until the command has printed `count` lines, each a pid.
#[track_caller]
fn pids(run: &Running, count: usize) -> Vec<Pid> {
    let read = || -> Vec<Pid> {
        let text = run.stdout();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
    };
    eventually("the command prints its pids", || read().len() == count);
    read()
}

/// How many requests of ours the first node has had.
fn requests(fleet: &Fleet) -> u64 {
    let mut client = fleet.servers()[0].client();
    client.calls("eval") + client.calls("evalsha")
}

/// Waits until the first node has had `count` more of them.
#[track_caller]
fn wait_extensions(fleet: &Fleet, count: u64) {
    let before = requests(fleet);
    eventually("extensions", || requests(fleet) >= before + count);
}

#[track_caller]
fn wait_dead(what: &str, pids: &[Pid]) {
    eventually(what, || !pids.iter().any(|&pid| alive(pid)));
}

#[track_caller]
fn send(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}

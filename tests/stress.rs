//! Many short runs, ended at any moment.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};

use crate::harness::{
    Redlock,
    builder::End,
    eventually, fleet, processes_with,
    servers::{Inspect, InspectAll},
};

const RUNS: u64 = 1000;

/// The longest time from the start of a run to its signal: more than a run takes.
const SPREAD_US: u64 = 30_000;

#[test]
fn thousand_runs_ended_at_a_random_moment_leave_no_key_no_process_and_no_connection() {
    const WORKERS: u64 = 4;
    let fleet = fleet(5);
    let nodes = fleet.nodes();
    let mark = format!("REDLOCK_TEST_MARK={}", uuid::Uuid::new_v4());
    let value = mark.split_once('=').unwrap().1;
    let counts = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let nodes = &nodes;
                scope.spawn(move || {
                    let key = format!("k{worker}");
                    let mut ran = 0;
                    for number in (worker..RUNS).step_by(usize::try_from(WORKERS).unwrap()) {
                        let mut run = Redlock::new(["run", "-q", "-k", &key])
                            .nodes(nodes)
                            .env("REDLOCK_TEST_MARK", value)
                            .command(["true"])
                            .start();
                        // The moment is what is random here; nothing is waited for.
                        let moment = Duration::from_micros(number * 7919 % SPREAD_US);
                        thread::sleep(moment);
                        let ended = run.ended().is_some();
                        // A zombie takes signals, so no pid is hit that is somebody else's by now.
                        if !ended {
                            kill_process(run.pid(), Signal::TERM).unwrap();
                        }
                        let outcome = run.output();
                        match outcome.end {
                            End::Exit(0) => ran += 1,
                            End::Signal(15) if !ended => {}
                            _ => panic!("after {moment:?}: {outcome}"),
                        }
                    }
                    ran
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>()
    });
    // Both outcomes have to occur, else the moments are badly chosen and nothing was tested.
    assert!(counts > 0 && counts < RUNS, "{counts} of {RUNS} ran to their end");
    let start = Instant::now();
    eventually("no key is left", || fleet.all_keys().is_empty());
    // The ttl is 30 s.
    assert!(start.elapsed() < Duration::from_secs(10), "keys expired, nobody took them away");
    eventually("no process is left", || processes_with(&mark).is_empty());
    for server in fleet.servers() {
        let mut client = server.client();
        eventually("no connection is left", || {
            client.info_number("clients", "connected_clients") == 1
        });
    }
}

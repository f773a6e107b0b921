//! Many short runs, signalled at any moment by any signal: what was not meant is never hit, and
//! nothing is left.

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually,
    fixture::child,
    fleet, processes_with,
    servers::{Inspect, InspectAll},
};

const RUNS: u64 = 2000;
const WORKERS: u64 = 4;

/// The longest time from the start of a run to its signal: more than a run takes.
const SPREAD_US: u64 = 30_000;

const SIGNALS: [Signal; 5] = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::QUIT];

/// So many runs share a sentinel, whose pid is therefore near theirs.
const WATCH: usize = 50;

#[test]
fn two_thousand_runs_signalled_at_a_random_moment_leave_nothing_and_hit_nobody_else() {
    // QUIT dumps core before we handle it; nobody wants two thousand files.
    let core = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..core }).unwrap();
    let fleet = fleet(5);
    let mark = format!("REDLOCK_TEST_MARK={}", uuid::Uuid::new_v4());
    let start = Instant::now();
    let counts = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (nodes, mark) = (fleet.nodes(), mark.as_str());
                scope.spawn(move || work(worker, &nodes, mark))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).fold(
            Counts::default(),
            |sum, one| Counts { ran: sum.ran + one.ran, died: sum.died + one.died },
        )
    });
    // Both outcomes have to occur, else the moments are badly chosen and nothing was tested.
    assert!(counts.ran > 0 && counts.died > 0, "{counts:?}");
    assert_eq!(counts.ran + counts.died, RUNS);
    eventually("no key is left", || fleet.all_keys().is_empty());
    // Every key that is gone was taken away: the ttl is longer than the test.
    assert!(start.elapsed() < Duration::from_secs(600), "keys may have expired");
    eventually("no process is left", || processes_with(&mark).is_empty());
    for server in fleet.servers() {
        let mut client = server.client();
        eventually("no connection is left", || {
            client.info_number("clients", "connected_clients") == 1
        });
    }
}

/// bubblewrap#730: whoever is killed between the fork and what ties the child to it leaves a child
/// that nobody ends.
#[test]
fn runs_killed_at_a_random_moment_leave_no_process() {
    const KILLED: u64 = 300;
    let fleet = fleet(1);
    let mark = uuid::Uuid::new_v4().to_string();
    let mut started = 0;
    for number in 0..KILLED {
        let mut random = Random(number);
        let guardian: &[&str] = if number % 2 == 0 { &[] } else { &["--no-guardian"] };
        let key = format!("k{number}");
        let run = Redlock::new(["run", "-q", "-n", "-k", &key])
            .nodes(fleet.nodes())
            .env("REDLOCK_TEST_MARK", &mark)
            .args(guardian)
            .shell("echo started; exec sleep 60")
            .start();
        // The moment is what is random here; nothing is waited for.
        thread::sleep(Duration::from_micros(random.below(0..SPREAD_US)));
        run.signal(Signal::KILL);
        started += u64::from(run.output().stdout == "started\n");
    }
    // Both have to occur, else the moments are badly chosen and nothing was tested.
    assert!(started > 0 && started < KILLED, "{started}");
    eventually("no process is left", || processes_with(&mark).is_empty());
}

#[derive(Debug, Default)]
struct Counts {
    /// Runs whose command succeeded.
    ran: u64,
    /// Runs that died of their signal.
    died: u64,
}

/// One worker's share, with a key of its own.
fn work(worker: u64, nodes: &str, mark: &str) -> Counts {
    let numbers: Vec<u64> = (worker..RUNS).step_by(usize::try_from(WORKERS).unwrap()).collect();
    let mut counts = Counts::default();
    for share in numbers.chunks(WATCH) {
        let sentinel = sentinel();
        for &number in share {
            one_run(number, worker, nodes, mark, &mut counts);
        }
        assert_untouched(sentinel);
    }
    counts
}

fn one_run(number: u64, worker: u64, nodes: &str, mark: &str, counts: &mut Counts) {
    let mut random = Random(number);
    let key = format!("k{worker}");
    let mut run = Redlock::new(["run", "-q", "-k", &key, "--ttl", "600s"])
        .nodes(nodes)
        .env("REDLOCK_TEST_MARK", mark.split_once('=').unwrap().1)
        // Whoever runs the tests may ignore INT and QUIT (`&` in a script does).
        .under(["env", "--default-signal"])
        .command(["true"])
        .start();
    // The moment is what is random here; nothing is waited for.
    let moment = Duration::from_micros(random.below(0..SPREAD_US));
    let signal = SIGNALS[usize::try_from(random.below(0..5)).unwrap()];
    thread::sleep(moment);
    let ended = run.ended().is_some();
    // A zombie takes signals, so no pid is hit that is somebody else's by now.
    if !ended {
        kill_process(run.pid(), signal).unwrap();
    }
    let outcome = run.output();
    assert!(outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{signal:?}: {outcome}");
    match outcome.end {
        End::Exit(0) => counts.ran += 1,
        End::Signal(number) if !ended && number == signal.as_raw() => counts.died += 1,
        _ => panic!("{signal:?} after {moment:?}: {outcome}"),
    }
}

/// A process of the same user that remembers every signal.
fn sentinel() -> Running {
    // The builder puts the name of our binary behind: no signal is called so, and it goes on.
    let mut sentinel = Redlock::new([] as [&str; 0])
        .under([child().as_os_str(), "signals".as_ref()])
        .stdout("ready\n")
        .dies_of(Signal::KILL)
        .start();
    sentinel.wait_stdout("ready\n");
    sentinel
}

#[track_caller]
fn assert_untouched(mut sentinel: Running) {
    assert_eq!(sentinel.ended(), None, "a sentinel was killed\n{sentinel}");
    sentinel.signal(Signal::KILL);
    sentinel.check();
}

/// Reproducible, and spread well enough (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, range: Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        range.start + (bits ^ (bits >> 31)) % (range.end - range.start)
    }
}

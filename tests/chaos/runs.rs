//! The loops: each runs redlock again and again, and counts how it ends.

use std::{
    collections::BTreeMap,
    env, fmt,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use redlock::exit::Code;
use rustix::process::{PidfdFlags, pidfd_open};

use super::KEY;
use crate::{
    harness::{Redlock, builder::End, fixture::worker},
    sim::rng::Rng,
};

/// How a run may end here: as its worker does, or by a code of ours that a fault can lead to. 78 is
/// for a promoted node, which is two servers with one memory.
const CODES: [Code; 5] = [Code::Success, Code::Unavailable, Code::Busy, Code::Config, Code::Lost];

/// No run takes longer than its wait, its work, and a stop.
const LIMIT: Duration = Duration::from_secs(60);

/// What a run needs to know.
#[derive(Clone)]
pub struct Clients {
    /// The nodes as each host reaches them.
    pub lists: [String; 2],
    /// Where the workers work.
    pub place: PathBuf,
    /// In the environment of every process of this suite.
    pub mark: String,
}

impl Clients {
    /// A run on this host, still without a command.
    pub fn run(&self, host: usize, guard: &str) -> Redlock {
        Redlock::new(["run", "-q", "-k", KEY, "--fence"])
            .nodes(&self.lists[host])
            .env("REDLOCK_RESTART_GUARD", guard)
            .env("REDLOCK_CHAOS", &self.mark)
            .within(LIMIT)
    }

    /// A worker that works so long.
    pub fn worker(&self, time: Duration) -> [String; 3] {
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
        [text(worker()), text(self.place.clone()), time.as_millis().to_string()]
    }
}

/// All loops: the run of each that is under way, and how the runs before ended.
pub struct Runs {
    /// A process is pinned by its descriptor: no signal reaches whoever has its number later.
    under_way: Vec<Mutex<Option<OwnedFd>>>,
    ends: Mutex<BTreeMap<String, u64>>,
    /// Ends that must not be, with all that was said.
    wrong: Mutex<Vec<String>>,
}

impl Runs {
    pub fn new(loops: usize) -> Self {
        Self {
            under_way: (0..loops).map(|_| Mutex::new(None)).collect(),
            ends: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    pub fn loops(&self) -> usize {
        self.under_way.len()
    }

    /// One loop, until it is over.
    pub fn go_round(&self, number: usize, clients: &Clients, mut rng: Rng, over: &AtomicBool) {
        let guards = env::var("REDLOCK_CHAOS_GUARD");
        let guards = guards.as_deref().map_or(["auto", "strict"], |guard| [guard; 2]);
        while !over.load(Ordering::SeqCst) {
            let guard = rng.pick(&guards);
            // On either host somebody is always asking: a lock that is free by mistake is noticed.
            let is_impatient = (number / clients.lists.len()).is_multiple_of(2);
            let patience: &[&[&str]] =
                if is_impatient { &[&["-n"]] } else { &[&["-n"], &["-w", "1s"], &["-w", "5s"]] };
            let waiting = rng.pick(patience);
            // Long enough to be extended and healed, now and then.
            let work = if rng.chance(15) { rng.between(300, 1800) } else { rng.between(0, 60) };
            let run = clients
                .run(number % clients.lists.len(), guard)
                .args(["--ttl", "1s"])
                .args(waiting)
                .command(clients.worker(Duration::from_millis(work)))
                .start();
            let pin = pidfd_open(run.pid(), PidfdFlags::empty()).unwrap();
            *self.under_way[number].lock().unwrap() = Some(pin);
            let outcome = run.output();
            *self.under_way[number].lock().unwrap() = None;

            let is_right = match outcome.end {
                End::Exit(code) => CODES.iter().any(|right| i32::from(right.number()) == code),
                // By whom, is counted in the end.
                End::Signal(signal) => signal == rustix::process::Signal::KILL.as_raw(),
            };
            if !is_right || outcome.stderr.contains("panicked") {
                self.wrong.lock().unwrap().push(outcome.to_string());
            }
            let name = match outcome.end {
                End::Exit(code) => format!("exit {code}"),
                End::Signal(signal) => format!("signal {signal}"),
            };
            *self.ends.lock().unwrap().entry(name).or_default() += 1;
            thread::sleep(Duration::from_millis(rng.between(0, 30)));
        }
    }

    /// One of the runs that are under way.
    pub fn pick(&self, rng: &mut Rng) -> Option<(usize, OwnedFd)> {
        let number = rng.index(self.loops());
        let run = self.under_way[number].lock().unwrap();
        Some((number, run.as_ref()?.try_clone().ok()?))
    }

    /// How many runs died of a signal.
    pub fn deaths(&self) -> u64 {
        let ends = self.ends.lock().unwrap();
        ends.iter().filter(|(name, _)| name.starts_with("signal")).map(|(_, count)| count).sum()
    }

    pub fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.ends.lock().unwrap();
        let all: u64 = ends.values().sum();
        let ends: Vec<String> =
            ends.iter().map(|(name, count)| format!("{name}: {count}")).collect();
        write!(f, "runs = {all} by {} loops ({})", self.loops(), ends.join(", "))
    }
}

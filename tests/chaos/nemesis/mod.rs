//! Who does all this to them. One thread, one decision at a time, each drawn from the seed.

mod illness;
mod memory;

use std::{
    collections::BTreeMap,
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::illness::{Ailment, Illness};
use super::{Clients, Ground, Host, MS, NODES, runs::Runs};
use crate::{
    harness::{
        proxy::Mode,
        resp::{Reply, Resp},
        servers::{Fleet, Inspect},
    },
    sim::rng::Rng,
};

/// What may happen. Those that cost everybody a ttl come up less often.
const FAULTS: [(Fault, u64); 21] = [
    (Fault::Stop, 6),
    (Fault::Pause, 6),
    (Fault::Busy, 2),
    (Fault::Starve, 6),
    (Fault::ForgetScripts, 4),
    (Fault::Restart, 6),
    (Fault::Flush, 14),
    (Fault::Evict, 14),
    (Fault::Promote, 14),
    (Fault::Delay, 6),
    (Fault::Hold, 6),
    (Fault::Swallow, 6),
    (Fault::Refuse, 4),
    (Fault::Cut, 4),
    (Fault::HalfOpen, 4),
    (Fault::Partition, 6),
    (Fault::Ambush, 20),
    (Fault::StopRun, 3),
    (Fault::KillRun, 1),
    (Fault::StopWorker, 2),
    (Fault::KillWorker, 1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// SIGSTOP: the kernel accepts and buffers, and it is all executed late.
    Stop,
    /// `CLIENT PAUSE`.
    Pause,
    /// A script without end.
    Busy,
    /// No memory left: SET is refused.
    Starve,
    ForgetScripts,
    /// Killed, and back after a while without its memory.
    Restart,
    /// `FLUSHALL`.
    Flush,
    /// All keys evicted.
    Evict,
    /// A replica of another node for a while, then a master again with the other's keys.
    Promote,
    /// Late in both directions.
    Delay,
    /// Silent, then everything at once.
    Hold,
    /// What is sent is lost.
    Swallow,
    /// Nobody listens.
    Refuse,
    /// Cut once.
    Cut,
    /// Requests arrive, answers do not.
    HalfOpen,
    /// One host does not reach two of the nodes.
    Partition,
    /// The lock sits on a bare quorum, two of its nodes restart empty, and its holder cannot learn
    /// that: what the restart guard is for.
    Ambush,
    StopRun,
    KillRun,
    StopWorker,
    KillWorker,
}

/// A restarted node votes after its guard (1 s) and what it rounds (1 s).
const YOUTH: Duration = Duration::from_secs(2);

pub struct Nemesis<'a> {
    rng: Rng,
    fleet: &'a mut Fleet,
    hosts: &'a [Host; 2],
    clients: &'a Clients,
    runs: &'a Runs,
    /// When each server was started.
    started: [Instant; NODES],
    ill: Vec<Illness>,
    counts: BTreeMap<Fault, u64>,
    /// What was done when, for the story of a failure.
    pub story: Vec<String>,
    begun: Instant,
}

impl<'a> Nemesis<'a> {
    pub fn new(rng: Rng, ground: &'a mut Ground, runs: &'a Runs) -> Self {
        let now = Instant::now();
        let nemesis = Self {
            rng,
            fleet: &mut ground.fleet,
            hosts: &ground.hosts,
            clients: &ground.clients,
            runs,
            started: [now; NODES],
            ill: Vec::new(),
            counts: BTreeMap::new(),
            story: Vec::new(),
            begun: now,
        };
        (0..NODES).for_each(|node| nemesis.configure(node));
        nemesis
    }

    /// How often what was done.
    pub fn counts(&self) -> String {
        let counts = self.counts.iter().map(|(fault, count)| format!("{fault:?} {count}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many processes were killed that a run would report.
    pub fn kills(&self) -> u64 {
        let count = |fault| self.counts.get(&fault).copied().unwrap_or(0);
        count(Fault::KillRun) + count(Fault::KillWorker)
    }

    /// Torments them until `end`, then lets everything recover.
    pub fn rage(&mut self, end: Instant) {
        let mut crowd = (Instant::now(), 2);
        while Instant::now() < end {
            if Instant::now() >= crowd.0 {
                // Mostly a minority, and with it a minority of the ways; a majority now and then.
                let limit = self.rng.pick(&[1, 1, 1, 2, 2, 4]);
                crowd = (Instant::now() + self.time(500, 2500), limit);
            }
            self.cure(|illness| illness.until <= Instant::now());
            let fault = self.draw();
            if self.strike(fault, crowd.1) {
                *self.counts.entry(fault).or_default() += 1;
            }
            thread::sleep(self.time(5, 60));
        }
        while !self.ill.is_empty() {
            self.cure(|_| true);
            thread::sleep(10 * MS);
        }
    }

    fn time(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.rng.between(low, high))
    }

    fn draw(&mut self) -> Fault {
        let mut left = self.rng.below(FAULTS.iter().map(|(_, weight)| weight).sum());
        let drawn = FAULTS.iter().find(|(_, weight)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        drawn.unwrap().0
    }

    fn tell(&mut self, what: &str) {
        self.story.push(format!("{:>9.3} {what}", self.begun.elapsed().as_secs_f64()));
    }

    fn client(&self, node: usize) -> Resp {
        self.fleet.servers()[node].client()
    }

    /// What every new server needs so that the faults work quickly, and are those that are meant.
    fn configure(&self, node: usize) {
        let settings = [
            ("lua-time-limit", "20"),
            ("repl-diskless-sync-delay", "0"),
            // A replica would write what it gets into a file of their common directory, and whoever
            // is restarted there would begin with it instead of empty.
            ("repl-diskless-load", "swapdb"),
        ];
        for (name, value) in settings {
            let done = self.client(node).command(&["CONFIG", "SET", name, value]);
            assert_eq!(done, Reply::Simple("OK".to_owned()), "{name}");
        }
    }

    /// A node that nothing is wrong with, when fewer than `limit` are ill or too young to vote.
    fn victim(&mut self, limit: usize) -> Option<usize> {
        let is_young = |node: usize| self.started[node].elapsed() < YOUTH;
        let all_are_young = self.begun.elapsed() < YOUTH;
        let is_in_trouble = |node| self.is_ill(node) || (is_young(node) && !all_are_young);
        let well: Vec<usize> = (0..NODES).filter(|node| !is_in_trouble(*node)).collect();
        self.one_of(&well, limit)
    }

    /// A node that can be reached from this host, when fewer than `limit` cannot.
    fn reached(&mut self, host: usize, limit: usize) -> Option<usize> {
        let well = self.reachable(host);
        self.one_of(&well, limit)
    }

    fn reachable(&self, host: usize) -> Vec<usize> {
        let is_way = |ailment: &Ailment| matches!(ailment, Ailment::Way(way) if *way == host);
        let is_obstructed =
            |node| self.ill.iter().any(|ill| ill.node == Some(node) && is_way(&ill.ailment));
        (0..NODES).filter(|node| !is_obstructed(*node)).collect()
    }

    fn one_of(&mut self, well: &[usize], limit: usize) -> Option<usize> {
        (!well.is_empty() && NODES - well.len() < limit).then(|| self.rng.pick(well))
    }

    fn falls_ill(&mut self, node: usize, ailment: Ailment, time: Duration) {
        self.ill.push(Illness { node: Some(node), ailment, until: Instant::now() + time });
    }

    /// Whether it could be done.
    fn strike(&mut self, fault: Fault, limit: usize) -> bool {
        let done = match fault {
            Fault::StopRun | Fault::KillRun => self.strike_run(fault),
            Fault::StopWorker | Fault::KillWorker => self.strike_worker(fault),
            Fault::Delay
            | Fault::Hold
            | Fault::Swallow
            | Fault::Refuse
            | Fault::Cut
            | Fault::HalfOpen => self.strike_way(fault, limit),
            Fault::Partition => self.divide(),
            Fault::Ambush => self.ambush(),
            _ => self.victim(limit).and_then(|node| self.strike_node(node, fault)),
        };
        if let Some(whom) = &done {
            self.tell(&format!("{fault:?} {whom}"));
        }
        done.is_some()
    }

    fn strike_run(&mut self, fault: Fault) -> Option<String> {
        let (number, run) = self.runs.pick(&mut self.rng)?;
        if fault == Fault::KillRun {
            pidfd_send_signal(&run, Signal::KILL).ok()?;
        } else {
            self.stop(run)?;
        }
        Some(format!("of loop {number}"))
    }

    fn strike_worker(&mut self, fault: Fault) -> Option<String> {
        let (pid, worker) = self.worker()?;
        if fault == Fault::KillWorker {
            pidfd_send_signal(&worker, Signal::KILL).ok()?;
        } else {
            self.stop(worker)?;
        }
        Some(format!("{pid}"))
    }

    /// Stops a process for a while, up to several times its ttl; one at a time.
    fn stop(&mut self, process: OwnedFd) -> Option<()> {
        let is_process = |illness: &Illness| matches!(illness.ailment, Ailment::Process(_));
        (!self.ill.iter().any(is_process)).then_some(())?;
        pidfd_send_signal(&process, Signal::STOP).ok()?;
        let until = Instant::now() + self.time(20, 2500);
        self.ill.push(Illness { node: None, ailment: Ailment::Process(process), until });
        Some(())
    }

    /// The worker that has shown a sign of life last, if it is still there.
    fn worker(&self) -> Option<(i32, OwnedFd)> {
        let file = File::open(self.clients.place.join("record")).ok()?;
        let mut tail = [0; 256];
        let start = file.metadata().ok()?.len().saturating_sub(tail.len() as u64);
        let length = file.read_at(&mut tail, start).ok()?;
        let tail = String::from_utf8_lossy(&tail[..length]).into_owned();
        let pid: i32 = tail.lines().next_back()?.split(' ').nth(1)?.parse().ok()?;
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after it was pinned: somebody else may have got the number meanwhile.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mark = self.clients.mark.as_bytes();
        environment.windows(mark.len()).any(|part| part == mark).then_some((pid, process))
    }

    fn strike_node(&mut self, node: usize, fault: Fault) -> Option<String> {
        let time = self.time(30, 1000);
        let done = Some(format!("of node {node}, {time:?}"));
        let at_once = Some(format!("of node {node}"));
        match fault {
            Fault::Stop => {
                self.fleet.servers()[node].stop().unwrap();
                self.falls_ill(node, Ailment::Stopped, time);
            }
            Fault::Pause => {
                let millis = time.as_millis().to_string();
                let what = self.rng.pick(&["ALL", "WRITE"]);
                self.client(node).command(&["CLIENT", "PAUSE", &millis, what]);
                self.falls_ill(node, Ailment::Paused, time);
            }
            Fault::Busy => {
                let mut client = self.client(node);
                client.send(&["EVAL", "while true do end", "0"]);
                self.falls_ill(node, Ailment::Busy(client), time / 2);
            }
            Fault::Starve => {
                self.client(node).command(&["CONFIG", "SET", "maxmemory", "1"]);
                self.falls_ill(node, Ailment::Starved, time);
            }
            Fault::ForgetScripts => {
                self.client(node).command(&["SCRIPT", "FLUSH"]);
                return at_once;
            }
            Fault::Restart => {
                self.has_elder(node).then_some(())?;
                self.fleet.servers_mut()[node].kill();
                self.falls_ill(node, Ailment::Down, time / 2);
            }
            Fault::Flush => {
                self.forget(node, &[&["FLUSHALL"]])?;
                return at_once;
            }
            Fault::Evict => {
                let policy = |name| ["CONFIG", "SET", "maxmemory-policy", name];
                let limit = |bytes| ["CONFIG", "SET", "maxmemory", bytes];
                self.forget(node, &[&policy("allkeys-random"), &limit("1")])?;
                // Before the next command, whoever's, all keys are evicted.
                self.client(node).command(&["PING"]);
                self.client(node).command(&limit("0"));
                self.client(node).command(&policy("noeviction"));
                return at_once;
            }
            Fault::Promote => {
                let master = self.other_than(node)?;
                let port = self.fleet.servers()[master].port().to_string();
                self.forget(node, &[&["REPLICAOF", "127.0.0.1", &port]])?;
                self.falls_ill(node, Ailment::Replica, time);
                self.falls_ill(master, Ailment::Mirrored, time);
            }
            _ => return None,
        }
        done
    }

    /// On the way from one host, or from both.
    fn strike_way(&mut self, fault: Fault, limit: usize) -> Option<String> {
        let host = self.rng.index(self.hosts.len());
        let node = self.reached(host, limit)?;
        let time = self.time(30, 1500);
        let (mode, time) = match fault {
            Fault::Delay => (Mode::Delay(self.time(5, 300)), time),
            Fault::Hold => (Mode::Hold, time),
            Fault::Swallow => (Mode::Blackhole, time),
            Fault::Refuse => (Mode::Refuse, time),
            Fault::Cut => (Mode::Cut, time / 50),
            Fault::HalfOpen => (Mode::Drip(Duration::from_secs(60)), time),
            _ => return None,
        };
        let hosts = if self.rng.chance(70) { host..host + 1 } else { 0..self.hosts.len() };
        for host in hosts.clone() {
            // The other host's way may be ill already: it recovers with the first of the two.
            self.hosts[host][node].set(mode);
            self.falls_ill(node, Ailment::Way(host), time);
        }
        Some(format!("of the way from {hosts:?} to node {node}, {time:?}"))
    }

    /// A host that reaches all nodes does not reach two of them any more.
    fn divide(&mut self) -> Option<String> {
        let host = self.rng.index(self.hosts.len());
        (self.reachable(host).len() == NODES).then_some(())?;
        let nodes = self.rng.some_of(NODES, 2);
        let mode = self.rng.pick(&[Mode::Refuse, Mode::Hold, Mode::Blackhole]);
        let time = self.time(500, 3000);
        for &node in &nodes {
            self.hosts[host][node].set(mode);
            self.falls_ill(node, Ailment::Way(host), time);
        }
        Some(format!("of host {host} from nodes {nodes:?}, {mode:?}, {time:?}"))
    }

    fn is_ill(&self, node: usize) -> bool {
        self.ill.iter().any(|illness| illness.is_of_node(node))
    }

    fn other_than(&mut self, node: usize) -> Option<usize> {
        let others: Vec<usize> = (0..NODES).filter(|n| *n != node && !self.is_ill(*n)).collect();
        (!others.is_empty()).then(|| self.rng.pick(&others))
    }
}

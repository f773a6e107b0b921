//! What is wrong until it is cured, and how it is.

use std::{os::fd::OwnedFd, time::Instant};

use rustix::process::{Signal, pidfd_send_signal};

use super::Nemesis;
use crate::{
    chaos::MS,
    harness::{
        proxy::Mode,
        resp::{Reply, Resp},
    },
};

/// Something that is wrong until it is cured.
pub struct Illness {
    pub node: Option<usize>,
    pub ailment: Ailment,
    pub until: Instant,
}

pub enum Ailment {
    /// By SIGSTOP.
    Stopped,
    /// By `CLIENT PAUSE`, which ends by itself.
    Paused,
    /// The connection that runs the script.
    Busy(Resp),
    Starved,
    Down,
    Replica,
    FormerReplica,
    /// Another node mirrors it, which makes two memories one: nothing else may happen to it.
    Mirrored,
    /// The way from this host.
    Way(usize),
    Process(OwnedFd),
}

impl Illness {
    /// Whether the node itself is ill, and not only a way to it.
    pub fn is_of_node(&self, node: usize) -> bool {
        self.node == Some(node) && !matches!(self.ailment, Ailment::Way(_))
    }
}

impl Nemesis<'_> {
    pub fn cure(&mut self, is_due: impl Fn(&Illness) -> bool) {
        let (due, ill) = std::mem::take(&mut self.ill).into_iter().partition(is_due);
        self.ill = ill;
        for illness in due {
            if let Some(next) = self.recover(illness) {
                self.ill.push(next);
            }
        }
    }

    /// What is still to be cured then.
    fn recover(&mut self, illness: Illness) -> Option<Illness> {
        if let Ailment::Process(process) = &illness.ailment {
            // It may have been killed meanwhile, by its guardian.
            let _ = pidfd_send_signal(process, Signal::CONT);
        }
        let node = illness.node?;
        match illness.ailment {
            Ailment::Stopped => self.fleet.servers()[node].cont().unwrap(),
            Ailment::Paused => drop(self.client(node).command(&["PING"])),
            Ailment::Busy(mut client) => {
                let kill = || self.client(node).command(&["SCRIPT", "KILL"]);
                while kill() != Reply::Simple("OK".to_owned()) {}
                client.receive();
            }
            Ailment::Starved => {
                self.client(node).command(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            Ailment::Replica => {
                self.client(node).command(&["REPLICAOF", "NO", "ONE"]);
                let until = Instant::now() + self.time(30, 800);
                return Some(Illness { ailment: Ailment::FormerReplica, until, ..illness });
            }
            Ailment::Down | Ailment::FormerReplica if !self.has_elder(node) => {
                return Some(Illness { until: Instant::now() + 100 * MS, ..illness });
            }
            Ailment::Down | Ailment::FormerReplica => {
                self.fleet.servers_mut()[node].restart().unwrap();
                self.started[node] = Instant::now();
                self.configure(node);
                self.tell(&format!("node {node} is back without its memory"));
            }
            Ailment::Way(host) => self.hosts[host][node].set(Mode::Pass),
            Ailment::Mirrored | Ailment::Process(_) => {}
        }
        None
    }
}

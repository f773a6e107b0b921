//! Nodes that lose their memory, within what Redlock promises to survive (see [`crate::chaos`]).

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    Nemesis,
    illness::{Ailment, Illness},
};
use crate::{
    chaos::{KEY, MS, NODES, QUORUM},
    harness::{
        proxy::Mode,
        resp::{Reply, Resp},
    },
};

/// Restarts keep this much between the oldest and the youngest node: more than a ttl of 1 s and
/// what servers round of their age.
const ELDER: Duration = Duration::from_secs(3);

/// By how much the others may have a lock for less long than the node that forgets it. It is far
/// below the drift that a holder takes off every answer (12 ms), so that even three such losses
/// between two extensions stay below it.
const TOLERANCE: Duration = Duration::from_millis(4);

impl Nemesis<'_> {
    /// Whether another node is so much older than one that starts now.
    pub fn has_elder(&self, node: usize) -> bool {
        let is_down = |n| {
            let is_it = |illness: &Illness| matches!(illness.ailment, Ailment::Down);
            self.ill.iter().any(|illness| illness.node == Some(n) && is_it(illness))
        };
        (0..NODES).any(|n| n != node && !is_down(n) && self.started[n].elapsed() > ELDER)
    }

    /// Does something that makes a node forget its lock, if a quorum of others has that lock for as
    /// long. Nothing but time and its owner takes it away from them; and if anything changes at
    /// this node after we looked, nothing is done.
    pub fn forget(&self, node: usize, deed: &[&[&str]]) -> Option<()> {
        let mut client = self.client(node);
        client.command(&["WATCH", KEY]);
        let (token, left) = lock(&mut client)?;
        let ends = Instant::now() + left + MS;
        let has_it = |other: &usize| {
            let mut client = self.client(*other);
            let asked = Instant::now();
            lock(&mut client)
                .is_some_and(|(its, left)| its == token && asked + left + TOLERANCE >= ends)
        };
        let others = (0..NODES).filter(|n| *n != node && !self.is_ill(*n)).filter(has_it);
        (others.count() >= QUORUM).then_some(())?;
        client.command(&["MULTI"]);
        for words in deed {
            client.command(words);
        }
        matches!(client.command(&["EXEC"]), Reply::List(_)).then_some(())
    }

    /// The token of a lock that sits on exactly a quorum of nodes, and these nodes.
    fn bare_quorum(&self) -> Option<(String, Vec<usize>)> {
        let well: Vec<usize> = (0..NODES).filter(|node| !self.is_ill(*node)).collect();
        let token = |node: usize| Some((lock(&mut self.client(node))?.0, node));
        let mut locks: Vec<(String, usize)> = well.into_iter().filter_map(token).collect();
        locks.sort();
        let holding = locks.chunk_by(|one, other| one.0 == other.0);
        let bare = holding.into_iter().find(|nodes| nodes.len() == QUORUM)?;
        Some((bare[0].0.clone(), bare.iter().map(|(_, node)| *node).collect()))
    }

    pub fn ambush(&mut self) -> Option<String> {
        let before = self.bare_quorum()?;
        // Not one that comes or goes.
        thread::sleep(40 * MS);
        let (token, mut nodes) = self.bare_quorum().filter(|after| *after == before)?;
        nodes.truncate(2);
        // Whoever reaches fewer nodes has it.
        let host = (0..self.hosts.len()).min_by_key(|host| self.reachable(*host).len())?;
        nodes.iter().all(|node| self.has_elder(*node)).then_some(())?;
        for &node in &nodes {
            self.hosts[host][node].set(Mode::Hold);
            self.falls_ill(node, Ailment::Way(host), 700 * MS);
        }
        for &node in &nodes {
            self.fleet.servers_mut()[node].kill();
            self.falls_ill(node, Ailment::Down, Duration::ZERO);
        }
        Some(format!("of host {host} at nodes {nodes:?}, {token}"))
    }
}

/// The token at the key, and how much longer it stays there at least.
fn lock(client: &mut Resp) -> Option<(String, Duration)> {
    let left = u64::try_from(client.pttl(KEY)).ok()?;
    let value = client.get(KEY)?;
    let (token, _) = value.split_once(' ')?;
    Some((token.to_owned(), Duration::from_millis(left)))
}

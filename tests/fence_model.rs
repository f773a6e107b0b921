//! Fencing, exhaustively: three nodes, two clients with one acquisition each, every order of
//! messages, and keys that expire whenever they like: no clock and no pause is spared. The clients
//! are the real `Fence`; a client that breaks one of its rules is caught.
//!
//! What changes nothing is left out. A request that is refused, and an answer that never comes, are
//! requests that are not executed; a key that expires matters when the other one takes it; and an
//! answer that is late is one that is not counted.

use std::collections::HashSet;

use redlock::protocol::{Fence, NodeIndex, Sealing};

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trap {
    None,
    /// The number is the greatest counter, and nothing is written back.
    NoWriteBack,
    /// An acquire's answer that comes in phase 2 is let into it.
    LateAnswer,
    /// A node that lost the key is healed, and counts, before phase 2 is over.
    HealsEarly,
    /// The write-back does not ask whose the key is, nor what the counter is.
    Unconditional,
    /// The write-back does not compare the counter.
    IgnoresCounter,
}

const NODES: usize = 3;
const QUORUM: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Node {
    holder: Option<usize>,
    counter: u64,
}

/// How far one client has come with one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// The acquire is on its way.
    Acquire,
    /// The node told this counter.
    Told(u64),
    Seal {
        told: u64,
        number: u64,
    },
    NotSealed,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    fence: Fence,
    ways: [Way; NODES],
    /// Nodes that count for phase 2.
    acks: u8,
    /// A second acquire for the first node, sent as the first was, that may still be executed.
    again: bool,
    done: Option<u64>,
    /// The first acquire came when the other one was done, with this number.
    after: Option<u64>,
    started: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; NODES],
    clients: [Client; 2],
}

fn index(node: usize) -> NodeIndex {
    NodeIndex(u8::try_from(node).unwrap())
}

impl State {
    fn new(counters: [u64; NODES]) -> Self {
        let client = |duplicate| Client {
            fence: Fence::new(NODES),
            ways: [Way::Acquire; NODES],
            acks: 0,
            // One duplicate is enough.
            again: duplicate,
            done: None,
            after: None,
            started: false,
        };
        let nodes = counters.map(|counter| Node { holder: None, counter });
        Self { nodes, clients: [client(true), client(false)] }
    }

    /// Every state that can follow.
    fn next(&self, trap: Trap) -> Vec<Self> {
        let mut all = Vec::new();
        for client in 0..2 {
            all.extend((0..NODES).filter_map(|node| self.step(client, node, trap)));
            all.extend((0..1 << NODES).filter_map(|set| self.phase_two(client, set, trap)));
            if self.clients[client].again && self.clients[client].ways[0] != Way::Acquire {
                let mut next = self.clone();
                next.clients[client].again = false;
                next.acquire(client, 0);
                all.push(next);
            }
        }
        all
    }

    /// The acquire script. Whoever was there has expired.
    fn acquire(&mut self, client: usize, node: usize) -> u64 {
        let other = self.clients[1 - client].done;
        let c = &mut self.clients[client];
        if !std::mem::replace(&mut c.started, true) {
            c.after = other;
        }
        let n = &mut self.nodes[node];
        n.holder = Some(client);
        n.counter += 1;
        n.counter
    }

    /// Phase 2 begins with the answers of the nodes in `set`.
    fn phase_two(&self, client: usize, set: u8, trap: Trap) -> Option<Self> {
        let mut next = self.clone();
        let c = &mut next.clients[client];
        if c.fence.number().is_some() || set.count_ones() < QUORUM {
            return None;
        }
        let mut late = Vec::new();
        for (node, way) in c.ways.iter_mut().enumerate() {
            match *way {
                Way::Told(counter) if set & 1 << node != 0 => {
                    c.fence.count(index(node), &[counter]);
                }
                _ if set & 1 << node != 0 => return None,
                Way::Told(counter) => {
                    *way = Way::Over;
                    late.push((node, counter));
                }
                _ => {}
            }
        }
        let (number, asked) = c.fence.seal(|_| true);
        for (node, counters) in asked {
            c.ways[node.get()] = Way::Seal { told: counters[0], number };
        }
        for (node, told) in late {
            // The real one does not let it in.
            c.fence.count(index(node), &[told]);
            if trap == Trap::LateAnswer {
                c.ways[node] = Way::Seal { told, number };
            }
        }
        if trap == Trap::NoWriteBack {
            c.done = Some(number);
        }
        Some(next)
    }

    /// What is on the way between the two arrives.
    fn step(&self, client: usize, node: usize, trap: Trap) -> Option<Self> {
        let mut next = self.clone();
        match self.clients[client].ways[node] {
            Way::Acquire => {
                let told = next.acquire(client, node);
                next.clients[client].ways[node] = Way::Told(told);
            }
            Way::Seal { told, number } => {
                let n = &mut next.nodes[node];
                let ours = n.holder == Some(client) || trap == Trap::Unconditional;
                let blind = matches!(trap, Trap::Unconditional | Trap::IgnoresCounter);
                if ours && (n.counter == told || blind) {
                    n.counter = n.counter.max(number);
                    next.sealed(client, node, trap);
                } else {
                    next.clients[client].fence.failed(index(node));
                    let heals = trap == Trap::HealsEarly;
                    next.clients[client].ways[node] =
                        if heals { Way::NotSealed } else { Way::Over };
                }
            }
            Way::NotSealed => {
                let before = next.nodes[node].counter;
                next.acquire(client, node);
                let number = next.clients[client].fence.number()?;
                next.nodes[node].counter = before.max(number);
                next.sealed(client, node, trap);
            }
            Way::Told(_) | Way::Over => return None,
        }
        Some(next)
    }

    fn sealed(&mut self, client: usize, node: usize, trap: Trap) {
        let c = &mut self.clients[client];
        c.fence.sealed(index(node));
        c.acks |= 1 << node;
        c.ways[node] = Way::Over;
        let enough = match trap {
            Trap::LateAnswer | Trap::HealsEarly => c.acks.count_ones() >= QUORUM,
            _ => c.fence.sealing() == Sealing::Done,
        };
        if enough && c.done.is_none() {
            c.done = c.fence.number();
        }
    }

    /// Two tokens are the same, or the later is not the larger.
    fn is_broken(&self) -> bool {
        let [a, b] = &self.clients;
        let twice = a.done.is_some() && a.done == b.done;
        let late = |c: &Client| c.after.zip(c.done).is_some_and(|(before, own)| own <= before);
        twice || late(a) || late(b)
    }
}

/// Every state from every beginning; how many there were, and whether one of them is broken.
fn explore(trap: Trap) -> (usize, bool) {
    let mut count = 0;
    for counters in [[0, 0, 0], [2, 0, 0], [0, 2, 0]] {
        let mut seen = HashSet::new();
        let mut todo = vec![State::new(counters)];
        while let Some(state) = todo.pop() {
            if state.is_broken() {
                return (count + seen.len(), true);
            }
            for next in state.next(trap) {
                if !seen.contains(&next) {
                    seen.insert(next.clone());
                    todo.push(next);
                }
            }
        }
        count += seen.len();
    }
    (count, false)
}

#[test]
fn fencing_tokens_are_unique_and_grow_whatever_the_order_of_messages_and_expiries() {
    let (states, broken) = explore(Trap::None);
    assert!(!broken && states > 10_000, "{states} states");
}

#[test]
fn every_trap_is_found() {
    for trap in [
        Trap::NoWriteBack,
        Trap::LateAnswer,
        Trap::HealsEarly,
        Trap::Unconditional,
        Trap::IgnoresCounter,
    ] {
        assert!(explore(trap).1, "{trap:?} breaks nothing");
    }
}

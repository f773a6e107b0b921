//! The nodes in the world, and what goes wrong with them.

use std::{collections::VecDeque, time::Duration};

use redlock::protocol::{
    Extent, Introduction, LinkEvent, Refusal, RefusalKind, Reply, Request, Server, Token,
};

use super::{
    clock::{LocalClock, MS, Real, SEC},
    link::{Kind, Path, Stage},
    node::{Entry, Store},
    plan::{Fault, Memory, Plan, Refusing, Seen, What},
    show::{show, show_reply},
    world::{Due, World},
};

/// For how long nodes have run before the history: longer than any lock can be.
const LONG_AGO: Real = 1_000_000 * SEC;

/// A node and what is wrong with it.
pub struct Node {
    pub(super) store: Store,
    pub(super) clock: LocalClock,
    pub(super) stopped: bool,
    pub(super) inbox: VecDeque<(usize, Request)>,
    pub(super) down: Option<Seen>,
    /// Connections that wait for an answer from a machine that is away.
    pub(super) knocking: Vec<usize>,
    pub(super) dark_until: Real,
    pub(super) slow: u64,
    pub(super) refusing: Option<Refusing>,
    /// What a node that lost its memory would still carry: nobody else can have it while the node
    /// is away for longer than the keys would live.
    pub(super) ghost: Option<Store>,
    /// How often it was started, and when it was the last time.
    pub(super) starts: u64,
    pub(super) started: Real,
    /// Something was wrong with it in this history.
    pub(super) touched: bool,
}

impl Node {
    pub(super) fn new(plan: &Plan, place: usize, clock: LocalClock) -> Self {
        let counter = plan.counters.get(place).copied().unwrap_or(0);
        Self {
            store: Store::new(plan.keys, plan.scripts, counter),
            clock,
            stopped: false,
            inbox: VecDeque::new(),
            down: None,
            knocking: Vec::new(),
            dark_until: 0,
            slow: 1,
            refusing: None,
            ghost: None,
            starts: 0,
            started: 0,
            touched: false,
        }
    }

    /// What the node's clock shows, in whole milliseconds.
    pub(super) fn now(&self, real: Real) -> u64 {
        self.clock.at(real) / MS
    }

    /// What it says about itself. It was started long ago, or in this history; and it rounds up.
    pub(super) fn introduction(&self, place: usize, real: Real) -> Introduction {
        let before = if self.starts == 0 { LONG_AGO } else { 0 };
        let uptime = (real - self.started).div_ceil(SEC) + before / SEC;
        Introduction::Known(Server {
            run_id: format!("{place}-{}", self.starts),
            uptime: Duration::from_secs(uptime),
            history: format!("history {place}"),
            ..Server::default()
        })
    }

    /// What counts as being at `key`.
    pub(super) fn carries(&self, key: usize, real: Real) -> Option<&Entry> {
        let store = self.ghost.as_ref().unwrap_or(&self.store);
        store.get(key, self.now(real))
    }
}

impl World<'_> {
    pub(super) fn arrive(&mut self, link: usize, request: Request) {
        let node = self.links[link].node;
        let node = &mut self.nodes[node];
        if node.stopped {
            node.inbox.push_back((link, request));
        } else {
            self.receive(link, &request);
        }
    }

    pub(super) fn receive(&mut self, link: usize, request: &Request) {
        let l = &mut self.links[link];
        l.under_way -= 1;
        self.actors[l.actor].under_way -= 1;
        let arrives = match &mut l.path {
            Path::Whole => true,
            Path::Broken { admits: 0 } | Path::Vanished => false,
            Path::Broken { admits } => {
                *admits -= 1;
                true
            }
        };
        let actor = l.actor;
        if arrives && self.nodes[self.links[link].node].down.is_none() {
            self.introduce(link);
            self.execute(link, request);
            self.repeat(link, request);
        }
        if self.actors[actor].done() {
            self.check_leftovers(actor);
        }
    }

    /// A network in between delivers some acquires once more, and nobody hears of it.
    fn repeat(&mut self, link: usize, request: &Request) {
        let acquires = matches!(Kind::of(request), Kind::Acquire(_));
        if acquires && self.rng.chance(self.plan.net.repeats) {
            let late = self.rng.below(6 * self.plan.net.rtt);
            self.at(self.now + late, Due::Repeat(link, request.clone()));
        }
    }

    pub(super) fn repeated(&mut self, link: usize, request: &Request) {
        let l = &self.links[link];
        let node = &mut self.nodes[l.node];
        if node.down.is_none() && !node.stopped {
            let now = node.now(self.now);
            node.store.execute(&self.actors[l.actor].plan.keys, request, now);
            self.note(|| format!("a repeated {} is executed", show(request)));
        }
    }

    /// INFO goes ahead of the first request on every connection.
    fn introduce(&mut self, link: usize) {
        let l = &mut self.links[link];
        if std::mem::replace(&mut l.introduced, true) || l.spoiled || l.deaf() {
            return;
        }
        let node = &self.nodes[l.node];
        let event = LinkEvent::Introduced(node.introduction(l.node, self.now));
        let at = node.dark_until.max(self.now) + self.delay(link);
        self.send_back(link, at, event);
    }

    pub(super) fn execute(&mut self, link: usize, request: &Request) {
        let l = &self.links[link];
        let (actor, place, id) = (l.actor, l.node, l.id);
        let all = &self.actors[actor].plan.keys;
        let (keys, request) = match request {
            Request::Only { key, request } => (vec![all[*key]], request.as_ref()),
            request => (all.clone(), request),
        };
        let (kind, node) = (Kind::of(request), &mut self.nodes[place]);
        let now = node.now(self.now);
        let refuses = match node.refusing {
            Some(Refusing::Everything) => true,
            Some(Refusing::Acquires) => matches!(kind, Kind::Acquire(_)),
            Some(Refusing::Nothing) | None => false,
        };
        let refuses = refuses || self.plan.mute && matches!(kind, Kind::Subscribe | Kind::Attend);
        let mut gone = Vec::new();
        let mut reply = Reply::Refused(Refusal {
            kind: RefusalKind::State,
            text: "LOADING the dataset".into(),
        });
        self.links[link].refused |= refuses && matches!(kind, Kind::Release(_));
        if !refuses {
            let look = |store: &Store| -> Vec<Option<Entry>> {
                keys.iter().map(|key| store.get(*key, now).cloned()).collect()
            };
            let before = look(&node.store);
            let mut done = node.store.execute(&keys, request, now);
            if let (Kind::Extend(_), Reply::Done) = (kind, &done) {
                done = Reply::Extended(Duration::from_nanos(node.clock.at(self.now)));
            }
            let after = look(&node.store);
            if !self.links[link].spoiled {
                reply = done;
            }
            if let Request::Subscribe | Request::Attend = request {
                self.links[link].listens = *request == Request::Subscribe;
                self.links[link].attends = *request == Request::Attend;
            }
            let changed = before.iter().zip(&after).zip(&keys);
            let deleted =
                changed.filter(|((before, after), _)| before.is_some() && after.is_none());
            gone = deleted.map(|(_, key)| *key).collect();
            for (before, after) in before.iter().zip(&after) {
                self.check.executed(actor, kind, before.as_ref(), after.as_ref(), self.now);
            }
        }
        if let Request::Release { token, announce: true } = request {
            self.announce(place, *token, &gone);
        }
        self.note(|| {
            let to = format!("{}.{} of client {actor}", id.node.0, id.serial);
            format!("node {place} answers {to}: {} -> {}", show(request), show_reply(&reply))
        });
        if !self.links[link].deaf() {
            let dark = self.nodes[place].dark_until.max(self.now);
            let at = dark + self.delay(link);
            self.send_back(link, at, LinkEvent::Replied(reply));
        }
    }

    /// Tells every connection that listens for one of `keys` that it is free now.
    fn announce(&mut self, node: usize, token: Token, keys: &[usize]) {
        for key in keys {
            let told: Vec<usize> = self.links_to(node);
            let listens = |link: &usize| {
                let link = &self.links[*link];
                link.listens && !link.deaf() && self.actors[link.actor].plan.keys.contains(key)
            };
            let told: Vec<usize> = told.into_iter().filter(listens).collect();
            let listeners = u32::try_from(told.len()).unwrap_or(u32::MAX);
            let dark = self.nodes[node].dark_until.max(self.now);
            for link in told {
                let at = dark + self.delay(link);
                let keys = &self.actors[self.links[link].actor].plan.keys;
                let extent = if keys.len() == 1 { Extent::Whole } else { Extent::Part };
                self.send_back(
                    link,
                    at,
                    LinkEvent::Released { extent, by: Some(token), listeners },
                );
            }
        }
    }

    /// `redlock release --force` of every key: waiters and holders are told.
    fn free(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        let now = node.now(self.now);
        let token = |key| Some((key, node.store.get(key, now)?.token?));
        let freed: Vec<(usize, Token)> = (0..self.plan.keys).filter_map(token).collect();
        node.store.free();
        for (key, token) in &freed {
            self.announce(place, *token, &[*key]);
        }
        for link in self.links_to(place) {
            let l = &self.links[link];
            let held = self.check.claim(l.actor).map(|claim| claim.token);
            let is_theirs = |held: &Token| freed.iter().any(|(_, token)| token == held);
            if let Some(token) = held.filter(is_theirs)
                && l.attends
                && !l.deaf()
            {
                let at = self.nodes[place].dark_until.max(self.now) + self.delay(link);
                self.send_back(link, at, LinkEvent::Called(token));
            }
        }
    }

    pub(super) fn links_to(&self, node: usize) -> Vec<usize> {
        let to = |link: &usize| self.links[*link].node == node;
        (0..self.links.len()).filter(to).collect()
    }

    pub(super) fn fault_begins(&mut self, fault: Fault) {
        self.note(|| format!("node {}: {:?} begins", fault.node, fault.what));
        let node = &mut self.nodes[fault.node];
        node.touched = true;
        match fault.what {
            What::Stopped => node.stopped = true,
            What::Dark => node.dark_until = fault.until,
            What::Slow(factor) => node.slow = factor,
            What::Refusing(how) => node.refusing = Some(how),
            What::Emptied => node.store.forget(),
            What::Freed => self.free(fault.node),
            What::Cut => {
                for link in self.links_to(fault.node) {
                    self.cut(link);
                }
            }
            What::Down { memory, seen } => {
                node.down = Some(seen);
                if memory == Memory::Lost {
                    node.ghost = Some(node.store.clone());
                    node.store.forget();
                }
                let inbox = std::mem::take(&mut node.inbox);
                for link in self.links_to(fault.node) {
                    match seen {
                        Seen::AtOnce => self.cut(link),
                        Seen::Never if self.links[link].path == Path::Whole => {
                            self.links[link].path = Path::Vanished;
                            if self.links[link].stage == Stage::Opening {
                                self.nodes[fault.node].knocking.push(link);
                            }
                        }
                        Seen::Never => {}
                    }
                    if let Path::Broken { admits } = &mut self.links[link].path {
                        *admits = 0;
                    }
                }
                for (link, request) in inbox {
                    self.receive(link, &request);
                }
            }
        }
    }

    pub(super) fn fault_ends(&mut self, fault: Fault) {
        self.note(|| format!("node {}: {:?} ends", fault.node, fault.what));
        let node = &mut self.nodes[fault.node];
        match fault.what {
            What::Stopped => {
                node.stopped = false;
                for (link, request) in std::mem::take(&mut node.inbox) {
                    self.receive(link, &request);
                }
            }
            What::Slow(_) => node.slow = 1,
            What::Refusing(_) => node.refusing = None,
            What::Down { .. } => {
                node.down = None;
                node.ghost = None;
                node.starts += 1;
                node.started = self.now;
                for link in std::mem::take(&mut node.knocking) {
                    if self.links[link].stage == Stage::Opening {
                        self.links[link].path = Path::Whole;
                        self.knock(link);
                    }
                }
            }
            What::Dark | What::Cut | What::Emptied | What::Freed => {}
        }
    }
}

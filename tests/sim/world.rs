//! The event loop of one history: time, messages, nodes and clients. It executes what the clients'
//! sessions ask for and shows every step to the checks.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use redlock::protocol::{LinkEvent, Request};

use super::{
    actor::{Actor, Outcome},
    brain::Maker,
    check::{Check, Rule, Violation},
    clock::{MS, Real, US, nanos},
    fleet::Node,
    link::Link,
    plan::{ActorPlan, Part, Plan, Until},
    rng::Rng,
};

/// Something that is due.
#[derive(Debug)]
pub enum Due {
    Start(usize),
    /// The session asked to be woken.
    Wake(usize, u64),
    /// Something reached the client's end of a connection.
    Deliver(usize, LinkEvent),
    /// Something reached the node's end.
    Arrive(usize, Request),
    /// The same once more.
    Repeat(usize, Request),
    /// The main thread is about to spawn the command.
    Spawn(usize),
    /// The command is done.
    Done(usize),
    /// T2 of the command.
    Deadline(usize, u64),
    /// The command is gone.
    Gone(usize),
    /// The main thread learns that the command is gone.
    Reaped(usize),
    Signal(usize),
    Crash(usize),
    Stop(usize),
    Continue(usize),
    FaultBegins(usize),
    FaultEnds(usize),
}

/// When it is due, and in which order among those due at once.
pub(super) struct At(Real, u64, Due);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// What is left of a history.
#[derive(Debug)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    /// Steps taken.
    pub steps: u64,
    /// What went wrong with nodes and clients while it was played.
    pub faults: u64,
    /// When the first client had the lock.
    pub first: Option<Real>,
}

/// One history being played.
pub struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) maker: &'a Maker,
    pub(super) now: Real,
    pub(super) serial: u64,
    pub(super) queue: BinaryHeap<Reverse<At>>,
    pub(super) nodes: Vec<Node>,
    pub(super) actors: Vec<Actor>,
    pub(super) links: Vec<Link>,
    pub(super) check: Check,
    pub(super) rng: Rng,
    pub(super) trace: Option<Vec<String>>,
    pub(super) steps: u64,
    pub(super) faults: u64,
    /// Whose command is alive.
    pub(super) holders: Vec<usize>,
}

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan, seed: u64, maker: &'a Maker) -> Self {
        let mut rng = Rng::new(seed);
        let mut nodes: Vec<Node> = plan
            .nodes
            .iter()
            .enumerate()
            .map(|(place, clock)| Node::new(plan, place, *clock))
            .collect();
        for (node, key, occupant, expires) in &plan.present {
            let node = &mut nodes[*node];
            let expires = expires.map(|d| node.now(0) + nanos(d) / MS);
            node.store.put(*key, occupant.clone(), expires);
        }
        let actor = |actor: &ActorPlan| {
            let half = plan.net.rtt / 2;
            let mut far = |node| half * rng.between(70, 130) / 100 * slow(actor, node);
            let distance = (0..plan.nodes.len()).map(&mut far).collect();
            Actor::new(actor.clone(), distance, rng.fork())
        };
        let actors = plan.actors.iter().map(actor).collect();
        let mut world = Self {
            plan,
            maker,
            now: 0,
            serial: 0,
            queue: BinaryHeap::new(),
            nodes,
            actors,
            links: Vec::new(),
            check: Check::new(plan),
            rng,
            trace: None,
            steps: 0,
            faults: 0,
            holders: Vec::new(),
        };
        for (i, fault) in plan.faults.iter().enumerate() {
            world.at(fault.at, Due::FaultBegins(i));
            world.at(fault.until, Due::FaultEnds(i));
        }
        for (i, actor) in plan.actors.iter().enumerate() {
            if !matches!(actor.part, Part::Adopt(_)) {
                world.at(actor.start, Due::Start(i));
            }
            for (from, until) in &actor.pauses {
                world.at(*from, Due::Stop(i));
                world.at(*until, Due::Continue(i));
            }
            for (at, due) in [(actor.crash, Due::Crash(i)), (actor.signal, Due::Signal(i))] {
                if let Some(at) = at {
                    world.at(at, due);
                }
            }
        }
        world
    }

    /// Keeps a line for every step.
    pub fn traced(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// Plays the history until its first violation. The lines of the trace come back with it.
    pub fn play(mut self) -> (Result<Report, Violation>, Vec<String>) {
        while let Some(Reverse(At(at, _, due))) = self.queue.pop() {
            if at > self.plan.limit {
                break;
            }
            self.now = at;
            self.steps += 1;
            self.dispatch(due);
            self.check_holders();
            if self.check.found.is_some() || self.first_holds() {
                break;
            }
        }
        if self.check.found.is_none() && self.plan.until == Until::AllAreDone {
            self.check_goal();
        }
        let trace = self.trace.take().unwrap_or_default();
        if let Some(found) = self.check.found {
            return (Err(found), trace);
        }
        let outcomes: Vec<Outcome> = self.actors.into_iter().map(|a| a.outcome).collect();
        let report = Report {
            first: outcomes.iter().filter_map(|o| o.acquired).min(),
            outcomes,
            steps: self.steps,
            faults: self.faults,
        };
        (Ok(report), trace)
    }

    fn first_holds(&self) -> bool {
        self.plan.until == Until::SomebodyHolds && !self.holders.is_empty()
    }

    pub(super) fn at(&mut self, at: Real, due: Due) {
        self.serial += 1;
        self.queue.push(Reverse(At(at, self.serial, due)));
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let (ms, us) = (self.now / MS, self.now % MS / US);
            trace.push(format!("{ms:>7}.{us:03} ms  {}", line()));
        }
    }

    pub(super) fn broken(&mut self, rule: Rule, what: impl Into<String>) {
        self.check.broken(rule, self.now, what);
    }

    /// Whose process has to be running for this to happen.
    fn process_of(&self, due: &Due) -> Option<usize> {
        match due {
            Due::Start(a) | Due::Wake(a, _) | Due::Spawn(a) | Due::Reaped(a) | Due::Signal(a) => {
                Some(*a)
            }
            Due::Deliver(link, _) => Some(self.links[*link].actor),
            _ => None,
        }
    }

    pub(super) fn dispatch(&mut self, due: Due) {
        if let Some(actor) = self.process_of(&due) {
            let actor = &mut self.actors[actor];
            if actor.done() {
                return;
            }
            if actor.stopped {
                actor.backlog.push(due);
                return;
            }
        }
        let fault = matches!(
            due,
            Due::Stop(_) | Due::Crash(_) | Due::Signal(_) | Due::FaultBegins(_) | Due::Repeat(..)
        );
        self.faults += u64::from(fault);
        match due {
            Due::Start(actor) => self.start(actor),
            Due::Wake(actor, serial) => self.wake(actor, serial),
            Due::Deliver(link, event) => self.deliver(link, event),
            Due::Arrive(link, request) => self.arrive(link, request),
            Due::Repeat(link, request) => self.repeated(link, &request),
            Due::Spawn(actor) => self.spawn(actor),
            Due::Done(actor) => self.kill(actor, 0),
            Due::Deadline(actor, serial) => self.deadline(actor, serial),
            Due::Gone(actor) => self.gone(actor),
            Due::Reaped(actor) => self.end(actor),
            Due::Signal(actor) => self.signal(actor),
            Due::Crash(actor) => self.crash(actor),
            Due::Stop(actor) => self.actors[actor].stopped = true,
            Due::Continue(actor) => self.go_on(actor),
            Due::FaultBegins(fault) => self.fault_begins(self.plan.faults[fault]),
            Due::FaultEnds(fault) => self.fault_ends(self.plan.faults[fault]),
        }
    }
}

fn slow(actor: &ActorPlan, node: usize) -> u64 {
    if node == 0 { actor.slow } else { 1 }
}

//! One run of the program as the simulator sees it: the brain, and a model of the shell around it,
//! which spawns the command, keeps the deadline and releases last (docs/supervision.md).

use redlock::protocol::{ConnId, NodeIndex, Verdict};

use super::{brain::Brain, clock::Real, plan::ActorPlan, rng::Rng, world::Due};

/// How far the run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not started yet.
    Unborn,
    /// Asking, or waiting.
    Seeking,
    /// Has the lock; the command is about to be spawned.
    Starting,
    /// The command was spawned.
    Running,
    /// Releases, or clears up after an attempt.
    Ending,
    /// Done.
    Over,
    /// Killed without a chance to clear up.
    Crashed,
}

/// The command, which lives on when its wrapper is stopped or dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    None,
    Alive,
    /// KILL is on its way.
    Killed,
    Dead,
}

/// What became of the run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub acquired: Option<Real>,
    pub ran: bool,
    /// The command was ended before it was done.
    pub killed: bool,
    pub lost: bool,
    pub denied: Option<(Verdict, Real)>,
    pub settled: Option<Real>,
    pub untold: Vec<NodeIndex>,
    /// Requests sent, and how many of them were to acquire.
    pub requests: usize,
    pub acquires: usize,
}

/// The run.
pub struct Actor {
    pub plan: ActorPlan,
    pub brain: Option<Box<Brain>>,
    pub rng: Rng,
    pub phase: Phase,
    pub command: Command,
    pub outcome: Outcome,
    /// The fencing token of the lock that it has.
    pub number: Option<u64>,
    /// Which of its keys it has, where one was enough.
    pub slot: Option<usize>,
    /// Its connections, by number, newest last.
    pub links: Vec<(ConnId, usize)>,
    pub stopped: bool,
    /// What happened while it was stopped.
    pub backlog: Vec<Due>,
    /// Only the latest timer of each kind counts.
    pub wakes: u64,
    pub deadlines: u64,
    /// When the end of its session was asked for or announced.
    pub ending_since: Option<Real>,
    /// How often in a row it was woken without the time having moved on.
    pub spins: u32,
    /// Messages of its connections that have not arrived yet.
    pub under_way: usize,
    /// Half a round trip to each node.
    pub distance: Vec<Real>,
}

impl Actor {
    pub fn new(plan: ActorPlan, distance: Vec<Real>, rng: Rng) -> Self {
        Self {
            plan,
            brain: None,
            rng,
            phase: Phase::Unborn,
            command: Command::None,
            outcome: Outcome::default(),
            number: None,
            slot: None,
            links: Vec::new(),
            stopped: false,
            backlog: Vec::new(),
            wakes: 0,
            deadlines: 0,
            ending_since: None,
            spins: 0,
            under_way: 0,
            distance,
        }
    }

    /// The keys that it has when it has what it wants.
    pub fn holds(&self) -> &[usize] {
        match self.slot {
            Some(slot) => &self.plan.keys[slot..=slot],
            None => &self.plan.keys,
        }
    }

    pub fn done(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Crashed)
    }

    pub fn link(&self, id: ConnId) -> Option<usize> {
        let known = self.links.iter().rev().find(|(known, _)| *known == id);
        known.map(|(_, link)| *link)
    }

    /// Its process was stopped at some time in `from..`.
    pub fn paused_since(&self, from: Real) -> bool {
        self.plan.pauses.iter().any(|(_, until)| *until >= from)
    }
}

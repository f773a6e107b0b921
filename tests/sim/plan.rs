//! What one history is made of: the fleet, its clients, and what goes wrong when. A plan is made
//! from a seed by one of the families in `histories`, and then played by `world`.

use std::time::Duration;

use redlock::protocol::{Fencing, Limits, Occupant, Patience, RestartGuard, Strategy, Timing, Ttl};

use super::{
    check::Rule,
    clock::{LocalClock, MS, Real, SEC},
    node::Scripts,
    rng::Rng,
};

/// Everything about one history that is decided beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The nodes' clocks; their number is the number of nodes.
    pub nodes: Vec<LocalClock>,
    pub keys: usize,
    /// Where the nodes' fencing counters stand; at 0 where nothing is said.
    pub counters: Vec<u64>,
    pub net: Net,
    pub scripts: Scripts,
    /// The clients want a fencing token.
    pub fencing: Fencing,
    /// The clients' restart guard.
    pub guard: RestartGuard,
    /// Nobody may subscribe.
    pub mute: bool,
    pub actors: Vec<ActorPlan>,
    pub faults: Vec<Fault>,
    /// What is there before anybody starts.
    pub present: Vec<(usize, usize, Occupant, Option<Duration>)>,
    pub premise: Premise,
    pub goal: Goal,
    pub until: Until,
    /// The only rules that are checked.
    pub watched: Option<Vec<Rule>>,
    /// When the history is over whether or not everybody is done.
    pub limit: Real,
}

/// How long messages take.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    /// The mean round trip.
    pub rtt: Real,
    /// What is added to every message, on average, in percent of half the round trip.
    pub jitter: u64,
    /// So many of a thousand messages take twenty times as long, on average.
    pub spikes: u64,
    /// So many of a hundred acquires are executed twice.
    pub repeats: u64,
    pub connect: Connect,
}

impl Net {
    /// No answer of a node that works takes longer.
    pub fn slowest(self) -> Real {
        if self.spikes > 0 { Real::MAX } else { self.usual() }
    }

    /// No answer of a node that works takes longer, unless the weather is bad.
    pub fn usual(self) -> Real {
        self.rtt * 13 * (100 + 5 * self.jitter) / 1000
    }
}

/// What a connection costs before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Nothing: to compare with the model of the contention table, which has no connections.
    Free,
    /// A round trip, as TCP does.
    RoundTrip,
}

/// Whose lock a client has, and what it leaves of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `redlock run`: its own, which it releases.
    Run,
    /// `redlock acquire`: its own, which it leaves where it is.
    Acquire,
    /// `redlock run --token`: that of another client, so long after it was left.
    Adopt(usize),
}

/// One run of the program.
#[derive(Clone, Debug)]
pub struct ActorPlan {
    pub part: Part,
    pub start: Real,
    pub keys: Vec<usize>,
    /// Any one of its keys is enough.
    pub slots: bool,
    pub timing: Timing,
    pub patience: Patience,
    pub strategy: Strategy,
    pub clock: LocalClock,
    /// How long its command works.
    pub command: Real,
    /// From when to when the process is stopped; its command is not.
    pub pauses: Vec<(Real, Real)>,
    pub crash: Option<Real>,
    /// TERM to the process.
    pub signal: Option<Real>,
    pub shell: Shell,
    /// Its session is told that clocks do not drift.
    pub ignores_drift: bool,
    /// The nodes of its list; all, but for a broken rule about the quorum.
    pub view: Vec<usize>,
    /// For whom messages to and from node 0 take so many times as long.
    pub slow: u64,
}

/// How careful the shell around the session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shell {
    #[default]
    Careful,
    /// Spawns without looking at the clock once more.
    SpawnsUnchecked,
}

/// Something that goes wrong with a node.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub node: usize,
    pub at: Real,
    pub until: Real,
    pub what: What,
}

impl Fault {
    /// The node comes back without its memory.
    pub fn forgets(&self) -> bool {
        matches!(self.what, What::Down { memory: Memory::Lost, .. })
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// SIGSTOP: accepts, buffers, executes late.
    Stopped,
    /// Not running.
    Down { memory: Memory, seen: Seen },
    /// Nothing comes through until the end, and then all of it.
    Dark,
    /// Every message takes so many times as long.
    Slow(u64),
    /// Answers with errors.
    Refusing(Refusing),
    /// Every connection to it breaks once.
    Cut,
    /// FLUSHALL: every key and every counter is gone, once.
    Emptied,
    /// Somebody frees every lock by hand, once.
    Freed,
}

/// What a node that comes back knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Kept,
    Lost,
}

/// How clients notice that a node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The process ended: connections break, new ones are refused.
    AtOnce,
    /// The machine ended: nothing answers.
    Never,
}

/// What a refusing node still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    Everything,
    /// Out of memory: no key is set; the others are executed.
    Acquires,
    /// The SELECT of new connections fails: says no on them and executes all the same.
    Nothing,
}

/// Whether the plan keeps what Redlock presupposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Premise {
    /// A lock that was counted is there until it runs out.
    Kept,
    /// Nodes forget locks that are valid, which the restart guard makes good: a holder may lose its
    /// nodes, and nobody else gets them before it knows.
    Guarded,
    /// Nodes forget locks that are valid: only the rules that hold in any fault are checked.
    Broken,
}

/// When a history ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everybody is done and every message has arrived.
    AllAreDone,
    /// Somebody has the lock.
    SomebodyHolds,
}

/// What must have come of it in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing but an end.
    Any,
    /// Every command ran whose client waits without limit and was left in peace.
    AllRun,
    /// Exactly so many commands ran.
    Winners(usize),
}

impl Plan {
    /// A fleet of `nodes` exact clocks without faults and clients.
    pub fn calm(nodes: usize) -> Self {
        Self {
            nodes: vec![LocalClock::exact(0); nodes],
            keys: 1,
            counters: Vec::new(),
            net: Net { rtt: MS, jitter: 20, spikes: 0, repeats: 0, connect: Connect::RoundTrip },
            scripts: Scripts::Faithful,
            fencing: Fencing::Off,
            guard: RestartGuard::Auto,
            mute: false,
            actors: Vec::new(),
            faults: Vec::new(),
            present: Vec::new(),
            premise: Premise::Kept,
            goal: Goal::Any,
            until: Until::AllAreDone,
            watched: None,
            limit: 1200 * SEC,
        }
    }

    pub fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Clocks that differ in what they show and, by one percent of each other at the most, in how
    /// fast they run.
    pub fn skew(&mut self, rng: &mut Rng) {
        // Either all of it is the nodes', or half of it the clients'.
        let (node, client) = if rng.chance(50) { (10_000, 0) } else { (4950, 4950) };
        let mut clock = |most: i64| LocalClock {
            offset: rng.below(1_000_000 * SEC),
            ppm: rng.pick(&[-most, 0, most, most]),
            set_back: None,
        };
        self.nodes.iter_mut().for_each(|n| *n = clock(node));
        self.actors.iter_mut().for_each(|a| a.clock = clock(client));
    }

    /// Messages that take very long now and then.
    pub fn weather(&mut self, rng: &mut Rng) {
        self.net.rtt = rng.pick(&[MS / 5, MS, 10 * MS, 40 * MS]);
        self.net.jitter = rng.pick(&[5, 20, 100]);
        self.net.spikes = rng.pick(&[0, 2, 20]);
    }
}

impl ActorPlan {
    /// A client of all `nodes` that waits without limit, starts at once and is left in peace.
    pub fn new(nodes: usize, ttl: Duration) -> Self {
        Self {
            part: Part::Run,
            start: 0,
            keys: vec![0],
            slots: false,
            timing: timing(ttl),
            patience: FOREVER,
            strategy: Strategy::Concurrent,
            clock: LocalClock::exact(0),
            command: 10 * MS,
            pauses: Vec::new(),
            crash: None,
            signal: None,
            shell: Shell::Careful,
            ignores_drift: false,
            view: (0..nodes).collect(),
            slow: 1,
        }
    }

    /// Nothing is planned that would keep it from running its command.
    pub fn in_peace(&self) -> bool {
        self.crash.is_none() && self.signal.is_none()
    }
}

/// Waits without limit; an outage is endured for ten minutes.
pub const FOREVER: Patience = Patience::Forever { outage: Duration::from_secs(600) };

/// The chain of durations of a ttl.
pub fn timing(ttl: Duration) -> Timing {
    let chain =
        Ttl::new(ttl, Ttl::DEFAULT_MAX).and_then(|ttl| Timing::new(ttl, &Limits::default()));
    chain.unwrap_or_else(|error| panic!("a plan's ttl is at fault: {error}"))
}

//! Every lock on all nodes, page by page, in memory for one page only.
//!
//! The nodes' tables are in different orders, so that they cannot be walked side by side. They are
//! walked one after the other instead: what a node's next batch names is looked up on all nodes at
//! once, and what an earlier node shows as well was told when that node was walked. The next page
//! is made when the owner asks for it, so that a slow reader of ours slows the walk down.

use std::collections::HashSet;

use super::{
    Action, Cell, ConnId, Datum, LinkEvent, Lock, Machine, NodeIndex, Occupant, Query, Reply,
    Request, Testimony, Timing, Token, Trouble,
    calls::{Answer, Calls, Told},
};
use crate::clock::Tick;

/// So many places of a node's table are walked at once.
const BATCH: u32 = 500;

/// Which keys are locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those with a value of redlock's.
    Ours,
    /// All strings with an expiry.
    AllThatExpire,
}

/// What the owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// What each node says of itself (INFO server), before all locks.
    Nodes(Vec<Testimony>),
    /// The next locks, possibly none; [`Machine::more`] makes it go on.
    Page {
        /// The locks.
        locks: Vec<Lock>,
        /// How many keys were walked so far.
        walked: u64,
    },
    /// The end.
    End {
        /// Why a node could not be walked to its end.
        gaps: Vec<(NodeIndex, Gap)>,
    },
}

/// Why a node's keys are not all known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It failed.
    Failed(Trouble),
    /// It refuses to be walked.
    Refused(String),
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// Everybody introduces themselves.
    Info,
    /// The next batch of `node`.
    Walk {
        node: NodeIndex,
    },
    /// Which of the `names` does `against`, which was walked before, show as well?
    Sift {
        node: NodeIndex,
        against: NodeIndex,
        names: Vec<Vec<u8>>,
    },
    /// What do all nodes show, and how many wait?
    Look {
        node: NodeIndex,
        names: Vec<Vec<u8>>,
        cells: Vec<Vec<Cell>>,
        waiters: Vec<Option<u64>>,
    },
    /// The owner reads.
    Paused {
        node: NodeIndex,
    },
    Over,
}

/// The state of a census.
#[derive(Debug)]
pub struct Census {
    calls: Calls,
    prefix: String,
    wanted: Wanted,
    phase: Phase,
    /// Where the walk of the present node goes on; `None` at its end.
    cursor: Option<Vec<u8>>,
    said: Vec<Testimony>,
    /// Nodes whose walk came to its end or nearly: what they show was told.
    walked: Vec<NodeIndex>,
    keys: u64,
    gaps: Vec<(NodeIndex, Gap)>,
    told: Vec<Action<Found>>,
}

impl Census {
    /// Of all locks whose keys begin with `prefix`, on `nodes` nodes.
    pub fn new(nodes: usize, timing: Timing, prefix: String, wanted: Wanted) -> Self {
        Self {
            calls: Calls::new(nodes, timing),
            prefix,
            wanted,
            phase: Phase::Idle,
            cursor: None,
            said: vec![Testimony::default(); nodes],
            walked: Vec::new(),
            keys: 0,
            gaps: Vec::new(),
            told: Vec::new(),
        }
    }
}

impl Machine for Census {
    type Event = Found;

    fn start(&mut self, now: Tick) {
        self.phase = Phase::Info;
        for node in self.calls.nodes() {
            let info = Request::Query(Query::words(&["INFO", "server"]));
            self.calls.ask(node, info, now);
        }
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        if let Some(told) = self.calls.handle(conn, event, now) {
            self.hear(told, now);
        }
        self.step(now);
    }

    fn wake(&mut self, now: Tick) {
        for told in self.calls.overdue(now) {
            self.hear(told, now);
        }
        self.step(now);
    }

    /// The owner has read the page.
    fn more(&mut self, now: Tick) {
        if let Phase::Paused { node } = self.phase {
            self.walk_on(node, now);
            self.step(now);
        }
    }

    /// Ends with what was found so far.
    fn stop(&mut self, _now: Tick) {
        if !matches!(self.phase, Phase::Over) {
            self.phase = Phase::Over;
            let gaps = std::mem::take(&mut self.gaps);
            self.told.push(Action::Tell(Found::End { gaps }));
        }
    }

    fn deadline(&self) -> Option<Tick> {
        match self.phase {
            Phase::Over => None,
            _ => self.calls.deadline(),
        }
    }

    fn actions(&mut self) -> Vec<Action<Found>> {
        let mut actions = self.calls.actions();
        actions.append(&mut self.told);
        actions
    }

    fn is_last(event: &Found) -> bool {
        matches!(event, Found::End { .. })
    }
}

impl Census {
    fn hear(&mut self, told: Told, now: Tick) {
        match told {
            Told::Answer(node, answer) => self.answer(node, answer, now),
            Told::Secured(..) => {}
            Told::Failed(node, trouble) => match self.phase {
                Phase::Info => self.said[node.get()].trouble = Some(trouble),
                _ => self.gaps.push((node, Gap::Failed(trouble))),
            },
        }
    }

    fn answer(&mut self, node: NodeIndex, answer: Answer, now: Tick) {
        match &mut self.phase {
            Phase::Info => self.said[node.get()].answers.push(answer),
            Phase::Walk { node: walked } if *walked == node => self.batch(node, answer.reply, now),
            Phase::Sift { names, .. } => {
                // Whatever is no string there was not told when that node was walked.
                let told: HashSet<i64> = match &answer.reply {
                    Reply::Data(data) => {
                        data.list().unwrap_or_default().iter().filter_map(Datum::int).collect()
                    }
                    _ => HashSet::new(),
                };
                let mut place = 0;
                names.retain(|_| {
                    place += 1;
                    !told.contains(&place)
                });
            }
            Phase::Look { names, cells, waiters, .. } => match &answer.reply {
                Reply::Data(Datum::List(list)) if list.first().is_some_and(is_channel) => {
                    for (place, pair) in list.chunks_exact(2).enumerate().take(names.len()) {
                        let count = pair[1].int().and_then(|count| u64::try_from(count).ok());
                        waiters[place] = waiters[place].max(count);
                    }
                }
                reply => {
                    if let Some(rows) = rows(reply) {
                        for row in cells.iter_mut() {
                            row[node.get()] = Cell::Free;
                        }
                        for (place, cell) in rows {
                            if let Some(row) = cells.get_mut(place) {
                                row[node.get()] = cell;
                            }
                        }
                    }
                }
            },
            Phase::Walk { .. } | Phase::Idle | Phase::Paused { .. } | Phase::Over => {}
        }
    }

    /// A batch of names came from the node that is walked.
    fn batch(&mut self, node: NodeIndex, reply: Reply, now: Tick) {
        let Reply::Data(Datum::List(parts)) = reply else {
            let text = match reply {
                Reply::Refused(refusal) => refusal.text,
                _ => "it answers SCAN in a way of its own".to_owned(),
            };
            self.gaps.push((node, Gap::Refused(text)));
            self.cursor = None;
            return self.walk_on(node, now);
        };
        let cursor = parts.first().and_then(Datum::bytes).unwrap_or(b"0").to_vec();
        self.cursor = (cursor != b"0").then_some(cursor);
        let names = parts.get(1).and_then(Datum::list).unwrap_or_default();
        let mut seen = HashSet::new();
        let names: Vec<Vec<u8>> = names
            .iter()
            .filter_map(|name| name.bytes()?.strip_prefix(self.prefix.as_bytes()))
            .filter(|name| !name.is_empty() && !name.starts_with(b"redlock:"))
            .filter(|name| seen.insert(name.to_vec()))
            .map(<[u8]>::to_vec)
            .collect();
        self.keys += names.len() as u64;
        self.sift(node, 0, names, now);
    }

    /// Asks the `turn`-th of the nodes that were walked before; after the last, looks.
    fn sift(&mut self, node: NodeIndex, turn: usize, names: Vec<Vec<u8>>, now: Tick) {
        let against = self.walked.iter().skip(turn).copied().find(|node| self.calls.is_up(*node));
        if names.is_empty() {
            return self.page(node, Vec::new());
        }
        if let Some(against) = against {
            let strings = Query::Strings(self.full(&names));
            self.calls.ask(against, Request::Query(strings), now);
            self.phase = Phase::Sift { node, against, names };
            return;
        }
        let channels: Vec<Vec<u8>> = names
            .iter()
            .map(|name| [self.prefix.as_bytes(), b"redlock:released:", name].concat())
            .collect();
        for each in self.calls.nodes() {
            let look = Query::Look(self.full(&names));
            self.calls.ask(each, Request::Query(look), now);
            let listeners = Query::listeners(channels.iter().cloned());
            self.calls.ask(each, Request::Query(listeners), now);
        }
        let cells = vec![vec![Cell::Unknown; self.said.len()]; names.len()];
        let waiters = vec![None; names.len()];
        self.phase = Phase::Look { node, names, cells, waiters };
    }

    fn full(&self, names: &[Vec<u8>]) -> Vec<Vec<u8>> {
        names.iter().map(|name| [self.prefix.as_bytes(), name].concat()).collect()
    }

    fn page(&mut self, node: NodeIndex, locks: Vec<Lock>) {
        self.phase = Phase::Paused { node };
        self.told.push(Action::Tell(Found::Page { locks, walked: self.keys }));
    }

    /// The next batch of `node`, or the next node, or the end.
    fn walk_on(&mut self, node: NodeIndex, now: Tick) {
        if let Some(cursor) = self.cursor.take().filter(|_| self.calls.is_up(node)) {
            self.walk(node, &cursor, now);
            return;
        }
        if self.calls.is_up(node) {
            self.walked.push(node);
        }
        let next = self.calls.nodes().find(|each| *each > node && self.calls.is_up(*each));
        match next {
            Some(next) => self.walk(next, b"0", now),
            None => self.stop(now),
        }
    }

    fn walk(&mut self, node: NodeIndex, cursor: &[u8], now: Tick) {
        let scan = Query::scan(cursor, &self.prefix, BATCH);
        self.calls.ask(node, Request::Query(scan), now);
        self.phase = Phase::Walk { node };
    }

    fn step(&mut self, now: Tick) {
        let idle = !self.calls.nodes().any(|node| self.calls.owes(node));
        match &mut self.phase {
            Phase::Info if idle => {
                self.told.push(Action::Tell(Found::Nodes(std::mem::take(&mut self.said))));
                self.said = vec![Testimony::default(); self.calls.nodes().count()];
                match self.calls.nodes().find(|node| self.calls.is_up(*node)) {
                    Some(first) => self.walk(first, b"0", now),
                    None => self.stop(now),
                }
            }
            // It failed: what it has is known from the others, if at all.
            Phase::Walk { node } if !self.calls.is_up(*node) => {
                let node = *node;
                self.walk_on(node, now);
            }
            Phase::Sift { node, against, names } if !self.calls.owes(*against) => {
                let (node, names) = (*node, std::mem::take(names));
                let turn = self.walked.iter().position(|walked| walked == against);
                let turn = turn.map_or(self.walked.len(), |turn| turn + 1);
                self.sift(node, turn, names, now);
                self.step(now);
            }
            Phase::Look { node, names, cells, waiters } if idle => {
                let node = *node;
                let names = std::mem::take(names);
                let cells = std::mem::take(cells);
                let waiters = std::mem::take(waiters);
                let locks = names.into_iter().zip(cells).zip(waiters);
                let locks = locks.map(|((name, cells), waiters)| Lock { name, cells, waiters });
                let wanted = self.wanted;
                self.page(node, locks.filter(|lock| is_wanted(lock, wanted)).collect());
            }
            _ => {}
        }
    }
}

fn is_wanted(lock: &Lock, wanted: Wanted) -> bool {
    lock.cells.iter().any(|cell| match cell {
        Cell::Taken { occupant: Occupant::Value(value), expires_in } => match wanted {
            Wanted::Ours => Token::of_value(value).is_some(),
            Wanted::AllThatExpire => expires_in.is_some() || Token::of_value(value).is_some(),
        },
        _ => false,
    })
}

/// Whether an answer is the one about channels: looks answer with rows.
fn is_channel(first: &Datum) -> bool {
    first.bytes().is_some()
}

/// The answer to [`Query::Look`] as places from 0 and what is there.
fn rows(reply: &Reply) -> Option<Vec<(usize, Cell)>> {
    match reply {
        Reply::Data(Datum::Int(0)) => Some(Vec::new()),
        Reply::Data(Datum::List(rows)) => rows.iter().map(row).collect(),
        _ => None,
    }
}

fn row(row: &Datum) -> Option<(usize, Cell)> {
    let [place, kind, pttl, head] = row.list()? else { return None };
    let place = usize::try_from(place.int()?).ok()?.checked_sub(1)?;
    let occupant = match head.bytes() {
        Some(value) => Occupant::Value(value.to_vec()),
        None => Occupant::Type(kind.text()?),
    };
    let expires_in = u64::try_from(pttl.int()?).ok().map(std::time::Duration::from_millis);
    Some((place, Cell::Taken { occupant, expires_in }))
}

//! The same questions to every node, in rounds, and everything they said: what the short commands
//! (`extend`, `release`, `status`, `doctor`) are made of.
//!
//! The questions of a round go out together. The next round of a node begins when it has answered
//! the one before, and not before its time. No node waits for another.

use std::{collections::VecDeque, time::Duration};

pub use super::calls::Answer;
use super::{
    Action, ConnId, LinkEvent, Machine, NodeIndex, Reply, Request, Timing, Trouble,
    calls::{Calls, Told},
};
use crate::clock::Tick;

/// Questions that go out together.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Not before so long after the start.
    pub after: Duration,
    /// The questions, in order.
    pub questions: Vec<Request>,
}

impl Round {
    /// At once.
    pub fn of(questions: Vec<Request>) -> Self {
        Self { after: Duration::ZERO, questions }
    }
}

/// What one node said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Testimony {
    /// Its answers, in the order of all questions; those that are missing are missing at the end.
    pub answers: Vec<Answer>,
    /// When its certificate ends, since 1970, where it has shown one.
    pub certificate_ends: Option<Duration>,
    /// Why there are no more.
    pub trouble: Option<Trouble>,
}

impl Testimony {
    /// The answer to the question at `place`.
    pub fn reply(&self, place: usize) -> Option<&Reply> {
        self.answers.get(place).map(|answer| &answer.reply)
    }
}

/// The state of an interview.
#[derive(Debug)]
pub struct Interview {
    calls: Calls,
    rounds: Vec<VecDeque<Round>>,
    said: Vec<Testimony>,
    started: Tick,
    over: bool,
    end: Vec<Action<Vec<Testimony>>>,
}

impl Interview {
    /// The same `rounds` for each of `nodes` nodes.
    pub fn new(nodes: usize, timing: Timing, rounds: &[Round]) -> Self {
        Self::each(timing, std::iter::repeat_n(rounds.to_vec(), nodes))
    }

    /// Different rounds for each node.
    pub fn each(timing: Timing, rounds: impl IntoIterator<Item = Vec<Round>>) -> Self {
        let rounds: Vec<VecDeque<Round>> = rounds.into_iter().map(VecDeque::from).collect();
        Self {
            calls: Calls::new(rounds.len(), timing),
            said: vec![Testimony::default(); rounds.len()],
            rounds,
            started: Tick::default(),
            over: false,
            end: Vec::new(),
        }
    }
}

impl Machine for Interview {
    type Event = Vec<Testimony>;

    fn start(&mut self, now: Tick) {
        self.started = now;
        self.step(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        let told = self.calls.handle(conn, event, now);
        self.hear(told);
        self.step(now);
    }

    fn wake(&mut self, now: Tick) {
        let told = self.calls.overdue(now);
        self.hear(told);
        self.step(now);
    }

    /// Ends with what was said so far.
    fn stop(&mut self, _now: Tick) {
        if !self.over {
            self.over = true;
            self.end.push(Action::Tell(std::mem::take(&mut self.said)));
        }
    }

    fn deadline(&self) -> Option<Tick> {
        if self.over {
            return None;
        }
        let rounds = self.calls.nodes().filter(|node| self.is_idle(*node));
        let rounds = rounds.filter_map(|node| self.rounds[node.get()].front());
        let rounds = rounds.map(|round| self.started.after(round.after));
        rounds.chain(self.calls.deadline()).min()
    }

    fn actions(&mut self) -> Vec<Action<Vec<Testimony>>> {
        let mut actions = self.calls.actions();
        actions.append(&mut self.end);
        actions
    }

    fn is_last(_event: &Vec<Testimony>) -> bool {
        true
    }
}

impl Interview {
    fn is_idle(&self, node: NodeIndex) -> bool {
        self.calls.is_up(node) && !self.calls.owes(node)
    }

    fn hear(&mut self, told: impl IntoIterator<Item = Told>) {
        for told in told {
            match told {
                Told::Answer(node, answer) => self.said[node.get()].answers.push(answer),
                Told::Secured(node, ends) => self.said[node.get()].certificate_ends = Some(ends),
                Told::Failed(node, trouble) => {
                    // A node that has said everything and then hangs up has not failed.
                    let wanted = !self.rounds[node.get()].is_empty() || self.calls.is_short(node);
                    self.said[node.get()].trouble = wanted.then_some(trouble);
                    self.rounds[node.get()].clear();
                }
            }
        }
    }

    fn step(&mut self, now: Tick) {
        if self.over {
            return;
        }
        for node in self.calls.nodes() {
            let rounds = &self.rounds[node.get()];
            let due = rounds.front().is_some_and(|round| now >= self.started.after(round.after));
            if due
                && self.is_idle(node)
                && let Some(round) = self.rounds[node.get()].pop_front()
            {
                for question in round.questions {
                    self.calls.ask(node, question, now);
                }
            }
        }
        let busy = |node: NodeIndex| {
            self.calls.owes(node) || (self.calls.is_up(node) && !self.rounds[node.get()].is_empty())
        };
        if !self.calls.nodes().any(busy) {
            self.stop(now);
        }
    }
}

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
        if self.over {
            // What was said has been told already.
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Limits, Ttl};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Tick {
        Tick::from_boot(ms(n))
    }

    const fn conn(node: u8) -> ConnId {
        ConnId { node: NodeIndex(node), serial: 0 }
    }

    /// Two questions at once, and a third not before second 2, for two nodes.
    fn interview() -> Interview {
        let ttl = Ttl::new(Duration::from_secs(10), Ttl::DEFAULT_MAX).unwrap();
        let timing = Timing::new(ttl, &Limits::default()).unwrap();
        let later = Round { after: ms(2000), questions: vec![Request::Attend] };
        let rounds = [Round::of(vec![Request::Look, Request::Subscribe]), later];
        let mut interview = Interview::new(2, timing, &rounds);
        interview.start(at(0));
        for node in 0..2 {
            interview.handle(conn(node), LinkEvent::Ready, at(1));
        }
        interview
    }

    fn reply(interview: &mut Interview, node: u8, now: u64) {
        interview.handle(conn(node), LinkEvent::Replied(Reply::Absent), at(now));
    }

    /// What goes out now, and what was told in the end.
    fn out(interview: &mut Interview) -> (Vec<(u8, Request)>, Option<Vec<Testimony>>) {
        let (mut sent, mut told) = (Vec::new(), None);
        for action in interview.actions() {
            match action {
                Action::Send(conn, request) => sent.push((conn.node.0, request)),
                Action::Tell(said) => told = Some(said),
                Action::Open(_) | Action::Close(_) => {}
            }
        }
        (sent, told)
    }

    #[test]
    fn questions_of_a_round_go_out_together_and_the_next_round_waits_for_answers_and_time() {
        let mut interview = interview();
        let (sent, told) = out(&mut interview);
        let first = |node| [(node, Request::Look), (node, Request::Subscribe)];
        assert_eq!((sent, told), ([first(0), first(1)].concat(), None));
        for now in [10, 11] {
            reply(&mut interview, 0, now);
        }
        assert_eq!(out(&mut interview).0, []);
        // Node 1 owes an answer, which is due sooner than the next round of node 0.
        assert_eq!(interview.deadline(), Some(at(501)));
        for now in [12, 13] {
            reply(&mut interview, 1, now);
        }
        assert_eq!(interview.deadline(), Some(at(2000)));
        interview.wake(at(1999));
        assert_eq!(out(&mut interview).0, []);
        interview.wake(at(2000));
        let (sent, told) = out(&mut interview);
        assert_eq!((sent, told), (vec![(0, Request::Attend), (1, Request::Attend)], None));
        reply(&mut interview, 0, 2010);
        assert_eq!(out(&mut interview).1, None);
        reply(&mut interview, 1, 2011);
        let said = out(&mut interview).1.unwrap();
        assert!(said.iter().all(|said| said.answers.len() == 3 && said.trouble.is_none()));
        assert_eq!(interview.deadline(), None);
    }

    #[test]
    fn node_that_fails_is_missing_at_the_end_and_holds_nobody_up() {
        let mut interview = interview();
        reply(&mut interview, 0, 10);
        interview.handle(conn(0), LinkEvent::Ended(Trouble::Cut), at(11));
        for now in [12, 13] {
            reply(&mut interview, 1, now);
        }
        interview.wake(at(2000));
        reply(&mut interview, 1, 2001);
        let said = out(&mut interview).1.unwrap();
        assert_eq!((said[0].answers.len(), said[1].answers.len()), (1, 3));
        assert_eq!((&said[0].trouble, &said[1].trouble), (&Some(Trouble::Cut), &None));
        assert!(said[0].reply(0).is_some() && said[0].reply(1).is_none());
    }

    #[test]
    fn node_that_hangs_up_after_its_last_answer_has_not_failed() {
        let mut interview = interview();
        for (node, now) in [(0, 10), (0, 11), (1, 12), (1, 13)] {
            reply(&mut interview, node, now);
        }
        interview.wake(at(2000));
        reply(&mut interview, 0, 2001);
        interview.handle(conn(0), LinkEvent::Ended(Trouble::Cut), at(2002));
        reply(&mut interview, 1, 2003);
        let said = out(&mut interview).1.unwrap();
        assert_eq!(said[0].trouble, None);
    }

    #[test]
    fn stop_tells_what_was_said_so_far_once() {
        let mut interview = interview();
        reply(&mut interview, 1, 10);
        interview.stop(at(11));
        interview.stop(at(12));
        let told = interview.actions().into_iter().filter(|act| matches!(act, Action::Tell(_)));
        assert_eq!(told.count(), 1);
        interview.wake(at(5000));
        assert_eq!(out(&mut interview), (vec![], None));
    }
}

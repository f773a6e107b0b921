//! One connection to each node, questions in order, and who is overdue: what the machines that
//! hold no lock of their own speak through. Nothing is repaired: a node that fails has failed.

use std::{collections::VecDeque, time::Duration};

use super::{Action, ConnId, LinkEvent, NodeIndex, Reply, Request, Timing, TlsTrouble, Trouble};
use crate::clock::Tick;

/// An answer, and when it was asked for and came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was answered.
    pub reply: Reply,
    /// When the question was queued, or could be sent if that was later.
    pub sent: Tick,
    /// When it came.
    pub came: Tick,
}

impl Answer {
    /// How long it took.
    pub const fn took(&self) -> Duration {
        self.came.since(self.sent)
    }
}

/// What an event means.
#[derive(Debug)]
pub enum Told {
    /// The answer to the node's oldest question.
    Answer(NodeIndex, Answer),
    /// The node's certificate ends then, since 1970.
    Secured(NodeIndex, Duration),
    /// Nothing more comes from the node.
    Failed(NodeIndex, Trouble),
}

#[derive(Debug)]
struct Line {
    opened: Option<Tick>,
    /// What it means when it is not ready in time.
    late: Trouble,
    ready: Option<Tick>,
    last: Tick,
    asked: VecDeque<Tick>,
    failed: bool,
}

/// The connections.
#[derive(Debug)]
pub struct Calls {
    timing: Timing,
    lines: Vec<Line>,
    deeds: VecDeque<Deed>,
}

#[derive(Debug)]
enum Deed {
    Open(ConnId),
    Send(ConnId, Request),
    Close(ConnId),
}

const fn id(node: NodeIndex) -> ConnId {
    ConnId { node, serial: 0 }
}

impl Calls {
    /// No connection yet to any of `nodes` nodes.
    pub fn new(nodes: usize, timing: Timing) -> Self {
        let line = || Line {
            opened: None,
            late: Trouble::ConnectTimeout,
            ready: None,
            last: Tick::default(),
            asked: VecDeque::new(),
            failed: false,
        };
        Self {
            timing,
            lines: std::iter::repeat_with(line).take(nodes).collect(),
            deeds: VecDeque::new(),
        }
    }

    /// Every node, in canonical order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0_u8..).take(self.lines.len()).map(NodeIndex)
    }

    /// Asks `node`, connecting first where nothing was asked before.
    pub fn ask(&mut self, node: NodeIndex, request: Request, now: Tick) {
        let line = &mut self.lines[node.get()];
        if line.failed {
            return;
        }
        if line.opened.is_none() {
            line.opened = Some(now);
            self.deeds.push_back(Deed::Open(id(node)));
        }
        line.asked.push_back(now);
        self.deeds.push_back(Deed::Send(id(node), request));
    }

    /// Whether the node can still be asked.
    pub fn is_up(&self, node: NodeIndex) -> bool {
        !self.lines[node.get()].failed
    }

    /// Whether the node owes an answer.
    pub fn owes(&self, node: NodeIndex) -> bool {
        let line = &self.lines[node.get()];
        !line.failed && !line.asked.is_empty()
    }

    /// Whether the node failed while it owed an answer.
    pub fn is_short(&self, node: NodeIndex) -> bool {
        let line = &self.lines[node.get()];
        line.failed && !line.asked.is_empty()
    }

    /// Something happened on a connection.
    pub fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) -> Option<Told> {
        let line = self.lines.get_mut(conn.node.get())?;
        if line.failed {
            return None;
        }
        match event {
            LinkEvent::Securing => {
                line.late = Trouble::Tls(TlsTrouble::Unanswered);
                None
            }
            LinkEvent::Ready => {
                line.ready = Some(now);
                None
            }
            LinkEvent::Secured { ends } => Some(Told::Secured(conn.node, ends?)),
            LinkEvent::Replied(reply) => {
                let asked = line.asked.pop_front()?;
                line.last = now;
                let sent = line.ready.map_or(asked, |ready| asked.max(ready));
                Some(Told::Answer(conn.node, Answer { reply, sent, came: now }))
            }
            LinkEvent::Introduced(_) | LinkEvent::Released { .. } | LinkEvent::Called(_) => None,
            LinkEvent::Ended(trouble) => {
                line.failed = true;
                Some(Told::Failed(conn.node, trouble))
            }
        }
    }

    /// Gives up who is overdue.
    pub fn overdue(&mut self, now: Tick) -> Vec<Told> {
        let mut told = Vec::new();
        for node in self.nodes() {
            let line = &mut self.lines[node.get()];
            if line.due(&self.timing).is_some_and(|due| now >= due) {
                line.failed = true;
                // What is queued is still written: it may be a release.
                self.deeds.push_back(Deed::Close(id(node)));
                let trouble = match line.ready {
                    Some(_) => Trouble::Silent,
                    None => line.late.clone(),
                };
                told.push(Told::Failed(node, trouble));
            }
        }
        told
    }

    /// When [`Calls::overdue`] has something to say at the earliest.
    pub fn deadline(&self) -> Option<Tick> {
        self.lines.iter().filter_map(|line| line.due(&self.timing)).min()
    }

    /// Takes what is to be done, in order.
    pub fn actions<E>(&mut self) -> Vec<Action<E>> {
        let action = |deed| match deed {
            Deed::Open(conn) => Action::Open(conn),
            Deed::Send(conn, request) => Action::Send(conn, request),
            Deed::Close(conn) => Action::Close(conn),
        };
        self.deeds.drain(..).map(action).collect()
    }
}

impl Line {
    /// When the oldest question is overdue. Answers come one after the other: each has its time
    /// from the one before.
    fn due(&self, timing: &Timing) -> Option<Tick> {
        let asked = *self.asked.front().filter(|_| !self.failed)?;
        Some(match self.ready {
            None => self.opened?.after(timing.connect_timeout),
            Some(ready) => asked.max(ready).max(self.last).after(timing.node_timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Limits, Ttl};

    const NODE: NodeIndex = NodeIndex(0);

    fn at(ms: u64) -> Tick {
        Tick::from_boot(Duration::from_millis(ms))
    }

    /// A second to connect, half a second for each answer.
    fn calls() -> Calls {
        let ttl = Ttl::new(Duration::from_secs(10), Ttl::DEFAULT_MAX).unwrap();
        Calls::new(2, Timing::new(ttl, &Limits::default()).unwrap())
    }

    fn answer(calls: &mut Calls, now: u64) -> Option<Told> {
        calls.handle(id(NODE), LinkEvent::Replied(Reply::Absent), at(now))
    }

    #[test]
    fn first_question_connects_and_all_go_out_in_order() {
        let mut calls = calls();
        calls.ask(NODE, Request::Look, at(1));
        calls.ask(NODE, Request::Attend, at(2));
        let actions: Vec<Action> = calls.actions();
        let (open, conn) = (Action::Open(id(NODE)), id(NODE));
        let sent = [Request::Look, Request::Attend].map(|request| Action::Send(conn, request));
        assert_eq!(actions, [vec![open], sent.to_vec()].concat());
        assert!(calls.owes(NODE) && !calls.owes(NodeIndex(1)));
    }

    #[test]
    fn answer_counts_from_when_it_could_be_asked_for() {
        let mut calls = calls();
        calls.ask(NODE, Request::Look, at(0));
        calls.handle(id(NODE), LinkEvent::Ready, at(300));
        let Some(Told::Answer(NODE, first)) = answer(&mut calls, 310) else { panic!("no answer") };
        assert_eq!(first.took(), Duration::from_millis(10));
        assert!(!calls.owes(NODE) && answer(&mut calls, 320).is_none());
    }

    #[test]
    fn connection_and_each_answer_have_their_time() {
        let mut calls = calls();
        calls.ask(NODE, Request::Look, at(0));
        assert_eq!(calls.deadline(), Some(at(1000)));
        calls.handle(id(NODE), LinkEvent::Ready, at(900));
        calls.ask(NODE, Request::Look, at(900));
        assert_eq!(calls.deadline(), Some(at(1400)));
        answer(&mut calls, 1300);
        // The second was asked for with the first, and can only come after it.
        assert_eq!(calls.deadline(), Some(at(1800)));
        assert!(calls.overdue(at(1799)).is_empty());
        let told = calls.overdue(at(1800));
        assert!(matches!(told[..], [Told::Failed(NODE, Trouble::Silent)]), "{told:?}");
        assert!(calls.is_short(NODE) && !calls.is_up(NODE) && calls.is_up(NodeIndex(1)));
        let actions: Vec<Action> = calls.actions();
        assert_eq!(actions.last(), Some(&Action::Close(id(NODE))));
    }

    #[test]
    fn node_that_failed_is_not_asked_or_heard_again() {
        let mut calls = calls();
        calls.ask(NODE, Request::Look, at(0));
        let told = calls.overdue(at(1000));
        assert!(matches!(told[..], [Told::Failed(NODE, Trouble::ConnectTimeout)]), "{told:?}");
        let _: Vec<Action> = calls.actions();
        calls.ask(NODE, Request::Look, at(1001));
        assert!(answer(&mut calls, 1002).is_none());
        assert!(calls.handle(id(NODE), LinkEvent::Ended(Trouble::Cut), at(1003)).is_none());
        let actions: Vec<Action> = calls.actions();
        assert!(actions.is_empty() && calls.deadline().is_none() && !calls.owes(NODE));
    }
}

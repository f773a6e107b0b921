//! Nodes that answer in an order that matters.

use std::collections::VecDeque;

use super::*;
use crate::protocol::{Limits, Ttl};

const TTL: Duration = Duration::from_secs(10);

/// A machine on three nodes, whose requests are answered one by one.
struct Stage {
    lock: Adoption,
    now: Tick,
    unanswered: Vec<VecDeque<(ConnId, Request)>>,
    told: Vec<Event>,
}

impl Stage {
    fn start(lock: impl FnOnce(Timing) -> Adoption) -> Self {
        let ttl = Ttl::new(TTL, Ttl::DEFAULT_MAX).unwrap();
        let timing = Timing::new(ttl, &Limits::default()).unwrap();
        let mut stage = Self {
            lock: lock(timing),
            now: Tick::from_boot(Duration::from_secs(1000)),
            unanswered: vec![VecDeque::new(); 3],
            told: Vec::new(),
        };
        stage.lock.start(stage.now);
        stage.act();
        stage
    }

    fn act(&mut self) {
        for action in self.lock.actions() {
            match action {
                Action::Open(conn) => self.lock.handle(conn, LinkEvent::Ready, self.now),
                Action::Send(conn, request) => {
                    self.unanswered[conn.node.get()].push_back((conn, request));
                }
                Action::Close(_) => {}
                Action::Tell(event) => self.told.push(event),
            }
        }
    }

    /// The oldest request to a node is answered, a millisecond later.
    fn answer(&mut self, node: usize, reply: Reply) -> Request {
        let (conn, request) = self.unanswered[node].pop_front().unwrap();
        self.now = self.now.after(Duration::from_millis(1));
        self.lock.handle(conn, LinkEvent::Replied(reply), self.now);
        self.act();
        request
    }

    fn wake_when_due(&mut self) {
        self.now = self.lock.deadline().unwrap().max(self.now);
        self.lock.wake(self.now);
        self.act();
    }

    fn extended(&mut self, node: usize) -> Request {
        let shows = self.now.since(Tick::default());
        self.answer(node, Reply::Extended(shows))
    }

    fn denied(&self) -> Option<Verdict> {
        self.told.iter().find_map(|event| match event {
            Event::Denied(denial) => Some(denial.verdict),
            _ => None,
        })
    }
}

fn token(number: u128) -> Token {
    Token::from_random(number)
}

fn adopt(timing: Timing) -> Adoption {
    Adoption::of_token(3, token(1), Holder::default(), timing)
}

/// Also while it owes that answer when the quorum is there: it was asked with the others.
#[test]
fn node_that_answers_the_check_last_counts_as_the_first_ones_do() {
    let mut stage = Stage::start(adopt);
    stage.extended(0);
    stage.extended(1);
    assert!(matches!(stage.told[..], [Event::Acquired { nodes: 2, .. }]), "{:?}", stage.told);
    stage.extended(2);
    stage.told.clear();
    while stage.unanswered[0].is_empty() {
        stage.wake_when_due();
    }
    stage.answer(0, Reply::Absent);
    // Two are certain, and so is the lock.
    let moved = stage.told.iter().filter_map(|event| match event {
        Event::Validity(validity) => Some(*validity),
        _ => None,
    });
    let moved: Vec<Tick> = moved.collect();
    assert!(moved.iter().all(|validity| validity.since(stage.now) > TTL / 4), "{moved:?}");
}

#[test]
fn tokens_of_the_runs_around_are_tried_from_the_innermost_outwards() {
    let kin = |timing| Adoption::of_kin(3, token(3), vec![token(1), token(2)], timing);
    let mut stage = Stage::start(kin);
    for wanted in [3, 2] {
        for node in 0..2 {
            let asked = stage.answer(node, Reply::Absent);
            assert_eq!(asked, Request::Extend { token: token(wanted), ttl: TTL });
        }
        // What the third says of a token that is not asked for any more is nothing.
        stage.answer(2, Reply::Absent);
    }
    stage.extended(0);
    stage.extended(1);
    let acquired =
        |event: &Event| matches!(event, Event::Acquired { token, .. } if *token == self::token(1));
    assert!(stage.told.iter().any(acquired), "{:?}", stage.told);
    // It is the ancestor's to release and to leave with a full ttl.
    let sent = |stage: &Stage| stage.unanswered.iter().map(VecDeque::len).sum::<usize>();
    let before = sent(&stage);
    stage.lock.stop(stage.now);
    stage.act();
    assert_eq!(sent(&stage), before);
    assert!(stage.told.iter().any(Adoption::is_last), "{:?}", stage.told);
}

#[test]
fn verdict_names_whose_lock_it_is_not() {
    let deny = |lock: fn(Timing) -> Adoption| {
        let mut stage = Stage::start(lock);
        stage.answer(0, Reply::Absent);
        stage.answer(1, Reply::Absent);
        stage.denied()
    };
    assert_eq!(deny(adopt), Some(Verdict::NotOurs));
    let kin = |timing| Adoption::of_kin(3, token(1), Vec::new(), timing);
    assert_eq!(deny(kin), Some(Verdict::NotInherited));
}

//! Verdicts, exhaustively: for up to five nodes, every combination of answers in every order is fed
//! straight into a session, and what it says, and when, is compared with the definitions of
//! docs/protocol.md, section 3, written down once more in here.

use std::{collections::VecDeque, time::Duration};

use redlock::{
    clock::Tick,
    protocol::{
        Action, ConnId, Contract, Event, Fencing, GuardTerms, Holder, Introduction, LinkEvent,
        Machine, NodeIndex, Obstacle, Occupant, Patience, Refusal, RefusalKind, Reply, Request,
        RestartGuard, Server, Session, Strategy, Token, Ttl, Verdict,
    },
};

use super::{plan::timing, rng::Rng};

/// What a node answers, whenever it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Free,
    HeldByA,
    HeldByB,
    Refuses,
    Silent,
}

const ALL: [Node; 5] = [Node::Free, Node::HeldByA, Node::HeldByB, Node::Refuses, Node::Silent];

impl Node {
    fn reply(self, request: &Request) -> Option<Reply> {
        let held = |bits| {
            let value = format!("{} {{}}", Token::from_random(bits));
            Reply::Held(vec![Obstacle {
                key: 0,
                occupant: Occupant::Value(value.into_bytes()),
                expires_in: Some(Duration::from_secs(20)),
            }])
        };
        Some(match (self, request) {
            (Self::Silent, _) => return None,
            (Self::Refuses, _) => {
                Reply::Refused(Refusal { kind: RefusalKind::State, text: "READONLY".into() })
            }
            (Self::HeldByA, _) => held(1),
            (Self::HeldByB, _) => held(2),
            (Self::Free, Request::Look) => Reply::Absent,
            (Self::Free, _) => Reply::Done,
        })
    }
}

/// What is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Acquired,
    Denied(Verdict),
}

/// The definitions. `Contended` is what is left when everybody who will answer has.
fn certain(nodes: &[Node], heard: &[usize]) -> Option<Outcome> {
    let quorum = nodes.len() / 2 + 1;
    let count = |what: Node| heard.iter().filter(|node| nodes[**node] == what).count();
    if count(Node::Free) >= quorum {
        return Some(Outcome::Acquired);
    }
    if count(Node::HeldByA) >= quorum || count(Node::HeldByB) >= quorum {
        return Some(Outcome::Denied(Verdict::Held));
    }
    // So many say no that a quorum of answers that count is out of reach.
    let unavailable = nodes.len() - count(Node::Refuses) < quorum;
    unavailable.then_some(Outcome::Denied(Verdict::Unavailable))
}

/// The verdict in the end, when the silent ones have been waited for.
fn finally(nodes: &[Node]) -> Outcome {
    let quorum = nodes.len() / 2 + 1;
    let everybody: Vec<usize> = (0..nodes.len()).collect();
    let mute = |node: &&Node| matches!(node, Node::Refuses | Node::Silent);
    let answered = nodes.len() - nodes.iter().filter(mute).count();
    certain(nodes, &everybody).unwrap_or(Outcome::Denied(if answered < quorum {
        Verdict::Unavailable
    } else {
        Verdict::Contended
    }))
}

/// A session between nodes whose answers are given by hand.
struct Stage<'a> {
    nodes: &'a [Node],
    session: Session,
    now: Tick,
    unanswered: VecDeque<(ConnId, Request)>,
    outcome: Option<Outcome>,
    settled: bool,
    lost: bool,
    introduces: Introduces,
}

/// When nodes say who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Introduces {
    AtOnce,
    ByHand,
}

/// Between any two events.
const STEP: Duration = Duration::from_millis(5);

impl<'a> Stage<'a> {
    fn new(nodes: &'a [Node], strategy: Strategy) -> Self {
        Self::with(nodes, strategy, Introduces::AtOnce)
    }

    /// Nodes that have not said yet who they are.
    fn unheard(nodes: &'a [Node]) -> Self {
        Self::with(nodes, Strategy::Concurrent, Introduces::ByHand)
    }

    fn with(nodes: &'a [Node], strategy: Strategy, introduces: Introduces) -> Self {
        let mut rng = Rng::new(7);
        let session = Session::new(Contract {
            nodes: nodes.len(),
            holder: Holder::default(),
            timing: timing(Duration::from_secs(10)),
            patience: Patience::NoWait,
            strategy,
            fencing: Fencing::Off,
            guard: GuardTerms {
                rule: RestartGuard::Auto,
                own: Duration::from_secs(10),
                max_ttl: Ttl::DEFAULT_MAX,
            },
            slots: None,
            kin: Vec::new(),
            random: Box::new(move || rng.wide()),
        });
        let now = Tick::from_boot(Duration::from_secs(1));
        let unanswered = VecDeque::new();
        let (outcome, settled, lost) = (None, false, false);
        let mut stage =
            Self { nodes, session, now, unanswered, outcome, settled, lost, introduces };
        stage.session.start(now);
        stage.act();
        stage
    }

    /// Takes what the session wants; connections are ready at once.
    fn act(&mut self) {
        loop {
            let actions = self.session.actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    Action::Open(conn) => {
                        self.session.handle(conn, LinkEvent::Ready, self.now);
                        if self.introduces == Introduces::AtOnce {
                            let unknown = LinkEvent::Introduced(Introduction::Unknown);
                            self.session.handle(conn, unknown, self.now);
                        }
                    }
                    Action::Send(conn, request) => self.unanswered.push_back((conn, request)),
                    Action::Close(conn) => self.unanswered.retain(|(known, _)| *known != conn),
                    Action::Tell(event) => self.told(event),
                }
            }
        }
    }

    fn told(&mut self, event: Event) {
        let outcome = match event {
            Event::Acquired { .. } => Outcome::Acquired,
            Event::Denied(denial) => Outcome::Denied(denial.verdict),
            Event::Settled { .. } => return self.settled = true,
            Event::Lost(_) => return self.lost = true,
            Event::Slot(_) | Event::Fenced(_) | Event::Validity(_) | Event::Note(_) => return,
        };
        assert_eq!(self.outcome, None, "a second outcome after {outcome:?}");
        self.outcome = Some(outcome);
    }

    /// The oldest unanswered request to `node` is answered.
    fn answer(&mut self, node: usize) {
        self.now = self.now.after(STEP);
        let oldest = self.unanswered.iter().position(|(conn, _)| conn.node.get() == node);
        if let Some((conn, request)) = oldest.and_then(|at| self.unanswered.remove(at))
            && let Some(reply) = self.nodes[node].reply(&request)
        {
            self.session.handle(conn, LinkEvent::Replied(reply), self.now);
            self.act();
        }
    }

    /// Goes on, with an answer to everything, until there is an outcome.
    fn go_on(&mut self) {
        let limit = self.now.after(Duration::from_secs(20));
        while self.outcome.is_none() && self.now < limit {
            let speaks =
                |(conn, _): &&(ConnId, Request)| self.nodes[conn.node.get()] != Node::Silent;
            let due = self.session.deadline();
            match self.unanswered.iter().find(speaks) {
                Some((conn, _)) if due.is_none_or(|due| due > self.now.after(STEP)) => {
                    self.answer(conn.node.get());
                }
                _ => {
                    self.now = due.unwrap_or(limit).max(self.now);
                    self.session.wake(self.now);
                    self.act();
                }
            }
        }
    }

    /// Lets time pass until something new was asked of `node`, and answers it with `reply`.
    fn feed(&mut self, node: usize, reply: Reply) {
        let asks = |(conn, _): &(ConnId, Request)| conn.node.get() == node;
        while !self.unanswered.iter().any(asks) {
            self.now = self.session.deadline().unwrap_or(self.now).max(self.now);
            self.session.wake(self.now);
            self.act();
        }
        if let Some(at) = self.unanswered.iter().position(asks)
            && let Some((conn, _)) = self.unanswered.remove(at)
        {
            self.session.handle(conn, LinkEvent::Replied(reply), self.now);
            self.act();
        }
    }

    fn undid(&self) -> bool {
        self.unanswered.iter().any(|(_, request)| matches!(request, Request::Release { .. }))
    }
}

/// Every combination of answers of so many nodes. A and B are alike: the first of them is A.
fn combinations(nodes: usize) -> impl Iterator<Item = Vec<Node>> {
    let all = (0..5_usize.pow(u32::try_from(nodes).unwrap_or(0))).map(move |mut number| {
        let mut digit = || {
            let digit = number % 5;
            number /= 5;
            ALL[digit]
        };
        (0..nodes).map(|_| digit()).collect::<Vec<_>>()
    });
    all.filter(|nodes| {
        let mut held = nodes.iter().filter(|n| matches!(n, Node::HeldByA | Node::HeldByB));
        held.next().is_none_or(|first| *first == Node::HeldByA)
    })
}

/// Every order of `rest`, behind `begin`, up to where something is decided; one order beyond.
fn orders(nodes: &[Node], begin: &mut Vec<usize>, rest: &[usize], each: &mut impl FnMut(&[usize])) {
    if rest.is_empty() || certain(nodes, begin).is_some() || judged(nodes, begin) {
        return each(&[begin.as_slice(), rest].concat());
    }
    for (i, next) in rest.iter().enumerate() {
        begin.push(*next);
        let others = [&rest[..i], &rest[i + 1..]].concat();
        orders(nodes, begin, &others, each);
        begin.pop();
    }
}

fn speakers(nodes: &[Node]) -> Vec<usize> {
    (0..nodes.len()).filter(|node| nodes[*node] != Node::Silent).collect()
}

/// A round is judged when everybody has answered, or, with a quorum of answers that count, as soon
/// as a quorum for us is out of reach.
fn judged(nodes: &[Node], heard: &[usize]) -> bool {
    let quorum = nodes.len() / 2 + 1;
    let free = heard.iter().filter(|node| nodes[**node] == Node::Free).count();
    let counted = heard.iter().filter(|node| nodes[**node] != Node::Refuses).count();
    let missing = nodes.len() - heard.len();
    missing == 0 || (counted >= quorum && free + missing < quorum)
}

/// One order: the outcome comes with the answer that makes it certain, not before and not after.
/// Where nothing becomes certain, the owner of the first node that answered keeps what it has, and
/// everybody else gives back what is or may be theirs.
fn check_order(nodes: &[Node], order: &[usize]) {
    let mut stage = Stage::new(nodes, Strategy::Concurrent);
    assert_eq!(stage.unanswered.len(), nodes.len(), "{nodes:?}: everybody is asked at once");
    for (i, node) in order.iter().enumerate() {
        let heard = &order[..=i];
        stage.answer(*node);
        let certain = certain(nodes, heard);
        assert_eq!(stage.outcome, certain, "{nodes:?} heard {heard:?}");
        if certain.is_some() {
            return;
        }
        let judged = judged(nodes, heard);
        let undone = judged && {
            let counted = heard.iter().filter(|node| nodes[**node] != Node::Refuses);
            let first = counted.min().map(|node| nodes[*node]);
            // One that refused may have obeyed all the same (a failed SELECT).
            let mine = |node: &usize| matches!(nodes[*node], Node::Free | Node::Refuses);
            let ours = heard.iter().any(mine);
            first != Some(Node::Free) && (ours || heard.len() < nodes.len())
        };
        assert_eq!(stage.undid(), undone, "{nodes:?} heard {heard:?}: the tie-break");
        if undone {
            // What comes later answers what was given up.
            stage.unanswered.retain(|(_, request)| !matches!(request, Request::Release { .. }));
            for (i, node) in order.iter().enumerate().skip(i + 1) {
                stage.answer(*node);
                let certain = self::certain(nodes, &order[..=i]);
                let late = matches!(certain, Some(Outcome::Denied(Verdict::Held)));
                assert_eq!(stage.outcome.is_some(), late, "{nodes:?} heard {:?}", &order[..=i]);
                if late {
                    return;
                }
            }
        }
        if judged {
            return;
        }
    }
}

#[test]
fn outcome_comes_with_the_answer_that_makes_it_certain_in_every_order() {
    for count in 1..=5 {
        for nodes in combinations(count) {
            let mut check = |order: &[usize]| check_order(&nodes, order);
            orders(&nodes, &mut Vec::new(), &speakers(&nodes), &mut check);
        }
    }
}

#[test]
fn verdict_of_every_combination_is_true_in_the_end() {
    for strategy in [Strategy::Concurrent, Strategy::Sequential] {
        for count in [1, 2, 3, 5] {
            for nodes in combinations(count) {
                let mut stage = Stage::new(&nodes, strategy);
                stage.go_on();
                assert_eq!(stage.outcome, Some(finally(&nodes)), "{strategy:?} {nodes:?}");
            }
        }
    }
}

#[test]
fn node_that_was_asked_again_is_not_given_up_for_what_it_said_before() {
    // The owner of the first node asks the other two again. One of them makes the quorum; the other
    // leaves that unanswered, and what it said in the round before proves nothing any more.
    let nodes = [Node::Free, Node::HeldByA, Node::HeldByB];
    let mut stage = Stage::new(&nodes, Strategy::Concurrent);
    (0..3).for_each(|node| stage.answer(node));
    stage.feed(1, Reply::Done);
    assert_eq!(stage.outcome, Some(Outcome::Acquired));
    stage.feed(0, Reply::Absent);
    assert!(!stage.lost);
}

/// Every order of two events of each of three nodes, of which the first comes first.
fn interleavings(left: [u8; 3], begin: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
    if left == [0; 3] {
        return each(begin);
    }
    for node in 0..3 {
        if left[node] > 0 {
            let mut left = left;
            left[node] -= 1;
            begin.push(node);
            interleavings(left, begin, each);
            begin.pop();
        }
    }
}

/// Three nodes introduce themselves and vote, in this order; `run_ids` says who they are. Who had
/// voted when the lock was had, if it was.
fn voters(order: &[usize], run_ids: [&str; 3]) -> (Option<Vec<usize>>, Option<Verdict>) {
    let nodes = [Node::Free; 3];
    let mut stage = Stage::unheard(&nodes);
    let (mut introduced, mut voted) = ([false; 3], Vec::new());
    let mut acquired = None;
    for node in order {
        stage.now = stage.now.after(STEP);
        let conn = ConnId { node: NodeIndex(u8::try_from(*node).unwrap()), serial: 0 };
        let event = if std::mem::replace(&mut introduced[*node], true) {
            voted.push(*node);
            LinkEvent::Replied(Reply::Done)
        } else {
            let (run_id, history) = (run_ids[*node].to_owned(), run_ids[*node].to_owned());
            let uptime = Duration::from_secs(1_000_000);
            let server = Server { run_id, history, uptime, ..Server::default() };
            LinkEvent::Introduced(Introduction::Known(server))
        };
        stage.session.handle(conn, event, stage.now);
        while stage.session.deadline().is_some_and(|due| due <= stage.now) {
            stage.session.wake(stage.now);
        }
        stage.act();
        if stage.outcome == Some(Outcome::Acquired) && acquired.is_none() {
            acquired = Some(voted.clone());
        }
    }
    let denied = match stage.outcome {
        Some(Outcome::Denied(verdict)) => Some(verdict),
        _ => None,
    };
    (acquired, denied)
}

/// A server says who it is on every connection before its first answer. So of two names for one
/// server the second cannot vote without both being seen; and one that has not answered has not
/// voted. What is left is safe: two quorums of names share a name, and with it a server.
#[test]
fn server_that_is_listed_twice_never_votes_twice_in_any_order() {
    let (mut refused, mut twice) = (0, 0);
    interleavings([2; 3], &mut Vec::new(), &mut |order| {
        let (acquired, denied) = voters(order, ["a", "b", "a"]);
        if let Some(acquired) = &acquired {
            assert!(!(acquired.contains(&0) && acquired.contains(&2)), "{order:?}: {acquired:?}");
        } else {
            assert_eq!(denied, Some(Verdict::Unfit), "{order:?}");
            refused += 1;
        }
        let (sound, _) = voters(order, ["a", "b", "c"]);
        let sound = sound.unwrap_or_else(|| panic!("{order:?}: three servers and no lock"));
        twice += usize::from(sound.contains(&0) && sound.contains(&2));
    });
    // Both happen: it is seen in time, and the same votes of different servers do count.
    assert!(refused > 0 && twice > 0, "{refused} {twice}");
}

//! What a session asks of nodes that do what they are asked, in virtual time.

use super::*;
use crate::protocol::{GuardTerms, Introduction, Limits, MinHold, Request, RestartGuard, Ttl};

const NODES: usize = 3;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A session on three willing nodes, and what it sent since anybody asked.
struct Stage {
    session: Session,
    now: Tick,
    sent: Vec<Request>,
    settled: Option<(Vec<NodeIndex>, Duration)>,
    /// These leave everything unanswered from now on.
    silent: Vec<NodeIndex>,
}

impl Stage {
    /// With a ttl of 10 s, at second 1000, of a holder whose clock shows 5,000,000 ms.
    fn start(min_hold: u64) -> Self {
        Self::start_for(min_hold, None)
    }

    /// The same, for one of so many slots.
    fn start_for(min_hold: u64, slots: Option<usize>) -> Self {
        let ttl = Ttl::new(ms(10_000), Ttl::DEFAULT_MAX).unwrap();
        let hold = MinHold::new(ms(min_hold), Ttl::DEFAULT_MAX).unwrap();
        let timing = Timing::new(ttl, &Limits::default()).unwrap().keeping(hold);
        let mut serial = 0;
        let contract = Contract {
            nodes: NODES,
            holder: Holder { since: 5_000_000, every: Some(1), ..Holder::default() },
            timing,
            patience: Patience::NoWait,
            strategy: Strategy::Concurrent,
            fencing: Fencing::Off,
            guard: GuardTerms {
                rule: RestartGuard::Off,
                own: timing.longest(),
                max_ttl: Ttl::DEFAULT_MAX,
            },
            slots,
            kin: Vec::new(),
            random: Box::new(move || {
                serial += 1;
                serial
            }),
        };
        let mut stage = Self {
            session: Session::new(contract),
            now: Tick::from_boot(Duration::from_secs(1000)),
            sent: Vec::new(),
            settled: None,
            silent: Vec::new(),
        };
        stage.session.start(stage.now);
        stage.act();
        stage
    }

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
                        let unknown = LinkEvent::Introduced(Introduction::Unknown);
                        self.session.handle(conn, unknown, self.now);
                    }
                    Action::Send(conn, request) => {
                        if !self.silent.contains(&conn.node) {
                            self.session.handle(conn, LinkEvent::Replied(Reply::Done), self.now);
                        }
                        self.sent.push(request);
                    }
                    Action::Tell(Event::Settled { untold, at_most }) => {
                        self.settled = Some((untold, at_most));
                    }
                    Action::Close(_) | Action::Tell(_) => {}
                }
            }
        }
    }

    fn pass(&mut self, time: u64) {
        let end = self.now.after(ms(time));
        while let Some(due) = self.session.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.session.wake(self.now);
            self.act();
        }
        self.now = end;
    }

    fn finish(&mut self) {
        self.session.finish(self.now);
        self.act();
    }

    fn stop(&mut self) {
        self.session.stop(self.now);
        self.act();
    }

    fn take(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.sent)
    }
}

/// For how long each extension among `sent` asks, in ms.
fn extensions(sent: &[Request]) -> Vec<u128> {
    let ttl = |request: &Request| match request {
        Request::Extend { ttl, .. } => Some(ttl.as_millis()),
        _ => None,
    };
    sent.iter().filter_map(ttl).collect()
}

#[test]
fn acquire_uses_the_ttl_and_an_extension_at_the_verdict_the_min_hold() {
    let mut stage = Stage::start(50_000);
    let sent = stage.take();
    let ttl = |request: &Request| match request {
        Request::Acquire { ttl, .. } => Some(*ttl),
        _ => None,
    };
    assert_eq!(sent.iter().filter_map(ttl).collect::<Vec<_>>(), [ms(10_000); NODES]);
    // The third node's vote was under way when the quorum made the verdict.
    assert_eq!(extensions(&sent), [50_000; NODES]);
    let mut usual = Stage::start(0);
    assert_eq!(extensions(&usual.take()), []);
}

#[test]
fn extension_asks_for_the_ttl_or_the_rest_of_the_min_hold_whichever_is_longer() {
    let mut stage = Stage::start(15_000);
    stage.take();
    stage.pass(3_400);
    assert_eq!(extensions(&stage.take()), [15_000 - 3_333; NODES]);
    stage.pass(3_400);
    assert_eq!(extensions(&stage.take()), [10_000; NODES]);
}

#[test]
fn finished_lock_says_until_when_it_is_kept_and_nothing_follows() {
    let mut stage = Stage::start(50_000);
    stage.pass(2_500);
    stage.take();
    stage.finish();
    let sent = stage.take();
    assert_eq!(sent.len(), NODES, "{sent:?}");
    for request in sent {
        let Request::Finish { token, value, rest } = request else { panic!("{request:?}") };
        assert_eq!(rest, ms(47_500));
        assert_eq!(Token::of_value(value.as_bytes()), Some(token));
        let holder = Holder::of_value(value.as_bytes()).unwrap();
        assert_eq!((holder.since, holder.until), (5_000_000, Some(5_050_000)));
        assert_eq!(holder.every, None);
    }
    assert_eq!(stage.settled, Some((Vec::new(), Duration::ZERO)));
    stage.pass(60_000);
    assert_eq!(stage.take(), []);
}

#[test]
fn lock_is_released_when_its_min_hold_is_over_or_nothing_has_run() {
    let announced = |sent: Vec<Request>| {
        let all = |r: &Request| matches!(r, Request::Release { announce: true, .. });
        sent.len() == NODES && sent.iter().all(all)
    };
    let mut over = Stage::start(2_000);
    over.pass(2_000);
    over.take();
    over.finish();
    assert!(announced(over.take()));
    let mut idle = Stage::start(50_000);
    idle.take();
    idle.stop();
    assert!(announced(idle.take()));
}

/// A node that keeps the lock for as long as was wanted is as it should be, although it did not hear
/// of the end. One that was asked to give it back and did not hear of that may keep it for long.
#[test]
fn node_that_was_not_told_matters_only_where_it_keeps_the_lock_for_longer() {
    let quiet = |min_hold, end: fn(&mut Stage)| {
        let mut stage = Stage::start(min_hold);
        stage.pass(100);
        stage.silent.push(NodeIndex(2));
        end(&mut stage);
        stage.pass(2_000);
        stage.settled.unwrap()
    };
    assert_eq!(quiet(50_000, Stage::finish), (Vec::new(), Duration::ZERO));
    let (untold, at_most) = quiet(50_000, Stage::stop);
    assert_eq!(untold, [NodeIndex(2)]);
    assert!(at_most > ms(48_000), "{at_most:?}");
    let (untold, at_most) = quiet(0, Stage::finish);
    assert_eq!(untold, [NodeIndex(2)]);
    assert!(at_most < ms(10_000), "{at_most:?}");
    // Finished soon, and this node keeps it for its ttl.
    let (untold, at_most) = quiet(1_000, Stage::finish);
    assert_eq!(untold, [NodeIndex(2)]);
    assert!(at_most < ms(10_000), "{at_most:?}");
}

#[test]
fn slot_is_asked_for_extended_and_given_back_by_its_own_key_alone() {
    let ends: [fn(&mut Stage); 2] = [Stage::finish, Stage::stop];
    for end in ends {
        let mut stage = Stage::start_for(50_000, Some(4));
        stage.pass(15_000);
        end(&mut stage);
        let sent = stage.take();
        let about = |request: &Request| match request {
            Request::Only { key, request } => Some((*key, Ask::of(request))),
            _ => None,
        };
        let about: Vec<(usize, Ask)> = sent.iter().filter_map(about).collect();
        let slot = about[0].0;
        assert!(slot < 4 && about.iter().all(|(key, _)| *key == slot), "{about:?}");
        assert!(about.iter().any(|(_, ask)| matches!(ask, Ask::Extend(_))), "{about:?}");
        assert!(about.iter().any(|(_, ask)| matches!(ask, Ask::Release(_))), "{about:?}");
        let whole = sent.iter().filter(|request| !matches!(request, Request::Only { .. }));
        let whole: Vec<&Request> = whole.collect();
        assert_eq!(whole, [&Request::Attend; NODES]);
    }
}

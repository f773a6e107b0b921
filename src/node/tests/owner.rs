//! The thread and its owner: commands, deadlines, and either of them gone.

use std::sync::mpsc;

use rustix::process::Signal;

use super::*;
use crate::node::testing::Server;

#[test]
fn vanished_owner_ends_the_thread_and_releases_nothing() {
    let server = Server::start();
    let mut rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.nodes = None;
    assert_eq!(rig.told(), Err(TryRecvError::Disconnected));
    assert!(exists(&server));
}

#[test]
fn owner_that_asked_for_the_end_may_go() {
    let server = Server::start();
    let mut rig = Rig::reacting(
        &server.address(),
        vec![vec![open(0), acquire(0)], vec![release(0)]],
        vec![vec![], vec![settled()]],
    );
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    server.signal(Signal::STOP);
    rig.nodes.as_ref().unwrap().stop();
    rig.nodes = None;
    server.signal(Signal::CONT);
    assert!(matches!(rig.told(), Ok(Event::Settled { .. })));
    assert!(!exists(&server));
}

#[test]
fn deadline_wakes_the_machine_and_not_before() {
    let now = BootClock.now();
    let dues = [now.after(Duration::from_millis(40)), now.after(Duration::from_millis(20))];
    let rig = Rig::with(&["127.0.0.1:1"], Vec::new(), Vec::new(), &resolver::system(), &dues);
    for due in [dues[1], dues[0]] {
        match rig.told() {
            Ok(Event::Validity(at)) => assert!(at >= due),
            other => panic!("{other:?}"),
        }
    }
    rig.stop();
}

/// A machine whose deadline comes closer when it starts.
struct Hasty(Option<Tick>, Vec<Action>);

impl Machine for Hasty {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }

    fn start(&mut self, now: Tick) {
        self.0 = Some(now.after(Duration::from_millis(20)));
    }
    fn handle(&mut self, _: ConnId, _: LinkEvent, _: Tick) {}
    fn wake(&mut self, _: Tick) {
        self.1.push(settled());
    }
    fn stop(&mut self, _: Tick) {}
    fn deadline(&self) -> Option<Tick> {
        self.0.or_else(|| Some(BootClock.now().after(BOUND * 10)))
    }
    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.1)
    }
}

fn rig_of(machine: impl Machine<Event = Event> + Send + 'static) -> Rig {
    let fleet = Fleet::parse(["127.0.0.1:1"], None).unwrap();
    let (sender, events) = wake::channel().unwrap();
    let nodes = start(fleet, machine, &[Key::new("", b"k").unwrap()], sender).unwrap();
    Rig { nodes: Some(nodes), events, log: mpsc::channel().1, introduced: mpsc::channel().1 }
}

#[test]
fn deadline_that_comes_closer_is_not_slept_through() {
    let rig = rig_of(Hasty(None, Vec::new()));
    rig.begin();
    let start = BootClock.now();
    assert!(matches!(rig.told(), Ok(Event::Settled { .. })));
    assert!(BootClock.now().since(start) < BOUND);
}

/// A machine that fails.
struct Broken;

impl Machine for Broken {
    type Event = Event;

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }

    fn start(&mut self, _: Tick) {
        panic!("a broken machine, on purpose");
    }
    fn handle(&mut self, _: ConnId, _: LinkEvent, _: Tick) {}
    fn wake(&mut self, _: Tick) {}
    fn stop(&mut self, _: Tick) {}
    fn deadline(&self) -> Option<Tick> {
        None
    }
    fn actions(&mut self) -> Vec<Action> {
        Vec::new()
    }
}

#[test]
fn panic_of_the_thread_reaches_its_owner() {
    let rig = rig_of(Broken);
    rig.begin();
    assert_eq!(rig.told(), Err(TryRecvError::Disconnected));
}

//! What the event loop drives: any pure machine that speaks in connections, requests and times.

use crate::{
    clock::Tick,
    protocol::{
        Action, Adoption, Census, ConnId, Event, Found, Interview, LinkEvent, Session, Testimony,
    },
};

/// A pure machine. Every method leaves its actions in a queue that [`Driver::actions`] empties.
pub trait Driver: Send + 'static {
    /// What the owner is told.
    type Event: Send + 'static;
    /// Begin.
    fn start(&mut self, now: Tick);
    /// Something happened on a connection.
    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick);
    /// The [`Driver::deadline`] was reached, or the clock may have jumped.
    fn wake(&mut self, now: Tick);
    /// This process was stopped for a while.
    fn resume(&mut self, now: Tick) {
        self.wake(now);
    }
    /// Come to an end, which is [`Event::Settled`] for a session.
    fn stop(&mut self, now: Tick);
    /// Come to an end after the work was done: a lock that is to be kept for a time stays.
    fn finish(&mut self, now: Tick) {
        self.stop(now);
    }
    /// Come to an end and leave the lock on the nodes.
    fn keep(&mut self, now: Tick) {
        self.stop(now);
    }
    /// The owner has used what it was told last and wants more.
    fn more(&mut self, _: Tick) {}
    /// When [`Driver::wake`] is due.
    fn deadline(&self) -> Option<Tick>;
    /// What is to be done, in order.
    fn actions(&mut self) -> Vec<Action<Self::Event>>;
    /// Whether `event` is the last: nothing is under way any more.
    fn is_last(event: &Self::Event) -> bool;
}

impl Driver for Session {
    type Event = Event;

    fn start(&mut self, now: Tick) {
        self.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.handle(conn, event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.wake(now);
    }

    fn resume(&mut self, now: Tick) {
        self.resume(now);
    }

    fn stop(&mut self, now: Tick) {
        self.stop(now);
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadline()
    }

    fn finish(&mut self, now: Tick) {
        self.finish(now);
    }

    fn keep(&mut self, now: Tick) {
        self.keep(now);
    }

    fn actions(&mut self) -> Vec<Action> {
        self.actions()
    }

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }
}

impl Driver for Adoption {
    type Event = Event;

    fn start(&mut self, now: Tick) {
        self.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.handle(conn, event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.wake(now);
    }

    fn resume(&mut self, now: Tick) {
        self.resume(now);
    }

    fn stop(&mut self, now: Tick) {
        self.stop(now);
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadline()
    }

    fn actions(&mut self) -> Vec<Action> {
        self.actions()
    }

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }
}

impl Driver for Census {
    type Event = Found;

    fn start(&mut self, now: Tick) {
        self.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.handle(conn, event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.wake(now);
    }

    fn more(&mut self, now: Tick) {
        self.more(now);
    }

    fn stop(&mut self, _: Tick) {
        self.stop();
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadline()
    }

    fn actions(&mut self) -> Vec<Action<Found>> {
        self.actions()
    }

    fn is_last(event: &Found) -> bool {
        matches!(event, Found::End { .. })
    }
}

impl Driver for Interview {
    type Event = Vec<Testimony>;

    fn start(&mut self, now: Tick) {
        self.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.handle(conn, event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.wake(now);
    }

    fn stop(&mut self, _: Tick) {
        self.stop();
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadline()
    }

    fn actions(&mut self) -> Vec<Action<Vec<Testimony>>> {
        self.actions()
    }

    fn is_last(_: &Vec<Testimony>) -> bool {
        true
    }
}

//! What the event loop drives: any pure machine that speaks in connections, requests and times.

use crate::{
    clock::Tick,
    protocol::{Action, ConnId, LinkEvent, Session},
};

/// A pure machine. Every method leaves its actions in a queue that [`Driver::actions`] empties.
pub trait Driver: Send + 'static {
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
    /// Come to an end, which is [`crate::protocol::Event::Settled`].
    fn stop(&mut self, now: Tick);
    /// When [`Driver::wake`] is due.
    fn deadline(&self) -> Option<Tick>;
    /// What is to be done, in order.
    fn actions(&mut self) -> Vec<Action>;
}

impl Driver for Session {
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
}

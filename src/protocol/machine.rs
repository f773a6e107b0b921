//! What every pure machine in here is to whoever drives it.

use super::{Action, ConnId, LinkEvent};
use crate::clock::Tick;

/// A pure state machine that speaks in connections, requests and times. The node thread drives it
/// over real connections, the simulator over invented ones, and neither can tell which it is.
///
/// Every method takes the present time and leaves its actions in a queue that
/// [`Machine::actions`] empties.
pub trait Machine {
    /// What the owner is told.
    type Event;

    /// Begins.
    fn start(&mut self, now: Tick);

    /// Something happened on a connection.
    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick);

    /// Time passed; to be called when [`Machine::deadline`] is reached (later is harmless), after
    /// everything that has happened on the connections was handled.
    fn wake(&mut self, now: Tick);

    /// This process was stopped for a while.
    fn resume(&mut self, now: Tick) {
        self.wake(now);
    }

    /// Comes to an end: gives up, gives back, or tells what it has so far.
    fn stop(&mut self, now: Tick);

    /// Comes to an end after the work was done: a lock that is to be kept for a time stays.
    fn finish(&mut self, now: Tick) {
        self.stop(now);
    }

    /// Comes to an end and leaves the lock on the nodes.
    fn keep(&mut self, now: Tick) {
        self.stop(now);
    }

    /// The owner has used what it was told last and wants more.
    fn more(&mut self, _now: Tick) {}

    /// When [`Machine::wake`] is due.
    fn deadline(&self) -> Option<Tick>;

    /// Takes the actions that have gathered, in order.
    fn actions(&mut self) -> Vec<Action<Self::Event>>;

    /// Whether `event` is the last: nothing is under way any more.
    fn is_last(event: &Self::Event) -> bool
    where
        Self: Sized;
}

//! What the simulator drives: the real [`Session`], or a stand-in of the same shape whose rules
//! are broken on purpose.

use redlock::{
    clock::Tick,
    protocol::{Action, ConnId, Contract, LinkEvent, Session},
};

/// The interface of [`Session`].
pub trait Brain {
    fn start(&mut self, now: Tick);
    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick);
    fn wake(&mut self, now: Tick);
    fn stop(&mut self, now: Tick);
    fn deadline(&self) -> Option<Tick>;
    fn actions(&mut self) -> Vec<Action>;
}

/// Makes one for each run of the program.
pub type Maker = dyn Fn(Contract) -> Box<dyn Brain>;

/// The real thing.
pub fn session(contract: Contract) -> Box<dyn Brain> {
    Box::new(Session::new(contract))
}

impl Brain for Session {
    fn start(&mut self, now: Tick) {
        self.start(now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        self.handle(conn, event, now);
    }

    fn wake(&mut self, now: Tick) {
        self.wake(now);
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

//! What the simulator drives: the real [`Session`], or a stand-in whose rules are broken on purpose.

use redlock::protocol::{Contract, Event, Machine, Session};

/// What thinks for a client.
pub type Brain = dyn Machine<Event = Event>;

/// Makes one for each run of the program.
pub type Maker = dyn Fn(Contract) -> Box<Brain>;

/// The real thing.
pub fn session(contract: Contract) -> Box<Brain> {
    Box::new(Session::new(contract))
}

//! Redlock as pure state machines: events and the time go in, actions come out. Nothing in here
//! knows a socket, a thread, a clock, the redis crate or the command line, which is what lets a
//! simulator drive it through millions of histories.

mod holder;
mod key;
mod request;
mod session;
mod timing;
mod token;

pub use holder::{Holder, identity};
pub use key::{Key, KeyError};
pub use request::{
    ConnId, LinkEvent, NodeIndex, Obstacle, Occupant, Refusal, RefusalKind, Reply, Request, Trouble,
};
pub use session::{
    Action, Contract, Denial, Event, NodeView, Note, Patience, Session, Strategy, Verdict,
};
pub use timing::{Limits, Timing, TimingError, Ttl};
pub use token::Token;

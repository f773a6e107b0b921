//! Redlock as pure state machines: events and the time go in, actions come out. Nothing in here
//! knows a socket, a thread, a clock, the redis crate or the command line, which is what lets a
//! simulator drive it through millions of histories.

mod attempt;
mod fence;
mod guard;
mod hold;
mod holder;
mod key;
mod lease;
mod link;
mod pace;
mod random;
mod request;
mod server;
mod session;
mod timing;
mod token;
mod views;
mod wait;

pub use fence::{Fence, Fencing, Sealing};
pub use guard::{GuardTerms, RestartGuard, Youth};
pub use holder::Holder;
pub use key::{Key, KeyError};
pub use lease::{Lease, quorum};
pub use link::Links;
pub use request::{
    ConnId, LinkEvent, NodeIndex, Obstacle, Occupant, Refusal, RefusalKind, Reply, Request, Trouble,
};
pub use server::{Introduction, Mode, Role, Server, Unfit};
pub use session::{
    Action, Contract, Denial, Event, NodeView, Note, Patience, Session, Strategy, Verdict,
};
pub use timing::{Limits, Timing, TimingError, Ttl};
pub use token::Token;

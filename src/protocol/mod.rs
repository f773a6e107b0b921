//! Redlock as pure state machines: events and the time go in, actions come out. Nothing in here
//! knows a socket, a thread, a clock, the redis crate or the command line, which is what lets a
//! simulator drive it through millions of histories.

mod adopt;
mod attempt;
mod calls;
mod census;
mod errand;
mod fence;
mod guard;
mod hold;
mod holder;
mod interview;
mod key;
mod lease;
mod link;
mod machine;
mod pace;
mod query;
mod random;
mod request;
mod server;
mod session;
mod survey;
mod terms;
mod timing;
mod tls;
mod token;
mod views;
mod wait;

pub use adopt::Adoption;
pub use census::{Census, Found, Gap, Wanted};
pub use errand::{Errand, Outcome, Tally};
pub use fence::{Fence, Fencing, Sealing};
pub use guard::{GuardTerms, RestartGuard, Suffrage, Youth, lasts, suffrage};
pub use holder::{Holder, identity};
pub use interview::{Answer, Interview, Round, Testimony};
pub use key::{Key, KeyError};
pub use lease::{Lease, quorum};
pub use link::Links;
pub use machine::Machine;
pub use query::{Datum, Query};
pub use request::{
    ConnId, Extent, LinkEvent, NodeIndex, Obstacle, Occupant, Refusal, RefusalKind, Reply, Request,
    Trouble,
};
pub use server::{Introduction, Mode, Role, Server, Unfit};
pub use session::Session;
pub use survey::{Cell, Leader, Life, Lock, State, judge};
pub use terms::{Action, Contract, Denial, Event, NodeView, Note, Patience, Strategy, Verdict};
pub use timing::{Limits, MinHold, Timing, TimingError, Ttl};
pub use tls::TlsTrouble;
pub use token::Token;

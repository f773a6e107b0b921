//! The seeded simulator: M clients, each with its own clock, and N model nodes in virtual time. It
//! drives `protocol::Session` unchanged through delays, stops, crashes, cuts, pauses and clocks
//! that run apart, and checks the invariants of the protocol at every step.
//!
//! One `u64` makes one history. A failing test prints its seed, the end of the history and the
//! command that plays it again; all of it is shown with `REDLOCK_SIM_TRACE=1`.
//! `REDLOCK_SIM_TIMES=<n>` multiplies the number of histories of the tests that count them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends here, and says why on its standard error"
)]

mod actor;
mod brain;
mod check;
mod clock;
mod command;
mod contention;
mod flaws;
mod fleet;
mod histories;
mod link;
mod mutations;
mod naive;
mod network;
mod node;
mod plan;
mod process;
pub mod rng;
mod scenes;
mod seeds;
mod show;
mod slots;
mod soak;
mod verdicts;
mod verify;
mod world;

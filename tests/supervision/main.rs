//! Everything between the command and the operating system, with real processes, signals and
//! terminals, and a pretended lock (`examples/fake_run.rs`). Numbers are rules of the supervision
//! contract.
#![expect(
    clippy::unwrap_used,
    reason = "what fails in a test's helper fails the test"
)]

mod deadline;
mod end;
mod guardian;
mod relay;
mod start;
mod support;
mod terminal;

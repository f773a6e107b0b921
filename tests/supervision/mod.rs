//! Everything between the command and the operating system, with real processes, signals and
//! terminals, and a pretended lock (`tests/fixtures/fake_run.rs`). Numbers are rules of the supervision
//! contract.

mod deadline;
mod end;
mod guardian;
mod relay;
mod start;
mod support;
mod terminal;

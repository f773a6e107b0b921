//! `redlock run`: a command under a lock. `machine` decides, `shell` does, and what people should
//! know leaves as `Notice`s.

mod environment;
mod machine;
mod shell;
mod start;

use std::io;

use crate::{exit::Exit, node::Nodes, protocol::Event, settings::RunPlan, ui::Say, wake::Sender};

/// The lock's side, as the run sees it: a handle on the thread that talks to the nodes. Its news
/// come through the [`Sender`] that it was started with, [`Event::Settled`] last.
pub trait Lock {
    /// Gives the attempt up or releases the lock. Must not block. A second call does nothing.
    fn stop(&mut self);

    /// We were stopped for a while: extend at once. Must not block.
    fn extend(&mut self);
}

impl Lock for Nodes {
    fn stop(&mut self) {
        Nodes::stop(self);
    }

    fn extend(&mut self) {
        self.resume();
    }
}

/// Runs the command of `plan` under the lock that `connect` starts to acquire. The process must
/// have one thread when this is called: the guardian is made first of all, then `connect` makes
/// the threads, and only then the lock is asked for.
pub fn run<L: Lock>(
    plan: &RunPlan,
    connect: impl FnOnce(Sender<Event>) -> io::Result<L>,
    say: &mut dyn Say,
) -> Exit {
    start::run(plan, connect, say)
}

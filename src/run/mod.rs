//! `redlock run`: a command under a lock. `machine` decides, `shell` does, and what people should
//! know leaves as `Notice`s.

mod environment;
mod machine;
mod report;
mod shell;
mod start;

use std::io;

use anyhow::Context as _;

pub use self::report::report_refusal;
use self::{machine::Figures, shell::Shell, start::Kit};
use crate::{
    child::{self, Guardian},
    exit::{Code, Exit},
    node::Nodes,
    protocol::Event,
    settings::{GuardianChoice, RunPlan},
    ui::{Notice, Reason, Say},
    wake::Sender,
};

/// The lock's side, as the run sees it: a handle on the thread that talks to the nodes. Its news
/// come through the [`Sender`] that it was started with, [`Event::Settled`] last.
pub trait Lock {
    /// Gives the attempt up or releases the lock. Must not block. A second call does nothing.
    fn stop(&mut self);

    /// As [`Lock::stop`] after the command has run: a lock that is to be kept for a time stays.
    fn finish(&mut self) {
        self.stop();
    }

    /// We were stopped for a while: extend at once. Must not block.
    fn extend(&mut self);
}

impl Lock for Nodes {
    fn stop(&mut self) {
        Nodes::stop(self);
    }

    fn finish(&mut self) {
        Nodes::finish(self);
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
    // First of all, while there is one thread.
    let older = child::older();
    let guardian = match plan.guardian {
        GuardianChoice::Off => None,
        GuardianChoice::On => match Guardian::start(&plan.facts.run, &older) {
            Ok(guardian) => Some(guardian),
            Err(error) => {
                let error = anyhow::Error::new(error).context("cannot start the guardian process");
                return fail(plan, say, &error);
            }
        },
    };
    let pid = guardian.as_ref().map(Guardian::pid);
    let ready = Kit::new(plan, pid, &older).and_then(|(kit, to_us)| {
        let lock = connect(to_us).context("cannot start talking to the nodes")?;
        Ok((kit, lock))
    });
    match ready {
        Ok((kit, lock)) => Shell::new(plan, say, lock, kit, guardian).run(),
        Err(error) => {
            start::dismiss(guardian);
            fail(plan, say, &error)
        }
    }
}

/// redlock itself failed before there was anything to lose.
fn fail(plan: &RunPlan, say: &mut dyn Say, error: &anyhow::Error) -> Exit {
    report::write(plan, &Figures::of_nothing(Code::Failure.into()), say);
    let code = Code::Failure.number();
    say.say(Notice::Exit { code, reason: Reason::Failed { error: start::chain(error) } });
    Exit::Status(code)
}

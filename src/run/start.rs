//! Before the lock is asked for: the guardian, the handlers, every descriptor and thread. All that
//! can fail fails here, while there is nothing to lose (supervision.md rules 2 to 6).

use std::{io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

use super::{Lock, shell::Shell};
use crate::{
    child::{self, Guardian, Inherited, Placement, Tree},
    exit::{Code, Exit},
    protocol::Event,
    settings::{GuardianChoice, ParentDeath, RunPlan},
    signal::Signals,
    ui::{Notice, Reason, Say},
    wake::{self, Alarm, Receiver},
};

/// The signals that we handle and the command finds as our caller left them.
const HANDLED: [i32; 11] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGCHLD,
];

/// Handled even where our caller ignored them: without the one no end of a child is told, without
/// the other no end of a stop.
const ALWAYS_HANDLED: [i32; 2] = [libc::SIGCHLD, libc::SIGCONT];

/// All whose disposition is another for us than for the command.
pub(super) const CHANGED: [i32; 14] = {
    let mut all = [0; 14];
    let mut i = 0;
    while i < HANDLED.len() {
        all[i] = HANDLED[i];
        i += 1;
    }
    all[11] = libc::SIGTTIN;
    all[12] = libc::SIGTTOU;
    all[13] = libc::SIGPIPE;
    all
};

/// See [`super::run()`].
pub(super) fn run<L: Lock>(
    plan: &RunPlan,
    connect: impl FnOnce(wake::Sender<Event>) -> io::Result<L>,
    say: &mut dyn Say,
) -> Exit {
    // First of all, while there is one thread.
    let older = child::older();
    let guardian = match plan.guardian {
        GuardianChoice::Off => None,
        GuardianChoice::On => match Guardian::start(&plan.facts.run, &older) {
            Ok(guardian) => Some(guardian),
            Err(error) => return fail(say, "start the guardian process", &error),
        },
    };
    let pid = guardian.as_ref().map(Guardian::pid);
    let ready = Kit::new(plan, pid, &older).and_then(|(kit, to_us)| {
        let lock = connect(to_us).map_err(|error| ("start talking to the nodes", error))?;
        Ok((kit, lock))
    });
    match ready {
        Ok((kit, lock)) => Shell::new(plan, say, lock, kit, guardian).run(),
        Err((what, error)) => {
            dismiss(guardian);
            fail(say, what, &error)
        }
    }
}

fn fail(say: &mut dyn Say, what: &'static str, error: &io::Error) -> Exit {
    let code = Code::Failure.number();
    let error = words(error);
    let reason = Reason::Failed { what, error };
    say.say(Notice::Exit { code, reason });
    Exit::Status(code)
}

/// The system's words without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Lets the guardian go and waits for its end.
pub(super) fn dismiss(guardian: Option<Guardian>) {
    if let Some(mut guardian) = guardian {
        guardian.stand_down();
        guardian.reap();
    }
}

/// Everything that can fail and is therefore made before the lock is asked for.
pub(super) struct Kit {
    pub(super) inherited: Inherited,
    pub(super) signals: Signals,
    pub(super) placement: Placement,
    pub(super) tree: Tree,
    pub(super) alarm: Alarm,
    pub(super) parent: Option<OwnedFd>,
    pub(super) news: Receiver<Event>,
}

type Failure = (&'static str, io::Error);

impl Kit {
    fn new(
        plan: &RunPlan,
        guardian: Option<Pid>,
        older: &[Pid],
    ) -> Result<(Self, wake::Sender<Event>), Failure> {
        let failed = |what| move |error| (what, error);
        let inherited = Inherited::take(&CHANGED);
        let handled = HANDLED
            .into_iter()
            .filter(|signal| ALWAYS_HANDLED.contains(signal) || !inherited.ignores(*signal));
        let signals = Signals::watch(handled).map_err(failed("handle signals"))?;
        Inherited::defy_terminal();
        Inherited::unblock();
        let placement = Placement::choose(plan.group);
        let tree =
            Tree::new(guardian, older).map_err(failed("become the subreaper of the command"))?;
        let alarm = Alarm::new().map_err(failed("make a timer"))?;
        let parent = match plan.parent_death {
            ParentDeath::Ignore => None,
            ParentDeath::Terminate => getppid()
                .map(|parent| pidfd_open(parent, PidfdFlags::empty()))
                .transpose()
                .map_err(|error| ("watch our parent", error.into()))?,
        };
        let (to_us, news) = wake::channel().map_err(failed("make a channel"))?;
        let kit = Self { inherited, signals, placement, tree, alarm, parent, news };
        Ok((kit, to_us))
    }
}

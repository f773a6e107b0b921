//! Before the lock is asked for: the guardian, the handlers, every descriptor and thread. All that
//! can fail fails here, while there is nothing to lose (docs/supervision.md rules 2 to 6).

use std::{io, os::fd::OwnedFd};

use anyhow::Context as _;

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

use crate::{
    child::{Guardian, Inherited, Placement, Tree},
    protocol::Event,
    settings::{ParentDeath, RunPlan, words},
    signal::Signals,
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

/// A whole chain of causes in one line.
pub(super) fn chain(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| words(&io::Error::other(cause.to_string())));
    causes.collect::<Vec<_>>().join(": ")
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

/// What the threads and every small allocation after this need together, amply.
const HEADROOM: usize = 8 * 1024 * 1024;

/// Whether there is as much memory as we shall ever need. Small allocations cannot fail gracefully:
/// they abort, a starting thread panics, and both would leave a lock behind that nobody gives back.
/// So a limit that is too low (`ulimit -v`) is met here. Nothing is touched, only asked for.
fn prove_headroom() -> io::Result<()> {
    let mut room: Vec<u8> = Vec::new();
    room.try_reserve_exact(HEADROOM)?;
    // Else the compiler may do without it.
    std::hint::black_box(&room);
    Ok(())
}

impl Kit {
    /// Makes it, and the end of the channel on which the lock's news are to come.
    ///
    /// # Errors
    /// Something could not be had; the context is a whole sentence's beginning.
    pub(super) fn new(
        plan: &RunPlan,
        guardian: Option<Pid>,
        older: &[Pid],
    ) -> anyhow::Result<(Self, wake::Sender<Event>)> {
        let inherited = Inherited::take(&CHANGED);
        let handled = HANDLED
            .into_iter()
            .filter(|signal| ALWAYS_HANDLED.contains(signal) || !inherited.ignores(*signal));
        let signals = Signals::watch(handled).context("cannot handle signals")?;
        Inherited::defy_terminal();
        Inherited::unblock();
        let placement = Placement::choose(plan.group);
        let tree =
            Tree::new(guardian, older).context("cannot become the subreaper of the command")?;
        let alarm = Alarm::new().context("cannot make a timer")?;
        let parent = match plan.parent_death {
            ParentDeath::Ignore => None,
            ParentDeath::Terminate => getppid()
                .map(|parent| pidfd_open(parent, PidfdFlags::empty()))
                .transpose()
                .context("cannot watch our parent")?,
        };
        let (to_us, news) = wake::channel().context("cannot make a channel")?;
        prove_headroom().context("cannot get memory")?;
        let kit = Self { inherited, signals, placement, tree, alarm, parent, news };
        Ok((kit, to_us))
    }
}

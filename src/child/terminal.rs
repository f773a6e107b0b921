//! The command's place: which process group it runs in, and who owns the terminal.
//!
//! In the foreground the command stays in our group, where the terminal's signals and its input
//! reach it; anywhere else (cron, CI, nohup, `&`) it leads a group of its own, so that a signal to
//! our group reaches it once. Handing the terminal over to a group of its own is only done on
//! request: it stops the reader at the end of `redlock run -- x | less`.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode as FileMode, OFlags, open},
    process::Pid,
    stdio::{stderr, stdin, stdout},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// What the user asked for (`--group`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupChoice {
    /// Shared in a terminal's foreground group, own elsewhere.
    #[default]
    Auto,
    /// The command leads a new group.
    Own,
    /// The command stays in our group.
    Shared,
    /// The command leads a new group and gets the terminal; as `Auto` where standard input, output
    /// and error are not all one terminal that we own.
    Handover,
}

/// Where the command is put.
#[derive(Debug)]
pub enum Placement {
    /// A new group.
    Own,
    /// Our group.
    Shared,
    /// A new group that owns this terminal.
    Handover(Terminal),
}

impl Placement {
    /// Decides by the situation at this moment.
    pub fn choose(choice: GroupChoice) -> Self {
        match choice {
            GroupChoice::Own => Self::Own,
            GroupChoice::Shared => Self::Shared,
            GroupChoice::Auto => Terminal::in_foreground().map_or(Self::Own, |_| Self::Shared),
            GroupChoice::Handover => match Terminal::in_foreground() {
                None => Self::Own,
                Some(terminal) if terminal.is_all_we_have() => Self::Handover(terminal),
                Some(_) => Self::Shared,
            },
        }
    }
}

/// Our controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    tty: OwnedFd,
    ours: Pid,
}

impl Terminal {
    /// The controlling terminal, if there is one and we are in its foreground group.
    fn in_foreground() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = open("/dev/tty", flags, FileMode::empty()).ok()?;
        let ours = super::sys::own_group()?;
        (tcgetpgrp(&tty).ok()? == ours).then_some(Self { tty, ours })
    }

    /// Whether standard input, output and error are all this terminal: only the controlling
    /// terminal answers this question.
    fn is_all_we_have(&self) -> bool {
        [stdin(), stdout(), stderr()]
            .iter()
            .all(|fd| tcgetpgrp(fd).is_ok_and(|group| group == self.ours))
    }

    /// Makes `group` the foreground group. Async-signal-safe; SIGTTOU must be blocked or ignored.
    pub fn give_to(&self, group: Pid) {
        let _ = tcsetpgrp(&self.tty, group);
    }

    /// Makes `group` the foreground group, if it is for us to give: not when we run in the background.
    pub fn hand_over_to(&self, group: Pid) {
        if self.is_ours() {
            self.give_to(group);
        }
    }

    /// Makes our group the foreground group again, if `group` is it: never taken from a shell.
    pub fn take_back_from(&self, group: Pid) {
        if tcgetpgrp(&self.tty) == Ok(group) {
            let _ = tcsetpgrp(&self.tty, self.ours);
        }
    }

    /// Whether our group is the foreground group.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == self.ours)
    }
}

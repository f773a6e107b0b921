//! What was decided about a run before it starts.

use std::{ffi::OsString, time::Duration};

use super::Reporting;
use crate::{child::GroupChoice, protocol::Timing, ui::OnLost};

/// Whether the guardian process is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardianChoice {
    /// It is started, and the run fails where that is impossible.
    #[default]
    On,
    /// `--no-guardian`.
    Off,
}

/// What the death of our parent means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentDeath {
    /// Nothing.
    #[default]
    Ignore,
    /// TERM, then KILL (`--die-with-parent`).
    Terminate,
}

/// Descendants that outlive the command (`--leftover`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leftover {
    /// Keep the lock until the last one is gone.
    #[default]
    Wait,
    /// TERM, the grace, KILL, then release.
    Kill,
    /// Release at once.
    Ignore,
}

/// What "held by somebody else" means to whoever started us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Exit with this code (75, or `-E`).
    Exit(u8),
    /// The work is done elsewhere: success (`--skip`). A lock that nobody really holds is none.
    Skip,
}

/// Whether the command may see the credentials (`--keep-credentials`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// They are taken out.
    #[default]
    Hide,
    /// They stay.
    Keep,
}

/// What the command's environment is to say.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The names of the locks, as the user gave them.
    pub keys: Vec<Vec<u8>>,
    /// The lock's ttl.
    pub ttl: Duration,
    /// This run's id: fresh, at least as unlikely to occur elsewhere as a UUID.
    pub run: String,
    /// How the command reaches the nodes itself: `REDLOCK_NODES` (resolved, and without credentials
    /// unless they are kept), `REDLOCK_PREFIX`, `REDLOCK_CONFIG`, `REDLOCK_PASSWORD_FILE`,
    /// `REDLOCK_TLS_*`. `None` removes the variable.
    pub reach: Vec<(&'static str, Option<OsString>)>,
    /// What becomes of the credentials.
    pub credentials: Credentials,
}

/// Everything that was decided about a run before it starts: all that follows from the command
/// line, the environment and the configuration.
#[derive(Debug)]
pub struct RunPlan {
    /// The program and its arguments; at least one word.
    pub command: Vec<OsString>,
    /// What the command's environment is to say.
    pub facts: Facts,
    /// The lock's durations.
    pub timing: Timing,
    /// The command's process group.
    pub group: GroupChoice,
    /// What a definite loss does.
    pub on_lost: OnLost,
    /// What becomes of descendants that outlive the command.
    pub leftover: Leftover,
    /// The longest that the command and its descendants may run.
    pub max_runtime: Option<Duration>,
    /// KILL this long after TERM, when given; 10 s where it is needed and was not.
    pub kill_after: Option<Duration>,
    /// How long the command may be stopped; [`RunPlan::max_stopped`] when not given.
    pub max_stopped: Option<Duration>,
    /// When a waiting line is repeated first (doubles up to 5 minutes); `None`: never.
    pub heartbeat: Option<Duration>,
    /// Whether there is a guardian.
    pub guardian: GuardianChoice,
    /// What the death of our parent means.
    pub parent_death: ParentDeath,
    /// What "held by somebody else" means.
    pub conflict: Conflict,
    /// How long the lock is waited for at most, when that is bounded.
    pub wait: Option<Duration>,
    /// Whether and where it is reported what became of the run.
    pub report: Option<Reporting>,
}

impl RunPlan {
    /// How long the command may be stopped: ten times the ttl unless something else was asked for.
    pub fn max_stopped(&self) -> Duration {
        self.max_stopped.unwrap_or_else(|| self.timing.ttl.saturating_mul(10))
    }
}

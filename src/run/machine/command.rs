//! Looking after the command: signals, stops, limits, and what is left of it when it has ended
//! (docs/supervision.md rules 22 to 30, 38 to 44).

use std::time::Duration;

use super::{Action, Machine, Phase, Rules};
use crate::{
    child::{Ending, Left},
    clock::Tick,
    settings::Leftover,
    signal::{Placing, Source, Verdict, relay},
    ui::{Notice, Process},
};

/// Whether the command ran too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overtime {
    /// Not so far.
    No,
    /// It did and got TERM: KILL at this time.
    Termed(Tick),
    /// It needed KILL.
    Killed,
}

/// Whether the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It runs.
    No,
    /// By somebody else, since then; a second line is not needed.
    Stopped { since: Tick, signal: i32, warned: bool },
    /// Together with us: no time of it counts.
    Suspended,
    /// For too long, and it got KILL for it.
    Overdue,
}

/// How we deal with what the command left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Not at all.
    Quiet,
    /// By naming it at this time, and again after twice the pause.
    Naming(Tick, Duration),
    /// By ending it.
    Ending,
}

impl Rest {
    /// When something is due about it.
    pub(super) const fn due(self) -> Option<Tick> {
        match self {
            Self::Naming(at, _) => Some(at),
            Self::Quiet | Self::Ending => None,
        }
    }
}

/// Whether somebody of the tree is not ours to signal (`redlock run -- sudo ...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nobody that we know of.
    None,
    /// A signal was refused.
    OfSignals,
    /// KILL was: we cannot end the tree.
    OfKill,
}

/// KILL is repeated until nothing is left: what was forked between a look and its signal, or was
/// out of sight for a moment, is caught by the next look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kick {
    next: Tick,
    pause: Duration,
}

impl Kick {
    const FIRST: Duration = Duration::from_millis(2);
    const SLOWEST: Duration = Duration::from_millis(100);
}

impl Machine {
    /// When the command wants to be judged.
    pub(super) fn command_due(&self) -> Option<Tick> {
        // Once KILL is under way no other limit matters.
        if let Some(kick) = self.killing {
            return Some(kick.next);
        }
        let overtime = match self.overtime {
            Overtime::No => self.overtime_at(),
            Overtime::Termed(kill_at) => Some(kill_at),
            Overtime::Killed => None,
        };
        let halt = match self.halt {
            Halt::Stopped { since, warned, .. } => {
                let limit = since.after(self.rules.max_stopped);
                let warning = since.after(self.rules.timing.ttl);
                Some(if warned { limit } else { limit.min(warning) })
            }
            Halt::No | Halt::Suspended | Halt::Overdue => None,
        };
        [overtime, halt, self.kill_at].into_iter().flatten().min()
    }

    fn overtime_at(&self) -> Option<Tick> {
        Some(self.spawned?.after(self.rules.max_runtime?))
    }

    pub(super) fn judge_command(&mut self, now: Tick) {
        if let Some(kick) = self.killing {
            if kick.next <= now {
                let pause = (kick.pause * 2).min(Kick::SLOWEST);
                let next = now.after(pause);
                self.killing = Some(Kick { next, pause });
                self.push(Action::KillTree);
            }
        } else {
            self.judge_overtime(now);
            self.judge_halt(now);
            if self.kill_at.is_some_and(|at| at <= now) {
                self.kill(now);
            }
        }
        self.judge_rest(now);
    }

    fn judge_overtime(&mut self, now: Tick) {
        match (self.overtime, self.rules.max_runtime) {
            (Overtime::No, Some(limit)) if self.overtime_at().is_some_and(|at| at <= now) => {
                let kill_in = self.rules.kill_after();
                self.overtime = Overtime::Termed(now.after(kill_in));
                self.say(Notice::MaxRuntime { limit, kill_in });
                self.push(Action::TermTree);
            }
            (Overtime::Termed(at), _) if at <= now => {
                self.overtime = Overtime::Killed;
                self.kill(now);
            }
            _ => {}
        }
    }

    fn judge_halt(&mut self, now: Tick) {
        let Halt::Stopped { since, signal, warned } = self.halt else {
            return;
        };
        let stopped = now.since(since);
        if stopped >= self.rules.max_stopped {
            self.halt = Halt::Overdue;
            self.kill(now);
        } else if stopped >= self.rules.timing.ttl && !warned {
            self.halt = Halt::Stopped { since, signal, warned: true };
            self.say(Notice::Stopped {
                signal,
                since: stopped,
                kill_in: self.rules.max_stopped.saturating_sub(stopped),
            });
        }
    }

    fn judge_rest(&mut self, now: Tick) {
        let Rest::Naming(at, pause) = self.rest else {
            return;
        };
        if at > now {
            return;
        }
        let since = self.ended.map_or(Duration::ZERO, |(end, _)| now.since(end));
        self.push(Action::NameLeftover(since));
        self.rest = self.rules.heartbeat.map_or(Rest::Quiet, |first| {
            let slowest = Rules::SLOWEST_HEARTBEAT.max(first);
            let pause = (pause * 2).clamp(first, slowest);
            Rest::Naming(now.after(pause), pause)
        });
    }

    /// Sends KILL to the tree, and again until nothing is left.
    pub(super) fn kill(&mut self, now: Tick) {
        if self.killing.is_none() {
            self.push(Action::KillTree);
            self.killing = Some(Kick { next: now.after(Kick::FIRST), pause: Kick::FIRST });
        }
    }

    /// KILL at `at`, if not before.
    fn kill_by(&mut self, at: Tick) {
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(super) fn signal(&mut self, signal: i32, source: Source, now: Tick) {
        let fatal = matches!(signal, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM);
        match self.phase {
            Phase::Waiting | Phase::Ready => match signal {
                libc::SIGTSTP => self.push(Action::StopSelf),
                _ if fatal => self.cancel(signal, now),
                _ => {}
            },
            Phase::Running => match signal {
                libc::SIGTSTP => self.suspend(source),
                libc::SIGCONT => self.resume(source),
                _ => self.relay(signal, source, now),
            },
            Phase::Leftover => match signal {
                libc::SIGTSTP => self.push(Action::StopSelf),
                libc::SIGCONT => self.extend(),
                _ if fatal => self.end_rest(Some(signal), now),
                _ => {}
            },
            // Deaf: the release is bounded.
            Phase::Releasing | Phase::Done => {}
        }
    }

    fn relay(&mut self, signal: i32, source: Source, now: Tick) {
        let verdict = relay(signal, source, self.rules.placing);
        if verdict == Verdict::Forward {
            self.push(Action::Relay(signal));
        }
        let told = matches!(verdict, Verdict::Forward | Verdict::HasIt);
        let bounded = matches!(signal, libc::SIGHUP | libc::SIGINT | libc::SIGTERM);
        if let Some(kill_after) = self.rules.kill_after.filter(|_| told && bounded) {
            // The first one counts: nothing escalates by repetition.
            self.kill_at.get_or_insert(now.after(kill_after));
        }
    }

    /// Ctrl-Z, or TSTP from anybody: the command and we stop together.
    fn suspend(&mut self, source: Source) {
        match self.rules.placing {
            Placing::Own | Placing::Handover => self.push(Action::StopCommand),
            Placing::Shared => {
                if relay(libc::SIGTSTP, source, self.rules.placing) == Verdict::Forward {
                    self.push(Action::Relay(libc::SIGTSTP));
                }
            }
        }
        self.halt = Halt::Suspended;
        self.push(Action::StopSelf);
    }

    /// We run again, and so shall the command. The clock was compared before this.
    fn resume(&mut self, source: Source) {
        if self.halt == Halt::Suspended {
            self.halt = Halt::No;
        }
        // The dead are not woken up for a last step.
        if self.killing.is_some() {
            return;
        }
        self.extend();
        if relay(libc::SIGCONT, source, self.rules.placing) == Verdict::Forward {
            self.push(match self.rules.placing {
                Placing::Handover => Action::Resume,
                Placing::Own | Placing::Shared => Action::Relay(libc::SIGCONT),
            });
        }
    }

    fn extend(&mut self) {
        if self.killing.is_none() && !self.lock_gone {
            self.push(Action::Extend);
        }
    }

    pub(super) fn parent_died(&mut self, now: Tick) {
        match self.phase {
            Phase::Waiting | Phase::Ready => self.cancel(libc::SIGTERM, now),
            Phase::Running | Phase::Leftover => {
                let kill_in = self.rules.kill_after();
                self.say(Notice::ParentDied { kill_in });
                self.push(Action::TermTree);
                self.kill_by(now.after(kill_in));
            }
            Phase::Releasing | Phase::Done => {}
        }
    }

    pub(super) fn leader_ended(&mut self, ending: Ending, left: Left, now: Tick) {
        if !self.command_may_live() {
            return;
        }
        self.phase = Phase::Leftover;
        self.ended = Some((now, ending));
        if self.halt != Halt::Overdue {
            self.halt = Halt::No;
        }
        if left == Left::Nothing || self.never_started.is_some() {
            return self.finish(now);
        }
        match self.rules.leftover {
            Leftover::Wait => {
                let first = Rules::NAME_LEFTOVER_AFTER;
                self.rest = Rest::Naming(now.after(first), first);
            }
            Leftover::Kill => self.end_rest(None, now),
            Leftover::Ignore => self.finish(now),
        }
    }

    fn end_rest(&mut self, signal: Option<i32>, now: Tick) {
        if self.rest != Rest::Ending {
            self.rest = Rest::Ending;
            self.say(Notice::EndingLeftover { signal });
            self.push(Action::TermTree);
            self.kill_by(now.after(self.rules.timing.grace));
        }
    }

    pub(super) fn leader_stopped(&mut self, signal: i32, now: Tick) {
        if self.phase != Phase::Running || self.halt != Halt::No || self.killing.is_some() {
            return;
        }
        if self.rules.placing == Placing::Handover {
            self.halt = Halt::Suspended;
            self.push(Action::Suspend);
        } else {
            self.halt = Halt::Stopped { since: now, signal, warned: false };
        }
    }

    pub(super) fn leader_continued(&mut self) {
        if matches!(self.halt, Halt::Stopped { .. }) {
            self.halt = Halt::No;
        }
    }

    pub(super) fn refused(&mut self, processes: Vec<Process>) {
        // Said once, however often it happens.
        if self.refusal == Refusal::None {
            self.refusal = Refusal::OfSignals;
            self.say(Notice::CannotSignal { processes });
        }
        if self.killing.is_some() {
            self.refusal = Refusal::OfKill;
        }
    }
}

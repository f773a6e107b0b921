//! Every decision of a run, without the operating system: what happened and the time go in, what to
//! do comes out. The deadline comes first: each call compares the time with the end of the
//! validity before it looks at what happened, so whatever woke us (a continue after a stop, a
//! resume after suspend) finds the command dead if it had no right to live.
//!
//! T1 = validity - grace - margin: TERM. T2 = validity - margin: KILL. A later answer moves T2 but
//! never takes back a TERM.

use std::time::Duration;

use crate::{
    child::Ending,
    clock::Tick,
    exit::{Code, Exit},
    protocol::{Denial, Event, NodeIndex, NodeView, RefusalKind, Timing, Verdict as Denied},
    settings::Leftover,
    signal::{Placing, Source, Verdict, relay},
    ui::{EndedBy, Notice, OnLost, Process, Reason},
};

/// What the machine decides by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The lock's durations.
    pub timing: Timing,
    /// Where the command sits.
    pub placing: Placing,
    /// What a definite loss does.
    pub on_lost: OnLost,
    /// What becomes of descendants.
    pub leftover: Leftover,
    /// The longest the command and its descendants may run.
    pub max_runtime: Option<Duration>,
    /// KILL this long after TERM, when given: then it also bounds a relayed HUP, INT or TERM.
    pub kill_after: Option<Duration>,
    /// How long the command may be stopped.
    pub max_stopped: Duration,
    /// When the line about leftover descendants is repeated first; doubles up to 5 minutes.
    pub heartbeat: Option<Duration>,
    /// The exit code for "held by somebody else".
    pub conflict_exit_code: u8,
}

impl Rules {
    /// KILL this long after TERM where nothing was given.
    pub const KILL_AFTER: Duration = Duration::from_secs(10);
    /// The line about leftover descendants comes after so much.
    const NAME_LEFTOVER_AFTER: Duration = Duration::from_secs(1);
    /// Heartbeats are at most so far apart.
    const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(300);
    /// The release takes at most so long, whatever the nodes do: a second of theirs and a little
    /// for the way.
    const RELEASE: Duration = Duration::from_millis(1150);

    fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(Self::KILL_AFTER)
    }

    /// What must be left of the validity when the command starts.
    fn needed(&self) -> Duration {
        let spawn = (self.timing.ttl / 20).min(Duration::from_millis(20));
        self.timing.reserve().saturating_add(spawn)
    }
}

/// Whether anything of the command is left after its leader.
pub use crate::child::Left;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time.
    Time,
    /// The lock has news.
    Lock(Event),
    /// Nothing more will come from the lock.
    LockGone,
    /// A signal reached us.
    Signal(i32, Source),
    /// The process that started us has ended (`--die-with-parent`).
    ParentDied,
    /// The command's process exists.
    Spawned,
    /// The command's program runs.
    Started,
    /// There is no command: it could not be executed, or no process could be had. In the first
    /// case the process's end is told as the leader's.
    NotStarted(Reason, Left),
    /// The command itself ended.
    LeaderEnded(Ending, Left),
    /// The command itself was stopped by this signal.
    LeaderStopped(i32),
    /// The command itself was continued.
    LeaderContinued,
    /// Nothing of the command is left.
    TreeEmpty,
    /// We are not allowed to signal these.
    Refused(Vec<Process>),
    /// The guardian has ended before its time.
    GuardianDied,
}

/// What to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the command.
    Spawn,
    /// Send the signal to the command: its group, when it leads one and runs.
    Relay(i32),
    /// Send TERM, then CONT, to the whole tree.
    TermTree,
    /// Send KILL to the whole tree.
    KillTree,
    /// Stop the command's group.
    StopCommand,
    /// Let ourselves be stopped.
    StopSelf,
    /// The terminal's owner was stopped: take the terminal back and stop our whole group.
    Suspend,
    /// Give the terminal back, if it is ours to give, and continue the command.
    Resume,
    /// The guardian is to strike at this time.
    Guard(Option<Tick>),
    /// The guardian is not needed any more.
    StandDown,
    /// Give up the attempt or release the lock; [`Event::Settled`] follows.
    Release,
    /// The lock may have missed its time: extend at once.
    Extend,
    /// Say it.
    Say(Notice),
    /// Say who is left of the command, so long after its end.
    NameLeftover(Duration),
    /// The end.
    End(Exit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For the lock.
    Waiting,
    /// The lock is ours, nothing has been started.
    Ready,
    /// The command's process is on its way to its exec.
    Starting,
    /// The command runs.
    Running,
    /// The command has ended, or never was, and something of it is left.
    Leftover,
    /// Nothing is left but the lock.
    Releasing,
    /// Nothing is left.
    Done,
}

/// How the lock stands, as far as it matters to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    /// T1 and T2 follow from the validity.
    Armed,
    /// TERM was sent at T1; T2 still follows from the validity.
    Termed,
    /// Lost for certain, TERM sent: KILL at this time.
    Doomed(Tick),
    /// KILL was sent, or is to be sent at once.
    Over,
    /// Lost for certain, and the command runs on by the user's wish.
    Disarmed,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    since: Tick,
    signal: i32,
    warned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overtime {
    No,
    Termed(Tick),
    Killed,
}

#[derive(Clone, Copy, Debug)]
struct Kick {
    next: Tick,
    pause: Duration,
}

/// How it ends, when it is decided.
#[derive(Clone, Debug)]
struct Outcome {
    exit: Exit,
    reason: Option<Reason>,
}

/// The state of one run.
#[derive(Debug)]
pub struct Machine {
    rules: Rules,
    phase: Phase,
    lease: Lease,
    validity: Option<Tick>,
    /// Why the status is 79.
    loss: Option<Reason>,
    started: Option<Tick>,
    ended: Option<(Tick, Ending)>,
    never_started: Option<Reason>,
    overtime: Overtime,
    overstopped: bool,
    /// KILL at this time, for reasons that leave the status to the command.
    kill_at: Option<Tick>,
    killing: Option<Kick>,
    stop: Option<Stop>,
    /// Stopped by our own doing, so not to be counted.
    suspended: bool,
    naming: Option<(Tick, Duration)>,
    leftover_ends: bool,
    refused: bool,
    lock_gone: bool,
    outcome: Option<Outcome>,
    release_by: Option<Tick>,
    actions: Vec<Action>,
}

impl Machine {
    /// A run that waits for its lock.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            phase: Phase::Waiting,
            lease: Lease::Armed,
            validity: None,
            loss: None,
            started: None,
            ended: None,
            never_started: None,
            overtime: Overtime::No,
            overstopped: false,
            kill_at: None,
            killing: None,
            stop: None,
            suspended: false,
            naming: None,
            leftover_ends: false,
            refused: false,
            lock_gone: false,
            outcome: None,
            release_by: None,
            actions: Vec::new(),
        }
    }

    /// Takes the actions that have gathered, in order.
    pub fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether the lock is ours and the command is to be started: once whatever waits in the
    /// signal queue has been told, call [`Machine::proceed`].
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Starts the command, if there is still time for it.
    pub fn proceed(&mut self, now: Tick) {
        if self.phase != Phase::Ready {
            return;
        }
        let left = self.validity.map_or(Duration::ZERO, |end| end.since(now));
        let needed = self.rules.needed();
        if left < needed {
            let reason = Reason::TooLate { left, needed };
            self.release(now, Code::Unavailable.into(), Some(reason));
        } else {
            self.phase = Phase::Starting;
            self.started = Some(now);
            self.push(Action::Spawn);
        }
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Tick) {
        self.judge(now);
        match input {
            Input::Time => {}
            Input::Lock(event) => self.lock(event, now),
            Input::LockGone => self.lock_gone(now),
            Input::Signal(signal, source) => self.signal(signal, source, now),
            Input::ParentDied => self.parent_died(now),
            Input::Spawned => {}
            Input::Started => {
                if self.phase == Phase::Starting {
                    self.phase = Phase::Running;
                }
            }
            Input::NotStarted(reason, left) => {
                self.never_started = Some(reason);
                if left == Left::Nothing {
                    self.finish(now);
                }
            }
            Input::LeaderEnded(ending, left) => self.leader_ended(ending, left, now),
            Input::LeaderStopped(signal) => self.leader_stopped(signal, now),
            Input::LeaderContinued => self.stop = None,
            Input::TreeEmpty => {
                if self.command_may_live() {
                    self.finish(now);
                }
            }
            Input::Refused(processes) => {
                if !self.refused {
                    self.refused = true;
                    self.say(Notice::CannotSignal { processes });
                }
            }
            Input::GuardianDied => {
                if !matches!(self.phase, Phase::Releasing | Phase::Done) {
                    self.say(Notice::GuardianDied);
                }
            }
        }
        self.judge(now);
    }

    /// When to call again at the latest, with [`Input::Time`].
    pub fn deadline(&self) -> Option<Tick> {
        if self.phase == Phase::Releasing {
            return self.release_by;
        }
        if !self.command_may_live() {
            return None;
        }
        let lease = match (self.lease, self.validity) {
            (Lease::Armed, Some(_)) => self.t1(),
            (Lease::Termed, Some(_)) => self.t2(),
            (Lease::Doomed(at), _) => Some(at),
            (Lease::Over, end) if self.refused => end,
            _ => None,
        };
        let overtime = match self.overtime {
            Overtime::No => self.overtime_at(),
            Overtime::Termed(kill_at) => Some(kill_at),
            Overtime::Killed => None,
        };
        let stop = self.stop.filter(|_| !self.suspended).map(|stop| {
            let limit = stop.since.after(self.rules.max_stopped);
            let warning = stop.since.after(self.rules.timing.ttl);
            if stop.warned { limit } else { limit.min(warning) }
        });
        let killing = self.killing.map(|kick| kick.next);
        // Once KILL is under way no other KILL is due.
        let kills = [lease, overtime, stop, self.kill_at];
        let naming = self.naming.map(|(at, _)| at);
        let others = [killing, naming];
        if self.killing.is_some() {
            others.into_iter().chain([lease]).flatten().min()
        } else {
            others.into_iter().chain(kills).flatten().min()
        }
    }

    fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn say(&mut self, notice: Notice) {
        self.push(Action::Say(notice));
    }

    fn command_may_live(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running | Phase::Leftover)
    }

    fn t1(&self) -> Option<Tick> {
        Some(self.validity?.before(self.rules.timing.reserve()))
    }

    fn t2(&self) -> Option<Tick> {
        Some(self.validity?.before(self.rules.timing.margin))
    }

    fn overtime_at(&self) -> Option<Tick> {
        Some(self.started?.after(self.rules.max_runtime?))
    }

    /// Acts on what time alone has decided; the end of the validity first.
    fn judge(&mut self, now: Tick) {
        if self.phase == Phase::Releasing {
            if self.release_by.is_some_and(|by| by <= now) {
                self.settled(&[], Some(self.rules.timing.ttl));
            }
            return;
        }
        if !self.command_may_live() {
            return;
        }
        self.judge_lease(now);
        self.judge_runtime(now);
        self.judge_stop(now);
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.kill(now);
        }
        if let Some(kick) = self.killing.filter(|kick| kick.next <= now) {
            self.push(Action::KillTree);
            let pause = (kick.pause * 2).min(Duration::from_millis(100));
            self.killing = Some(Kick { next: now.after(pause), pause });
        }
        if let Some((at, pause)) = self.naming.filter(|(at, _)| *at <= now) {
            let since = self.ended.map_or(Duration::ZERO, |(end, _)| at.since(end));
            self.push(Action::NameLeftover(since));
            self.naming = self.rules.heartbeat.map(|first| {
                let pause = (pause * 2).clamp(first, Rules::SLOWEST_HEARTBEAT.max(first));
                (now.after(pause), pause)
            });
        }
    }

    fn judge_lease(&mut self, now: Tick) {
        let Some(end) = self.validity else { return };
        let due = |at: Option<Tick>| at.is_some_and(|at| at <= now);
        match self.lease {
            Lease::Armed | Lease::Termed if due(self.t2()) => {
                self.loss.get_or_insert(Reason::RanOut);
                self.lease = Lease::Over;
                if self.killing.is_none() {
                    self.say(Notice::RanOut);
                }
                self.kill(now);
            }
            Lease::Armed if due(self.t1()) => {
                self.loss.get_or_insert(Reason::RanOut);
                self.lease = Lease::Termed;
                self.say(Notice::Ending {
                    left: end.since(now),
                    kill_in: end.before(self.rules.timing.margin).since(now),
                });
                self.push(Action::TermTree);
            }
            Lease::Doomed(at) if at <= now => {
                self.lease = Lease::Over;
                self.kill(now);
            }
            // What is left cannot be ended by us, and the lock is over: there is nothing to keep.
            Lease::Over if self.refused && end <= now => self.finish(now),
            _ => {}
        }
    }

    fn judge_runtime(&mut self, now: Tick) {
        match self.overtime {
            Overtime::No if self.overtime_at().is_some_and(|at| at <= now) => {
                let kill_in = self.rules.kill_after();
                self.overtime = Overtime::Termed(now.after(kill_in));
                if let Some(limit) = self.rules.max_runtime {
                    self.say(Notice::MaxRuntime { limit, kill_in });
                }
                self.push(Action::TermTree);
            }
            Overtime::Termed(at) if at <= now => {
                self.overtime = Overtime::Killed;
                self.kill(now);
            }
            _ => {}
        }
    }

    fn judge_stop(&mut self, now: Tick) {
        let Some(stop) = self.stop.filter(|_| !self.suspended) else {
            return;
        };
        if self.killing.is_some() {
            return;
        }
        let since = now.since(stop.since);
        if since >= self.rules.max_stopped {
            self.overstopped = true;
            self.kill(now);
        } else if since >= self.rules.timing.ttl && !stop.warned {
            self.stop = Some(Stop { warned: true, ..stop });
            self.say(Notice::Stopped {
                signal: stop.signal,
                since,
                kill_in: self.rules.max_stopped.saturating_sub(since),
            });
        }
    }

    fn kill(&mut self, now: Tick) {
        if self.killing.is_none() {
            self.push(Action::KillTree);
            let pause = Duration::from_millis(2);
            self.killing = Some(Kick { next: now.after(pause), pause });
        }
    }

    fn lock(&mut self, event: Event, now: Tick) {
        match event {
            Event::Acquired { validity, nodes, waited, .. } if self.phase == Phase::Waiting => {
                self.phase = Phase::Ready;
                self.say(Notice::Acquired { waited, nodes, validity: validity.since(now) });
                self.extended_to(validity);
            }
            Event::Validity(validity) => self.extended_to(validity),
            Event::Lost(nodes) => self.lost(nodes, now),
            Event::Denied(denial) if self.phase == Phase::Waiting => self.denied(denial, now),
            Event::Settled { untold, at_most } => {
                let at_most = (!untold.is_empty()).then_some(at_most);
                if self.phase == Phase::Releasing {
                    self.settled(&untold, at_most);
                } else {
                    self.lock_gone(now);
                }
            }
            Event::Note(note) => self.say(Notice::Note(note)),
            Event::Acquired { .. } | Event::Denied(_) => {}
        }
    }

    fn extended_to(&mut self, validity: Tick) {
        // Past its end a lease is dead for ever, and a definite loss is never taken back.
        if matches!(self.lease, Lease::Armed | Lease::Termed) {
            self.validity = Some(validity);
            self.push(Action::Guard(Some(self.strike_for(validity))));
        }
    }

    /// The guardian waits for a part of the margin, so that it strikes only where we do not.
    fn strike_for(&self, end: Tick) -> Tick {
        end.before(self.rules.timing.margin / 2)
    }

    fn lost(&mut self, nodes: Vec<NodeView>, now: Tick) {
        if self.phase == Phase::Ready {
            return self.release(now, Code::Lost.into(), Some(Reason::Lost));
        }
        if !self.command_may_live() || !matches!(self.lease, Lease::Armed | Lease::Termed) {
            return;
        }
        self.loss = Some(Reason::Lost);
        let policy = self.rules.on_lost;
        self.say(Notice::Lost { nodes, policy });
        match policy {
            OnLost::Kill => {
                self.lease = Lease::Over;
                let strike = now.after(self.rules.timing.margin / 2);
                self.push(Action::Guard(Some(strike)));
                self.kill(now);
            }
            OnLost::Term => {
                let kill_at = now.after(self.rules.timing.grace);
                self.lease = Lease::Doomed(kill_at);
                let strike = kill_at.after(self.rules.timing.margin / 2);
                self.push(Action::Guard(Some(strike)));
                self.push(Action::TermTree);
            }
            OnLost::Continue => {
                self.lease = Lease::Disarmed;
                self.push(Action::Guard(None));
            }
        }
    }

    fn denied(&mut self, denial: Denial, now: Tick) {
        let code = match denial.verdict {
            Denied::Held | Denied::Contended => self.rules.conflict_exit_code,
            Denied::Unavailable if rights_are_missing(&denial.nodes) => Code::Refused.number(),
            Denied::Unavailable | Denied::TooSlow => Code::Unavailable.number(),
        };
        self.phase = Phase::Releasing;
        self.release_by = Some(now.after(Rules::RELEASE));
        self.outcome = Some(Outcome { exit: Exit::Status(code), reason: None });
        // The verdict is out; the clean-up behind it needs no words.
        self.say(Notice::Exit { code, reason: Reason::Denied(denial) });
        self.push(Action::StandDown);
    }

    fn lock_gone(&mut self, now: Tick) {
        if self.lock_gone {
            return;
        }
        self.lock_gone = true;
        match self.phase {
            Phase::Waiting | Phase::Ready => {
                let reason = Reason::Failed {
                    what: "talk to the nodes",
                    error: "the connections ended".to_owned(),
                };
                self.release(now, Code::Failure.into(), Some(reason));
            }
            Phase::Releasing => {
                let at_most = self.validity.map(|end| end.since(now));
                self.settled(&[], at_most);
            }
            Phase::Done => {}
            // The lock runs out by itself, and T1 and T2 with it.
            _ => self.say(Notice::NodesGone),
        }
    }

    fn signal(&mut self, signal: i32, source: Source, now: Tick) {
        let fatal = matches!(signal, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM);
        match self.phase {
            Phase::Waiting | Phase::Ready => match signal {
                libc::SIGTSTP => self.push(Action::StopSelf),
                _ if fatal => {
                    self.say(Notice::Cancelled { signal });
                    self.release(now, Exit::Signal(signal), None);
                }
                _ => {}
            },
            Phase::Starting | Phase::Running => self.relay(signal, source, now),
            Phase::Leftover => match signal {
                libc::SIGTSTP => self.push(Action::StopSelf),
                libc::SIGCONT => self.continued(),
                _ if fatal => self.end_leftover(Some(signal), now),
                _ => {}
            },
            // Deaf: the release is bounded.
            Phase::Releasing | Phase::Done => {}
        }
    }

    fn relay(&mut self, signal: i32, source: Source, now: Tick) {
        let verdict = relay(signal, source, self.rules.placing);
        match (signal, self.rules.placing) {
            (libc::SIGTSTP, Placing::Own | Placing::Handover) => {
                // An orphaned group ignores TSTP, so it gets STOP.
                self.push(Action::StopCommand);
                self.suspended = true;
                self.push(Action::StopSelf);
            }
            (libc::SIGTSTP, Placing::Shared) => {
                if verdict == Verdict::Forward {
                    self.push(Action::Relay(signal));
                }
                self.suspended = true;
                self.push(Action::StopSelf);
            }
            (libc::SIGCONT, placing) => {
                self.continued();
                // The dead are not woken up for a last step.
                if self.killing.is_none() && verdict == Verdict::Forward {
                    self.push(match placing {
                        Placing::Handover => Action::Resume,
                        Placing::Own | Placing::Shared => Action::Relay(signal),
                    });
                }
            }
            _ => {
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
        }
    }

    /// We were stopped and run again. The clock was compared before this.
    fn continued(&mut self) {
        if self.suspended {
            self.suspended = false;
            self.stop = None;
        }
        if self.killing.is_none() && !self.lock_gone {
            self.push(Action::Extend);
        }
    }

    fn parent_died(&mut self, now: Tick) {
        match self.phase {
            Phase::Waiting | Phase::Ready => {
                let signal = libc::SIGTERM;
                self.say(Notice::Cancelled { signal });
                self.release(now, Exit::Signal(signal), None);
            }
            Phase::Starting | Phase::Running | Phase::Leftover => {
                let kill_in = self.rules.kill_after();
                self.say(Notice::ParentDied { kill_in });
                self.push(Action::TermTree);
                let at = now.after(kill_in);
                self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
            }
            Phase::Releasing | Phase::Done => {}
        }
    }

    fn leader_ended(&mut self, ending: Ending, left: Left, now: Tick) {
        if !self.command_may_live() {
            return;
        }
        self.phase = Phase::Leftover;
        self.ended = Some((now, ending));
        self.stop = None;
        if left == Left::Nothing || self.never_started.is_some() {
            return self.finish(now);
        }
        match self.rules.leftover {
            Leftover::Wait => {
                let first = Rules::NAME_LEFTOVER_AFTER;
                self.naming = Some((now.after(first), first));
            }
            Leftover::Kill => self.end_leftover(None, now),
            Leftover::Ignore => self.finish(now),
        }
    }

    fn end_leftover(&mut self, signal: Option<i32>, now: Tick) {
        if self.leftover_ends {
            return;
        }
        self.leftover_ends = true;
        self.say(Notice::EndingLeftover { signal });
        self.push(Action::TermTree);
        let at = now.after(self.rules.timing.grace);
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn leader_stopped(&mut self, signal: i32, now: Tick) {
        if self.phase != Phase::Running && self.phase != Phase::Starting {
            return;
        }
        if self.suspended {
            return;
        }
        self.stop = Some(Stop { since: now, signal, warned: false });
        if self.rules.placing == Placing::Handover && self.killing.is_none() {
            self.suspended = true;
            self.push(Action::Suspend);
        }
    }

    /// Nothing of the command is left, or nothing that we wait for.
    fn finish(&mut self, now: Tick) {
        if self.validity.is_none_or(|end| end <= now) {
            // Held to the end? No: whatever the command said, it said it without the lock.
            self.loss.get_or_insert(Reason::RanOut);
        }
        let Outcome { exit, reason } = self.verdict();
        self.release(now, exit, reason);
    }

    /// 79 beats 124 and 137, which beat the command's own status.
    fn verdict(&mut self) -> Outcome {
        let ours = |code: Code, reason| Outcome { exit: code.into(), reason: Some(reason) };
        if let Some(reason) = self.never_started.take() {
            let code = match reason {
                Reason::NotFound { .. } => Code::NotFound,
                Reason::NotExecutable { .. } => Code::NotExecutable,
                _ => Code::Failure,
            };
            return ours(code, reason);
        }
        if let Some(reason) = self.loss.take() {
            return ours(Code::Lost, reason);
        }
        if let Some(limit) = self.rules.max_runtime {
            match self.overtime {
                Overtime::No => {}
                Overtime::Termed(_) => {
                    let by = EndedBy::Term;
                    return ours(Code::TimedOut, Reason::MaxRuntime { limit, by });
                }
                Overtime::Killed => {
                    let by = EndedBy::Kill;
                    return ours(Code::Killed, Reason::MaxRuntime { limit, by });
                }
            }
        }
        if self.overstopped {
            let limit = self.rules.max_stopped;
            return ours(Code::Killed, Reason::MaxStopped { limit });
        }
        let exit = match self.ended {
            Some((_, Ending::Exited(status))) => Exit::Status(status),
            Some((_, Ending::Signaled(signal))) => Exit::Signal(signal),
            // Nothing is left of a leader whose end nobody saw: it cannot be.
            None => Code::Failure.into(),
        };
        Outcome { exit, reason: None }
    }

    fn release(&mut self, now: Tick, exit: Exit, reason: Option<Reason>) {
        self.phase = Phase::Releasing;
        self.release_by = Some(now.after(Rules::RELEASE));
        self.outcome = Some(Outcome { exit, reason });
        self.push(Action::StandDown);
        if self.lock_gone {
            let at_most = self.validity.map(|end| end.since(now));
            self.settled(&[], at_most);
        } else {
            self.push(Action::Release);
        }
    }

    /// The lock is given back, or we wait no longer for it: `at_most` says how long it may stay.
    fn settled(&mut self, untold: &[NodeIndex], at_most: Option<Duration>) {
        self.phase = Phase::Done;
        let Some(Outcome { exit, reason }) = self.outcome.take() else {
            return;
        };
        if let Some(at_most) = at_most.filter(|_| self.validity.is_some()) {
            self.say(if untold.is_empty() {
                Notice::NotReleased { at_most }
            } else {
                Notice::Untold { nodes: untold.to_vec(), at_most }
            });
        }
        if let (Exit::Status(code), Some(reason)) = (exit, reason) {
            self.say(Notice::Exit { code, reason });
        }
        self.push(Action::End(exit));
    }
}

/// Whether so many nodes refuse our credentials or rights that no quorum is possible.
fn rights_are_missing(nodes: &[NodeView]) -> bool {
    let quorum = nodes.len() / 2 + 1;
    let refusing = nodes
        .iter()
        .filter(|view| matches!(view, NodeView::Refused(why) if why.kind == RefusalKind::Rights))
        .count();
    refusing > 0 && nodes.len() - refusing < quorum
}

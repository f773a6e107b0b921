//! The hands of the machine: one poll loop on the main thread over signals, the lock's news, the
//! deadline, the command's exec, our parent and the guardian. It tells the machine what happened
//! and does what the machine says, and decides nothing itself.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::mpsc::TryRecvError,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, getpgid},
};

use super::{
    Lock,
    environment::{Holding, environment},
    machine::{Action, Input, Machine, Rules},
    report,
    start::{CHANGED, Kit, dismiss},
};
use crate::{
    child::{self, Guardian, Launch, Left, Placement, Stat, TreeEvent},
    clock::{BootClock, Clock, Tick},
    exit::Exit,
    protocol::{Event, Token},
    settings::{RunPlan, words},
    signal::{Placing, Received, Sender, Source},
    ui::{Notice, Process, Reason, Say},
};

/// One run.
pub(super) struct Shell<'a, L> {
    plan: &'a RunPlan,
    say: &'a mut dyn Say,
    lock: L,
    kit: Kit,
    guardian: Option<Guardian>,
    machine: Machine,
    news_ended: bool,
    token: Option<Token>,
    /// The fencing token.
    number: Option<u64>,
    /// Which of the keys it is, where one of several was wanted.
    slot: Option<usize>,
    alarm_at: Option<Tick>,
    /// The command's number, also when it is gone; only for comparing.
    command: Option<Pid>,
    /// We sent INT to the command.
    interrupted: bool,
    exit: Option<Exit>,
}

impl<'a, L: Lock> Shell<'a, L> {
    pub(super) fn new(
        plan: &'a RunPlan,
        say: &'a mut dyn Say,
        lock: L,
        kit: Kit,
        guardian: Option<Guardian>,
    ) -> Self {
        let rules = Rules {
            timing: plan.timing,
            placing: match kit.placement {
                Placement::Own => Placing::Own,
                Placement::Shared => Placing::Shared,
                Placement::Handover(_) => Placing::Handover,
            },
            on_lost: plan.on_lost,
            leftover: plan.leftover,
            max_runtime: plan.max_runtime,
            kill_after: plan.kill_after,
            max_stopped: plan.max_stopped(),
            heartbeat: plan.heartbeat,
            conflict: plan.conflict,
            wait: plan.wait,
        };
        let machine = Machine::new(rules, BootClock.now());
        Self {
            plan,
            say,
            lock,
            kit,
            guardian,
            machine,
            news_ended: false,
            token: None,
            number: None,
            slot: None,
            alarm_at: None,
            command: None,
            interrupted: false,
            exit: None,
        }
    }

    pub(super) fn run(mut self) -> Exit {
        let exit = loop {
            if let Some(exit) = self.exit {
                break exit;
            }
            if self.machine.is_ready() {
                // What arrived while the lock was on its way decides before the command starts.
                self.take_signals();
                self.machine.proceed(BootClock.now());
                self.act();
                continue;
            }
            self.set_alarm();
            let ready = self.sleep();
            self.tell(Input::Time);
            self.say.repeat();
            self.take_signals();
            self.take_news();
            if ready.parent {
                self.kit.parent = None;
                self.tell(Input::ParentDied);
            }
            if ready.guardian {
                self.guardian_died();
            }
        };
        self.leave(exit)
    }

    /// The last things: the terminal, the guardian.
    fn leave(mut self, exit: Exit) -> Exit {
        if let (Placement::Handover(terminal), Some(command)) = (&self.kit.placement, self.command)
        {
            terminal.take_back_from(command);
            if exit == Exit::Signal(libc::SIGINT) && !self.interrupted {
                // The terminal told only the command; whoever waits in our group must stop as well.
                child::signal_own_group(libc::SIGINT);
            }
        }
        dismiss(self.guardian.take());
        exit
    }

    fn set_alarm(&mut self) {
        let at = [self.machine.deadline(), self.say.due()].into_iter().flatten().min();
        if at != self.alarm_at && self.kit.alarm.set(at).is_ok() {
            self.alarm_at = at;
        }
    }

    fn sleep(&mut self) -> Ready {
        let news = if self.news_ended { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.kit.signals, PollFlags::IN),
            PollFd::new(&self.kit.news, news),
            PollFd::new(&self.kit.alarm, PollFlags::IN),
        ];
        let parent = also(&mut fds, self.kit.parent.as_ref().map(AsFd::as_fd), PollFlags::IN);
        // Only its end matters, and that is always told.
        let lifeline = self.guardian.as_ref().and_then(Guardian::lifeline);
        let guardian = also(&mut fds, lifeline, PollFlags::empty());
        // Interrupted by a signal: then the signal socket has something.
        let _ = poll(&mut fds, None);
        let is_ready = |index: Option<usize>| index.is_some_and(|i| !fds[i].revents().is_empty());
        let ready = Ready { parent: is_ready(parent), guardian: is_ready(guardian) };
        if !fds[2].revents().is_empty() {
            // An alarm that went off stays readable until it is set anew.
            self.alarm_at = None;
            let _ = self.kit.alarm.set(None);
        }
        ready
    }

    /// Tells the machine and does what it says.
    fn tell(&mut self, input: Input) {
        self.machine.handle(input, BootClock.now());
        self.act();
    }

    fn act(&mut self) {
        loop {
            let actions = self.machine.actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.perform(action);
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Spawn => self.spawn(),
            Action::Relay(signal) => self.relay(signal),
            Action::TermTree => self.signal_tree(&[libc::SIGTERM, libc::SIGCONT]),
            Action::KillTree => self.signal_tree(&[libc::SIGKILL]),
            Action::StopCommand => self.relay(libc::SIGSTOP),
            Action::StopSelf => child::raise(libc::SIGSTOP),
            Action::Suspend => self.suspend(),
            Action::Resume => self.resume(),
            Action::Guard(at) => {
                if let Some(guardian) = &self.guardian {
                    guardian.strike_at(at);
                }
            }
            Action::StandDown => {
                if let Some(guardian) = &mut self.guardian {
                    guardian.stand_down();
                }
            }
            Action::Release => self.lock.stop(),
            Action::Finish => self.lock.finish(),
            Action::Extend => self.lock.extend(),
            Action::Say(notice) => self.say.say(notice),
            Action::Report(figures) => {
                if let Some(held) = figures.held {
                    let extensions = figures.extensions;
                    self.say.say(Notice::Over { held, extensions });
                }
                report::write(self.plan, &figures, self.say);
            }
            Action::NameLeftover(since) => {
                let processes = people(&self.kit.tree.descendants());
                if !processes.is_empty() {
                    self.say.say(Notice::Leftover { processes, since });
                }
            }
            Action::End(exit) => self.exit = Some(exit),
        }
    }

    fn spawn(&mut self) {
        let Some(token) = self.token else { return };
        let holding = Holding { token, number: self.number, slot: self.slot };
        let environment = environment(std::env::vars_os(), &self.plan.facts, holding);
        let launch = Launch {
            command: &self.plan.command,
            environment: &environment,
            placement: &self.kit.placement,
            inherited: &self.kit.inherited,
            changed: &CHANGED,
            guardian: self.guardian.as_ref(),
        };
        let input = match child::spawn(&launch) {
            Ok(spawned) => {
                self.command = Some(spawned.pid);
                self.kit.tree.plant(spawned.pid);
                let Err(error) = spawned.exec else { return };
                let program = self.plan.command[0].to_string_lossy().into_owned();
                let reason = if error.kind() == io::ErrorKind::NotFound {
                    Reason::NotFound { program }
                } else {
                    let error = words(&error);
                    Reason::NotExecutable { program, error }
                };
                Input::NotStarted(reason, Left::Something)
            }
            Err(error) => {
                let error = format!("cannot start the command: {}", words(&error));
                let reason = Reason::Failed { error };
                Input::NotStarted(reason, Left::Nothing)
            }
        };
        self.machine.handle(input, BootClock.now());
    }

    fn relay(&mut self, signal: i32) {
        let Some(leader) = self.kit.tree.leader() else {
            return;
        };
        self.interrupted |= signal == libc::SIGINT;
        let sent = if matches!(self.kit.placement, Placement::Shared) {
            child::signal_process(leader, signal)
        } else {
            child::signal_group(leader, signal)
        };
        if sent.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)) {
            let refused: Vec<_> = Stat::of(leader).into_iter().collect();
            self.refused(&refused);
        }
    }

    fn signal_tree(&mut self, signals: &[i32]) {
        // The group first, in one call that no fork can escape.
        let own_group = !matches!(self.kit.placement, Placement::Shared);
        if let Some(leader) = self.kit.tree.leader().filter(|_| own_group)
            && signals == [libc::SIGKILL]
        {
            let _ = child::signal_group(leader, libc::SIGKILL);
        }
        let refused = self.kit.tree.signal(signals);
        self.refused(&refused);
    }

    fn refused(&mut self, processes: &[Stat]) {
        if !processes.is_empty() {
            let input = Input::Refused(people(processes));
            self.machine.handle(input, BootClock.now());
        }
    }

    fn suspend(&mut self) {
        let (Placement::Handover(terminal), Some(command)) = (&self.kit.placement, self.command)
        else {
            return;
        };
        if terminal.is_ours() {
            // It was stopped for want of the terminal, which we can give.
            self.machine.handle(Input::Signal(libc::SIGCONT, Source::Other), BootClock.now());
        } else {
            terminal.take_back_from(command);
            child::signal_own_group(libc::SIGSTOP);
        }
    }

    fn resume(&mut self) {
        if let (Placement::Handover(terminal), Some(leader)) =
            (&self.kit.placement, self.kit.tree.leader())
        {
            terminal.hand_over_to(leader);
        }
        self.relay(libc::SIGCONT);
    }

    fn take_signals(&mut self) {
        let batch: Vec<Received> = self.kit.signals.drain().collect();
        let continued = batch.iter().any(|one| one.signal == libc::SIGCONT);
        let mut child_changed = false;
        for Received { signal, sender } in batch {
            match signal {
                libc::SIGCHLD => child_changed = true,
                // A continue takes a stop back that has not happened yet.
                libc::SIGTSTP if continued => {}
                _ => {
                    let source = self.source(signal, sender);
                    self.tell(Input::Signal(signal, source));
                }
            }
        }
        if child_changed {
            self.reap();
        }
    }

    fn source(&self, signal: i32, sender: Sender) -> Source {
        let Sender::Process(pid) = sender else {
            // A terminal's hang-up goes to the session's leader alone; the others hear of it when
            // the leader dies, which waits for them.
            let ours_alone = signal == libc::SIGHUP && child::leads_session();
            let kernel = sender == Sender::Kernel && !ours_alone;
            return if kernel { Source::Kernel } else { Source::Other };
        };
        let (Some(leader), Some(pid)) = (self.kit.tree.leader(), Pid::from_raw(pid)) else {
            return Source::Other;
        };
        let leads = !matches!(self.kit.placement, Placement::Shared);
        if pid == leader || (leads && getpgid(Some(pid)) == Ok(leader)) {
            Source::Command
        } else {
            Source::Other
        }
    }

    fn reap(&mut self) {
        let guardian = self.guardian.as_ref();
        let (events, left) = self.kit.tree.reap(|| {
            if let Some(guardian) = guardian {
                guardian.leader_gone();
            }
        });
        for event in events {
            match event {
                TreeEvent::LeaderEnded(ending) => self.tell(Input::LeaderEnded(ending, left)),
                TreeEvent::LeaderStopped(signal) => self.tell(Input::LeaderStopped(signal)),
                TreeEvent::LeaderContinued => self.tell(Input::LeaderContinued),
                TreeEvent::Reaped => {}
            }
        }
        if left == Left::Nothing && self.command.is_some() {
            self.tell(Input::TreeEmpty);
        }
    }

    fn take_news(&mut self) {
        if self.news_ended {
            return;
        }
        self.kit.news.hush();
        loop {
            match self.kit.news.try_recv() {
                Ok(event) => {
                    match event {
                        Event::Acquired { token, .. } => self.token = Some(token),
                        Event::Fenced(number) => self.number = Some(number),
                        Event::Slot(slot) => self.slot = Some(slot),
                        _ => {}
                    }
                    self.tell(Input::Lock(event));
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.news_ended = true;
                    return self.tell(Input::LockGone);
                }
            }
        }
    }

    fn guardian_died(&mut self) {
        dismiss(self.guardian.take());
        self.tell(Input::GuardianDied);
    }
}

/// Adds a descriptor that is not always there; where it went.
fn also<'fd>(
    fds: &mut Vec<PollFd<'fd>>,
    fd: Option<BorrowedFd<'fd>>,
    flags: PollFlags,
) -> Option<usize> {
    fds.push(PollFd::from_borrowed_fd(fd?, flags));
    Some(fds.len() - 1)
}

/// Which of the rarer descriptors have something to tell.
struct Ready {
    parent: bool,
    guardian: bool,
}

fn people(processes: &[Stat]) -> Vec<Process> {
    processes
        .iter()
        .map(|process| Process {
            pid: process.pid.as_raw_nonzero().get(),
            name: process.name.clone(),
        })
        .collect()
}

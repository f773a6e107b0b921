//! The hands of the machine: one poll loop on the main thread over signals, the lock's news, the
//! deadline, the command's exec, our parent and the guardian. It tells the machine what happened
//! and does what the machine says, and decides nothing itself.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::mpsc::TryRecvError,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, getpgid, getppid, pidfd_open},
};

use super::{
    Lock,
    environment::environment,
    machine::{Action, Input, Left, Machine, Rules},
};
use crate::{
    child::{self, Birth, Guardian, Inherited, Launch, Outcome, Placement, Stat, Tree, TreeEvent},
    clock::{BootClock, Clock},
    exit::{Code, Exit},
    protocol::{Event, Token},
    settings::{GuardianChoice, ParentDeath, RunPlan},
    signal::{Placing, Received, Sender, Signals, Source},
    ui::{Notice, Process, Reason, Say},
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
const CHANGED: [i32; 14] = {
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

/// See [`super::run`].
pub(super) fn run<L: Lock>(
    plan: &RunPlan,
    connect: impl FnOnce(wake::Sender<Event>) -> io::Result<L>,
    say: &mut dyn Say,
) -> Exit {
    match Shell::prepare(plan, connect, say) {
        Ok(shell) => shell.run(),
        Err((what, error)) => {
            let code = Code::Failure.number();
            let error = error.to_string();
            let reason = Reason::Failed { what, error };
            say.say(Notice::Exit { code, reason });
            Exit::Status(code)
        }
    }
}

struct Shell<'a, L> {
    plan: &'a RunPlan,
    say: &'a mut dyn Say,
    lock: L,
    news: Receiver<Event>,
    news_ended: bool,
    token: Option<Token>,
    machine: Machine,
    inherited: Inherited,
    signals: Signals,
    alarm: Alarm,
    alarm_at: Option<crate::clock::Tick>,
    guardian: Option<Guardian>,
    placement: Placement,
    tree: Tree,
    /// The command's number, also when it is gone; only for comparing.
    command: Option<Pid>,
    birth: Option<Birth>,
    parent: Option<OwnedFd>,
    exit: Option<Exit>,
}

type Failure = (&'static str, io::Error);

impl<'a, L: Lock> Shell<'a, L> {
    /// Makes everything that can fail, before the lock is asked for.
    fn prepare(
        plan: &'a RunPlan,
        connect: impl FnOnce(wake::Sender<Event>) -> io::Result<L>,
        say: &'a mut dyn Say,
    ) -> Result<Self, Failure> {
        let failed = |what| move |error| (what, error);
        let older = child::older();
        let guardian = match plan.guardian {
            GuardianChoice::On => Some(
                Guardian::start(&plan.facts.run, &older)
                    .map_err(failed("start the guardian process"))?,
            ),
            GuardianChoice::Off => None,
        };
        let inherited = Inherited::take(&CHANGED);
        let handled = HANDLED
            .into_iter()
            .filter(|signal| ALWAYS_HANDLED.contains(signal) || !inherited.ignores(*signal));
        let signals = Signals::watch(handled).map_err(failed("handle signals"))?;
        Inherited::defy_terminal();
        Inherited::unblock();
        let placement = Placement::choose(plan.group);
        let tree = Tree::new(guardian.as_ref().map(Guardian::pid), &older)
            .map_err(failed("become the subreaper of the command"))?;
        let alarm = Alarm::new().map_err(failed("make a timer"))?;
        let parent = match plan.parent_death {
            ParentDeath::Ignore => None,
            ParentDeath::Terminate => getppid()
                .map(|parent| pidfd_open(parent, PidfdFlags::empty()))
                .transpose()
                .map_err(|error| ("watch our parent", error.into()))?,
        };
        let machine = Machine::new(Rules {
            timing: plan.timing,
            placing: match placement {
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
            conflict_exit_code: plan.conflict_exit_code,
        });
        let (to_us, news) = wake::channel().map_err(failed("make a channel"))?;
        let lock = connect(to_us).map_err(failed("start talking to the nodes"))?;
        Ok(Self {
            plan,
            say,
            lock,
            news,
            news_ended: false,
            token: None,
            machine,
            inherited,
            signals,
            alarm,
            alarm_at: None,
            guardian,
            placement,
            tree,
            command: None,
            birth: None,
            parent,
            exit: None,
        })
    }

    fn run(mut self) -> Exit {
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
            self.take_signals();
            self.take_news();
            if ready.parent {
                self.parent = None;
                self.tell(Input::ParentDied);
            }
            if ready.guardian {
                self.guardian_died();
            }
            if ready.birth {
                self.take_birth();
            }
        };
        self.leave(exit)
    }

    /// The last things: the terminal, the guardian.
    fn leave(mut self, exit: Exit) -> Exit {
        if let (Placement::Handover(terminal), Some(command)) = (&self.placement, self.command) {
            terminal.take_back_from(command);
            if exit == Exit::Signal(libc::SIGINT) {
                // The terminal told only the command; whoever waits in our group must stop as well.
                child::signal_own_group(libc::SIGINT);
            }
        }
        if let Some(mut guardian) = self.guardian.take() {
            guardian.stand_down();
            guardian.reap();
        }
        exit
    }

    fn set_alarm(&mut self) {
        let at = self.machine.deadline();
        if at != self.alarm_at && self.alarm.set(at).is_ok() {
            self.alarm_at = at;
        }
    }

    fn sleep(&mut self) -> Ready {
        let news = if self.news_ended { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.news, news),
            PollFd::new(&self.alarm, PollFlags::IN),
        ];
        let parent = also(&mut fds, self.parent.as_ref().map(AsFd::as_fd), PollFlags::IN);
        let birth = also(&mut fds, self.birth.as_ref().map(AsFd::as_fd), PollFlags::IN);
        // Only its end matters, and that is always told.
        let lifeline = self.guardian.as_ref().and_then(Guardian::lifeline);
        let guardian = also(&mut fds, lifeline, PollFlags::empty());
        // Interrupted by a signal: then the signal socket has something.
        let _ = poll(&mut fds, None);
        let is_ready = |index: Option<usize>| index.is_some_and(|i| !fds[i].revents().is_empty());
        let ready = Ready {
            parent: is_ready(parent),
            birth: is_ready(birth),
            guardian: is_ready(guardian),
        };
        if !fds[2].revents().is_empty() {
            // An alarm that went off stays readable until it is set anew.
            self.alarm_at = None;
            let _ = self.alarm.set(None);
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
            Action::StopSelf => self.stop_self(),
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
            Action::Extend => self.lock.extend(),
            Action::Say(notice) => self.say.say(notice),
            Action::NameLeftover(since) => {
                let processes = people(&self.tree.descendants());
                if !processes.is_empty() {
                    self.say.say(Notice::Leftover { processes, since });
                }
            }
            Action::End(exit) => self.exit = Some(exit),
        }
    }

    fn spawn(&mut self) {
        let Some(token) = self.token else { return };
        let environment = environment(std::env::vars_os(), &self.plan.facts, token);
        let launch = Launch {
            command: &self.plan.command,
            environment: &environment,
            placement: &self.placement,
            inherited: &self.inherited,
            changed: &CHANGED,
            guardian: self.guardian.as_ref(),
        };
        match child::spawn(&launch) {
            Ok(birth) => {
                self.command = Some(birth.pid);
                self.tree.plant(birth.pid);
                self.birth = Some(birth);
                self.machine.handle(Input::Spawned, BootClock.now());
            }
            Err(error) => {
                let reason = Reason::Failed { what: "start the command", error: error.to_string() };
                let input = Input::NotStarted(reason, Left::Nothing);
                self.machine.handle(input, BootClock.now());
            }
        }
    }

    fn relay(&mut self, signal: i32) {
        let Some(leader) = self.tree.leader() else {
            return;
        };
        let alone = matches!(self.placement, Placement::Shared) || self.birth.is_some();
        let sent = if alone {
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
        if signals == [libc::SIGKILL] && self.birth.is_none() {
            if let (Some(leader), false) =
                (self.tree.leader(), matches!(self.placement, Placement::Shared))
            {
                let _ = child::signal_group(leader, libc::SIGKILL);
            }
        }
        let refused = self.tree.signal(signals);
        self.refused(&refused);
    }

    fn refused(&mut self, processes: &[Stat]) {
        if !processes.is_empty() {
            let input = Input::Refused(people(processes));
            self.machine.handle(input, BootClock.now());
        }
    }

    fn stop_self(&mut self) {
        child::raise(libc::SIGSTOP);
    }

    fn suspend(&mut self) {
        let (Placement::Handover(terminal), Some(command)) = (&self.placement, self.command) else {
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
        if let (Placement::Handover(terminal), Some(leader)) = (&self.placement, self.tree.leader())
        {
            if terminal.is_ours() {
                terminal.give_to(leader);
            }
        }
        self.relay(libc::SIGCONT);
    }

    fn take_signals(&mut self) {
        let batch: Vec<Received> = self.signals.drain().collect();
        let continued = batch.iter().any(|one| one.signal == libc::SIGCONT);
        let mut child_changed = false;
        for Received { signal, sender } in batch {
            match signal {
                libc::SIGCHLD => child_changed = true,
                // A continue takes a stop back that has not happened yet.
                libc::SIGTSTP if continued => {}
                _ => {
                    let source = self.source(sender);
                    self.tell(Input::Signal(signal, source));
                }
            }
        }
        if child_changed {
            self.reap();
        }
    }

    fn source(&self, sender: Sender) -> Source {
        let Sender::Process(pid) = sender else {
            return if sender == Sender::Kernel { Source::Kernel } else { Source::Other };
        };
        let (Some(leader), Some(pid)) = (self.tree.leader(), Pid::from_raw(pid)) else {
            return Source::Other;
        };
        let leads = !matches!(self.placement, Placement::Shared);
        if pid == leader || (leads && getpgid(Some(pid)) == Ok(leader)) {
            Source::Command
        } else {
            Source::Other
        }
    }

    fn reap(&mut self) {
        // A failed exec is told before the end that follows from it.
        self.take_birth();
        let guardian = self.guardian.as_ref();
        let (events, left) = self.tree.reap(|| {
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
        self.news.hush();
        loop {
            match self.news.try_recv() {
                Ok(event) => {
                    if let Event::Acquired { token, .. } = event {
                        self.token = Some(token);
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

    fn take_birth(&mut self) {
        let Some(birth) = &self.birth else { return };
        match birth.outcome() {
            Outcome::Pending => {}
            Outcome::Started => {
                self.birth = None;
                self.tell(Input::Started);
            }
            Outcome::Failed(error) => {
                self.birth = None;
                let program = self.plan.command[0].to_string_lossy().into_owned();
                let reason = if error.kind() == io::ErrorKind::NotFound {
                    Reason::NotFound { program }
                } else {
                    let error = error.to_string();
                    Reason::NotExecutable { program, error }
                };
                self.tell(Input::NotStarted(reason, Left::Something));
            }
        }
    }

    fn guardian_died(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            guardian.stand_down();
            guardian.reap();
            self.tell(Input::GuardianDied);
        }
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
    birth: bool,
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

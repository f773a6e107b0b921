//! The decisions of a run, in virtual time. Numbers are rules of the supervision contract.

mod command;
mod lease;
mod outcome;
mod record;

use std::time::Duration;

use super::*;
use crate::{
    child::Left,
    protocol::{
        Denial, Event, Limits, NodeIndex, NodeView, Refusal, RefusalKind, Timing, Token, Trouble,
        Ttl, Verdict,
    },
    settings::{Conflict, Leftover},
    signal::{Placing, Source},
    ui::{EndedBy, OnLost, Process},
};

const HUP: i32 = libc::SIGHUP;
const INT: i32 = libc::SIGINT;
const TERM: i32 = libc::SIGTERM;
const CONT: i32 = libc::SIGCONT;
const TSTP: i32 = libc::SIGTSTP;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A ttl of 3 s: drift 32, grace 500, margin 200 ms. Acquired at 0: V 2968, T1 2268, T2 2768.
fn rules() -> Rules {
    let ttl = Ttl::new(ms(3000), Ttl::DEFAULT_MAX).unwrap();
    Rules {
        timing: Timing::new(ttl, &Limits::default()).unwrap(),
        placing: Placing::Own,
        on_lost: OnLost::Kill,
        leftover: Leftover::Wait,
        max_runtime: None,
        kill_after: None,
        max_stopped: ms(30_000),
        heartbeat: Some(ms(30_000)),
        conflict: Conflict::Exit(75),
        wait: None,
    }
}

/// A machine, its clock (ms since the start), and what it did since anybody asked.
struct Run {
    machine: Machine,
    now: u64,
    done: Vec<Action>,
}

impl Run {
    fn new(rules: Rules) -> Self {
        Self { machine: Machine::new(rules, at(0)), now: 0, done: Vec::new() }
    }

    /// A command that runs since 0 under a lock acquired at 0.
    fn running(rules: Rules) -> Self {
        let mut run = Self::new(rules);
        run.tell(acquired(2968));
        assert!(run.machine.is_ready());
        run.proceed();
        assert!(run.take().contains(&Action::Spawn));
        run
    }

    fn tick(&self) -> Tick {
        at(self.now)
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(input, self.tick());
        self.done.extend(self.machine.actions());
    }

    fn proceed(&mut self) {
        self.machine.proceed(at(self.now));
        self.done.extend(self.machine.actions());
    }

    /// Lets time pass as the shell does: waking at each deadline.
    fn pass_to(&mut self, end: u64) {
        while let Some(due) = self.machine.deadline().filter(|due| *due <= at(end)) {
            let due = u64::try_from(due.since(at(0)).as_micros().div_ceil(1000)).unwrap();
            self.now = self.now.max(due);
            self.tell(Input::Time);
        }
        self.now = end;
        self.tell(Input::Time);
    }

    /// Time passes without our noticing: we were stopped.
    fn sleep_to(&mut self, end: u64) {
        self.now = end;
    }

    fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.done)
    }

    /// What was done, without the report.
    fn unreported(&mut self) -> Vec<Action> {
        let mut done = self.take();
        done.retain(|action| !matches!(action, Action::Report(_)));
        done
    }

    /// What was done, without words.
    fn deeds(&mut self) -> Vec<Action> {
        let mut deeds = self.unreported();
        deeds.retain(|action| !matches!(action, Action::Say(_) | Action::Guard(_)));
        deeds
    }

    fn leader_exits(&mut self, status: u8) {
        self.tell(Input::LeaderEnded(Ending::Exited(status), Left::Nothing));
    }

    /// The lock is given back: how it ended, and the last line.
    fn settle(&mut self) -> (Exit, Option<Reason>) {
        self.tell(settled());
        self.end()
    }

    fn end(&mut self) -> (Exit, Option<Reason>) {
        let done = self.take();
        let exits: Vec<_> = done
            .iter()
            .filter_map(|action| match action {
                Action::End(exit) => Some(*exit),
                _ => None,
            })
            .collect();
        assert_eq!(exits.len(), 1, "{done:?}");
        let mut reasons = done.into_iter().filter_map(|action| match action {
            Action::Say(Notice::Exit { code, reason }) => {
                assert_eq!(exits[0], Exit::Status(code));
                Some(reason)
            }
            _ => None,
        });
        let reason = reasons.next();
        assert_eq!(reasons.next(), None, "one last line");
        (exits[0], reason)
    }
}

fn at(ms: u64) -> Tick {
    // Far from the zero at which arithmetic saturates.
    Tick::from_boot(Duration::from_secs(1_000_000) + Duration::from_millis(ms))
}

fn acquired(validity: u64) -> Input {
    Input::Lock(Event::Acquired {
        token: Token::from_random(1),
        validity: at(validity),
        nodes: 3,
        waited: Duration::ZERO,
    })
}

fn validity(end: u64) -> Input {
    Input::Lock(Event::Validity(at(end)))
}

fn lost() -> Input {
    Input::Lock(Event::Lost(vec![NodeView::Free; 2]))
}

fn settled() -> Input {
    Input::Lock(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO })
}

fn denied(verdict: Verdict, nodes: Vec<NodeView>) -> Input {
    Input::Lock(Event::Denied(Denial { verdict, nodes, waited: Duration::ZERO }))
}

fn signal(signal: i32) -> Input {
    Input::Signal(signal, Source::Other)
}

const LOST: Exit = Exit::Status(79);

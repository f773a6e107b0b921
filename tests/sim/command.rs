//! The command under the lock, and the main thread's part in its life: spawn, deadline, kill, and
//! only then the release (docs/supervision.md).

use redlock::protocol::Machine;

use super::{
    actor::{Actor, Command, Phase},
    check::Rule,
    clock::{MS, Real, US, nanos},
    plan::{Part, Premise, Shell},
    world::{Due, World},
};

impl World<'_> {
    pub(super) fn spawn(&mut self, actor: usize) {
        let Some(claim) = self.check.claim(actor) else {
            return;
        };
        let a = &mut self.actors[actor];
        if a.phase != Phase::Starting {
            return;
        }
        if a.plan.part == Part::Acquire {
            return self.leave(actor);
        }
        let left = claim.validity.since(a.plan.clock.tick(self.now));
        if a.plan.shell == Shell::Careful && left <= a.plan.timing.reserve() {
            self.note(|| format!("client {actor} does not spawn: {left:?} left"));
            return self.end(actor);
        }
        a.phase = Phase::Running;
        a.command = Command::Alive;
        self.holders.push(actor);
        let a = &mut self.actors[actor];
        a.outcome.ran = true;
        let done = self.now + a.plan.command;
        self.note(|| format!("client {actor} spawns its command, {left:?} left"));
        self.at(done, Due::Done(actor));
        self.set_deadline(actor);
        let keys = self.actors[actor].holds().to_vec();
        let also = |other: &Actor| other.holds().iter().any(|key| keys.contains(key));
        // Those who adopted the same lock share it.
        let shares = |other: &usize| {
            self.check.claim(*other).is_some_and(|other| other.token == claim.token)
        };
        let mut others = self.holders.iter().filter(|other| !shares(other));
        let other = others.find(|other| also(&self.actors[**other]));
        if let (Some(other), Premise::Kept | Premise::Guarded) = (other, self.plan.premise) {
            let what = format!("the commands of clients {other} and {actor} run at once");
            self.broken(Rule::OneHolder, what);
        }
        self.check_min_hold(actor);
    }

    /// `redlock acquire` is done.
    fn leave(&mut self, actor: usize) {
        let a = &mut self.actors[actor];
        a.phase = Phase::Ending;
        a.ending_since = Some(self.now);
        self.check.ends(actor);
        self.note(|| format!("client {actor} leaves its lock"));
        self.think(actor, Machine::keep);
    }

    /// The deadline follows the validity, with the margin that KILL needs.
    pub(super) fn set_deadline(&mut self, actor: usize) {
        let Some(claim) = self.check.claim(actor) else {
            return;
        };
        let a = &mut self.actors[actor];
        if a.command != Command::Alive {
            return;
        }
        a.deadlines += 1;
        let serial = a.deadlines;
        let at = a.plan.clock.real(claim.validity.before(a.plan.timing.margin));
        if at <= self.now {
            return self.deadline(actor, serial);
        }
        self.at(at, Due::Deadline(actor, serial));
    }

    pub(super) fn deadline(&mut self, actor: usize, serial: u64) {
        if self.actors[actor].deadlines != serial {
            return;
        }
        // The whole margin can be needed until nothing of the command is left.
        self.actors[actor].outcome.killed = true;
        let margin = nanos(self.actors[actor].plan.timing.margin) * 98 / 100;
        let needs = self.actors[actor].rng.below(margin);
        self.kill(actor, needs);
    }

    pub(super) fn kill(&mut self, actor: usize, needs: Real) {
        let a = &mut self.actors[actor];
        if a.command == Command::Alive {
            a.command = Command::Killed;
            self.at(self.now + needs, Due::Gone(actor));
        }
    }

    pub(super) fn gone(&mut self, actor: usize) {
        self.note(|| format!("the command of client {actor} is gone"));
        self.actors[actor].command = Command::Dead;
        self.holders.retain(|holder| *holder != actor);
        let hop = self.actors[actor].rng.tail(100 * US);
        self.at(self.now + hop, Due::Reaped(actor));
    }

    /// Nothing of the command is left, or it never was: the lock is given back.
    pub(super) fn end(&mut self, actor: usize) {
        let a = &mut self.actors[actor];
        if a.phase == Phase::Ending {
            return;
        }
        a.phase = Phase::Ending;
        a.ending_since = Some(self.now);
        self.check.ends(actor);
        self.note(|| format!("client {actor} stops"));
        let ran = self.actors[actor].outcome.ran;
        self.think(actor, if ran { Machine::finish } else { Machine::stop });
    }

    pub(super) fn signal(&mut self, actor: usize) {
        self.note(|| format!("client {actor} gets TERM"));
        match self.actors[actor].phase {
            Phase::Seeking | Phase::Starting => self.end(actor),
            Phase::Running => {
                let needs = self.actors[actor].rng.below(MS);
                self.kill(actor, needs);
            }
            _ => {}
        }
    }

    pub(super) fn crash(&mut self, actor: usize) {
        let a = &mut self.actors[actor];
        if a.done() || a.phase == Phase::Unborn {
            a.phase = Phase::Crashed;
            return;
        }
        a.brain = None;
        self.note(|| format!("client {actor} is killed"));
        self.check.ends(actor);
        self.exit(actor, Phase::Crashed);
    }

    pub(super) fn go_on(&mut self, actor: usize) {
        let a = &mut self.actors[actor];
        a.stopped = false;
        let mut backlog = std::mem::take(&mut a.backlog);
        self.note(|| format!("client {actor} goes on, {} events late", backlog.len()));
        // The loop looks at its sockets first.
        backlog.sort_by_key(|due| !matches!(due, Due::Deliver(..)));
        for due in backlog {
            self.dispatch(due);
        }
    }
}

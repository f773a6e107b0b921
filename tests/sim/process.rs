//! The client's process in the world: it lets the session think, carries out what that wants, and
//! is itself started, stopped, killed and ended.

use std::time::Duration;

use redlock::{
    clock::Tick,
    protocol::{Action, Adoption, Contract, Event, GuardTerms, Holder, Machine, Ttl},
};

use super::{
    actor::Phase,
    brain::Brain,
    check::Rule,
    clock::{MS, Real, SEC, US, nanos},
    plan::Part,
    world::{Due, World},
};

impl World<'_> {
    pub(super) fn start(&mut self, actor: usize) {
        let a = &mut self.actors[actor];
        a.phase = Phase::Seeking;
        let mut random = a.rng.fork();
        let plan = &a.plan;
        let mut timing = plan.timing;
        if plan.ignores_drift {
            timing.drift = Duration::ZERO;
        }
        let contract = Contract {
            nodes: plan.view.len(),
            holder: Holder {
                pid: u32::try_from(actor).unwrap_or(0),
                ttl: u64::try_from(timing.ttl.as_millis()).unwrap_or(0),
                ..Holder::default()
            },
            timing,
            patience: plan.patience,
            strategy: plan.strategy,
            fencing: self.plan.fencing,
            guard: GuardTerms {
                rule: self.plan.guard,
                own: timing.longest(),
                max_ttl: Ttl::DEFAULT_MAX,
            },
            slots: plan.slots.then_some(plan.keys.len()),
            kin: Vec::new(),
            random: Box::new(move || random.wide()),
        };
        let brain = match plan.part {
            Part::Run | Part::Acquire => (self.maker)(contract),
            Part::Adopt(of) => {
                let Some(claim) = self.check.claim(of) else { return self.skip(actor) };
                let Contract { nodes, holder, timing, .. } = contract;
                Box::new(Adoption::of_token(nodes, claim.token, holder, timing))
            }
        };
        self.actors[actor].brain = Some(brain);
        self.note(|| format!("client {actor} starts"));
        self.think(actor, Machine::start);
    }

    /// There is no lock to adopt.
    fn skip(&mut self, actor: usize) {
        self.actors[actor].phase = Phase::Over;
    }

    /// The lock of `actor` is there to be adopted, if it has one.
    fn pass_on(&mut self, actor: usize) {
        for heir in 0..self.actors.len() {
            if self.actors[heir].plan.part == Part::Adopt(actor) {
                let start = self.now + self.actors[heir].plan.start;
                self.at(start, Due::Start(heir));
            }
        }
    }

    /// Lets the session deal with something and carries out what it wants.
    pub(super) fn think(&mut self, actor: usize, with: impl FnOnce(&mut Brain, Tick)) {
        let now = self.actors[actor].plan.clock.tick(self.now);
        let Some(mut brain) = self.actors[actor].brain.take() else {
            return;
        };
        with(brain.as_mut(), now);
        loop {
            let actions = brain.actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.act(actor, action);
            }
        }
        if self.actors[actor].phase == Phase::Over {
            if brain.deadline().is_some() {
                self.broken(Rule::InTime, format!("client {actor} settled and wants to be woken"));
            }
            return;
        }
        self.check.settled_thoughts(actor, now, self.now);
        let a = &mut self.actors[actor];
        a.wakes += 1;
        if let Some(due) = brain.deadline() {
            // A poll loop wakes a little late.
            let late = a.rng.tail(50 * US).min(MS);
            let at = a.plan.clock.real(due).max(self.now) + late;
            let serial = a.wakes;
            self.at(at, Due::Wake(actor, serial));
        }
        self.actors[actor].brain = Some(brain);
    }

    pub(super) fn wake(&mut self, actor: usize, serial: u64) {
        if self.actors[actor].wakes != serial {
            return;
        }
        self.think(actor, Machine::wake);
        let now = self.actors[actor].plan.clock.tick(self.now);
        let a = &mut self.actors[actor];
        let due = a.brain.as_ref().and_then(|brain| brain.deadline());
        a.spins = if due.is_some_and(|due| due <= now) { a.spins + 1 } else { 0 };
        if a.spins > 20 {
            self.broken(Rule::BoundedRequests, format!("client {actor} spins"));
        }
    }

    /// Carries out one action of the session.
    pub(super) fn act(&mut self, actor: usize, action: Action) {
        if self.actors[actor].phase == Phase::Over {
            self.broken(
                Rule::InTime,
                format!("client {actor} goes on after it settled: {action:?}"),
            );
            return;
        }
        match action {
            Action::Open(id) => self.open(actor, id),
            Action::Send(id, request) => self.send(actor, id, request),
            Action::Close(id) => self.close(actor, id),
            Action::Tell(event) => {
                self.note(|| format!("client {actor} is told {event:?}"));
                self.told(actor, event);
            }
        }
    }

    pub(super) fn told(&mut self, actor: usize, event: Event) {
        let now = self.actors[actor].plan.clock.tick(self.now);
        let a = &mut self.actors[actor];
        match event {
            Event::Acquired { token, validity, .. } => {
                a.outcome.acquired = Some(self.now);
                if let Some(number) = a.number {
                    self.check.fenced(a.holds(), token, number, self.now);
                }
                if a.phase != Phase::Seeking {
                    // A signal came first; the shell releases what it gets.
                    return;
                }
                a.phase = Phase::Starting;
                let hop = a.rng.tail(100 * US);
                self.check.acquired(actor, token, validity, now, self.now);
                self.at(self.now + hop, Due::Spawn(actor));
            }
            Event::Validity(validity) => {
                self.check.moved(actor, validity, now, self.now);
                self.set_deadline(actor);
            }
            Event::Lost(_) => {
                a.outcome.lost = true;
                self.check.lost(actor, self.now);
                // KILL at once; the process needs a moment to go.
                let moment = self.actors[actor].rng.below(MS);
                self.actors[actor].outcome.killed = true;
                self.kill(actor, moment);
            }
            Event::Denied(denial) => {
                a.outcome.denied = Some((denial.verdict, self.now));
                a.phase = Phase::Ending;
                a.ending_since = Some(self.now);
                self.check.ends(actor);
                self.check_verdict(actor);
            }
            Event::Settled { untold, at_most } => {
                a.outcome.settled = Some(self.now);
                a.outcome.untold = untold;
                self.settled(actor, nanos(at_most));
            }
            Event::Fenced(number) => {
                self.actors[actor].number = Some(number);
            }
            Event::Slot(slot) => self.actors[actor].slot = Some(slot),
            Event::Note(_) => {}
        }
    }

    pub(super) fn settled(&mut self, actor: usize, at_most: Real) {
        let a = &self.actors[actor];
        if a.phase != Phase::Ending {
            return self.broken(Rule::InTime, format!("client {actor} settles unasked"));
        }
        let took = self.now - a.ending_since.unwrap_or(self.now);
        // At most a second, by a clock that may run apart.
        if took > SEC + 15 * MS && !a.paused_since(self.now - took) {
            let what = format!("client {actor} needs {} ms to clear up", took / MS);
            self.check.broken(Rule::InTime, self.now, what);
        }
        if at_most > nanos(a.plan.timing.longest()) {
            let what = format!("client {actor} says a key may stay for {} ms", at_most / MS);
            self.check.broken(Rule::NoLeftover, self.now, what);
        }
        let untold = a.outcome.untold.iter().map(|node| a.plan.view[node.get()]);
        let blamed: Vec<usize> = untold.filter(|n| !self.nodes[*n].touched).collect();
        let patient = nanos(a.plan.timing.node_timeout) > self.plan.net.slowest();
        if !blamed.is_empty() && patient && a.plan.pauses.is_empty() {
            let what = format!("client {actor} says that it could not tell {blamed:?}");
            self.check.broken(Rule::NoLeftover, self.now, what);
        }
        self.check_legacy(actor);
        self.exit(actor, Phase::Over);
    }

    /// The process ends, and the system closes its connections.
    pub(super) fn exit(&mut self, actor: usize, phase: Phase) {
        self.actors[actor].phase = phase;
        for link in 0..self.actors[actor].links.len() {
            let link = self.actors[actor].links[link].1;
            self.hang_up(link, phase);
        }
        self.check_leftovers(actor);
        self.pass_on(actor);
    }
}

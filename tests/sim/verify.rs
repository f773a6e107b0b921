//! Checks that need the whole world: what really is on the nodes, who really runs, what really is
//! left in the end.

use redlock::protocol::{NodeIndex, Patience, Token};

use super::{
    actor::{Actor, Command, Phase},
    check::Rule,
    clock::{MS, Real, SEC, nanos},
    fleet::Node,
    link::{Link, Path},
    plan::{Goal, Part, Premise},
    world::World,
};

impl World<'_> {
    pub(super) fn check_holders(&mut self) {
        for holder in 0..self.holders.len() {
            let actor = self.holders[holder];
            let a = &self.actors[actor];
            let Some(claim) = self.check.claim(actor) else {
                continue;
            };
            let alive = a.command == Command::Alive;
            if a.plan.clock.tick(self.now) > claim.validity && alive {
                let what = format!("the command of client {actor} outlives its validity");
                self.broken(Rule::AliveWithinValidity, what);
            }
            let keys = self.actors[actor].holds();
            let has = |node: &&Node| {
                let ours = |key: &usize| {
                    let entry = node.carries(*key, self.now);
                    entry.is_some_and(|entry| entry.token == Some(claim.token))
                };
                keys.iter().all(ours)
            };
            let nodes = self.nodes.iter().filter(has).count();
            if nodes < self.plan.quorum() && self.plan.premise == Premise::Kept {
                let what = format!("client {actor} runs with {nodes} nodes");
                self.broken(Rule::QuorumCarries, what);
            }
        }
    }

    /// The command of `actor` starts: every min-hold on its keys is over. Whoever is killed right
    /// behind the verdict, and whose nodes fail, may not have got it onto a quorum of them.
    pub(super) fn check_min_hold(&mut self, actor: usize) {
        let keys = &self.actors[actor].plan.keys;
        let slowest = self.plan.net.usual();
        let keeps = |other: &Actor| {
            let hold = nanos(other.plan.timing.min_hold);
            let since = other.outcome.acquired.filter(|_| hold > 0 && other.outcome.ran)?;
            let gone_at_once = other.plan.crash.is_some_and(|at| at < since + slowest);
            let shared = other.plan.keys.iter().any(|key| keys.contains(key));
            // Clocks differ by one percent of each other.
            let until = since + hold * 97 / 100;
            (shared && !gone_at_once && !other.outcome.lost).then_some(until)
        };
        let others = self.actors.iter().enumerate().filter(|(other, _)| *other != actor);
        let until = others.filter_map(|(other, a)| Some((other, keeps(a)?)));
        let kept = until.max_by_key(|(_, until)| *until);
        let kept = kept.filter(|(_, until)| *until > self.now + MS);
        let calm = self.plan.faults.is_empty() && self.plan.net.spikes == 0;
        if let (Some((other, until)), true) = (kept, calm) {
            let early = (until - self.now) / MS;
            let what = format!("client {actor} starts {early} ms before client {other} lets it");
            self.broken(Rule::MinHold, what);
        }
    }

    /// 4, when the client is gone and nothing of it is under way any more.
    pub(super) fn check_leftovers(&mut self, actor: usize) {
        let a = &self.actors[actor];
        if a.under_way > 0 {
            return;
        }
        let mut left = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            for key in &a.plan.keys {
                let Some(entry) = node.store.get(*key, node.now(self.now)) else {
                    continue;
                };
                let Some(token) = entry.token else { continue };
                if self.check.owner(token) != Some(actor) {
                    continue;
                }
                let expires = entry.expires.map(|at| at - node.now(self.now));
                if a.outcome.ran && expires.is_some_and(|left| left <= self.wanted(a)) {
                    continue;
                }
                let ttl = nanos(a.plan.timing.longest()) / MS;
                let excused = a.phase == Phase::Crashed
                    || a.plan.part == Part::Acquire
                    || self.indeterminate(actor, place, token);
                if !excused || expires.is_none_or(|left| left > ttl) {
                    left.push(format!("{token} at node {place} for {expires:?} ms"));
                }
            }
        }
        if !left.is_empty() {
            let what = format!("client {actor} leaves {}", left.join(", "));
            self.broken(Rule::NoLeftover, what);
        }
    }

    /// Whoever adopted a lock leaves a full ttl of it behind, for the next.
    pub(super) fn check_legacy(&mut self, actor: usize) {
        let a = &self.actors[actor];
        let calm = self.plan.faults.is_empty() && self.plan.net.spikes == 0;
        let Some(claim) = self.check.claim(actor) else { return };
        let adopted = matches!(a.plan.part, Part::Adopt(_));
        if !adopted || a.outcome.lost || !calm || !a.plan.pauses.is_empty() {
            return;
        }
        // Two ways and what the clocks differ by.
        let spent = 3 * self.plan.net.usual() + nanos(a.plan.timing.ttl) * 3 / 100;
        let least = nanos(a.plan.timing.ttl).saturating_sub(spent) / MS;
        let full = |node: &&Node| {
            let whole = |key: &usize| {
                let entry = node.store.get(*key, node.now(self.now));
                let ours = entry.filter(|entry| entry.token == Some(claim.token));
                let expires = ours.and_then(|entry| entry.expires);
                expires.is_some_and(|at| at >= node.now(self.now) + least)
            };
            a.plan.keys.iter().all(whole)
        };
        let nodes = self.nodes.iter().filter(full).count();
        if nodes < self.plan.quorum() {
            let what = format!("client {actor} leaves its full ttl on {nodes} nodes");
            self.broken(Rule::Progress, what);
        }
    }

    /// For how many milliseconds a client wants its lock kept after its command, at the most: clocks
    /// differ, and messages take their time.
    fn wanted(&self, a: &Actor) -> u64 {
        let hold = nanos(a.plan.timing.min_hold);
        let calm = self.plan.faults.is_empty() && self.plan.net.spikes == 0;
        let left = match a.outcome.acquired {
            Some(since) if calm && a.plan.pauses.is_empty() => {
                (since + hold + self.plan.net.usual()).saturating_sub(self.now)
            }
            _ => hold,
        };
        if hold == 0 { 0 } else { (left + hold * 3 / 100) / MS + 1 }
    }

    /// What the client sent to this node could not be known to it.
    pub(super) fn indeterminate(&self, actor: usize, place: usize, token: Token) -> bool {
        let a = &self.actors[actor];
        let kept = a.outcome.ran && !a.plan.timing.min_hold.is_zero();
        let broken = |link: &Link| {
            let held = self.check.claim(actor).is_some_and(|claim| claim.token == token);
            // In a hold nothing undoes what a connection refused and did all the same.
            let unheard = link.path != Path::Whole || link.refused || (link.spoiled && held);
            // A release leaves nothing to extend. What is finished can still be, by what was sent
            // before on a connection that was given up.
            let raised = kept && link.deaf();
            link.node == place && (raised || unheard && link.acquired.contains(&token))
        };
        let mut links = a.links.iter().map(|(_, link)| &self.links[*link]);
        let told = |node: &NodeIndex| a.plan.view[node.get()] == place;
        let slow = nanos(a.plan.timing.node_timeout) <= self.plan.net.slowest();
        let node = &self.nodes[place];
        links.any(broken) || (a.outcome.untold.iter().any(told) && (node.touched || slow))
    }

    pub(super) fn check_verdict(&mut self, actor: usize) {
        let a = &self.actors[actor];
        let waited = self.now - a.plan.start;
        if a.paused_since(0) {
            return;
        }
        let timing = a.plan.timing;
        if let Part::Adopt(_) = a.plan.part {
            // One answer of each node, however it failed.
            return;
        }
        let (least, most) = match a.plan.patience {
            Patience::Within(limit) => (nanos(limit) * 98 / 100, nanos(limit) + 50 * MS),
            Patience::NoWait => {
                let slowest = 40 * self.plan.net.rtt * 2;
                let tries = slowest.max(SEC) + 2 * nanos(timing.ttl);
                (0, tries + nanos(timing.connect_timeout) + 4 * nanos(timing.node_timeout))
            }
            Patience::Forever { outage } => (nanos(outage) * 98 / 100, Real::MAX),
        };
        if waited < least || waited > most {
            let what = format!("client {actor} gets its verdict after {} ms", waited / MS);
            self.broken(Rule::InTime, what);
        }
    }

    pub(super) fn check_goal(&mut self) {
        let ran = |a: &&Actor| a.outcome.ran;
        let winners = self.actors.iter().filter(ran).count();
        if let Some(late) = self.actors.iter().position(|a| !a.done()) {
            let what = format!("client {late} is not done: {:?}", self.actors[late].phase);
            self.broken(Rule::Progress, what);
        }
        // One that was stopped between the lock and the spawn rightly gives it back.
        let idle = |a: &Actor| a.plan.in_peace() && a.outcome.acquired.is_none();
        match self.plan.goal {
            Goal::Winners(wanted) if winners != wanted => {
                self.broken(Rule::OneWinner, format!("{winners} commands ran"));
            }
            Goal::AllRun => {
                if let Some(idle) = self.actors.iter().position(idle) {
                    self.broken(Rule::Progress, format!("the command of client {idle} never ran"));
                }
            }
            _ => {}
        }
    }
}

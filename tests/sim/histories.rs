//! The families of histories.

use std::time::Duration;

use redlock::protocol::{Fencing, MinHold, Occupant, Patience, Strategy, Ttl};

use super::{
    check::Rule,
    clock::{MS, Real, SEC, nanos},
    plan::{
        ActorPlan, FOREVER, Fault, Goal, Memory, Part, Plan, Premise, Refusing, Seen, What, timing,
    },
    rng::Rng,
};

/// Ttls of all sizes; the short ones make the most of few steps.
const TTLS: [u64; 4] = [100, 300, 1000, 5000];

/// One client on a healthy fleet.
pub fn alone(rng: &mut Rng) -> Plan {
    let nodes = rng.pick(&[1, 3, 5, 7, 15]);
    let mut plan = Plan::calm(nodes);
    let ttl = rng.pick(&[300, 1000, 30_000]);
    let mut actor = ActorPlan::new(nodes, Duration::from_millis(ttl));
    actor.command = rng.below(3 * ttl) * MS;
    actor.patience = any_patience(rng);
    plan.keys = rng.index(3) + 1;
    actor.keys = (0..plan.keys).collect();
    plan.actors.push(actor);
    plan.goal = Goal::Winners(1);
    plan.skew(rng);
    plan
}

/// One client while a minority is away, in every way.
pub fn alone_with_a_minority_away(rng: &mut Rng) -> Plan {
    let mut plan = alone(rng);
    let nodes = plan.nodes.len();
    for node in rng.some_of(nodes, (nodes - 1) / 2) {
        let what = any_absence(rng);
        let at = if rng.chance(70) { 0 } else { rng.below(SEC) };
        plan.faults.push(Fault { node, at, until: at + rng.below(10 * SEC), what });
    }
    keep_premise(&mut plan);
    plan
}

/// Clients that all want the same, on a fleet that works.
pub fn crowd(rng: &mut Rng) -> Plan {
    let nodes = rng.pick(&[1, 3, 5, 5, 5]);
    let mut plan = Plan::calm(nodes);
    plan.weather(rng);
    // The shortest ttl whose time-outs let a node answer that works.
    let ttl = rng.pick(&TTLS).max(plan.net.usual() / MS * 21);
    let spread = rng.pick(&[0, plan.net.rtt, 10 * plan.net.rtt, SEC]);
    for _ in 0..rng.between(2, 7) {
        let mut actor = ActorPlan::new(nodes, Duration::from_millis(ttl));
        actor.start = rng.below(spread + 1);
        actor.command = rng.below(ttl * 3 / 2) * MS;
        actor.strategy = if rng.chance(15) { Strategy::Sequential } else { Strategy::Concurrent };
        plan.actors.push(actor);
    }
    plan.skew(rng);
    plan.goal = Goal::AllRun;
    plan
}

/// The same with different keys, of which some overlap.
pub fn crowd_with_several_keys(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    plan.keys = 3;
    for actor in &mut plan.actors {
        let count = rng.index(3) + 1;
        actor.keys = rng.some_of(3, count);
        actor.keys.sort_unstable();
    }
    plan
}

/// A crowd while a minority of the nodes comes and goes.
pub fn crowd_with_faults(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    let nodes = plan.nodes.len();
    for node in rng.some_of(nodes, (nodes - 1) / 2) {
        trouble(&mut plan, node, rng);
    }
    keep_premise(&mut plan);
    plan
}

/// A crowd whose processes are stopped now and then for longer than their locks are valid; their
/// commands are not.
pub fn crowd_with_pauses(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    for actor in &mut plan.actors {
        pause(actor, 60, rng);
    }
    plan
}

fn pause(actor: &mut ActorPlan, percent: u64, rng: &mut Rng) {
    let ttl = nanos(actor.timing.ttl);
    let mut at = actor.start;
    while rng.chance(percent) {
        at += rng.below(2 * ttl);
        let until = at + rng.below(2 * ttl);
        actor.pauses.push((at, until));
        at = until;
    }
}

/// Anything can happen but that a node forgets a lock: nodes of any number stop, vanish and
/// refuse, clients are stopped, killed and told to stop.
pub fn storm(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    let nodes = plan.nodes.len();
    let count = rng.index(nodes + 1);
    for node in rng.some_of(nodes, count) {
        trouble(&mut plan, node, rng);
    }
    for actor in &mut plan.actors {
        actor.patience = any_patience(rng);
        let ttl = nanos(actor.timing.ttl);
        pause(actor, 30, rng);
        if rng.chance(15) {
            actor.crash = Some(actor.start + rng.below(3 * ttl));
        }
        if rng.chance(15) {
            actor.signal = Some(actor.start + rng.below(3 * ttl));
        }
    }
    keep_premise(&mut plan);
    plan.goal = Goal::Any;
    plan
}

/// The same job fired by cron on many hosts in the same instant: `run -n`, and a command that
/// outlasts every verdict.
pub fn cron(rng: &mut Rng, clients: u64) -> Plan {
    let nodes = 5;
    let mut plan = Plan::calm(nodes);
    plan.net.jitter = rng.pick(&[5, 20, 50]);
    let spread = rng.pick(&[1, MS / 10, MS]);
    for _ in 0..clients {
        let mut actor = ActorPlan::new(nodes, Duration::from_secs(30));
        actor.start = rng.below(spread);
        actor.patience = Patience::NoWait;
        actor.command = 10 * SEC;
        plan.actors.push(actor);
    }
    plan.goal = Goal::Winners(1);
    plan
}

/// The same with a few hosts.
pub fn handful(rng: &mut Rng) -> Plan {
    let clients = rng.between(2, 12);
    cron(rng, clients)
}

/// Locks that somebody deletes by hand while a command runs.
pub fn emptied(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    plan.premise = Premise::Broken;
    plan.goal = Goal::Any;
    let nodes = plan.nodes.len();
    let count = rng.index(nodes) + 1;
    let at = rng.below(SEC);
    for node in rng.some_of(nodes, count) {
        plan.faults.push(Fault { node, at, until: at, what: What::Emptied });
    }
    plan
}

/// Nodes that restart without their memory, one after the other or many at once, but not the whole
/// fleet within a ttl; clients with different ttls.
pub fn restarts(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    plan.net.spikes = 0;
    plan.premise = Premise::Guarded;
    plan.goal = Goal::AllRun;
    let most = plan.net.usual() / MS * 21;
    for actor in &mut plan.actors {
        let ttl = rng.pick(&[3000, 10_000]).max(most);
        actor.timing = timing(Duration::from_millis(ttl));
        actor.command = rng.below(ttl * 3 / 2) * MS;
        actor.start = rng.below(10 * SEC);
    }
    let nodes = plan.nodes.len();
    let memory = Memory::Lost;
    // A fleet of one node has nobody to remember for it.
    for _ in 0..rng.between(1, 4) * u64::from(nodes > 1) {
        let at = rng.below(15 * SEC);
        let count = rng.index(nodes - 1) + 1;
        for node in rng.some_of(nodes, count) {
            // A node is down once at a time.
            let busy = |f: &&Fault| f.node == node && at < f.until + SEC && f.at < at + SEC;
            if plan.faults.iter().any(|f| busy(&f)) {
                continue;
            }
            let until = at + rng.below(SEC);
            let seen = rng.pick(&[Seen::AtOnce, Seen::Never]);
            plan.faults.push(Fault { node, at, until, what: What::Down { memory, seen } });
        }
    }
    let whole = (0..nodes).all(|node| plan.faults.iter().any(|f| f.node == node));
    if whole {
        // One of them remembers for all.
        plan.faults.retain(|f| f.node != 0);
    }
    plan
}

/// A majority of nodes restarts without memory while the holder is stopped, so that it notices
/// nothing, and others come. Those who remember are away and everybody has the same ttl, or they
/// are there to tell of a longer one.
pub fn restarts_unnoticed(rng: &mut Rng) -> Plan {
    let nodes = rng.pick(&[3, 5]);
    let mut plan = Plan::calm(nodes);
    plan.premise = Premise::Guarded;
    let long = Duration::from_secs(10);
    let mut holder = ActorPlan::new(nodes, long);
    holder.command = 20 * SEC;
    holder.pauses.push((SEC, 30 * SEC));
    plan.actors.push(holder);
    let away = rng.chance(50);
    for _ in 0..rng.between(1, 3) {
        let ttl = if away { long } else { Duration::from_secs(3) };
        let mut actor = ActorPlan::new(nodes, ttl);
        actor.start = SEC + rng.below(8 * SEC);
        actor.command = rng.below(SEC);
        plan.actors.push(actor);
    }
    let at = SEC + rng.below(3 * SEC);
    for (place, node) in rng.some_of(nodes, nodes).into_iter().enumerate() {
        let (what, at, until) = if place < plan.quorum() {
            let down =
                What::Down { memory: Memory::Lost, seen: rng.pick(&[Seen::AtOnce, Seen::Never]) };
            let at = at + rng.below(SEC);
            (down, at, at + rng.below(SEC))
        } else if away {
            let down = What::Down { memory: Memory::Kept, seen: Seen::Never };
            (rng.pick(&[What::Dark, What::Stopped, down]), SEC, 12 * SEC)
        } else {
            continue;
        };
        plan.faults.push(Fault { node, at, until, what });
    }
    plan.goal = Goal::AllRun;
    plan
}

/// Locks that somebody frees by hand, node by node: some of a holder's nodes lose it while it is
/// extended, and others want it.
pub fn forced(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    plan.premise = Premise::Broken;
    plan.goal = Goal::Any;
    for actor in &mut plan.actors {
        actor.command = nanos(actor.timing.ttl) * rng.between(1, 3);
    }
    let nodes = plan.nodes.len();
    for _ in 0..rng.between(1, 4) {
        let at = rng.below(2 * SEC);
        let count = rng.index(nodes) + 1;
        for node in rng.some_of(nodes, count) {
            let at = at + rng.below(20 * plan.net.rtt);
            plan.faults.push(Fault { node, at, until: at, what: What::Emptied });
        }
    }
    plan
}

/// A lock that is acquired by one process and adopted by others, at the same time or one after the
/// other, while somebody else wants it. Now and then it is freed by hand.
pub fn adopted(rng: &mut Rng) -> Plan {
    let mut plan = match rng.below(3) {
        0 => crowd(rng),
        1 => crowd_with_faults(rng),
        _ => crowd_with_pauses(rng),
    };
    plan.goal = Goal::Any;
    let nodes = plan.nodes.len();
    let ttl = plan.actors[0].timing.ttl;
    plan.actors[0].part = Part::Acquire;
    plan.actors[0].start = 0;
    let clock = |rng: &mut Rng| plan.actors[rng.index(plan.actors.len())].clock;
    let mut heirs = Vec::new();
    for _ in 0..rng.between(1, 3) {
        let mut heir = ActorPlan::new(nodes, ttl);
        heir.part = Part::Adopt(0);
        heir.start = rng.below(nanos(ttl) * 2);
        heir.command = rng.below(nanos(ttl) * 3);
        heir.clock = clock(rng);
        if rng.chance(20) {
            heir.crash = Some(rng.below(nanos(ttl) * 5));
        }
        if rng.chance(20) {
            pause(&mut heir, 40, rng);
        }
        heirs.push(heir);
    }
    plan.actors.extend(heirs);
    if rng.chance(30) {
        plan.premise = Premise::Broken;
        let at = rng.below(nanos(ttl) * 4);
        let count = rng.index(nodes) + 1;
        for node in rng.some_of(nodes, count) {
            let at = at + rng.below(20 * plan.net.rtt);
            plan.faults.push(Fault { node, at, until: at, what: What::Freed });
        }
    }
    plan
}

/// Clients that want fencing tokens, on nodes that keep their counters whatever else happens.
pub fn fenced(rng: &mut Rng) -> Plan {
    let mut plan = match rng.below(4) {
        0 => crowd(rng),
        1 => crowd_with_pauses(rng),
        2 => crowd_with_several_keys(rng),
        _ => storm(rng),
    };
    plan.fencing = Fencing::On;
    for fault in &mut plan.faults {
        if let What::Down { memory, .. } = &mut fault.what {
            *memory = Memory::Kept;
        }
    }
    plan
}

/// Clients that want fencing tokens on nodes whose clocks are far behind their counters, so that
/// numbers are counted rather than read from a clock, and lie close to each other. Locks are freed
/// by hand in the midst of acquisitions, the first client is stopped in the midst of its own, and
/// some acquires are executed twice.
pub fn fenced_by_count(rng: &mut Rng) -> Plan {
    const NODES: usize = 3;
    let mut plan = Plan::calm(NODES);
    plan.fencing = Fencing::On;
    plan.premise = Premise::Broken;
    // An acquire that is executed late leaves a key behind, and worse; but no number twice.
    plan.watched = Some(vec![Rule::FencingGrows]);
    plan.net.jitter = rng.pick(&[5, 100]);
    plan.net.spikes = rng.pick(&[0, 20]);
    plan.net.repeats = rng.pick(&[0, 80]);
    let ahead = rng.index(NODES);
    let count = |node| COUNTED + u64::from(node == ahead);
    plan.counters = (0..NODES).map(count).collect();
    // The first answers to the first client come after two round trips.
    let answered = || 3 * MS / 2;
    for client in 0..rng.between(2, 3) {
        let mut actor = ActorPlan::new(NODES, Duration::from_millis(300));
        actor.command = rng.below(2 * MS);
        if client > 0 {
            actor.start = rng.below(2 * MS);
        } else if rng.chance(80) {
            let from = answered() + rng.below(MS);
            actor.pauses.push((from, from + rng.between(MS, 9 * MS)));
        }
        plan.actors.push(actor);
    }
    let mut at = answered() + rng.below(MS);
    for _ in 0..rng.between(1, 3) {
        let spared = rng.index(NODES + 1);
        for node in (0..NODES).filter(|node| *node != spared) {
            plan.faults.push(Fault { node, at, until: at, what: What::Freed });
        }
        at += rng.below(4 * MS);
    }
    plan
}

/// Clients of which some keep their lock for a time, whatever happens to them.
pub fn kept(rng: &mut Rng) -> Plan {
    let mut plan = crowd(rng);
    plan.net.spikes = 0;
    plan.goal = Goal::Any;
    keep(&mut plan, rng);
    for actor in &mut plan.actors {
        let ttl = nanos(actor.timing.ttl);
        actor.start = rng.below(3 * ttl);
        actor.patience = any_patience(rng);
        match rng.below(5) {
            0 => actor.crash = Some(actor.start + rng.below(2 * ttl)),
            1 => actor.signal = Some(actor.start + rng.below(2 * ttl)),
            _ => {}
        }
    }
    plan
}

/// Above all that the clocks of a history can show, in microseconds.
const COUNTED: u64 = 1_000_000_000_000_000;

/// The same in a storm.
pub fn kept_in_a_storm(rng: &mut Rng) -> Plan {
    let mut plan = storm(rng);
    keep(&mut plan, rng);
    keep_premise(&mut plan);
    plan
}

fn keep(plan: &mut Plan, rng: &mut Rng) {
    for actor in &mut plan.actors {
        if rng.chance(60) {
            let tenths = u32::try_from(rng.between(1, 40)).unwrap_or(1);
            let hold = MinHold::new(actor.timing.ttl * tenths / 10, Ttl::DEFAULT_MAX).unwrap();
            actor.timing = actor.timing.keeping(hold);
        }
    }
}

fn any_patience(rng: &mut Rng) -> Patience {
    match rng.below(3) {
        0 => Patience::NoWait,
        1 => Patience::Within(Duration::from_millis(rng.between(200, 5000))),
        _ => FOREVER,
    }
}

fn any_absence(rng: &mut Rng) -> What {
    let memory = Memory::Kept;
    match rng.below(7) {
        0 => What::Stopped,
        1 => What::Dark,
        2 => What::Slow(rng.pick(&[20, 200])),
        3 => What::Refusing(Refusing::Everything),
        4 => What::Down { memory, seen: Seen::AtOnce },
        5 => What::Down { memory, seen: Seen::Never },
        _ => What::Cut,
    }
}

/// One node goes through a few faults, one after the other.
fn trouble(plan: &mut Plan, node: usize, rng: &mut Rng) {
    let ttl = plan.actors.iter().map(|a| nanos(a.timing.ttl)).max();
    let ttl = ttl.unwrap_or(SEC);
    let mut at = rng.below(ttl);
    for _ in 0..=rng.below(4) {
        let memory = rng.pick(&[Memory::Kept, Memory::Lost]);
        let seen = rng.pick(&[Seen::AtOnce, Seen::Never]);
        let what = match rng.below(10) {
            0..3 => any_absence(rng),
            3 | 4 => What::Cut,
            5 => What::Stopped,
            6 => What::Refusing(Refusing::Acquires),
            7 => What::Refusing(Refusing::Nothing),
            _ => What::Down { memory, seen },
        };
        let mut until = at + rng.below(ttl * 3 / 2);
        if matches!(what, What::Cut) {
            until = at;
        }
        plan.faults.push(Fault { node, at, until, what });
        at = until + rng.below(ttl);
    }
}

/// A node that comes back without its memory stays away for longer than any lock is valid, as
/// Redlock presupposes; a restart guard is for later.
fn keep_premise(plan: &mut Plan) {
    let ttl = plan.actors.iter().map(|a| nanos(a.timing.longest())).max();
    let long: Real = ttl.unwrap_or(0) * 103 / 100 + 10 * MS;
    let mut shift = vec![0; plan.nodes.len()];
    for fault in &mut plan.faults {
        let late = &mut shift[fault.node];
        fault.at += *late;
        fault.until += *late;
        if fault.forgets() && fault.until < fault.at + long {
            *late += fault.at + long - fault.until;
            fault.until = fault.at + long;
        }
    }
}

/// Somebody else's value at some of the nodes.
pub fn foreign(plan: &mut Plan, nodes: impl Iterator<Item = usize>, expires: Option<Duration>) {
    for node in nodes {
        let value = Occupant::Value(b"thief".to_vec());
        plan.present.push((node, 0, value, expires));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{brain::session, seeds::hold};
    use super::*;

    #[test]
    fn lone_client_on_a_healthy_fleet_runs_after_one_round() {
        for report in hold(500, &alone, &session) {
            let outcome = &report.outcomes[0];
            assert!(outcome.acquires <= 15);
        }
    }

    #[test]
    fn lone_client_runs_whatever_a_minority_of_nodes_does() {
        hold(500, &alone_with_a_minority_away, &session);
    }

    #[test]
    fn crowd_runs_one_after_the_other() {
        hold(400, &crowd, &session);
    }

    #[test]
    fn crowd_with_several_keys_runs_without_overlap() {
        hold(300, &crowd_with_several_keys, &session);
    }

    #[test]
    fn crowd_runs_while_a_minority_of_nodes_comes_and_goes() {
        hold(500, &crowd_with_faults, &session);
    }

    #[test]
    fn crowd_runs_although_its_processes_are_stopped_now_and_then() {
        hold(500, &crowd_with_pauses, &session);
    }

    #[test]
    fn no_fault_of_nodes_network_and_clients_makes_two_holders() {
        hold(1000, &storm, &session);
    }

    #[test]
    fn lock_is_kept_for_its_min_hold_and_no_longer() {
        let reports = hold(500, &kept, &session);
        let ran = reports.iter().flat_map(|report| &report.outcomes).filter(|o| o.ran).count();
        assert!(ran > 500, "{ran}");
        hold(500, &kept_in_a_storm, &session);
    }

    #[test]
    fn lock_that_was_deleted_on_a_quorum_is_reported_as_lost() {
        hold(300, &emptied, &session);
    }

    #[test]
    fn nodes_that_restart_without_memory_make_no_second_holder() {
        hold(400, &restarts, &session);
    }

    #[test]
    fn lock_that_is_adopted_is_kept_by_each_and_had_by_nobody_else() {
        let reports = hold(400, &adopted, &session);
        let heirs =
            reports.iter().filter(|report| report.outcomes.last().is_some_and(|heir| heir.ran));
        assert!(reports.len() < 400 || heirs.count() > 100);
    }

    #[test]
    fn nodes_that_restart_unnoticed_make_no_second_holder() {
        hold(300, &restarts_unnoticed, &session);
    }

    #[test]
    fn fencing_tokens_grow_also_where_they_are_counted_and_locks_vanish() {
        hold(1000, &fenced_by_count, &session);
    }

    #[test]
    fn lock_that_is_freed_node_by_node_is_healed_or_lost_and_never_guessed() {
        hold(500, &forced, &session);
    }

    #[test]
    fn fencing_tokens_grow_from_one_holder_to_the_next() {
        hold(600, &fenced, &session);
    }

    #[test]
    fn job_fired_on_many_hosts_at_once_has_one_winner() {
        hold(20, &|rng: &mut Rng| cron(rng, 50), &session);
    }
}

//! Histories that are told rather than drawn: one situation each, with its exact outcome.

use std::time::Duration;

use redlock::protocol::{Fencing, Occupant, Patience, Strategy, Verdict};

use super::{
    brain::session,
    clock::SEC,
    histories::{cron, foreign},
    plan::{ActorPlan, FOREVER, Fault, Goal, Plan, Refusing, What},
    rng::Rng,
    seeds::{Family, hold},
    world::Report,
};

const NODES: usize = 5;

fn lone(patience: Patience) -> Plan {
    let mut plan = Plan::calm(NODES);
    let mut actor = ActorPlan::new(NODES, Duration::from_secs(10));
    actor.patience = patience;
    plan.actors.push(actor);
    plan
}

fn play(plan: &Plan) -> Report {
    let once: Family = &|_| plan.clone();
    hold(1, once, &session).remove(0)
}

/// Every set of nodes, as a bit mask.
fn sets() -> impl Iterator<Item = Vec<usize>> {
    (0..1_usize << NODES).map(|mask| (0..NODES).filter(|node| mask >> node & 1 == 1).collect())
}

#[test]
fn lock_is_had_exactly_when_a_quorum_of_nodes_is_free_of_others() {
    for set in sets() {
        let mut plan = lone(Patience::NoWait);
        foreign(&mut plan, set.iter().copied(), None);
        let outcome = &play(&plan).outcomes[0];
        assert_eq!(outcome.ran, set.len() <= 2, "{set:?}");
        assert_eq!(outcome.denied.map(|d| d.0), (set.len() > 2).then_some(Verdict::Held));
    }
}

#[test]
fn lock_is_had_exactly_when_a_quorum_of_nodes_answers() {
    for what in [What::Refusing(Refusing::Everything), What::Stopped, What::Dark] {
        for set in sets() {
            let mut plan = lone(Patience::NoWait);
            let fault = |node: &usize| Fault { node: *node, at: 0, until: 5 * SEC, what };
            plan.faults.extend(set.iter().map(fault));
            let outcome = &play(&plan).outcomes[0];
            assert_eq!(outcome.ran, set.len() <= 2, "{what:?} {set:?}");
            let denied = (set.len() > 2).then_some(Verdict::Unavailable);
            assert_eq!(outcome.denied.map(|d| d.0), denied, "{what:?} {set:?}");
        }
    }
}

#[test]
fn value_that_is_no_string_is_held_and_no_fault() {
    let mut plan = lone(Patience::NoWait);
    for node in 0..3 {
        plan.present.push((node, 0, Occupant::Type("hash".into()), None));
    }
    let outcome = &play(&plan).outcomes[0];
    assert_eq!(outcome.denied.map(|d| d.0), Some(Verdict::Held));
}

#[test]
fn waiters_give_up_on_time_on_a_lock_that_is_never_freed() {
    let mut plan = Plan::calm(NODES);
    foreign(&mut plan, 0..NODES, None);
    for _ in 0..8 {
        let mut actor = ActorPlan::new(NODES, Duration::from_secs(10));
        actor.patience = Patience::Within(Duration::from_secs(5));
        plan.actors.push(actor);
    }
    for outcome in play(&plan).outcomes {
        let (verdict, at) = outcome.denied.expect("given up");
        assert_eq!(verdict, Verdict::Held);
        assert!((5 * SEC..5 * SEC + SEC / 20).contains(&at), "{at}");
    }
}

#[test]
fn waiting_for_an_hour_asks_each_node_every_five_seconds_and_every_second_where_none_tells() {
    for (mute, bounds) in [(false, 600..800), (true, 3000..3700)] {
        let mut plan = lone(FOREVER);
        plan.mute = mute;
        foreign(&mut plan, 0..NODES, None);
        plan.actors[0].signal = Some(3600 * SEC);
        plan.limit = 3700 * SEC;
        let requests = play(&plan).outcomes[0].requests / NODES;
        assert!(bounds.contains(&requests), "mute {mute}: {requests}");
    }
}

/// A holder, and waiters behind it, all of whom run a command of 10 ms.
fn queue(waiters: usize) -> Plan {
    let mut plan = Plan::calm(NODES);
    let mut holder = ActorPlan::new(NODES, Duration::from_secs(30));
    holder.command = SEC;
    plan.actors.push(holder);
    for waiter in 0..waiters {
        let mut actor = ActorPlan::new(NODES, Duration::from_secs(30));
        actor.start = SEC / 2 + waiter as u64 * SEC / 1000;
        plan.actors.push(actor);
    }
    plan.goal = Goal::AllRun;
    plan
}

#[test]
fn release_wakes_the_waiter_at_once_whatever_a_minority_of_nodes_does() {
    for what in
        [None, Some(What::Stopped), Some(What::Dark), Some(What::Refusing(Refusing::Everything))]
    {
        let mut plan = queue(1);
        // The waiter listens to them, and they fall away while it sleeps.
        let fault = |what| move |node| Fault { node, at: SEC * 9 / 10, until: 20 * SEC, what };
        plan.faults.extend(what.into_iter().flat_map(|what| (0..2).map(fault(what))));
        let acquired = play(&plan).outcomes[1].acquired.expect("acquired");
        let since = acquired.saturating_sub(SEC);
        assert!(since < 10 * plan.net.rtt, "{what:?}: {since} ns after the release began");
    }
}

#[test]
fn waiter_that_is_stopped_or_killed_delays_nobody() {
    for dead in [false, true] {
        let mut plan = queue(3);
        for actor in &mut plan.actors[1..3] {
            if dead {
                actor.crash = Some(SEC * 9 / 10);
            } else {
                actor.pauses.push((SEC * 9 / 10, 20 * SEC));
            }
        }
        let acquired = play(&plan).outcomes[3].acquired.expect("acquired");
        let since = acquired.saturating_sub(SEC);
        assert!(since < 10 * plan.net.rtt, "dead {dead}: {since} ns after the release began");
    }
}

#[test]
fn hand_overs_between_many_cost_each_waiter_a_few_requests() {
    let cost = |waiters| {
        let report = play(&queue(waiters));
        let requests: usize = report.outcomes.iter().map(|outcome| outcome.requests).sum();
        let last = report.outcomes.iter().filter_map(|o| o.settled).max().unwrap_or(0) - SEC;
        (requests / NODES, last / (waiters as u64))
    };
    let (few, slow) = cost(10);
    let (many, slower) = cost(100);
    assert!(many < 15 * few, "10 waiters cost {few}, 100 cost {many} requests per node");
    assert!(slow.max(slower) < 20 * SEC / 1000, "a turn takes {slow} ns, then {slower} ns");
}

#[test]
fn lock_of_a_dead_holder_is_had_as_soon_as_it_runs_out() {
    let mut plan = lone(FOREVER);
    foreign(&mut plan, 0..NODES, Some(Duration::from_millis(2500)));
    let acquired = play(&plan).outcomes[0].acquired.expect("acquired");
    let since = acquired.saturating_sub(2500 * SEC / 1000);
    assert!(since < 10 * plan.net.rtt, "{since} ns after its end");
}

#[test]
fn rush_of_single_tries_has_one_winner_whatever_a_minority_of_nodes_does() {
    let matters: [(usize, Option<What>); 4] = [
        (0, None),
        (1, Some(What::Stopped)),
        (2, Some(What::Refusing(Refusing::Everything))),
        (2, Some(What::Stopped)),
    ];
    for (nodes, what) in matters {
        for (clients, times) in [(10, 20), (50, 8), (200, 1)] {
            let family = |rng: &mut Rng| {
                let mut plan = cron(rng, clients);
                plan.goal = Goal::Winners(1);
                let fault = |what| move |node| Fault { node, at: 0, until: 20 * SEC, what };
                if let Some(what) = what {
                    plan.faults.extend((0..nodes).map(fault(what)));
                }
                plan
            };
            hold(times, &family, &session);
        }
    }
}

/// It is asked again on a fresh connection: on the old one nobody is overdue a second time.
#[test]
fn node_that_falls_silent_between_the_phases_of_fencing_is_not_awaited_for_ever() {
    let mut plan = lone(FOREVER);
    plan.fencing = Fencing::On;
    plan.actors[0].strategy = Strategy::Sequential;
    plan.goal = Goal::AllRun;
    for until in 30..70 {
        let at = SEC / 10_000 * until;
        plan.faults = vec![Fault { node: 0, at, until: 600 * SEC, what: What::Stopped }];
        let acquired = play(&plan).outcomes[0].acquired.expect("acquired");
        assert!(acquired < 10 * SEC, "{acquired} ns");
    }
}

#[test]
fn leftover_on_the_first_node_keeps_nobody_from_winning() {
    let family = |rng: &mut Rng| {
        let mut plan = cron(rng, 20);
        foreign(&mut plan, 0..1, Some(Duration::from_secs(25)));
        plan
    };
    hold(10, &family, &session);
}

#[test]
fn hand_over_over_a_long_way_takes_two_round_trips_and_a_little() {
    let mut plan = queue(1);
    plan.net.rtt = 20 * SEC / 1000;
    let report = play(&plan);
    let [holder, waiter] = [0, 1].map(|client: usize| report.outcomes[client].acquired.unwrap());
    let gap = waiter - holder - SEC;
    assert!(gap < plan.net.rtt * 3, "{} hundredths of a round trip", gap * 100 / plan.net.rtt);
}

//! Semaphores: one of several keys is enough, any.

use std::time::Duration;

use redlock::protocol::{Fencing, Occupant, Patience, Verdict};

use super::{
    brain::session,
    clock::{MS, SEC},
    histories::{cron, crowd, crowd_with_faults, crowd_with_pauses, restarts, storm},
    plan::{ActorPlan, FOREVER, Goal, Plan},
    rng::Rng,
    seeds::{Family, hold},
};

/// The same clients, each of whom wants one of `slots` keys, in the same order.
fn slotted(mut plan: Plan, slots: usize) -> Plan {
    plan.keys = slots;
    for actor in &mut plan.actors {
        actor.keys = (0..slots).collect();
        actor.slots = true;
    }
    plan
}

#[test]
fn crowd_shares_slots_without_overlap_and_everybody_runs() {
    for family in [crowd, crowd_with_faults, crowd_with_pauses, restarts] {
        let family = |rng: &mut Rng| {
            let slots = rng.index(4) + 1;
            slotted(family(rng), slots)
        };
        hold(200, &family, &session);
    }
}

#[test]
fn no_fault_puts_two_holders_on_one_slot() {
    let family = |rng: &mut Rng| {
        let slots = rng.index(4) + 1;
        let mut plan = slotted(storm(rng), slots);
        if rng.chance(30) {
            plan.fencing = Fencing::On;
            // Counters are kept.
            plan.faults.retain(|fault| !fault.forgets());
        }
        plan
    };
    hold(400, &family, &session);
}

#[test]
fn rush_of_single_tries_has_as_many_winners_as_there_are_slots() {
    for (clients, slots, times) in [(10, 3, 30), (50, 3, 5), (50, 16, 3), (64, 64, 1), (20, 30, 5)]
    {
        let family = |rng: &mut Rng| {
            let mut plan = slotted(cron(rng, clients), slots);
            plan.goal = Goal::Winners(slots.min(usize::try_from(clients).unwrap()));
            plan
        };
        for report in hold(times, &family, &session) {
            let verdicts = report.outcomes.iter().filter_map(|outcome| outcome.denied);
            for (verdict, at) in verdicts {
                assert_eq!(verdict, Verdict::Held, "of {clients} for {slots}");
                assert!(at < 3 * SEC, "{} ms", at / MS);
            }
        }
    }
}

#[test]
fn waiters_use_every_slot_that_is_given_back() {
    let (clients, slots) = (40_u64, 4_u64);
    let once: Family = &|rng: &mut Rng| {
        let mut plan = Plan::calm(5);
        for _ in 0..clients {
            let mut actor = ActorPlan::new(5, Duration::from_secs(30));
            actor.start = rng.below(MS);
            actor.command = SEC;
            actor.patience = FOREVER;
            plan.actors.push(actor);
        }
        plan.goal = Goal::AllRun;
        slotted(plan, usize::try_from(slots).unwrap())
    };
    for report in hold(5, once, &session) {
        let last = report.outcomes.iter().filter_map(|outcome| outcome.acquired).max().unwrap();
        // Nine hand-overs, if no slot ever lay idle for long.
        assert!(last < (clients / slots) * SEC * 5 / 4, "{} ms", last / MS);
        let requests: usize = report.outcomes.iter().map(|outcome| outcome.requests).sum();
        assert!(requests / 5 < 40 * 60, "{requests}");
    }
}

/// An attempt at the slot with the leftovers takes its second; the others are looked at all the same.
#[test]
fn leftovers_on_one_slot_hide_no_free_one() {
    let once: Family = &|_| {
        let mut plan = Plan::calm(5);
        let mut actor = ActorPlan::new(5, Duration::from_secs(10));
        actor.patience = Patience::NoWait;
        plan.actors.push(actor);
        for (node, dead) in [(0, "one"), (1, "one"), (2, "two"), (3, "two")] {
            plan.present.push((node, 0, Occupant::Value(dead.into()), None));
        }
        slotted(plan, 2)
    };
    for report in hold(10, once, &session) {
        assert!(report.outcomes[0].ran);
    }
}

#[test]
fn slots_are_busy_only_when_each_is_held() {
    for taken in 0..=3_usize {
        let once: Family = &|_| {
            let mut plan = Plan::calm(5);
            let mut actor = ActorPlan::new(5, Duration::from_secs(10));
            actor.patience = Patience::NoWait;
            plan.actors.push(actor);
            let mut plan = slotted(plan, 3);
            for slot in 0..taken {
                for node in 0..5 {
                    let value = Occupant::Value(b"thief".to_vec());
                    plan.present.push((node, slot, value, None));
                }
            }
            plan
        };
        for report in hold(10, once, &session) {
            let outcome = &report.outcomes[0];
            assert_eq!(outcome.ran, taken < 3, "{taken} taken");
            assert_eq!(outcome.denied.map(|d| d.0), (taken == 3).then_some(Verdict::Held));
        }
    }
}

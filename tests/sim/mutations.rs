//! Every check can fail: each broken rule is seen by the check that is there for it.

use std::time::Duration;

use redlock::protocol::RestartGuard;

use super::{
    brain::session,
    check::Rule,
    clock::nanos,
    flaws::{Twist, twisted},
    histories::{
        adopted, alone, cron, crowd, crowd_with_faults, crowd_with_pauses, emptied,
        fenced_by_count, forced, foreign, kept, restarts, restarts_unnoticed,
    },
    naive::{Flaw, naive},
    node::Scripts,
    plan::{Plan, Premise, Shell},
    rng::Rng,
    seeds::{Family, catches, hold},
};

/// The tests that show a broken rule to be seen.
type Shown = &'static [fn()];

/// What docs/protocol.md, section 10, wants to see caught, and what shows it.
const LIST: [(&str, Shown); 19] = [
    (
        "same token over tries",
        &[one_token_for_all_tries_is_seen, session_with_one_token_for_all_tries_is_seen],
    ),
    ("release on a second connection", &[release_on_a_second_connection_is_seen]),
    (
        "release on an abandoned connection during a hold",
        &[release_on_an_abandoned_connection_in_a_hold_is_seen],
    ),
    (
        "a request that shortens",
        &[scripts_that_touch_what_is_not_theirs_are_seen_under_the_real_session],
    ),
    ("revive after the deadline", &[revived_lease_is_seen]),
    ("drift left out", &[drift_left_out_is_seen, clocks_trusted_to_run_alike_are_seen]),
    ("quorum N/2", &[quorum_of_half_the_nodes_is_seen, half_a_quorum_is_seen]),
    (
        "heal counted without the confirming round",
        &[healed_node_that_counts_without_the_confirming_round_is_seen],
    ),
    ("heal before the fence is final", &[node_that_is_healed_before_the_fence_is_final_is_seen]),
    ("extend by SET", &[scripts_that_touch_what_is_not_theirs_are_seen_under_the_real_session]),
    ("no check before spawn", &[spawn_without_a_last_look_at_the_clock_is_seen]),
    ("count a guarded node", &[vote_of_a_node_that_restarted_is_seen]),
    (
        "guard that opens when only the answering nodes are young",
        &[guard_that_opens_when_only_those_are_young_who_answer_is_seen],
    ),
    ("D = own ttl with mixed ttls", &[guard_of_the_own_ttl_alone_is_seen]),
    ("unconditional write-back", &[write_back_to_whatever_is_there_is_seen]),
    ("write-back without the counter condition", &[write_back_to_any_count_is_seen]),
    ("wall clock instead of boot time", &[wall_clock_that_is_set_back_is_seen]),
    ("tie-break without the leftover rule", &[tie_break_that_knows_no_leftovers_is_seen]),
    ("undo that publishes", &[undo_that_announces_is_seen, sessions_undo_that_announces_is_seen]),
];

#[test]
fn list_of_broken_rules_is_the_protocols() {
    let text = include_str!("../../docs/protocol.md");
    let (_, list) = text.split_once("shown to *catch* its bug:").expect("section 10");
    let list = list.split_once(".\n").map_or(list, |(list, _)| list);
    let rules: Vec<&str> =
        list.trim().trim_end_matches('.').split([';', '\n']).map(str::trim).collect();
    let rules: Vec<&str> = rules.into_iter().filter(|rule| !rule.is_empty()).collect();
    assert_eq!(rules, LIST.map(|(rule, _)| rule));
    assert!(LIST.iter().all(|(_, tests)| !tests.is_empty()));
}

const SEEDS: u64 = 300;
/// What breaks fencing takes more of a coincidence.
const FENCES: u64 = 20_000;

fn naive_breaks(flaw: Flaw, family: Family, rules: &[Rule]) {
    catches(SEEDS, family, &naive(flaw), rules);
}

#[test]
fn sound_client_passes() {
    let families: [Family; 3] = [&alone, &crowd, &emptied];
    for family in families {
        hold(60, family, &naive(Flaw::None));
    }
}

#[test]
fn one_token_for_all_tries_is_seen() {
    naive_breaks(Flaw::SameToken, &crowd, &[Rule::ReleaseIsFinal]);
}

#[test]
fn attempts_that_are_not_undone_are_seen() {
    let rules = [Rule::NoLeftover, Rule::ReleaseIsFinal];
    naive_breaks(Flaw::NoUndo, &crowd, &rules);
}

#[test]
fn half_a_quorum_is_seen() {
    let rules = [Rule::HonestValidity];
    naive_breaks(Flaw::HalfQuorum, &crowd, &rules);
}

#[test]
fn clocks_trusted_to_run_alike_are_seen() {
    naive_breaks(Flaw::NoDrift, &crowd, &[Rule::HonestValidity]);
}

#[test]
fn validity_counted_from_the_answer_is_seen() {
    naive_breaks(Flaw::CountsFromAnswer, &crowd, &[Rule::HonestValidity]);
}

#[test]
fn undo_that_announces_is_seen() {
    naive_breaks(Flaw::UndoAnnounces, &crowd, &[Rule::Announcements]);
}

#[test]
fn abandoned_acquire_is_seen() {
    naive_breaks(Flaw::Abandons, &crowd_with_faults, &[Rule::ReleaseIsFinal]);
}

#[test]
fn revived_lease_is_seen() {
    naive_breaks(Flaw::Revives, &crowd_with_pauses, &[Rule::HonestValidity]);
}

#[test]
fn ignored_proof_of_loss_is_seen() {
    let rules = [Rule::AliveWithinValidity];
    naive_breaks(Flaw::IgnoresProof, &emptied, &rules);
}

#[test]
fn flood_is_seen() {
    naive_breaks(Flaw::Floods, &crowd, &[Rule::BoundedRequests]);
}

#[test]
fn extension_after_the_release_is_seen() {
    naive_breaks(Flaw::ExtendsReleased, &alone, &[Rule::ReleaseIsFinal]);
}

fn with_scripts(scripts: Scripts) -> impl Fn(&mut Rng) -> Plan {
    move |rng| Plan { scripts, ..crowd(rng) }
}

#[test]
fn scripts_that_touch_what_is_not_theirs_are_seen() {
    for scripts in [Scripts::AcquireOverwrites, Scripts::ExtendShortens, Scripts::ReleaseAnything] {
        let family = with_scripts(scripts);
        catches(SEEDS, &family, &naive(Flaw::None), &[Rule::OthersUntouched]);
    }
}

fn session_breaks(twist: Twist, family: Family, rules: &[Rule]) {
    catches(SEEDS, family, &twisted(twist), rules);
}

#[test]
fn release_on_a_second_connection_is_seen() {
    session_breaks(Twist::ReleaseElsewhere, &crowd, &[Rule::NoLeftover]);
    session_breaks(Twist::ReleaseElsewhere, &crowd_with_faults, &[Rule::ReleaseIsFinal]);
}

#[test]
fn undo_that_is_not_sent_is_seen() {
    let losers = |rng: &mut Rng| cron(rng, 5);
    session_breaks(Twist::UndoDropped, &losers, &[Rule::NoLeftover]);
}

#[test]
fn sessions_undo_that_announces_is_seen() {
    session_breaks(Twist::UndoAnnounced, &crowd, &[Rule::Announcements]);
}

#[test]
fn session_with_one_token_for_all_tries_is_seen() {
    session_breaks(Twist::SameToken, &crowd, &[Rule::ReleaseIsFinal]);
}

#[test]
fn release_on_an_abandoned_connection_in_a_hold_is_seen() {
    session_breaks(Twist::UndoInHold, &crowd_with_faults, &[Rule::ReleaseIsFinal]);
}

#[test]
fn loss_that_is_not_said_is_seen() {
    session_breaks(Twist::LossUnsaid, &emptied, &[Rule::AliveWithinValidity]);
}

#[test]
fn lock_that_is_not_kept_for_its_min_hold_is_seen() {
    session_breaks(Twist::NotKept, &kept, &[Rule::MinHold]);
    // Whoever is killed has nothing but the extension at the verdict.
    session_breaks(Twist::KeptAtTheEndOnly, &kept, &[Rule::MinHold]);
}

#[test]
fn min_hold_without_a_command_is_seen() {
    let hasty = |rng: &mut Rng| {
        let mut plan = kept(rng);
        for actor in &mut plan.actors {
            // Between the verdict and the spawn.
            actor.crash = None;
            actor.signal = Some(actor.start + rng.below(8 * plan.net.rtt));
        }
        plan
    };
    catches(SEEDS, &hasty, &twisted(Twist::KeptWithoutCommand), &[Rule::NoLeftover]);
}

/// The real session in a world that is changed.
fn world_breaks(change: impl Fn(&mut Plan, &mut Rng), family: Family, rules: &[Rule]) {
    let changed = |rng: &mut Rng| {
        let mut plan = family(rng);
        change(&mut plan, rng);
        plan
    };
    catches(SEEDS, &changed, &session, rules);
}

#[test]
fn quorum_of_half_the_nodes_is_seen() {
    // A client that needs two of five is one that knows only three of them.
    let half = |plan: &mut Plan, rng: &mut Rng| {
        let nodes = plan.nodes.len();
        for actor in &mut plan.actors {
            actor.view = rng.some_of(nodes, (nodes / 2) | 1);
        }
    };
    let rules = [Rule::OneHolder, Rule::QuorumCarries, Rule::HonestValidity];
    world_breaks(half, &crowd, &rules);
}

#[test]
fn drift_left_out_is_seen() {
    let trusting = |plan: &mut Plan, _: &mut Rng| {
        for actor in &mut plan.actors {
            actor.ignores_drift = true;
        }
    };
    world_breaks(trusting, &crowd_with_pauses, &[Rule::HonestValidity]);
    let rarely = |rng: &mut Rng| {
        let mut plan = crowd_with_pauses(rng);
        trusting(&mut plan, rng);
        plan
    };
    catches(10 * SEEDS, &rarely, &session, &[Rule::QuorumCarries]);
}

#[test]
fn wall_clock_that_is_set_back_is_seen() {
    let wall = |plan: &mut Plan, rng: &mut Rng| {
        for actor in &mut plan.actors {
            let ttl = nanos(actor.timing.ttl);
            actor.clock.set_back = Some((actor.start + rng.below(2 * ttl), ttl));
        }
    };
    world_breaks(wall, &crowd_with_pauses, &[Rule::OneHolder, Rule::QuorumCarries]);
}

#[test]
fn spawn_without_a_last_look_at_the_clock_is_seen() {
    let hasty = |plan: &mut Plan, _: &mut Rng| {
        for actor in &mut plan.actors {
            actor.shell = Shell::SpawnsUnchecked;
            // Stopped from just before the lock until just after it ran out.
            let ttl = nanos(actor.timing.ttl);
            let at = actor.start + plan.net.rtt * 2;
            actor.pauses = vec![(at, at + ttl + ttl / 50)];
        }
    };
    world_breaks(hasty, &alone, &[Rule::QuorumCarries]);
}

#[test]
fn lock_that_nodes_forgot_is_seen() {
    let presupposed = |plan: &mut Plan, _: &mut Rng| plan.premise = Premise::Kept;
    world_breaks(presupposed, &emptied, &[Rule::OneHolder, Rule::QuorumCarries]);
}

#[test]
fn scripts_that_touch_what_is_not_theirs_are_seen_under_the_real_session() {
    let scripts = [
        Scripts::AcquireOverwrites,
        Scripts::ExtendShortens,
        Scripts::ExtendBySet,
        Scripts::ReleaseAnything,
    ];
    for broken in scripts {
        let change = |plan: &mut Plan, _: &mut Rng| plan.scripts = broken;
        world_breaks(change, &crowd_with_pauses, &[Rule::OthersUntouched]);
    }
}

#[test]
fn vote_of_a_node_that_restarted_is_seen() {
    let off = |plan: &mut Plan, _: &mut Rng| plan.guard = RestartGuard::Off;
    world_breaks(off, &restarts, &[Rule::OneHolder]);
}

#[test]
fn healed_node_that_counts_without_the_confirming_round_is_seen() {
    session_breaks(Twist::HealsAtOnce, &forced, &[Rule::HonestValidity]);
}

#[test]
fn guard_that_opens_when_only_those_are_young_who_answer_is_seen() {
    session_breaks(Twist::OpensForTheAnswering, &restarts_unnoticed, &[Rule::OneHolder]);
}

#[test]
fn guard_of_the_own_ttl_alone_is_seen() {
    session_breaks(Twist::OwnTtlAlone, &restarts_unnoticed, &[Rule::OneHolder]);
}

#[test]
fn tie_break_that_knows_no_leftovers_is_seen() {
    let leftover = |rng: &mut Rng| {
        let mut plan = cron(rng, 20);
        foreign(&mut plan, 0..1, Some(Duration::from_secs(25)));
        plan
    };
    hold(20, &leftover, &twisted(Twist::Hasty));
    session_breaks(Twist::NoLeftovers, &leftover, &[Rule::OneWinner]);
}

#[test]
fn node_that_is_healed_before_the_fence_is_final_is_seen() {
    let watched = [Rule::FencingGrows];
    catches(FENCES, &fenced_by_count, &twisted(Twist::HealsBeforeSealed), &watched);
}

fn write_back_breaks(scripts: Scripts) {
    let family = |rng: &mut Rng| Plan { scripts, ..fenced_by_count(rng) };
    catches(FENCES, &family, &session, &[Rule::FencingGrows]);
}

#[test]
fn write_back_to_whatever_is_there_is_seen() {
    write_back_breaks(Scripts::SealsAnything);
}

#[test]
fn write_back_to_any_count_is_seen() {
    write_back_breaks(Scripts::SealsAnyCount);
}

#[test]
fn adopted_lock_that_is_extended_whosever_it_is_is_seen() {
    let change = |plan: &mut Plan, _: &mut Rng| plan.scripts = Scripts::ExtendBySet;
    world_breaks(change, &adopted, &[Rule::OthersUntouched, Rule::OneHolder]);
}

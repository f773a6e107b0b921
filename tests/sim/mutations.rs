//! Every check can fail: each broken rule is seen by the check that is there for it.

use super::{
    check::Rule,
    histories::{alone, crowd, crowd_with_faults, crowd_with_pauses, emptied},
    naive::{Flaw, naive},
    node::Scripts,
    plan::Plan,
    rng::Rng,
    seeds::{Family, catches, hold},
};

const SEEDS: u64 = 300;

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

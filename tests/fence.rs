//! `--fence` on real nodes: a number that grows from one holder to the next.

use crate::harness::{
    Redlock, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

fn number(fleet: &Fleet, keys: &[&str]) -> u64 {
    let keys = keys.iter().flat_map(|key| ["-k", *key]);
    let run = Redlock::new(["run", "-n", "--fence"]).args(keys).nodes(fleet.nodes());
    let outcome = run.shell("echo $REDLOCK_FENCING_TOKEN").output();
    assert!(outcome.stderr.is_empty(), "{outcome}");
    outcome.stdout.trim().parse().unwrap_or_else(|_| panic!("no number: {outcome}"))
}

/// The counter beside a key, or 0.
fn counter(fleet: &Fleet, node: usize, key: &str) -> u64 {
    let text = fleet.servers()[node].get(&format!("redlock:fence:{key}"));
    text.map_or(0, |text| text.parse().unwrap())
}

#[test]
fn fencing_token_grows_from_one_holder_to_the_next_and_a_quorum_knows_it() {
    let mut fleet = fleet(3);
    let mut last = 0;
    for round in 0..9 {
        // Whoever was there is not always there.
        let away = round % 3;
        fleet.servers()[away].stop().unwrap();
        let number = number(&fleet, &["k"]);
        assert!(number > last, "{number} after {last}");
        last = number;
        fleet.servers()[away].cont().unwrap();
        let known = (0..3).filter(|node| *node != away && counter(&fleet, *node, "k") >= number);
        assert_eq!(known.count(), 2);
    }
    // Also when a counter is ahead of every clock by far, and when one is lost.
    let ahead = 5_000_000_000_000_000;
    for server in &fleet.servers()[..2] {
        server.set("redlock:fence:k", &ahead.to_string());
    }
    last = number(&fleet, &["k"]);
    assert_eq!(last, ahead + 1);
    // Who answered too late to be counted was not told.
    while (1..3).any(|node| counter(&fleet, node, "k") < last) {
        last = number(&fleet, &["k"]);
    }
    fleet.servers_mut()[0].restart().unwrap();
    assert_eq!(number(&fleet, &["k"]), last + 1);
}

#[test]
fn several_keys_share_the_largest_of_their_numbers() {
    let fleet = fleet(3);
    let first = number(&fleet, &["a", "b"]);
    let b = number(&fleet, &["b"]);
    let both = number(&fleet, &["a", "b"]);
    assert!(first < b && b < both, "{first} {b} {both}");
    for key in ["a", "b"] {
        let known = (0..3).filter(|node| counter(&fleet, *node, key) >= both);
        assert!(known.count() >= 2);
    }
}

#[test]
fn fencing_is_for_those_who_ask_for_it() {
    let fleet = fleet(1);
    let run = Redlock::run(fleet.nodes()).args(["-n"]);
    run.shell("echo [$REDLOCK_FENCING_TOKEN]").stdout("[]\n").check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn counter_that_is_no_number_refuses_and_the_lock_is_not_left_behind() {
    let fleet = fleet(1);
    fleet.servers()[0].client().command(&["RPUSH", "redlock:fence:k", "x"]);
    let run = Redlock::run(fleet.nodes()).args(["-n", "--fence"]).command(["echo", "ran"]);
    run.fails(69, "*'k'*WRONGTYPE*").check();
    assert_eq!(fleet.all_keys(), ["0:redlock:fence:k"]);
}

/// Lua's numbers stop counting at 2^53: the same token would go out again and again.
#[test]
fn counter_that_cannot_be_counted_up_gives_no_token() {
    let fleet = fleet(3);
    let run = || Redlock::run(fleet.nodes()).args(["-n", "--fence"]).command(["echo", "ran"]);
    for counter in ["9007199254740993", "9223372036854775807", "1e300", "nan", "abc", ""] {
        fleet.set_everywhere("redlock:fence:k", counter);
        run().fails(69, "*the fencing counter is no number*redlock:fence:KEY*").check();
        assert!(fleet.holding("k").is_empty(), "{counter}");
    }
}

//! Several keys in one lock: all or nothing.

use std::time::Duration;

use crate::harness::{
    Redlock,
    builder::Running,
    eventually, fleet, scratch,
    servers::{Fleet, Inspect, InspectAll},
};

fn run(fleet: &Fleet, keys: &str) -> Redlock {
    let keys = keys.chars().flat_map(|key| ["-k".to_owned(), key.to_string()]);
    Redlock::new(["run"]).args(keys).nodes(fleet.nodes())
}

/// A run that holds `keys` until its standard input ends.
fn holder(fleet: &Fleet, keys: &str) -> Running {
    let mut run = run(fleet, keys).shell("echo started; sleep 60").stdout("started\n").start();
    run.wait_stdout("started");
    run
}

/// What a command does alone, in a place for each of its keys: so that an overlap shows.
fn alone(keys: &str) -> String {
    let places: Vec<String> = keys.chars().map(|key| format!("\"$D/{key}\"")).collect();
    let places = places.join(" ");
    format!("mkdir {places} && sleep 0.02 && rmdir {places}")
}

#[test]
fn many_that_want_the_same_keys_in_other_orders_all_run_one_at_a_time() {
    let fleet = fleet(5);
    let place = scratch();
    let wanted = ["ab", "ba", "bc", "ca", "cab", "a"];
    let runs: Vec<Running> = (0..4)
        .flat_map(|_| wanted)
        .map(|keys| {
            let run = run(&fleet, keys).args(["-q"]).env("D", place.path());
            run.shell(&alone(keys)).within(Duration::from_secs(60)).start()
        })
        .collect();
    for run in runs {
        run.check();
    }
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn busy_key_leaves_the_others_unset_and_is_named() {
    let fleet = fleet(5);
    let held = holder(&fleet, "ab");
    run(&fleet, "bc").args(["-n"]).shell("true").fails(75, "'b' is held by * pid *").check();
    run(&fleet, "cab")
        .args(["-n"])
        .shell("true")
        .fails(75, "'a' is held by * pid *, and 'b' is held by * pid *")
        .check();
    assert_eq!(fleet.holding("c"), [] as [usize; 0]);
    run(&fleet, "c").args(["-n"]).shell("true").check();
    drop(held);
}

#[test]
fn lock_of_several_keys_comes_and_goes_as_a_whole() {
    let fleet = fleet(5);
    let held = holder(&fleet, "cab");
    eventually("all of it is everywhere", || fleet.all_keys().len() == 15);
    let token =
        |key: &str| fleet.servers()[0].get(key).unwrap().split(' ').next().map(String::from);
    assert!(token("a") == token("b") && token("b") == token("c"));
    held.signal(rustix::process::Signal::TERM);
    held.output();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn waiter_for_several_keys_runs_when_the_last_of_them_is_free() {
    let fleet = fleet(3);
    let (a, b) = (holder(&fleet, "a"), holder(&fleet, "b"));
    let mut waiter = run(&fleet, "ab")
        .shell("true")
        .stderr_like("redlock: waiting for 'a, b': 'a' is held by *, and 'b' is held by *\nredlock: got 'a, b' after *\n")
        .start();
    waiter.wait_stderr("waiting");
    a.signal(rustix::process::Signal::TERM);
    a.output();
    // Neither of the two is taken before both are free.
    run(&fleet, "a").args(["-n"]).shell("true").check();
    assert_eq!(waiter.ended(), None);
    b.signal(rustix::process::Signal::TERM);
    b.output();
    waiter.check();
}

#[test]
fn fencing_token_of_several_keys_is_above_those_of_each() {
    let fleet = fleet(3);
    let number = |keys: &str| -> u64 {
        let run = run(&fleet, keys).args(["--fence"]).shell("echo $REDLOCK_FENCING_TOKEN");
        run.stdout_like("*\n").check().stdout.trim().parse().unwrap()
    };
    let far = 8_000_000_000_000_000_u64;
    for server in fleet.servers() {
        server.set("redlock:fence:b", &far.to_string());
    }
    assert!(number("a") < far);
    let both = number("ab");
    assert_eq!(both, far + 1);
    assert!(number("a") > both && number("b") > both);
}

#[test]
fn environment_names_all_keys_and_scripts_inside_name_them_by_themselves() {
    let fleet = fleet(3);
    let line = "echo \"$REDLOCK_KEY\"; $R extend -k 'x y' -k z%; $R extend -k z%; $R extend";
    Redlock::new(["run", "-k", "z%", "-k", "x y", "-t", "1m"])
        .nodes(fleet.nodes())
        .env("R", env!("CARGO_BIN_EXE_redlock"))
        .shell(line)
        .exits(64)
        .stdout_like("x%20y z%25\n59s*\n59s*\n")
        .stderr_like("redlock: exit 64: REDLOCK_KEY names several keys, *\n")
        .check();
}

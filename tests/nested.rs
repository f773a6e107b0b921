//! Runs inside of runs: a wait for ourselves is refused, and a lock can be shared.

use std::time::Duration;

use crate::harness::{
    Redlock, eventually, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

/// `redlock run` on `keys` of a line for a shell, in which `$R` is the program.
fn run(fleet: &Fleet, keys: &[&str]) -> Redlock {
    let keys = keys.iter().flat_map(|key| ["-k", *key]);
    Redlock::new(["run"]).args(keys).nodes(fleet.nodes()).env("R", env!("CARGO_BIN_EXE_redlock"))
}

const OURSELVES: &str = "'k' is held by the very run that this is part of (*), which would be \
                         waited for without end; to run under its lock: --reentrant*";

#[test]
fn run_that_asks_for_the_lock_it_runs_under_is_refused_at_once_however_it_would_wait() {
    let fleet = fleet(5);
    for inner in [
        "$R run -k k true",
        "$R run -n -k k true",
        "$R run --skip -k k true",
        "$R run --skip -w 10m -q -k k true",
        "$R run -E 3 -w 10m -k k true",
        "$R acquire -k k -t 1m",
        // Also where it is one of several, and the others are free.
        "$R run -k a -k k -k z true",
    ] {
        run(&fleet, &["k"]).shell(inner).fails(78, OURSELVES).check();
        assert!(fleet.all_keys().is_empty(), "{inner}");
    }
}

#[test]
fn wait_for_ourselves_is_found_through_levels_shells_and_a_cleared_environment() {
    let fleet = fleet(3);
    let inner = "$R run -k j -- sh -c 'setsid --wait $R run -k i -- $R run -k k true'";
    run(&fleet, &["k"]).shell(inner).fails(78, OURSELVES).check();
    let bare = "env -i REDLOCK_HELD=\"$REDLOCK_HELD\" REDLOCK_NODES=\"$REDLOCK_NODES\" \
                REDLOCK_RESTART_GUARD=off \"$R\" run -k k true";
    run(&fleet, &["k"]).shell(bare).fails(78, OURSELVES).check();
    // Of several keys of the outer run any one will do, while others really hold the rest.
    fleet.set_everywhere("x", "other");
    run(&fleet, &["k", "l"]).shell("$R run -k x -k k true").fails(78, OURSELVES).check();
}

#[test]
fn wait_for_ourselves_is_known_while_the_outer_lock_is_not_on_all_nodes() {
    let fleet = fleet(5);
    for server in &fleet.servers()[3..] {
        server.stop().unwrap();
    }
    run(&fleet, &["k"]).shell("$R run -k k true").fails(78, OURSELVES).check();
    for server in &fleet.servers()[3..] {
        server.cont().unwrap();
    }
}

const DEAD: &str = "00000000-0000-4000-8000-000000000001";

/// What is left of an outer run on a minority of nodes is no wait for ourselves.
#[test]
fn leftover_of_an_outer_run_that_has_ended_keeps_nobody_out() {
    let fleet = fleet(5);
    let run = || run(&fleet, &["k"]).env("REDLOCK_HELD", DEAD);
    for server in &fleet.servers()[..2] {
        server.set("k", DEAD);
    }
    run().shell("true").check();
    for server in &fleet.servers()[2..] {
        server.set("k", "other");
    }
    run().args(["-n"]).shell("true").fails(75, "'k' is held by another client's value *").check();
}

/// What the innermost command finds in its environment, sorted.
const SHOW: &str = "env | grep -E '^REDLOCK_(KEY|TOKEN|TTL_MS|FENCING_TOKEN|HELD)=' | sort";

#[test]
fn reentrant_run_shares_the_lock_of_the_run_around_it() {
    let fleet = fleet(5);
    let inner = format!("$R run -k k -t 10s --reentrant -- sh -c \"$SHOW\"; {SHOW}");
    let out = run(&fleet, &["k", "l"])
        .args(["-t", "20s", "--fence"])
        .env("SHOW", SHOW)
        .shell(&inner)
        .stdout_like(&"*\n".repeat(9))
        .check();
    let lines: Vec<&str> = out.stdout.lines().collect();
    let token = lines[0].strip_prefix("REDLOCK_HELD=").unwrap();
    assert_eq!(token.len(), 36, "{out}");
    let (key, of_token) = ("REDLOCK_KEY=k", format!("REDLOCK_TOKEN={token}"));
    assert_eq!(lines[..4], [lines[0], key, &of_token, "REDLOCK_TTL_MS=10000"]);
    // The outer run's own environment is as ever, and so is its lock until its end.
    assert!(lines[4].starts_with("REDLOCK_FENCING_TOKEN="), "{out}");
    let outer = [lines[0], "REDLOCK_KEY=k l", &of_token, "REDLOCK_TTL_MS=20000"];
    assert_eq!(lines[5..], outer, "{out}");
    eventually("the outer run released it", || {
        fleet.all_keys().iter().all(|key| key.contains(":redlock:fence:"))
    });
}

#[test]
fn reentrant_run_leaves_the_lock_to_the_outer_one() {
    let fleet = fleet(3);
    let all = "1,1,1";
    let count = fleet.servers().iter().map(|s| format!("redis-cli -p {} EXISTS k", s.port()));
    let count = format!("({}) | paste -sd ,", count.collect::<Vec<_>>().join("; "));
    run(&fleet, &["k"])
        .shell(&format!(
            "$R run -k k --reentrant -- true; $R run -k k --reentrant -- false; {count}"
        ))
        .stdout(format!("{all}\n"))
        .check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn reentrant_run_finds_the_ancestor_that_holds_all_its_keys() {
    let fleet = fleet(3);
    let inner = |keys: &str| {
        run(&fleet, &["a", "b"])
            .env("KEYS", keys)
            .shell("$R run -k c -- sh -c '$R run -k d -- $R run $KEYS --reentrant -- echo ran'")
    };
    for keys in ["-k a", "-k b", "-k a -k b", "-k c", "-k d"] {
        inner(keys).stdout("ran\n").check();
    }
    for keys in ["-k a -k c", "-k a -k b -k e"] {
        inner(keys)
            .fails(79, "no run around this one holds all of '*' together (any more)")
            .check();
    }
    inner("-k e").fails(79, "no run around this one holds 'e' (any more)").check();
}

#[test]
fn reentrant_needs_a_run_around_it_and_never_waits() {
    let fleet = fleet(1);
    let line = || run(&fleet, &["k"]).args(["--reentrant"]);
    line().shell("true").fails(64, "--reentrant: there is no run around this one *").check();
    line()
        .env("REDLOCK_HELD", DEAD)
        .shell("true")
        .fails(79, "no run around this one holds 'k' (any more)")
        .check();
    for option in [
        &["-n"][..],
        &["-w", "1s"],
        &["--skip"],
        &["-E", "3"],
        &["--token", DEAD],
        &["--fence"],
        &["--min-hold", "1s"],
    ] {
        line().args(option).shell("true").fails(64, "*--reentrant*").check();
    }
}

/// The token of a lock that nobody extends.
fn acquire(fleet: &Fleet, ttl: &str) -> String {
    let words = ["acquire", "-k", "k", "-t", ttl];
    let out = Redlock::new(words).nodes(fleet.nodes()).stdout_like("*\n").check();
    out.stdout.trim().to_owned()
}

#[test]
fn loss_of_the_shared_lock_ends_the_inner_command() {
    let fleet = fleet(3);
    let mut inner = run(&fleet, &["k"])
        .args(["-t", "3s", "--reentrant"])
        .env("REDLOCK_HELD", acquire(&fleet, "1m"))
        .shell("echo started; exec sleep 60")
        .stdout("started\n")
        .exits(79)
        .stderr_like("redlock: lost 'k': *\nredlock: exit 79: 'k' was lost *\n")
        .start();
    inner.wait_stdout("started");
    for server in fleet.servers() {
        server.client().del("k");
    }
    inner.check();
}

#[test]
fn reentrant_run_keeps_the_lock_alive_and_neither_heals_nor_prolongs_it() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "3s");
    let value = fleet.servers()[0].get("k");
    let mut inner = run(&fleet, &["k"])
        .args(["-t", "3s", "--reentrant"])
        .env("REDLOCK_HELD", &token)
        .shell("echo started; sleep 4")
        .stdout("started\n")
        .start();
    inner.wait_stdout("started");
    fleet.servers()[2].client().del("k");
    inner.check();
    assert_eq!(fleet.holding("k"), [0, 1], "it was healed or released");
    assert_eq!(fleet.servers()[0].get("k"), value);
    // Its end prolongs nothing.
    for server in &fleet.servers()[..2] {
        server.client().command(&["PEXPIRE", "k", "60000"]);
    }
    let shorten =
        fleet.servers()[..2].iter().map(|s| format!("redis-cli -p {} PEXPIRE k 20000", s.port()));
    run(&fleet, &["k"])
        .args(["-t", "50s", "--reentrant"])
        .env("REDLOCK_HELD", &token)
        .shell(&format!("({}) >/dev/null", shorten.collect::<Vec<_>>().join("; ")))
        .within(Duration::from_secs(15))
        .check();
    assert!(fleet.servers()[..2].iter().all(|server| server.client().pttl("k") <= 20_000));
}

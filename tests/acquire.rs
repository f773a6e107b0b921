//! Who gets the lock: every set of nodes that is taken, refuses or stands still.

use std::{thread, time::Duration};

use crate::harness::{
    Redlock, eventually, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

/// The numbers of the nodes in the set that `mask` draws.
fn set_of(mask: u8) -> Vec<usize> {
    (0..5).filter(|number| mask & (1 << number) != 0).collect()
}

/// Every set of five nodes.
fn every_set() -> impl Iterator<Item = Vec<usize>> {
    (0..32).map(set_of)
}

fn clear(fleet: &Fleet) {
    for server in fleet.servers() {
        server.client().command(&["FLUSHALL"]);
    }
}

/// A run that says its verdict at once and whose time-outs are short: connect 600 ms, node 150 ms.
fn run(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["--ttl", "3s", "-n"])
}

#[test]
fn lock_is_had_exactly_when_a_majority_of_nodes_is_free() {
    let fleet = fleet(5);
    for taken in every_set() {
        clear(&fleet);
        for &number in &taken {
            fleet.servers()[number].set("k", "foreign");
        }
        let run = run(&fleet).command(["echo", "ran"]);
        if taken.len() <= 2 {
            run.stdout("ran\n").check();
        } else {
            run.fails(75, "*k*").check();
        }
        // The undo of a run that ended may still be on its way to a node.
        eventually("only the foreign values are left", || fleet.holding("k") == taken);
        for &number in &taken {
            assert_eq!(fleet.servers()[number].get("k").as_deref(), Some("foreign"));
        }
    }
}

#[test]
fn lock_is_had_exactly_when_a_majority_of_nodes_does_not_refuse_connections() {
    let mut fleet = fleet(5);
    for refusing in every_set() {
        for &number in &refusing {
            fleet.servers_mut()[number].kill();
        }
        let run = run(&fleet).command(["echo", "ran"]);
        if refusing.len() <= 2 {
            run.stdout("ran\n").check();
        } else {
            run.fails(69, "*").check();
        }
        for &number in &refusing {
            fleet.servers_mut()[number].restart().unwrap();
        }
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
}

/// The ttl is long: what is gone soon was taken away and did not expire.
#[test]
fn lock_is_had_exactly_when_a_majority_of_nodes_is_not_stopped() {
    let fleet = fleet(5);
    let short = ["-n", "--node-timeout", "150ms", "--connect-timeout", "150ms"];
    for stopped in every_set() {
        for &number in &stopped {
            fleet.servers()[number].stop().unwrap();
        }
        let run = Redlock::run(fleet.nodes()).args(short).command(["echo", "ran"]);
        if stopped.len() <= 2 {
            run.stdout("ran\n").check();
        } else {
            run.fails(69, "*").check();
        }
        for &number in &stopped {
            fleet.servers()[number].cont().unwrap();
        }
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
}

#[test]
fn lock_with_one_node_works() {
    let fleet = fleet(1);
    run(&fleet).command(["echo", "ran"]).stdout("ran\n").check();
    fleet.set_everywhere("k", "foreign");
    run(&fleet).command(["echo", "ran"]).fails(75, "*k*").check();
}

#[test]
fn sequential_strategy_has_the_same_verdicts() {
    let mut fleet = fleet(5);
    let sequential =
        |fleet: &Fleet| run(fleet).args(["--strategy", "sequential"]).command(["echo", "ran"]);
    for taken in [0, 1, 2, 3, 5] {
        clear(&fleet);
        for server in &fleet.servers()[..taken] {
            server.set("k", "foreign");
        }
        if taken <= 2 {
            sequential(&fleet).stdout("ran\n").check();
        } else {
            sequential(&fleet).fails(75, "*k*").check();
        }
    }
    clear(&fleet);
    for down in [1, 2, 3] {
        fleet.servers_mut()[down - 1].kill();
        if down <= 2 {
            sequential(&fleet).stdout("ran\n").check();
        } else {
            sequential(&fleet).fails(69, "*").check();
        }
    }
}

#[test]
fn holder_is_named_to_who_is_refused() {
    let fleet = fleet(5);
    let mut holder = Redlock::run(fleet.nodes())
        .shell("echo ready; exec sleep 60")
        .dies_of(rustix::process::Signal::TERM)
        .stdout("ready\n")
        .start();
    holder.wait_stdout("ready\n");
    let pid = holder.pid().as_raw_nonzero();
    run(&fleet).command(["echo", "ran"]).fails(75, &format!("*'k'*held by*pid {pid}*")).check();
    holder.signal(rustix::process::Signal::TERM);
    holder.check();
}

#[test]
fn conflict_exit_code_replaces_75_and_nothing_else() {
    let mut fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    for code in [0, 3, 255] {
        run(&fleet)
            .args(["-E", &code.to_string()])
            .command(["echo", "ran"])
            .fails(code, "*k*")
            .check();
    }
    for server in fleet.servers_mut() {
        server.kill();
    }
    let run = run(&fleet).args(["-E", "3"]).command(["true"]);
    run.fails(69, "*").check();
}

#[test]
fn waiting_ends_when_the_lock_becomes_free() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let mut waiter =
        Redlock::run(fleet.nodes()).args(["-w", "15s"]).command(["echo", "ran"]).start();
    waiter.wait_stderr("waiting for 'k'");
    for server in fleet.servers() {
        assert!(server.client().del("k"));
    }
    waiter.wait_stdout("ran\n");
    let outcome = waiter.output();
    assert_eq!(outcome.end, crate::harness::builder::End::Exit(0), "{outcome}");
}

#[test]
fn waiting_ends_with_75_when_its_time_is_up() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let outcome = Redlock::run(fleet.nodes())
        .args(["-w", "300ms"])
        .command(["echo", "ran"])
        .exits(75)
        .stderr_like("redlock: waiting for 'k'*\nredlock: exit 75: *'k'*\n")
        .check();
    assert!(outcome.took >= Duration::from_millis(300), "{outcome}");
}

#[test]
fn several_keys_are_had_all_or_none() {
    let fleet = fleet(3);
    let keys = ["run", "-k", "b", "-k", "a", "-n"];
    let run = || Redlock::new(keys).nodes(fleet.nodes());
    run().command(["true"]).check();
    fleet.set_everywhere("b", "foreign");
    run().command(["echo", "ran"]).fails(75, "*b*").check();
    eventually("nothing of the other key is left", || fleet.all_keys() == ["0:b", "1:b", "2:b"]);
}

#[test]
fn contenders_run_one_at_a_time() {
    let fleet = fleet(5);
    let place = crate::harness::scratch();
    let log = place.path().join("log");
    let line = format!("echo in >>'{0}'; sleep 0.02; echo out >>'{0}'", log.display());
    let (nodes, line) = (fleet.nodes(), line.as_str());
    thread::scope(|scope| {
        for _ in 0..6 {
            let run = Redlock::run(&nodes).args(["-q"]).shell(line);
            scope.spawn(move || run.check());
        }
    });
    assert_eq!(std::fs::read_to_string(log).unwrap(), "in\nout\n".repeat(6));
}

/// etcd#2855, #10493: nothing to wait means one attempt, not none and not for ever.
#[test]
fn wait_of_nothing_is_one_true_verdict() {
    let fleet = fleet(3);
    let once = || Redlock::run(fleet.nodes()).args(["-w", "0s"]).command(["echo", "ran"]);
    once().stdout("ran\n").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
    fleet.set_everywhere("k", "foreign");
    // As -n: no line about waiting.
    once().fails(75, "'k' is held by *").check();
}

/// A node-redlock trap: with two of four taken nobody can have a majority of three.
#[test]
fn tie_of_an_even_list_is_told_at_once() {
    let fleet = fleet(4);
    for server in &fleet.servers()[..2] {
        server.set("k", "foreign");
    }
    Redlock::run(fleet.nodes())
        .args(["-n", "--allow-even-nodes"])
        .command(["echo", "ran"])
        .fails(75, "'k' is contended: *")
        .check();
    eventually("our votes are taken back", || fleet.holding("k") == [0, 1]);
}

/// filelock#317: a lock file that root may not open, since somebody else made it.
#[test]
fn users_of_one_machine_share_a_lock_and_no_file() {
    if !rustix::process::geteuid().is_root() {
        crate::skip!("only root can be two users");
    }
    let fleet = fleet(3);
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let users: [&[&str]; 3] = [&nobody, &["env"], &nobody];
    let run = |user: &[&str]| {
        let run = Redlock::run(fleet.nodes()).args(["-n"]).under(user);
        // Where there is nothing to write to.
        run.env("TMPDIR", "/nonexistent").env("XDG_RUNTIME_DIR", "/nonexistent")
    };
    for user in users {
        run(user).command(["echo", "ran"]).stdout("ran\n").check();
        eventually("the lock is given back", || fleet.all_keys().is_empty());
    }
    // And it excludes them all.
    fleet.set_everywhere("k", "foreign");
    for user in users {
        run(user).command(["echo", "ran"]).fails(75, "'k' is held by *").check();
    }
}

#[test]
fn verbose_run_tells_its_whole_story() {
    let fleet = fleet(3);
    Redlock::run(fleet.nodes())
        .args(["-v", "-t", "900ms"])
        .shell("sleep 0.4")
        .stderr_like(
            "redlock: got 'k' on 3 of 3 nodes after *\nredlock: extended 'k' on 3 of 3 nodes\n\
             redlock: let go of 'k' after *ms, extended once\n",
        )
        .check();
}

#[test]
fn holder_with_another_list_is_pointed_out_in_the_busy_message() {
    let fleet = fleet(5);
    let mut holder =
        Redlock::run(fleet.nodes()).shell("echo ready; exec sleep 60").stdout_like("*").start();
    holder.wait_stdout("ready\n");
    let nodes = fleet.nodes();
    let nodes: Vec<&str> = nodes.split(',').collect();
    let (all, three) =
        (nodes.iter().rev().copied().collect::<Vec<_>>().join(","), nodes[..3].join(","));
    let remark = "another list of nodes, db or prefix";
    // The order means nothing.
    let same = Redlock::run(all).args(["-n", "true"]).output();
    assert!(same.stderr.contains("is held by") && !same.stderr.contains(remark), "{same}");
    let other = Redlock::run(three).args(["-n", "true"]).output();
    assert!(other.stderr.contains(&format!("{remark} (5 nodes, here 3)")), "{other}");
    holder.signal(rustix::process::Signal::TERM);
    holder.output();
}

//! What Redlock presupposes of its nodes: independent masters, each once in the list, none without
//! its memory. A list that breaks it is refused before any vote counts.

use redlock::commands::sandbox::{launcher::Launcher, servers::Server};

use crate::harness::{
    Redlock, eventually, fleet, scratch,
    servers::{Fleet, Inspect, InspectAll},
};

fn try_once(nodes: &str) -> Redlock {
    Redlock::run(nodes).args(["-n"]).command(["echo", "ran"])
}

/// Makes a server the replica of another one, and waits until it is.
fn replicate(replica: &Server, master: &Server) {
    let port = master.port().to_string();
    replica.client().command(&["REPLICAOF", "127.0.0.1", &port]);
    eventually("the replica is in step", || {
        replica.client().info("replication").contains("master_link_status:up")
    });
}

fn promote(replica: &Server) {
    replica.client().command(&["REPLICAOF", "NO", "ONE"]);
}

/// A list that has a quorum only if one server counts twice.
fn twice(fleet: &Fleet, database: &str) -> String {
    let port = fleet.servers()[0].port();
    format!("{},redis://localhost:{port}{database},127.0.0.1:1", fleet.nodes())
}

#[test]
fn same_server_under_two_names_is_78_in_whatever_database() {
    let fleet = fleet(1);
    let port = fleet.servers()[0].port();
    for database in ["", "/1"] {
        for waiting in [&["-n"][..], &[]] {
            Redlock::run(twice(&fleet, database))
                .args(waiting)
                .command(["echo", "ran"])
                .fails(78, &format!("*'k'*:{port}*: the same server as *"))
                .check();
            eventually("no key is left", || fleet.all_keys().is_empty());
        }
    }
}

/// Seen by the lock itself, where the node does not tell its name.
#[test]
fn same_server_under_two_names_is_78_although_info_is_denied() {
    let fleet = fleet(1);
    fleet.servers()[0].client().command(&["ACL", "SETUSER", "default", "-info"]);
    let run = try_once(&twice(&fleet, ""));
    run.fails(78, "*'k'*the same server as another node of the list*").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn replica_is_no_node_but_a_majority_without_it_is_enough() {
    let fleet = fleet(3);
    let servers = fleet.servers();
    replicate(&servers[2], &servers[0]);
    try_once(&fleet.nodes()).stdout("ran\n").check();
    replicate(&servers[1], &servers[0]);
    try_once(&fleet.nodes()).fails(78, "*'k'*a replica*").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn former_replica_beside_its_master_is_no_node() {
    let fleet = fleet(3);
    let servers = fleet.servers();
    for replica in &servers[1..] {
        replicate(replica, &servers[0]);
    }
    for replica in &servers[1..] {
        promote(replica);
    }
    try_once(&fleet.nodes()).fails(78, "*'k'*a former replica of *").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn node_of_a_cluster_is_no_node() {
    let launcher = Launcher::new().unwrap();
    let fleet = fleet(1);
    let start = |number| {
        let own = format!("nodes-{number}.conf");
        let options = ["--cluster-enabled", "yes", "--cluster-config-file", &own];
        Server::start(&launcher, options).unwrap()
    };
    let nodes: Vec<Server> = (0..2).map(start).collect();
    let list = format!("{},{},{}", fleet.nodes(), nodes[0].url(), nodes[1].url());
    try_once(&list).fails(78, "*'k'*part of a Redis Cluster*").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

/// A run that goes by the guard, with this rule.
fn guarded(nodes: &str, rule: &str) -> Redlock {
    Redlock::run(nodes).env("REDLOCK_RESTART_GUARD", rule)
}

#[test]
fn node_that_restarted_does_not_vote_before_it_is_older_than_the_ttl() {
    let mut fleet = fleet(3);
    let aged = "3s";
    // They are of one age: a new fleet.
    guarded(&fleet.nodes(), "auto").args(["-n"]).command(["true"]).check();
    eventually("the fleet has aged", || {
        fleet.servers()[0].client().info_number("server", "uptime_in_seconds") >= 6
    });
    for server in &mut fleet.servers_mut()[..2] {
        server.restart().unwrap();
    }
    let nodes = fleet.nodes();
    let run = |rule| guarded(&nodes, rule).args(["-t", aged, "--restart-guard", rule]);
    let reason = "no quorum for 'k' (2 of 3 nodes needed): 2 nodes restarted less than 3s ago and \
                  vote in *";
    run("auto").args(["-n"]).command(["echo", "ran"]).fails(69, reason).check();
    eventually("no key is left", || fleet.all_keys().is_empty());
    run("off").args(["-n"]).command(["true"]).check();
    // Whoever waits waits through it.
    run("auto").args(["-w", "15s", "-q"]).command(["echo", "ran"]).stdout("ran\n").check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

/// A command that ends when the file `go` is there.
fn until(go: &std::path::Path) -> String {
    format!("echo ready; until [ -e '{}' ]; do sleep 0.02; done; echo done", go.display())
}

#[test]
fn two_of_five_nodes_that_restart_empty_at_once_are_healed_and_let_nobody_in() {
    let mut fleet = fleet(5);
    let place = scratch();
    let go = place.path().join("go");
    let nodes = fleet.nodes();
    let mut holder = guarded(&nodes, "strict")
        .args(["-t", "2s", "-w", "15s", "-q"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    holder.wait_stdout("ready\n");
    for server in &mut fleet.servers_mut()[..2] {
        server.kill();
    }
    for server in &mut fleet.servers_mut()[..2] {
        server.restart().unwrap();
    }
    let contender = || {
        let run = guarded(&nodes, "strict").args(["-n", "-q"]).command(["echo", "ran"]);
        run.exits(75).check()
    };
    contender();
    eventually("the lock is on all nodes again", || fleet.holding("k").len() == 5);
    contender();
    std::fs::write(go, "").unwrap();
    holder.check();
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn three_of_five_nodes_that_restart_empty_end_the_command_first() {
    let mut fleet = fleet(5);
    let nodes = fleet.nodes();
    let mut holder = guarded(&nodes, "auto")
        .args(["-t", "3s"])
        .shell("echo ready; exec sleep 60")
        .exits(79)
        .stdout("ready\n")
        .stderr_like(
            "redlock: lost 'k': * do not hold it any more; the command gets KILL\n\
             redlock: exit 79: 'k' was lost while the command ran\n",
        )
        .start();
    holder.wait_stdout("ready\n");
    for server in &mut fleet.servers_mut()[..3] {
        server.restart().unwrap();
    }
    // They are young, and the other two are not: nobody else gets it before.
    let contender = guarded(&nodes, "strict").args(["-n", "-q"]).command(["echo", "ran"]).output();
    assert!(contender.stdout.is_empty(), "{contender}");
    holder.check();
}

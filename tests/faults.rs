//! Nodes that stand still, refuse, swallow or drip: how long that costs, and what is left behind.

use std::{
    fs,
    net::{Ipv4Addr, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use redlock::commands::sandbox::{launcher::Launcher, servers::Server};

use crate::{
    harness::{
        Redlock, alive, eventually, fleet,
        proxy::{Mode, Proxy},
        scratch, script,
        servers::{Fleet, Inspect, InspectAll},
        skip::record,
    },
    skip,
};

const MS: Duration = Duration::from_millis(1);

/// The time-outs of a lock of 3 s: connect-timeout + 2 node-timeouts.
const BOUND: Duration = Duration::from_millis(600 + 2 * 150);

/// What can be wrong with a node.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Stopped,
    Refusing,
    Blackholed,
    Dripping,
}

const FAULTS: [Fault; 4] = [Fault::Stopped, Fault::Refusing, Fault::Blackholed, Fault::Dripping];

/// Five nodes, some of them at fault.
struct Patients {
    fleet: Fleet,
    proxies: Vec<Proxy>,
}

impl Patients {
    fn new() -> Self {
        let fleet = fleet(5);
        let servers = fleet.servers().iter();
        let proxies = servers.map(|server| Proxy::to(server.address())).collect();
        Self { fleet, proxies }
    }

    fn nodes(&self) -> String {
        let urls: Vec<String> = self.proxies.iter().map(Proxy::url).collect();
        urls.join(",")
    }

    /// Makes the first `count` nodes suffer from `fault`.
    fn suffer(&self, count: usize, fault: Fault) {
        let nodes = self.proxies.iter().zip(self.fleet.servers());
        for (proxy, server) in nodes.take(count) {
            match fault {
                Fault::Stopped => server.stop().unwrap(),
                Fault::Refusing => proxy.set(Mode::Refuse),
                Fault::Blackholed => proxy.set(Mode::Blackhole),
                Fault::Dripping => proxy.set(Mode::Drip(60 * MS)),
            }
        }
    }

    fn recover(&self) {
        for (proxy, server) in self.proxies.iter().zip(self.fleet.servers()) {
            server.cont().unwrap();
            proxy.set(Mode::Pass);
        }
    }

    /// Waits until no node has a key; long before anything could expire.
    fn wait_until_empty(&self, fault: Fault) {
        let start = Instant::now();
        let what = format!("no key is left after {fault:?}");
        eventually(&what, || self.fleet.all_keys().is_empty());
        let took = start.elapsed();
        assert!(took < 1500 * MS, "{what}: only after {took:?}, by expiry");
    }
}

#[test]
fn two_of_five_nodes_at_fault_cost_one_round_of_time_outs_and_leave_no_key() {
    let patients = Patients::new();
    for fault in FAULTS {
        patients.suffer(2, fault);
        Redlock::run(patients.nodes())
            .args(["--ttl", "3s"])
            .command(["true"])
            .within(BOUND)
            .check();
        patients.recover();
        patients.wait_until_empty(fault);
    }
}

#[test]
fn three_of_five_nodes_at_fault_are_unavailability_within_the_same_bound() {
    let patients = Patients::new();
    for fault in FAULTS {
        patients.suffer(3, fault);
        Redlock::run(patients.nodes())
            .args(["--ttl", "3s", "-n"])
            .command(["echo", "ran"])
            .within(BOUND)
            .fails(69, "*")
            .check();
        patients.recover();
        patients.wait_until_empty(fault);
    }
}

#[test]
fn slow_nodes_are_waited_for_within_the_node_timeout() {
    let patients = Patients::new();
    for proxy in &patients.proxies {
        proxy.set(Mode::Delay(20 * MS));
    }
    let outcome = Redlock::run(patients.nodes()).command(["true"]).check();
    assert!(outcome.took >= 40 * MS, "{outcome}");
}

#[test]
fn nodes_that_cut_every_connection_are_unavailable() {
    let patients = Patients::new();
    for proxy in &patients.proxies[..3] {
        proxy.set(Mode::Cut);
    }
    Redlock::run(patients.nodes()).args(["-n"]).command(["echo", "ran"]).fails(69, "*").check();
    patients.wait_until_empty(Fault::Refusing);
}

#[test]
fn nodes_that_were_never_there_are_named() {
    let mut fleet = fleet(3);
    for server in &mut fleet.servers_mut()[..2] {
        server.kill();
    }
    let down = fleet.servers()[0].address();
    let outcome = Redlock::run(fleet.nodes()).args(["-n"]).command(["true"]).fails(69, "*").check();
    assert!(outcome.stderr.contains(&down.to_string()), "{outcome}");
}

#[test]
fn one_node_held_and_one_down_of_three_is_busy_and_both_are_said() {
    let mut fleet = fleet(3);
    fleet.servers()[0].set("k", "foreign");
    fleet.servers_mut()[1].kill();
    let down = fleet.servers()[1].address();
    let outcome = Redlock::run(fleet.nodes())
        .args(["--ttl", "3s", "-n"])
        .command(["echo", "ran"])
        .fails(75, "*k*")
        .check();
    assert!(outcome.stderr.contains(&down.to_string()), "{outcome}");
    let held = fleet.servers()[0].address();
    assert!(outcome.stderr.contains(&held.to_string()), "{outcome}");
    eventually("our own vote is taken back", || !fleet.servers()[2].exists("k"));
}

/// glibc asks the resolver for 5 s and more; the others must not notice.
#[test]
fn host_name_that_nobody_resolves_delays_no_other_node() {
    // A name server that takes questions and answers none. It has to be port 53.
    let place = (127, 41, 53, 1);
    let address = Ipv4Addr::new(place.0, place.1, place.2, place.3);
    let Ok(resolver) = UdpSocket::bind((address, 53)) else {
        skip!("port 53 of {address} cannot be had");
    };
    resolver.set_nonblocking(true).unwrap();
    let scratch = scratch();
    let resolv = scratch.path().join("resolv.conf");
    fs::write(&resolv, format!("nameserver {address}\n")).unwrap();
    let nsswitch = scratch.path().join("nsswitch.conf");
    fs::write(&nsswitch, "hosts: dns\n").unwrap();
    let deaf = script(
        &scratch,
        "deaf",
        &format!(
            "#!/bin/sh\nmount --bind '{}' /etc/resolv.conf && mount --bind '{}' /etc/nsswitch.conf \
             && exec \"$@\"\n",
            resolv.display(),
            nsswitch.display()
        ),
    );
    let wrapper = ["unshare", "--mount", deaf.to_str().unwrap()];
    let can = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    if !can.is_ok_and(|can| can.status.success()) {
        skip!("no mount namespace can be had (unshare --mount)");
    }
    let fleet = fleet(4);
    let nodes = format!("{},redis://nobody.example:6390", fleet.nodes());
    let outcome =
        Redlock::run(nodes).under(wrapper).command(["echo", "ran"]).stdout("ran\n").check();
    assert!(resolver.recv(&mut [0; 512]).is_ok(), "the resolver was never asked");
    // The connect-timeout of this node is 1 s.
    assert!(outcome.took < 800 * MS, "{outcome}");
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn run_with_nodes_at_fault_leaves_no_process() {
    let patients = Patients::new();
    patients.suffer(2, Fault::Blackholed);
    let run = Redlock::run(patients.nodes())
        .args(["--ttl", "3s"])
        .shell("echo $$; exec sleep 0.01")
        .start();
    let pid = run.pid();
    let outcome = run.output();
    let child = rustix::process::Pid::from_raw(outcome.stdout.trim().parse().unwrap());
    assert!(!alive(pid) && !alive(child.unwrap()), "{outcome}");
}

/// Every answer comes in time for its node-timeout, but a quorum of them, one after the other, leaves
/// less than what the end of a command takes.
#[test]
fn nodes_too_slow_for_the_ttl_give_no_lock_and_keep_no_key() {
    let patients = Patients::new();
    for proxy in &patients.proxies {
        proxy.set(Mode::Delay(140 * MS));
    }
    Redlock::run(patients.nodes())
        .args(["-n", "--ttl", "1s", "--node-timeout", "385ms", "--strategy", "sequential"])
        .command(["echo", "ran"])
        .fails(69, "the nodes answer too slowly to hold 'k' with this ttl*")
        .check();
    // Taken back, not run out.
    let undone = |server: &&Server| server.client().calls("del") > 0;
    eventually("the undo on a quorum", || {
        patients.fleet.servers().iter().filter(undone).count() > 2
    });
    eventually("no key is left", || patients.fleet.all_keys().is_empty());
}

/// node-redlock#32, bullmq#3351: others set the key and fail at the release.
#[test]
fn user_who_could_not_release_acquires_nothing() {
    let fleet = fleet(3);
    let nodes = fleet.nodes().replace("redis://", "redis://ci:pw@");
    let run = || Redlock::run(&nodes).args(["-n"]).command(["echo", "ran"]);
    let run_fenced = || Redlock::run(&nodes).args(["-n", "--fence"]).command(["echo", "ran"]);
    let rights = |fleet: &Fleet, nodes: usize, rule: &str| {
        for server in &fleet.servers()[..nodes] {
            let words = ["ACL", "SETUSER", "ci", "on", ">pw", "~*", "&*", "+@all", rule];
            server.client().command(&words);
        }
    };
    let mut rules = vec!["-eval", "-@scripting", "-del", "-pexpire", "-get", "-pttl", "-time"];
    if fleet.servers()[0].redis_version() < (7, 0) {
        rules.truncate(2);
        let name = "faults::user_who_could_not_release_acquires_nothing (-del, -pexpire)";
        record(name, "before 7.0 a script cannot ask for its rights");
    }
    for rule in rules {
        rights(&fleet, 3, rule);
        let outcome = run().output();
        assert_eq!(outcome.end, crate::harness::builder::End::Exit(77), "{outcome}");
        assert!(outcome.stderr.contains("NOPERM"), "{outcome}");
        assert!(outcome.stderr.lines().count() == 1 && outcome.stdout.is_empty(), "{outcome}");
        assert!(fleet.all_keys().is_empty(), "{rule}");
        rights(&fleet, 3, "+@all");
    }
    // What is found out late, by a counter that is set and cannot get its end, is taken back.
    rights(&fleet, 3, "-pexpireat");
    let outcome = run_fenced().exits(77).stderr_like("*\n").check();
    // In the words of 7.0 and before, or since.
    let words = ["The user executing the script can't run", "ACL failure in script"];
    assert!(words.iter().any(|words| outcome.stderr.contains(words)), "{outcome}");
    eventually("the lock is taken back", || fleet.holding("k").is_empty());
    // On a minority it is a node that refuses, no more.
    rights(&fleet, 3, "+@all");
    rights(&fleet, 1, "-eval");
    run().stdout("ran\n").check();
    // Renamed, it is unknown to the server.
    let launcher = Launcher::new().unwrap();
    let server = Server::start(&launcher, ["--rename-command", "EVAL", ""]).unwrap();
    let run = Redlock::run(server.url()).args(["-n"]).command(["echo", "ran"]);
    run.fails(69, "*unknown command*").check();
    assert!(server.keys().is_empty());
}

/// A lock that is taken and cannot be extended ends its command at the end of the first ttl.
#[test]
fn rights_that_a_refusal_advises_are_enough() {
    let fleet = fleet(3);
    let nodes = fleet.nodes().replace("redis://", "redis://ci:pw@");
    let grant = |rules: &[&str]| {
        for server in fleet.servers() {
            let words = [&["ACL", "SETUSER", "ci", "reset", "on", ">pw"], rules].concat();
            server.client().command(&words);
        }
    };
    grant(&["~*", "&*"]);
    let run = || Redlock::run(&nodes).args(["--fence", "-t", "1s"]).shell("sleep 2; echo ran");
    let refused = run().args(["-n"]).exits(77).stderr_like("*\n").check().stderr;
    let (_, advice) = refused.split_once("ACL SETUSER USER ").unwrap();
    grant(&advice.split_whitespace().collect::<Vec<_>>());
    run().stdout("ran\n").check();
    let doctor = Redlock::new(["doctor", "--json"]).nodes(&nodes).output();
    for check in ["\"rights\"", "\"channels\"", "\"info\""] {
        assert!(!doctor.stdout.contains(check), "{doctor}");
    }
}

/// madelson/DistributedLock#254: keys are passed as keys, so rights on keys are enough.
#[test]
fn user_of_one_prefix_locks_under_it_and_nowhere_else() {
    let fleet = fleet(3);
    for server in fleet.servers() {
        let words =
            ["ACL", "SETUSER", "ci", "on", ">pw", "~p:*", "resetchannels", "&p:redlock:*", "+@all"];
        server.client().command(&words);
    }
    let nodes = fleet.nodes().replace("redis://", "redis://ci:pw@");
    let run = || Redlock::run(&nodes).args(["-n", "--fence"]).command(["echo", "ran"]);
    run().env("REDLOCK_PREFIX", "p:").stdout("ran\n").check();
    run().fails(77, "*NOPERM*").check();
    eventually("no lock is left", || {
        fleet.holding("p:k").is_empty() && fleet.holding("k").is_empty()
    });
}

/// redlock-rb#129: the error of a minority is no error of the run.
#[test]
fn node_that_refuses_costs_a_run_that_works_nothing() {
    let fleet = fleet(3);
    fleet.servers()[1].client().command(&["CONFIG", "SET", "requirepass", "unknown"]);
    let run = || Redlock::run(fleet.nodes()).args(["-n"]).shell("exit 6").exits(6);
    run().check();
    run().args([] as [&str; 0]).check();
    let told = Redlock::run(fleet.nodes()).args(["-n", "-vv", "true"]).output();
    assert!(told.stderr.contains("NOAUTH"), "{told}");
}

/// node-redlock#29, #31, #58: somebody waits for ever for nodes that take everything and say
/// nothing.
#[test]
fn every_command_ends_in_time_when_no_node_answers() {
    let fleet = fleet(3);
    for server in fleet.servers() {
        server.stop().unwrap();
    }
    let token = "00000000-0000-4000-8000-000000000001";
    for words in [
        &["run", "-k", "k", "-n", "true"][..],
        &["run", "-k", "k", "-w", "1s", "true"],
        &["run", "-k", "k", "--quorum-wait", "1s", "true"],
        &["run", "-k", "k", "--strategy", "sequential", "-n", "true"],
        &["run", "-k", "k", "--token", token, "true"],
        &["acquire", "-k", "k", "-t", "1m", "-n"],
        &["extend", "-k", "k", "-t", "1m", "--token", token],
        &["release", "-k", "k", "--token", token],
        &["release", "-k", "k", "--force", "--yes"],
        &["status", "k"],
        &["status"],
        &["doctor"],
    ] {
        let run = Redlock::new(words).nodes(fleet.nodes());
        let outcome = run.within(Duration::from_secs(10)).output();
        assert_eq!(outcome.end, crate::harness::builder::End::Exit(69), "{words:?}: {outcome}");
    }
    for server in fleet.servers() {
        server.cont().unwrap();
    }
    eventually("no key is left", || fleet.all_keys().is_empty());
}

//! Every check of the doctor, on a real server that was put into that state.

use std::{io::Write, net::TcpListener, thread};

use redlock::commands::sandbox::{launcher::Launcher, servers::Server};
use serde_json::Value;

use crate::{
    harness::{
        LIMIT, Redlock, eventually, fleet,
        resp::Resp,
        servers::{Fleet, Inspect, InspectAll},
        skip::record,
    },
    skip,
};

fn doctor(nodes: &str, words: &[&str]) -> Redlock {
    Redlock::new(["doctor"]).args(words).nodes(nodes).env("REDLOCK_RESTART_GUARD", "auto")
}

/// The report, and the exit code.
fn report(nodes: &str, words: &[&str]) -> (Value, i64) {
    read(doctor(nodes, &[&["--json"], words].concat()))
}

fn read(doctor: Redlock) -> (Value, i64) {
    let out = doctor.output();
    let report: Value = serde_json::from_str(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", out.stdout, out.stderr));
    let code = report["exit"].as_i64().unwrap();
    assert_eq!(format!("{:?}", out.end), format!("Exit({code})"));
    if code == 0 {
        assert_eq!(out.stderr, "");
    } else {
        let verdict = report["verdict"].as_str().unwrap();
        assert_eq!(out.stderr, format!("redlock: exit {code}: {verdict}\n"));
    }
    (report, code)
}

/// The finding of one check; all findings name what they endanger and what would mend them.
#[track_caller]
fn finding(report: &Value, check: &str) -> Value {
    let all = report["findings"].as_array().unwrap();
    for finding in all {
        for field in ["what", "endangers", "mend"] {
            assert!(!finding[field].as_str().unwrap().is_empty(), "{finding}");
        }
    }
    let found = all.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check}: {report}")).clone()
}

fn has(report: &Value, check: &str) -> bool {
    report["findings"].as_array().unwrap().iter().any(|finding| finding["check"] == check)
}

fn launcher() -> Launcher {
    Launcher::new().unwrap()
}

fn server(launcher: &Launcher, options: &[&str]) -> Server {
    Server::start(launcher, options.iter().copied()).unwrap()
}

fn list(servers: &[&Server]) -> String {
    servers.iter().map(|server| server.url()).collect::<Vec<_>>().join(",")
}

fn configure(server: &Server, name: &str, value: &str) {
    let said = server.client().command(&["CONFIG", "SET", name, value]);
    assert_eq!(format!("{said:?}"), "Simple(\"OK\")");
}

#[test]
fn sound_fleet_is_told_so_and_nothing_is_left_on_it() {
    let fleet = fleet(3);
    let out = doctor(&fleet.nodes(), &[]).stdout_like("*\n*\n*\n*\n*\nverdict: *\n").check();
    assert!(
        out.stdout.starts_with(
            "3 nodes from REDLOCK_NODES, a quorum is 2; rights were tried \
        with the key redlock:probe:"
        ),
        "{}",
        out.stdout
    );
    // The one thing about it: whoever is elsewhere is not excluded.
    assert!(out.stdout.contains("\nwarning: all nodes are on this machine; "), "{}", out.stdout);
    assert!(
        out.stdout.ends_with("the lock works, 3 of 3 nodes vote; 1 finding\n"),
        "{}",
        out.stdout
    );
    assert!(fleet.all_keys().is_empty());
    let (report, code) = report(&fleet.nodes(), &["--strict"]);
    assert_eq!((code, &report["v"]), (1, &1.into()));
    let probe = report["probe_key"].as_str().unwrap();
    assert!(probe.starts_with("redlock:probe:"), "{probe}");
}

#[test]
fn node_that_is_down_is_a_warning_while_a_quorum_votes() {
    let mut fleet = fleet(3);
    fleet.servers_mut()[1].kill();
    // While not all of a new fleet answer, none of it is known to be new.
    let (report1, code) = report(&fleet.nodes(), &[]);
    assert_eq!(code, 69);
    assert_eq!(finding(&report1, "young")["nodes"].as_array().unwrap().len(), 2);
    let old = |words: &[&str]| {
        let words = [&["--json"], words].concat();
        read(doctor(&fleet.nodes(), &words).env("REDLOCK_RESTART_GUARD", "off"))
    };
    let (report2, code) = old(&[]);
    let found = finding(&report2, "unreachable");
    assert_eq!((code, &found["gravity"]), (0, &"node".into()));
    assert_eq!(old(&["--strict"]).1, 1);
    fleet.servers()[2].stop().unwrap();
    let (report3, code) = old(&[]);
    assert_eq!(code, 69);
    assert!(finding(&report3, "silent")["mend"].as_str().unwrap().contains("rediss://"));
}

#[test]
fn lists_that_break_the_premises_are_refused() {
    let launcher = launcher();
    let (a, b) = (server(&launcher, &[]), server(&launcher, &[]));
    // The same server by two names, and by two databases.
    let nodes = format!("127.0.0.1:{p},localhost:{p},{}", b.url(), p = a.port());
    let (report1, code) = report(&nodes, &[]);
    assert_eq!(code, 78);
    assert_eq!(finding(&report1, "same-server")["nodes"].as_array().unwrap().len(), 2);
    doctor(&format!("{0}/0,{0}/1,{1}", a.url(), b.url()), &[]).fails(78, "*same server*").check();
    // A replica of a listed master, which is then promoted.
    let port = a.port().to_string();
    let replica = server(&launcher, &["--replicaof", "127.0.0.1", &port]);
    eventually("the replica is in sync", || {
        replica.client().info("replication").contains("master_link_status:up")
    });
    let nodes = list(&[&a, &b, &replica]);
    let (report2, code) = report(&nodes, &[]);
    assert_eq!(code, 78);
    let found = finding(&report2, "replica");
    assert_eq!(found["what"], format!("a replica of 127.0.0.1:{port}"));
    assert!(found["mend"].as_str().unwrap().contains("REPLICAOF NO ONE"));
    assert!(has(&report2, "shared-history"));
    replica.client().command(&["REPLICAOF", "NO", "ONE"]);
    let (report3, code) = report(&nodes, &[]);
    assert_eq!(code, 78);
    assert!(has(&report3, "promoted") && has(&report3, "shared-history"), "{report3}");
}

#[test]
fn member_of_a_cluster_is_no_independent_master() {
    let launcher = launcher();
    let cluster = server(&launcher, &["--cluster-enabled", "yes"]);
    let (report, code) = report(&cluster.url(), &[]);
    assert_eq!((code, &finding(&report, "cluster")["gravity"]), (78, &"list".into()));
}

/// node-redlock#32, bullmq#3351: acquires, and can never release.
#[test]
fn missing_rights_are_named_as_the_rule_that_grants_them() {
    let launcher = launcher();
    let servers = [server(&launcher, &[]), server(&launcher, &[]), server(&launcher, &[])];
    let rules = |rules: &[&str]| {
        for server in &servers {
            let words = [&["ACL", "SETUSER", "ci", "reset", "on", ">pw"], rules].concat();
            server.client().command(&words);
        }
    };
    let nodes = servers
        .iter()
        .map(|server| server.url().replace("redis://", "redis://ci:pw@"))
        .collect::<Vec<_>>()
        .join(",");
    let mend = |words: &[&str], check: &str| {
        let (report, code) = report(&nodes, words);
        (finding(&report, check)["mend"].as_str().unwrap().to_owned(), code)
    };
    rules(&["~*", "&*", "+@all", "-eval"]);
    assert_eq!(mend(&[], "rights"), ("ACL SETUSER ci +eval".into(), 77));
    let (told, _) = report(&nodes, &[]);
    assert!(finding(&told, "rights")["endangers"].as_str().unwrap().contains("give a lock back"));
    rules(&["~*", "&*", "+@all", "-pexpire", "-del"]);
    assert_eq!(mend(&[], "rights"), ("ACL SETUSER ci +pexpire +del".into(), 77));
    // Without it nothing is ever extended.
    rules(&["~*", "&*", "+@all", "-time"]);
    assert_eq!(mend(&[], "rights"), ("ACL SETUSER ci +time".into(), 77));
    rules(&["~other:*", "&*", "+@all"]);
    assert_eq!(mend(&["--prefix", "p:"], "rights"), ("ACL SETUSER ci ~p:*".into(), 77));
    rules(&["~p:*", "resetchannels", "+@all"]);
    let said = mend(&["--prefix", "p:"], "channels");
    assert_eq!(said, ("ACL SETUSER ci &p:redlock:*".into(), 0));
    rules(&["~*", "&*", "+@all", "-publish"]);
    assert_eq!(mend(&[], "channels"), ("ACL SETUSER ci +publish".into(), 0));
    rules(&["~*", "&*", "+@all", "-info"]);
    assert_eq!(mend(&[], "info"), ("ACL SETUSER ci +info".into(), 0));
    // What it says works.
    rules(&["~*", "&*", "+@all", "-eval"]);
    for server in &servers {
        server.client().command(&["ACL", "SETUSER", "ci", "+eval"]);
    }
    assert!(!has(&report(&nodes, &[]).0, "rights"));
    // Some other node than the rest.
    servers[2].client().command(&["ACL", "SETUSER", "ci", "-eval"]);
    let (report, code) = report(&nodes, &[]);
    assert_eq!((code, finding(&report, "rights")["nodes"].as_array().unwrap().len()), (0, 1));
}

#[test]
fn passwords_that_are_missing_wrong_or_unwanted() {
    let launcher = launcher();
    let server1 = server(&launcher, &["--requirepass", "s3cr3t-one"]);
    let (report1, code) = report(&server1.url(), &[]);
    assert_eq!(code, 77);
    assert!(
        finding(&report1, "password-missing")["mend"]
            .as_str()
            .unwrap()
            .contains("REDLOCK_PASSWORD")
    );
    let wrong = server1.url().replace("redis://", "redis://:s3cr3t-two@");
    let (report2, code) = report(&wrong, &[]);
    assert_eq!(code, 77);
    finding(&report2, "password-wrong");
    assert!(!report2.to_string().contains("s3cr3t"));
    let open = server(&launcher, &[]);
    let unwanted = open.url().replace("redis://", "redis://:s3cr3t-two@");
    let (report3, code) = report(&unwanted, &[]);
    assert_eq!(code, 77);
    finding(&report3, "password-unwanted");
}

#[test]
fn eviction_is_dangerous_by_every_policy_but_one() {
    let fleet = fleet(1);
    let server = &fleet.servers()[0];
    configure(server, "maxmemory", "100mb");
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        configure(server, "maxmemory-policy", policy);
        let found = finding(&report(&fleet.nodes(), &[]).0, "eviction");
        assert!(found["what"].as_str().unwrap().contains(policy), "{found}");
        assert_eq!(found["mend"], "CONFIG SET maxmemory-policy noeviction");
    }
    configure(server, "maxmemory-policy", "noeviction");
    assert!(!has(&report(&fleet.nodes(), &[]).0, "eviction"));
    configure(server, "maxmemory", "0");
    configure(server, "maxmemory-policy", "allkeys-lru");
    assert!(!has(&report(&fleet.nodes(), &[]).0, "eviction"), "without a limit nothing is evicted");
}

#[test]
fn memory_that_is_on_no_disk_matters_while_the_guard_is_off() {
    let fleet = fleet(1);
    assert!(!has(&report(&fleet.nodes(), &[]).0, "no-persistence"));
    let off = || doctor(&fleet.nodes(), &[]).env("REDLOCK_RESTART_GUARD", "off").output().stdout;
    assert!(off().contains("the restart guard is off"), "{}", off());
    configure(&fleet.servers()[0], "save", "3600 1");
    assert!(!off().contains("the restart guard is off"), "{}", off());
}

/// States in which a server refuses what a lock needs: each is named, with what would mend it, by
/// the doctor and by a run that finds no quorum.
#[test]
fn servers_that_refuse_are_told_apart() {
    let launcher = launcher();
    let check = |server: &Server, check: &str, mend: &str| {
        let (report, code) = report(&server.url(), &[]);
        assert_eq!(code, 69, "{check}: {report}");
        let found = finding(&report, check);
        assert_eq!(found["gravity"], "node");
        assert!(found["mend"].as_str().unwrap().contains(mend), "{found}");
        let run = Redlock::run(server.url()).args(["-n", "-t", "3s"]).shell("echo ran").output();
        assert!(run.stderr.contains("exit 69: no quorum for 'k'"), "{check}: {}", run.stderr);
        assert!(run.stderr.contains("; to mend it: "), "{check}: {}", run.stderr);
        assert!(run.stderr.contains(mend), "{check}: {}", run.stderr);
    };
    let one = server(&launcher, &[]);
    configure(&one, "maxmemory", "1");
    check(&one, "out-of-memory", "CONFIG SET maxmemory");
    configure(&one, "maxmemory", "0");
    if one.redis_version() < (7, 0) {
        let reason = "before 7.0 a script writes without enough replicas";
        record("doctor::servers_that_refuse_are_told_apart (min-replicas)", reason);
    } else {
        configure(&one, "min-replicas-to-write", "1");
        check(&one, "min-replicas", "CONFIG SET min-replicas-to-write 0");
        configure(&one, "min-replicas-to-write", "0");
    }
    assert_eq!(report(&one.url(), &[]).1, 0);

    // A directory where its file should be.
    let misconf = server(&launcher, &["--dbfilename", "dump.dir"]);
    configure(&misconf, "save", "3600 1");
    std::fs::create_dir(launcher.directory().join("dump.dir")).unwrap();
    misconf.client().command(&["SET", "x", "1"]);
    misconf.client().command(&["BGSAVE"]);
    eventually("the save failed", || {
        misconf.client().info("persistence").contains("rdb_last_bgsave_status:err")
    });
    check(&misconf, "misconf", "stop-writes-on-bgsave-error no");

    let busy = server(&launcher, &["--lua-time-limit", "50"]);
    let mut client = busy.client();
    client.send(&["EVAL", "while true do end", "0"]);
    eventually("the script is too slow", || {
        format!("{:?}", busy.client().command(&["PING"])).contains("BUSY")
    });
    check(&busy, "busy", "SCRIPT KILL");

    let full = server(&launcher, &[]);
    let mut held = full.client();
    held.command(&["CONFIG", "SET", "maxclients", "1"]);
    check(&full, "max-clients", "CONFIG SET maxclients");
    drop(held);
}

#[test]
fn server_that_loads_its_data_is_waited_for() {
    let launcher = launcher();
    let source = server(&launcher, &["--dbfilename", "big.rdb"]);
    if source.redis_version() < (7, 0) {
        skip!("before 7.0 loading cannot be slowed down so that it still answers");
    }
    let fill = "for i = 1, 2000 do redis.call('SET', 'x' .. i, string.rep('v', 1000)) end";
    source.client().command(&["EVAL", fill, "0"]);
    source.client().command(&["SAVE"]);
    let options = [
        "--dbfilename",
        "big.rdb",
        "--key-load-delay",
        "2000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let loading = server(&launcher, &options);
    let (report1, code) = report(&loading.url(), &[]);
    assert_eq!(code, 69, "{report1}");
    assert!(finding(&report1, "loading")["mend"].as_str().unwrap().contains("doctor --wait"));
    let out = doctor(&loading.url(), &["--wait", "20s"]).within(LIMIT * 2).output();
    assert!(out.stdout.contains("1 of 1 nodes vote"), "{}", out.stdout);
}

#[test]
fn what_is_no_redis_and_what_speaks_tls() {
    let answer = |bytes: &'static [u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.write_all(bytes);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        });
        format!("redis://{address}")
    };
    let web = answer(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let (report1, code) = report(&web, &[]);
    assert_eq!(code, 69);
    assert_eq!(finding(&report1, "no-redis")["what"], "does not speak the Redis protocol");
    // What a TLS server says to somebody who does not: an alert.
    let tls = answer(b"\x15\x03\x01\x00\x02\x02\x46");
    let found = finding(&report(&tls, &[]).0, "speaks-tls");
    assert_eq!(found["mend"], "write rediss:// in the list");
}

#[test]
fn lists_of_one_and_of_an_even_number() {
    let fleet = fleet(2);
    finding(&report(&fleet.nodes(), &[]).0, "even-list");
    finding(&report(&fleet.servers()[0].url(), &[]).0, "single-node");
}

#[test]
fn locks_of_another_list_are_pointed_out() {
    let fleet = fleet(3);
    let hold = |fleet: &Fleet, nodes: &str, key: &str| {
        let words = ["acquire", "-k", key, "-t", "1m"];
        Redlock::new(words).nodes(nodes).stdout_like("*\n").check();
        assert!(fleet.servers()[0].exists(key));
    };
    hold(&fleet, &fleet.nodes(), "same");
    assert!(!has(&report(&fleet.nodes(), &[]).0, "other-list"));
    hold(&fleet, &fleet.servers()[0].url(), "other");
    let found = finding(&report(&fleet.nodes(), &[]).0, "other-list");
    assert!(found["what"].as_str().unwrap().contains("'other' by "), "{found}");
}

/// A rolling restart: the next node may go when every lock is back everywhere.
#[test]
fn wait_ends_when_all_vote_and_all_locks_are_everywhere() {
    let fleet = fleet(3);
    let out = Redlock::new(["acquire", "-k", "k", "-t", "1m"])
        .nodes(fleet.nodes())
        .stdout_like("*\n")
        .check();
    let value = fleet.servers()[0].get("k").unwrap();
    assert!(value.starts_with(out.stdout.trim()));
    fleet.servers()[2].client().del("k");
    let (report1, code) = report(&fleet.nodes(), &["--wait", "100ms"]);
    assert_eq!((code, &report1["locks_not_on_all_nodes"]), (69, &1.into()));
    let run = doctor(&fleet.nodes(), &["--wait", "1m"]).stdout_like(&"*\n".repeat(6)).start();
    fleet.servers()[2].stop().unwrap();
    let mut client = Resp::connect(fleet.servers()[2].address());
    client.send(&["SET", "k", &value, "PX", "60000"]);
    fleet.servers()[2].cont().unwrap();
    run.check();
}

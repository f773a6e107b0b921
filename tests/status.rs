//! What `redlock status` sees: every state, every kind of value, and nodes that do not answer.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Redlock,
    builder::End::{self, Exit},
    eventually, fleet,
    pty::{INTERRUPT, Terminal},
    servers::{Fleet, Inspect, InspectAll},
};

fn status(fleet: &Fleet, words: &[&str]) -> Redlock {
    Redlock::new(["status"]).args(words).nodes(fleet.nodes())
}

fn json(fleet: &Fleet, words: &[&str]) -> Value {
    let out = status(fleet, &[&["--json"], words].concat()).stdout_like("*\n").check();
    serde_json::from_str(&out.stdout).unwrap()
}

/// The one lock of a report.
fn lock(report: &Value) -> &Value {
    let locks = report["locks"].as_array().unwrap();
    assert_eq!(locks.len(), 1, "{report}");
    &locks[0]
}

const TOKEN: &str = "11111111-1111-4111-8111-111111111111";

/// A value of ours as another host would set it, with the time that is left of 30 s.
fn set(fleet: &Fleet, nodes: &[usize], key: &str, more: &str, left: u64) {
    let value = format!(
        "{TOKEN} {{\"host\":\"db1\",\"pid\":4242,\"user\":\"backup\",\"since\":1700000000000,\
         \"ttl\":30000,\"n\":3,\"fleet\":\"0a1b2c3d\"{more}}}"
    );
    for &node in nodes {
        fleet.servers()[node].client().set_px(key, &value, left);
    }
}

const EVERY: &str = ",\"every\":10000,\"label\":\"nightly\",\"prog\":\"dump\"";

/// The schema: every field by name, so that none goes unnoticed.
#[test]
fn json_has_the_documented_fields() {
    let fleet = fleet(3);
    set(&fleet, &[0, 1, 2], "k", EVERY, 25_000);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for words in [&["k"][..], &[]] {
        let report = json(&fleet, words);
        assert_eq!(names(&report), ["gaps", "locks", "nodes", "prefix", "quorum", "source", "v"]);
        assert_eq!(
            (&report["v"], &report["quorum"], &report["source"]),
            (&1.into(), &2.into(), &"REDLOCK_NODES".into())
        );
        assert_eq!(
            names(&report["nodes"][0]),
            ["latency_ms", "node", "reachable", "reason", "uptime_s", "version", "votes_in_s"]
        );
        let lock = lock(&report);
        assert_eq!(
            names(lock),
            [
                "advice",
                "expires_in_ms",
                "extended_ago_ms",
                "foreign",
                "held_for_ms",
                "holder",
                "key",
                "life",
                "nodes",
                "of",
                "on",
                "release",
                "state",
                "token",
                "waiters"
            ]
        );
        assert_eq!(
            names(&lock["holder"]),
            [
                "every_ms",
                "host",
                "label",
                "other_list",
                "pid",
                "prog",
                "since_ms",
                "ttl_ms",
                "until_ms",
                "user"
            ]
        );
        assert_eq!(names(&lock["nodes"][0]), ["expires_in_ms", "node", "shows", "what"]);
        assert_eq!((&lock["key"], &lock["state"]), (&"k".into(), &"held".into()));
        assert_eq!((&lock["on"], &lock["of"]), (&3.into(), &3.into()));
        assert_eq!((&lock["life"], &lock["waiters"]), (&"alive".into(), &0.into()));
        assert_eq!(lock["holder"]["other_list"], true);
    }
    // The help is where it is documented.
    let help = Redlock::new(["status", "--help"]).output().stdout;
    for field in ["votes_in_s", "extended_ago_ms", "held_for_ms", "other_list", "gaps", "advice"] {
        assert!(help.contains(field), "{field}");
    }
}

#[test]
fn lives_of_locks_and_what_to_do_about_them() {
    let fleet = fleet(3);
    let all = [0, 1, 2];
    let look = |key: &str| {
        let lock = lock(&json(&fleet, &[key])).clone();
        let word = |name: &str| lock[name].as_str().unwrap_or_default().to_owned();
        (word("state"), word("life"), word("advice"))
    };
    let case = |key: &str, state: &str, life: &str, advice: &str| {
        let seen = look(key);
        assert_eq!((seen.0.as_str(), seen.1.as_str()), (state, life), "{key}: {}", seen.2);
        assert!(seen.2.starts_with(advice), "{key}: {}", seen.2);
    };
    set(&fleet, &all, "alive", EVERY, 26_000);
    case("alive", "held", "alive", "alive: extended 4");
    assert!(look("alive").2.ends_with("; to stop it: TERM pid 4242 on db1"));
    set(&fleet, &all, "late", EVERY, 7_000);
    case("late", "held", "late", "late: not extended for 23s, frees itself in 6");
    set(&fleet, &all, "acquired", "", 7_000);
    case("acquired", "held", "acquired", "taken by acquire, ends in 6");
    set(&fleet, &all, "finished", ",\"until\":1700000012000", 7_000);
    let told = "finished, held until 22:13:32Z, frees itself in 6";
    case("finished", "held", "finished", told);
    set(&fleet, &all, "kept", EVERY, 37_000);
    case("kept", "held", "kept", "kept for longer than its ttl");
    set(&fleet, &[1], "leftover", EVERY, 7_000);
    case("leftover", "partial", "leftover", "leftover on 1 node, frees itself in 6");
    for server in fleet.servers() {
        server.set("foreign", "thief");
        server.client().command(&["SET", "endless", "thief"]);
        server.client().command(&["HSET", "hash", "a", "b"]);
        server.client().command(&["ZADD", "zset", "1", "b"]);
        server.client().command(&["SET", "ours", TOKEN]);
    }
    case("foreign", "held", "foreign", "another client's: frees itself in 59s");
    case("endless", "held", "foreign", "another program's, without expiry");
    case("hash", "held", "foreign", "another program's, without expiry");
    case("zset", "held", "foreign", "another program's, without expiry");
    case("ours", "held", "endless", "somebody took its expiry away");
    case("nothing", "free", "none", "free");
    status(&fleet, &["hash"])
        .stdout_like(
            "NODE *\n*reachable*\n*reachable*\n*reachable*\n\
             3 of 3 nodes reachable (from REDLOCK_NODES)\n\n\
             KEY *\nhash  held   3/3    -           -         0        foreign  another client's: hash\n  \
             NODE *\n*a hash of another program  never\n*\n*\nanother program's*\n",
        )
        .check();
}

#[test]
fn line_to_paste_frees_the_lock_and_not_a_newer_one() {
    let fleet = fleet(3);
    set(&fleet, &[0, 1, 2], "it's k", EVERY, 26_000);
    let report = json(&fleet, &["it's k"]);
    let line = lock(&report)["release"].as_str().unwrap();
    assert_eq!(line, format!("redlock release -k 'it'\\''s k' --token {TOKEN}"));
    let bin = env!("CARGO_BIN_EXE_redlock");
    let release = |code| {
        let line = line.replacen("redlock", bin, 1);
        Redlock::new([] as [&str; 0])
            .under(["sh", "-c", &line])
            .nodes(fleet.nodes())
            .exits(code)
            .stderr_like(if code == 0 { "" } else { "redlock: exit 79: *\n" })
            .check();
    };
    release(0);
    assert!(fleet.all_keys().is_empty());
    fleet.set_everywhere("it's k", "22222222-2222-4222-8222-222222222222 {}");
    release(79);
    assert_eq!(fleet.holding("it's k").len(), 3);
}

#[test]
fn exit_code_judges_the_keys() {
    let mut fleet = fleet(3);
    set(&fleet, &[0, 1], "held", EVERY, 26_000);
    set(&fleet, &[1], "partial", EVERY, 26_000);
    let code = |fleet: &Fleet, keys: &[&str]| {
        let words = [&["--exit-code"], keys].concat();
        status(fleet, &words).output().end
    };
    assert_eq!(code(&fleet, &["free", "-k", "free2"]), Exit(0));
    assert_eq!(code(&fleet, &["free", "held"]), Exit(75));
    assert_eq!(code(&fleet, &["partial"]), Exit(75));
    assert_eq!(code(&fleet, &[]), Exit(64));
    fleet.servers_mut()[0].kill();
    assert_eq!(code(&fleet, &["free"]), Exit(0));
    assert_eq!(code(&fleet, &["held"]), Exit(69));
    status(&fleet, &["held"]).stdout_like("*\n".repeat(15).as_str()).check();
    fleet.servers_mut()[2].kill();
    assert_eq!(code(&fleet, &["free"]), Exit(69));
    let lone = status(&fleet, &["free"]).exits(69).output();
    assert!(lone.stderr.contains("exit 69: 1 of 3 nodes answer, a quorum is 2"), "{}", lone.stderr);
}

/// The whole of it within connect-timeout + node-timeout.
#[test]
fn stopped_node_costs_its_time_out_once() {
    let fleet = fleet(5);
    set(&fleet, &[0, 1, 2, 3, 4], "k", EVERY, 26_000);
    fleet.servers()[3].stop().unwrap();
    for words in [&["k"][..], &[]] {
        let start = Instant::now();
        let report = json(&fleet, words);
        assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
        let nodes = report["nodes"].as_array().unwrap();
        let down = nodes.iter().position(|node| node["reachable"] == false).unwrap();
        assert!(fleet.servers()[3].url().ends_with(nodes[down]["node"].as_str().unwrap()));
        assert_eq!(nodes[down]["reason"], "connected, but no answer in time");
        assert_eq!((&lock(&report)["state"], &lock(&report)["on"]), (&"held".into(), &4.into()));
        assert_eq!(lock(&report)["nodes"][down]["shows"], "unknown");
    }
}

#[test]
fn list_is_merged_by_key_and_leaves_out_what_is_no_lock() {
    let fleet = fleet(3);
    // Each node has locks that the others do not have.
    set(&fleet, &[0, 1, 2], "p:everywhere", EVERY, 26_000);
    set(&fleet, &[1, 2], "p:not-on-0", EVERY, 26_000);
    set(&fleet, &[2], "p:on-2", EVERY, 26_000);
    set(&fleet, &[0], "other-prefix", EVERY, 26_000);
    // A hash here, a lock of ours there.
    fleet.servers()[0].client().command(&["HSET", "p:mixed", "a", "b"]);
    set(&fleet, &[1, 2], "p:mixed", EVERY, 26_000);
    for server in fleet.servers() {
        server.set("p:foreign", "thief");
        server.client().command(&["SET", "p:endless", "x"]);
        server.set("p:redlock:fence:k", "1");
    }
    let list = |words: &[&str]| {
        let report = json(&fleet, &[&["--prefix", "p:"], words].concat());
        let mut seen: Vec<(String, u64)> = report["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| (lock["key"].as_str().unwrap().to_owned(), lock["on"].as_u64().unwrap()))
            .collect();
        seen.sort();
        seen
    };
    let row = |name: &str, on| (name.to_owned(), on);
    let ours = [row("everywhere", 3), row("mixed", 2), row("not-on-0", 2), row("on-2", 1)];
    assert_eq!(list(&[]), ours);
    let all = [&ours[..1], &[row("foreign", 3)], &ours[1..]].concat();
    assert_eq!(list(&["--all"]), all);
}

#[test]
fn other_keys_change_nothing_but_the_time() {
    let fleet = fleet(3);
    let script = "for i = 1, 10000 do local k = 'x' .. i; if i % 3 == 0 then redis.call('HSET', k, \
        'a', 'b') elseif i % 3 == 1 then redis.call('SET', k, 'v') else redis.call('RPUSH', k, 'v') \
        end end";
    for server in fleet.servers() {
        server.client().command(&["EVAL", script, "0"]);
    }
    for number in 0..700 {
        set(&fleet, &[0, 1, 2], &format!("k{number}"), EVERY, 60_000);
    }
    let report = json(&fleet, &[]);
    let locks = report["locks"].as_array().unwrap();
    let mut keys: Vec<_> = locks.iter().map(|lock| lock["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((locks.len(), keys.len()), (700, 700));
    assert!(locks.iter().all(|lock| lock["on"] == 3));
}

/// A value, a label, a host name, an error: whatever comes from a node.
#[test]
fn escape_sequences_never_reach_the_terminal() {
    let fleet = fleet(3);
    let evil = "\x1b[2J\x1b]0;x\x07\u{9b}31m\u{202e}";
    let value = format!("{TOKEN} {{\"host\":\"h\\u001b[2J\",\"label\":\"\\u009b2J\",\"pid\":1}}");
    for server in fleet.servers() {
        server.set(&format!("k{evil}"), evil);
        server.set(&format!("ours{evil}"), &value);
    }
    let foul = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
    for words in [
        &["--all"][..],
        &["--all", "--json"],
        &[&format!("k{evil}")],
        &[&format!("ours{evil}"), "--json"],
    ] {
        let out = status(&fleet, words).output();
        assert!(!foul(&out.stdout) && !foul(&out.stderr), "{words:?}: {:?}", out.stdout);
    }
    // JSON keeps what was there.
    let report = json(&fleet, &[&format!("k{evil}")]);
    assert_eq!(lock(&report)["foreign"], evil);
}

#[test]
fn waiters_are_counted() {
    let fleet = fleet(3);
    set(&fleet, &[0, 1, 2], "k", EVERY, 26_000);
    let listeners: Vec<_> = (0..2)
        .map(|_| {
            let mut listener = fleet.servers()[1].client();
            listener.command(&["SUBSCRIBE", "redlock:released:k"]);
            listener
        })
        .collect();
    for words in [&["k"][..], &[]] {
        assert_eq!(lock(&json(&fleet, words))["waiters"], 2);
    }
    drop(listeners);
}

#[test]
fn real_run_is_seen_with_its_holder() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["--label", "nightly"])
        .shell("echo started; exec sleep 60")
        .stdout("started\n")
        .dies_of(Signal::TERM)
        .start();
    run.wait_stdout("started");
    eventually("the lock is everywhere", || fleet.holding("k").len() == 3);
    let report = json(&fleet, &["k"]);
    let lock = lock(&report);
    assert_eq!(lock["holder"]["pid"], run.pid().as_raw_nonzero().get());
    assert_eq!(
        (&lock["holder"]["prog"], &lock["holder"]["label"]),
        (&"sh".into(), &"nightly".into())
    );
    assert_eq!((&lock["holder"]["other_list"], &lock["life"]), (&false.into(), &"alive".into()));
    run.signal(Signal::TERM);
    run.check();
}

#[test]
fn watch_redraws_on_a_terminal_until_interrupted_and_appends_elsewhere() {
    let fleet = fleet(1);
    let nodes = fleet.nodes();
    let words = [env!("CARGO_BIN_EXE_redlock"), "status", "k", "--watch", "50ms"];
    let mut terminal = Terminal::start(words, &[("REDLOCK_NODES", nodes.as_str())]);
    terminal.wait_for("free").wait_for("\x1b[H");
    set(&fleet, &[0], "k", EVERY, 26_000);
    terminal.wait_for("held");
    terminal.types(INTERRUPT);
    assert_eq!(terminal.finish(), End::Signal(2));
    let mut run = status(&fleet, &["k", "--json", "--watch", "50ms"]).start();
    eventually("three looks were appended", || run.stdout().lines().count() >= 3);
    assert!(run.ended().is_none());
    assert!(run.stdout().lines().take(3).all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn rights_that_are_missing_are_named_as_that() {
    use redlock::commands::sandbox::{launcher::Launcher, servers::Server};
    let launcher = Launcher::new().unwrap();
    let server = Server::start(&launcher, ["--requirepass", "secret"]).unwrap();
    for words in [&["status", "k"][..], &["status"]] {
        let out = Redlock::new(words).nodes(server.url()).exits(77).output();
        assert!(out.stdout.contains("NOAUTH"), "{}", out.stdout);
        assert!(out.stderr.contains("exit 77"), "{}", out.stderr);
        let url = server.url().replace("redis://", "redis://:secret@");
        let out = Redlock::new(words).nodes(url).output();
        assert!(!out.stdout.contains("secret") && out.stderr.is_empty(), "{out:?}");
    }
}

/// kubernetes#23731: who holds the lock is what the nodes say, not what a holder believes.
#[test]
fn holder_that_lost_the_lock_is_not_named_but_the_one_that_has_it() {
    let fleet = fleet(3);
    let run = |label: &str| {
        let run = Redlock::run(fleet.nodes()).args(["-t", "2s", "--label", label]);
        let mut run =
            run.args(["--on-lost", "continue"]).shell("echo started; exec sleep 60").start();
        run.wait_stdout("started");
        run
    };
    let mut first = run("first");
    for server in fleet.servers() {
        server.client().del("k");
    }
    first.wait_stderr("runs on without a lock");
    let second = run("second");
    assert!(first.ended().is_none());
    eventually("the lock is everywhere", || fleet.holding("k").len() == 3);
    let report = json(&fleet, &["k"]);
    let holder = &lock(&report)["holder"];
    assert_eq!(holder["label"], "second");
    assert_eq!(holder["pid"], second.pid().as_raw_nonzero().get());
}

/// lockable-resources-plugin#614: nobody has to take a dead waiter out of a list.
#[test]
fn waiter_that_is_killed_is_not_counted_any_more() {
    let fleet = fleet(3);
    set(&fleet, &[0, 1, 2], "k", EVERY, 60_000);
    let waiter = || Redlock::run(fleet.nodes()).args(["-q", "true"]).start();
    let (one, two) = (waiter(), waiter());
    let waiters = |count: u64| {
        eventually("so many wait", || lock(&json(&fleet, &["k"]))["waiters"] == count);
    };
    waiters(2);
    one.signal(Signal::KILL);
    waiters(1);
    two.signal(Signal::TERM);
    waiters(0);
}

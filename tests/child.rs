//! What the command finds: its environment, its descriptors, its signals.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::harness::{
    Redlock,
    builder::End,
    eventually, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

fn run(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-n"])
}

/// What `env` prints.
fn environment(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn command_learns_key_token_and_ttl() {
    let fleet = fleet(1);
    let outcome =
        run(&fleet).args(["--ttl", "12s"]).shell("env; sleep 0.1").env("OTHER", "stays").output();
    let seen = environment(&outcome.stdout);
    assert_eq!(seen.get("REDLOCK_KEY"), Some(&"k"), "{outcome}");
    assert_eq!(seen.get("REDLOCK_TTL_MS"), Some(&"12000"), "{outcome}");
    assert_eq!(seen.get("REDLOCK_TOKEN").map(|token| token.len()), Some(36), "{outcome}");
    assert_eq!(seen.get("OTHER"), Some(&"stays"), "{outcome}");
}

#[test]
fn token_of_the_command_is_the_one_on_the_nodes() {
    let fleet = fleet(3);
    let url = fleet.servers()[0].url();
    let line = format!("echo $REDLOCK_TOKEN; redis-cli -u {url} get k | cut -c 1-36");
    let outcome = run(&fleet).shell(&line).output();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{outcome}");
}

#[test]
fn several_keys_are_percent_encoded_for_the_command() {
    let fleet = fleet(1);
    let keys = ["run", "-k", "b c", "-k", "a%"];
    let run = Redlock::new(keys).nodes(fleet.nodes());
    run.shell("echo \"$REDLOCK_KEY\"").stdout("a%25 b%20c\n").check();
}

#[test]
fn passwords_are_not_inherited() {
    let launcher = redlock::commands::sandbox::launcher::Launcher::new().unwrap();
    let server =
        redlock::commands::sandbox::servers::Server::start(&launcher, ["--requirepass", "s3cret"])
            .unwrap();
    let address = server.address();
    let with_userinfo = Redlock::run(format!("redis://:s3cret@{address}"));
    let with_variable = Redlock::run(server.url()).env("REDLOCK_PASSWORD", "s3cret");
    for run in [with_userinfo, with_variable] {
        let outcome = run.args(["-n"]).command(["env"]).output();
        let seen = environment(&outcome.stdout);
        assert!(!outcome.stdout.contains("s3cret"), "{outcome}");
        assert!(seen["REDLOCK_NODES"].contains(&address.to_string()), "{outcome}");
    }
    let kept = Redlock::run(format!("redis://:s3cret@{address}"))
        .args(["-n", "--keep-credentials"])
        .command(["env"])
        .output();
    assert!(kept.stdout.contains("s3cret"), "{kept}");
}

/// What the caller left open is the command's, nothing of ours is.
#[test]
fn no_descriptor_of_ours_is_inherited() {
    let fleet = fleet(3);
    let line = "exec ls /proc/self/fd";
    let without = Redlock::new([] as [&str; 0]).under(["sh", "-c", line]).output();
    assert!(without.stdout.contains("0\n"), "{without}");
    run(&fleet).shell(line).stdout(without.stdout).check();
}

#[test]
fn ignored_sigchld_of_the_caller_loses_no_status() {
    let fleet = fleet(1);
    run(&fleet).under(["env", "--ignore-signal=CHLD"]).shell("exit 7").exits(7).check();
}

/// Not by a shell: it unblocks everything itself.
#[test]
fn blocked_term_of_the_caller_stays_blocked_for_the_command() {
    let fleet = fleet(1);
    let outcome = run(&fleet)
        .under(["env", "--block-signal=TERM"])
        .command(["grep", "SigBlk", "/proc/self/status"])
        .output();
    let mask = outcome.stdout.trim().rsplit('\t').next().unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap(), 1 << 14, "{outcome}");
}

#[test]
fn blocked_term_of_the_caller_still_ends_us() {
    let fleet = fleet(1);
    fleet.set_everywhere("k", "foreign");
    let mut waiter =
        Redlock::run(fleet.nodes()).under(["env", "--block-signal=TERM"]).command(["true"]).start();
    waiter.wait_stderr("waiting for 'k'");
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.output().end, End::Signal(15));
}

#[test]
fn nohup_is_respected() {
    let fleet = fleet(1);
    let mut running = run(&fleet)
        .under(["env", "--default-signal", "--ignore-signal=HUP"])
        .shell("grep SigIgn /proc/self/status; exec sleep 60")
        .dies_of(Signal::TERM)
        .stdout_like("SigIgn:*1\n")
        .start();
    running.wait_stdout("SigIgn:");
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    running.check();
}

#[test]
fn sigpipe_is_the_commands_own() {
    let fleet = fleet(1);
    run(&fleet).shell("yes | head -n 1; exit 0").stdout("y\n").check();
}

#[test]
fn success_is_silent_unless_asked_to_speak() {
    let fleet = fleet(5);
    run(&fleet).command(["true"]).check();
    let mut loud = run(&fleet).args(["-v"]).command(["sleep", "60"]).start();
    loud.wait_stderr("5 of 5 nodes");
    loud.signal(Signal::TERM);
    let outcome = loud.output();
    assert!(outcome.stdout.is_empty(), "{outcome}");
    assert!(outcome.stderr.starts_with("redlock: got 'k' on 5 of 5 nodes after "), "{outcome}");
}

#[test]
fn value_on_the_nodes_tells_who_holds_the_lock() {
    let fleet = fleet(3);
    let mut running = run(&fleet)
        .args(["--ttl", "20s", "--label", "nightly"])
        .shell("echo ready; exec sleep 60")
        .start();
    running.wait_stdout("ready\n");
    let value = fleet.servers()[0].get("k").unwrap();
    let (token, json) = value.split_once(' ').unwrap();
    assert!(uuid::Uuid::parse_str(token).is_ok(), "{value}");
    let holder: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(holder["pid"], running.pid().as_raw_nonzero().get(), "{value}");
    assert_eq!(holder["ttl"], 20_000, "{value}");
    assert_eq!(holder["n"], 3, "{value}");
    assert_eq!(holder["label"], "nightly", "{value}");
    assert_eq!(holder["prog"], "sh", "{value}");
    assert!(!value.contains("exec sleep"), "arguments are nobody's business: {value}");
    running.signal(Signal::TERM);
    running.output();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

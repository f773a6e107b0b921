//! Those who wait for a lock: who gets it, when, what is said meanwhile, and what is left of those
//! who give up. How long a hand-over takes is the bench's business.

use std::{env, time::Duration};

use rustix::process::Signal;

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually, fleet,
    proxy::{Mode, Proxy},
    pty::Terminal,
    scratch,
    servers::{Fleet, Inspect, InspectAll},
};

fn wait_listeners(fleet: &Fleet, count: usize) {
    eventually("so many listen", || fleet.listeners("k") == count);
}

/// A run that has the lock until it gets TERM.
fn holder(fleet: &Fleet) -> Running {
    let mut holder = Redlock::run(fleet.nodes()).shell("echo has it; exec sleep 60").start();
    holder.wait_stdout("has it");
    holder
}

fn waiter(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-q"]).command(["echo", "ran"])
}

/// How often the trials are made: once, or as often as `REDLOCK_TEST_TRIALS` says.
fn trials() -> usize {
    env::var("REDLOCK_TEST_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// So many start `run -n` at once. Exactly one runs its command, the others are told who does.
fn rush(fleet: &Fleet, count: usize) {
    let place = scratch();
    let go = place.path().join("go");
    let line = format!("echo ran; until [ -e {} ]; do sleep 0.02; done", go.display());
    let run = || Redlock::run(fleet.nodes()).args(["-n"]).shell(&line).start();
    let mut runs: Vec<Running> = (0..count).map(|_| run()).collect();
    eventually("all others have ended", || {
        let ended = runs.iter_mut().filter_map(Running::ended);
        ended.count() + 1 >= count
    });
    std::fs::write(&go, "").unwrap();
    let outcomes: Vec<_> = runs.into_iter().map(Running::output).collect();
    let ran = outcomes.iter().filter(|outcome| outcome.stdout == "ran\n").count();
    let told = outcomes.iter().filter(|outcome| outcome.end == End::Exit(75)).count();
    let strange = outcomes.iter().find(|o| !matches!(o.end, End::Exit(0 | 75)));
    assert!(strange.is_none(), "{}", strange.unwrap());
    assert_eq!((ran, told), (1, count - 1), "of {count}");
}

#[test]
fn simultaneous_single_tries_have_exactly_one_winner() {
    let fleet = fleet(5);
    for _ in 0..10 * trials() {
        rush(&fleet, 50);
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
    for _ in 0..trials() {
        rush(&fleet, 200);
    }
    let (many, few) = (10 * trials(), trials());
    eprintln!("exactly one winner: {many} of {many} with 50, {few} of {few} with 200 starters");
}

#[test]
fn simultaneous_single_tries_have_one_winner_while_a_node_is_stopped_or_two_refuse() {
    let mut fleet = fleet(5);
    for _ in 0..2 * trials() {
        fleet.servers()[0].stop().unwrap();
        rush(&fleet, 50);
        fleet.servers()[0].cont().unwrap();
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
    for number in [0, 3] {
        fleet.servers_mut()[number].kill();
    }
    for _ in 0..2 * trials() {
        rush(&fleet, 50);
    }
}

#[test]
fn release_is_heard_by_the_waiter_long_before_it_would_look() {
    let fleet = fleet(5);
    // More than once: a poll that comes by chance would not show a lost message twice.
    for _ in 0..5 {
        let holder = holder(&fleet);
        let run = waiter(&fleet).stdout("ran\n").start();
        wait_listeners(&fleet, 1);
        let before = fleet.servers()[0].client().calls("eval");
        holder.signal(Signal::TERM);
        run.check();
        let requests = fleet.servers()[0].client().calls("eval") - before;
        assert!(requests <= 8, "{requests} requests for one hand-over");
        drop(holder);
    }
}

#[test]
fn waiter_that_is_killed_stopped_or_cut_off_delays_nobody() {
    let fleet = fleet(5);
    let proxies: Vec<Proxy> = fleet.servers().iter().map(|s| Proxy::to(s.address())).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let holder = holder(&fleet);
    let killed = waiter(&fleet).start();
    let stopped = waiter(&fleet).start();
    let cut = Redlock::run(urls.join(",")).args(["-q"]).command(["true"]).start();
    let next = waiter(&fleet).stdout("ran\n").start();
    wait_listeners(&fleet, 4);
    killed.signal(Signal::KILL);
    stopped.signal(Signal::STOP);
    for proxy in &proxies {
        proxy.set(Mode::Hold);
    }
    holder.signal(Signal::TERM);
    let outcome = next.check();
    assert!(outcome.took < Duration::from_secs(10), "{outcome}");
    stopped.signal(Signal::KILL);
    drop((killed, cut));
}

#[test]
fn lock_of_a_killed_holder_is_had_when_it_runs_out() {
    let fleet = fleet(5);
    let mut holder = Redlock::run(fleet.nodes())
        .args(["--ttl", "2s"])
        .shell("echo has it; exec sleep 60")
        .start();
    holder.wait_stdout("has it");
    let next = waiter(&fleet).stdout("ran\n").start();
    wait_listeners(&fleet, 1);
    holder.signal(Signal::KILL);
    next.check();
}

#[test]
fn term_ends_a_wait_and_leaves_no_key_and_no_subscription() {
    let fleet = fleet(5);
    fleet.set_everywhere("k", "foreign");
    let run = waiter(&fleet).start();
    wait_listeners(&fleet, 1);
    run.signal(Signal::TERM);
    assert_eq!(run.output().end, End::Signal(15));
    wait_listeners(&fleet, 0);
    for server in fleet.servers() {
        assert_eq!(server.get("k").as_deref(), Some("foreign"));
    }
}

#[test]
fn contenders_give_up_together_when_their_wait_is_over() {
    let fleet = fleet(5);
    fleet.set_everywhere("k", "foreign");
    let wait = Duration::from_millis(1500);
    let run = || Redlock::run(fleet.nodes()).args(["-w", "1500ms"]).command(["true"]).start();
    let runs: Vec<Running> = (0..8).map(|_| run()).collect();
    for run in runs {
        let outcome = run.output();
        assert_eq!(outcome.end, End::Exit(75), "{outcome}");
        assert!(outcome.took >= wait, "{outcome}");
        assert!(outcome.took < wait + Duration::from_secs(5), "{outcome}");
        assert!(outcome.stderr.contains("gave up after 1.5s"), "{outcome}");
    }
}

#[test]
fn waiter_says_what_it_waits_for_whatever_that_is() {
    let fleet = fleet(3);
    let words: [(&[&str], &str); 4] = [
        (&["SET", "k", "by hand"], "another client's value 'by hand' (without expiry"),
        (&["HSET", "k", "f", "v"], "a hash of another program (without expiry"),
        (&["RPUSH", "k", "v"], "a list of another program (without expiry"),
        (
            &["SET", "k", "\u{1b}[2Jx\u{202e}", "PX", "60000"],
            "another client's value '\u{fffd}[2Jx\u{fffd}' (expires in",
        ),
    ];
    for (command, text) in words {
        for server in fleet.servers() {
            server.client().command(&["DEL", "k"]);
            server.client().command(command);
        }
        let mut run = Redlock::run(fleet.nodes()).command(["true"]).start();
        run.wait_stderr("\n");
        let line = run.stderr();
        let begin = format!("redlock: waiting for 'k': held by {text}");
        assert!(line.starts_with(&begin), "{line}");
        assert!(line.ends_with("waiting without limit (-n, -w D, --skip)\n"), "{line}");
        run.signal(Signal::TERM);
        run.output();
    }
}

#[test]
fn leftover_on_the_first_node_keeps_no_waiter_from_taking_over() {
    let fleet = fleet(5);
    // The first in canonical order: the addresses differ in their ports only.
    let first = (0..5).min_by_key(|n| fleet.servers()[*n].address().to_string()).unwrap();
    fleet.servers()[first].set("k", "left over");
    let holder = holder(&fleet);
    let runs: Vec<Running> = (0..4).map(|_| waiter(&fleet).stdout("ran\n").start()).collect();
    wait_listeners(&fleet, 4);
    holder.signal(Signal::TERM);
    for run in runs {
        let outcome = run.check();
        assert!(outcome.took < Duration::from_secs(15), "{outcome}");
    }
}

#[test]
fn heartbeat_repeats_the_line_and_got_ends_it() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let words = ["-w", "50s", "--heartbeat", "700ms", "true"];
    let mut run = Redlock::run(fleet.nodes()).args(words).start();
    eventually("three lines", || run.stderr().lines().count() >= 3);
    for server in fleet.servers() {
        server.client().del("k");
        server.client().command(&["PUBLISH", "redlock:released:k", ""]);
    }
    run.wait_stderr("got 'k' after ");
    let outcome = run.output();
    assert_eq!(outcome.end, End::Exit(0), "{outcome}");
    let mut lines: Vec<&str> = outcome.stderr.lines().collect();
    lines.pop();
    let all = lines.iter().all(|line| line.contains("waiting at most 50s"));
    assert!(all && lines[2].contains("left)"), "{outcome}");
}

#[test]
fn json_lines_tell_a_wait_and_its_end() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let words = ["-w", "300ms", "--log-format", "json", "true"];
    let outcome = Redlock::run(fleet.nodes()).args(words).output();
    assert_eq!(outcome.end, End::Exit(75), "{outcome}");
    let line = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let lines: Vec<_> = outcome.stderr.lines().map(line).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["waiting", "exit"], "{outcome}");
    assert_eq!(lines[1]["code"], 75);
    let outcome = Redlock::run("").args(["--log-format", "json", "true"]).output();
    assert_eq!(line(outcome.stderr.trim())["code"], 78, "{outcome}");
}

#[test]
fn terminal_shows_one_live_line_that_goes_away() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let nodes = fleet.nodes().clone();
    let environment = [("REDLOCK_NODES", nodes.as_str()), ("REDLOCK_RESTART_GUARD", "off")];
    let words = [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "k", "-w", "40s", "echo", "ran"];
    let mut terminal = Terminal::start(words, &environment);
    terminal.wait_for("0s, ").wait_for("s left waiting for 'k': held by");
    terminal.wait_for("1s, 38s left");
    for server in fleet.servers() {
        server.client().del("k");
        server.client().command(&["PUBLISH", "redlock:released:k", ""]);
    }
    terminal.wait_for("\u{1b}[2K").wait_for("redlock: got 'k' after").wait_for("ran");
    assert_eq!(terminal.finish(), End::Exit(0));
    assert!(!terminal.screen().contains("redlock: waiting"), "{}", terminal.screen());
}

#[test]
fn user_without_the_channel_waits_by_looking() {
    let fleet = fleet(3);
    for server in fleet.servers() {
        let rights = ["ACL", "SETUSER", "default", "on", "nopass", "~*", "resetchannels", "+@all"];
        server.client().command(&rights);
    }
    fleet.set_everywhere("k", "foreign");
    let run = waiter(&fleet).stdout("ran\n").start();
    // The first look after the one that began the wait.
    eventually("it looks again", || fleet.servers()[0].client().calls("eval") >= 3);
    for server in fleet.servers() {
        server.client().del("k");
    }
    run.check();
}

/// consul#5437: an outage while waiting is waited through, and said once at either end.
#[test]
fn waiter_outlives_an_outage_of_the_majority() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let mut run = Redlock::run(fleet.nodes()).args(["-w", "18s", "echo", "ran"]).start();
    wait_listeners(&fleet, 1);
    for server in &fleet.servers()[..2] {
        server.stop().unwrap();
    }
    run.wait_stderr("no quorum for 'k'");
    for server in &fleet.servers()[..2] {
        server.cont().unwrap();
    }
    run.wait_stderr("a quorum of nodes answers again");
    for server in fleet.servers() {
        server.client().del("k");
        server.client().command(&["PUBLISH", "redlock:released:k", ""]);
    }
    run.wait_stdout("ran\n");
    let outcome = run.output();
    assert_eq!(outcome.end, End::Exit(0), "{outcome}");
    for text in ["no quorum for 'k'", "answers again"] {
        assert_eq!(outcome.stderr.matches(text).count(), 1, "{outcome}");
    }
}

#[test]
fn outage_that_lasts_ends_a_wait_without_limit() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "foreign");
    let mut run = Redlock::run(fleet.nodes()).args(["--quorum-wait", "1s", "echo", "ran"]).start();
    run.wait_stderr("waiting for 'k'");
    for server in &fleet.servers()[..2] {
        server.stop().unwrap();
    }
    let outcome = run.output();
    assert_eq!(outcome.end, End::Exit(69), "{outcome}");
    assert!(outcome.stdout.is_empty(), "{outcome}");
}

/// node-redlock#166: what was waited for longer than its ttl is not over when it begins.
#[test]
fn lock_that_was_waited_for_longer_than_its_ttl_is_extended_as_any_other() {
    let fleet = fleet(3);
    for server in fleet.servers() {
        server.client().set_px("k", "foreign", 2500);
    }
    Redlock::run(fleet.nodes())
        .args(["-q", "-t", "1s", "-w", "15s"])
        .shell("sleep 2.5; echo ran")
        .stdout("ran\n")
        .check();
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

/// The memory that a process uses, in KiB.
fn memory(pid: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// node-redlock#312: what is kept of every try fills the memory in the end.
#[test]
fn memory_does_not_grow_with_the_number_of_looks() {
    let fleet = fleet(1);
    fleet.set_everywhere("k", &format!("foreign {}", "x".repeat(1000)));
    let run = waiter(&fleet).start();
    wait_listeners(&fleet, 1);
    let mut client = fleet.servers()[0].client();
    // Each message makes it look; so do those that come while it does.
    let mut looks = |count: u64| {
        let goal = client.calls("eval") + count;
        while client.calls("eval") < goal {
            let text = format!("{} 1", uuid::Uuid::new_v4());
            client.command(&["PUBLISH", "redlock:released:k", &text]);
        }
    };
    looks(300);
    let before = memory(run.pid());
    looks(1500);
    let after = memory(run.pid());
    assert!(after <= before + 300, "{before} KiB, then {after} KiB");
    run.signal(Signal::TERM);
    assert_eq!(run.output().end, End::Signal(15));
}

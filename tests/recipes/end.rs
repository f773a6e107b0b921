//! The end of the command: what it leaves, the release, the status, the words.

use std::{
    fs,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};

use crate::harness::{
    Redlock, alive,
    builder::End,
    eventually, fleet,
    resp::Reply,
    scratch,
    servers::{Inspect, InspectAll},
};

use super::{pids, run, run_for, send, wait_dead, wait_extensions};

/// Leaves a process in a session of its own behind, whose pid is printed, and exits 3.
const LEAVER: &str =
    "setsid sh -c 'echo $$; exec sleep 60' & until [ -s /dev/stdout ]; do :; done; exit 3";

/// Rule 44: what is waited for is named, and the lock is kept for it.
#[test]
fn rule_44_leftover_is_waited_for_and_named() {
    let fleet = fleet(3);
    let mut run = run(&fleet)
        .shell(LEAVER)
        .exits(3)
        .stdout_like("*\n")
        .stderr_like(
            "redlock: the command ended 1*s ago, its descendants did not: 'k' is kept for * \
             (sleep) (--leftover)\n",
        )
        .start();
    let left = pids(&run, 1);
    run.wait_stderr(&format!("'k' is kept for {} (sleep)", left[0].as_raw_nonzero()));
    assert_eq!(fleet.holding("k").len(), 3);
    send(left[0], Signal::KILL);
    run.check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

#[test]
fn rule_44_leftover_is_ended_on_request() {
    let fleet = fleet(3);
    let run = run(&fleet)
        .args(["--leftover", "kill"])
        .shell(LEAVER)
        .exits(3)
        .stdout_like("*\n")
        .stderr_like("*")
        .start();
    let left = pids(&run, 1);
    run.check();
    assert!(!alive(left[0]));
    assert_eq!(fleet.all_keys(), [""; 0]);
}

#[test]
fn rule_44_leftover_is_ignored_on_request() {
    let fleet = fleet(3);
    let run = run(&fleet)
        .args(["--leftover", "ignore"])
        .shell(LEAVER)
        .exits(3)
        .stdout_like("*\n")
        .start();
    let left = pids(&run, 1);
    run.check();
    assert!(alive(left[0]), "the guardian must let it live too");
    assert_eq!(fleet.all_keys(), [""; 0]);
    send(left[0], Signal::KILL);
}

/// Rule 44: who cancels a run that only waits for leftovers means them.
#[test]
fn rule_44_signal_ends_what_is_left() {
    let fleet = fleet(3);
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let mut run = run(&fleet)
            .under(["env", "--default-signal"])
            .shell(LEAVER)
            .exits(3)
            .stdout_like("*\n")
            .stderr_like("redlock: the command ended *\n")
            .start();
        let left = pids(&run, 1);
        run.wait_stderr("is kept for");
        run.signal(signal);
        run.check();
        assert!(!alive(left[0]));
        assert_eq!(fleet.all_keys(), [""; 0]);
    }
}

/// Rule 45: golang/go#23019. The grandchild has our caller's pipe; we do not wait for that.
#[test]
fn rule_45_grandchild_that_holds_the_pipe_holds_nobody_up() {
    let fleet = fleet(1);
    let (read, write) = pipe();
    let run = run(&fleet).args(["--leftover", "ignore"]).shell("sleep 60 & echo $! >&2").start_as(
        &mut |command| {
            command.stdout(write.try_clone().unwrap());
        },
    );
    drop(write);
    let outcome = run.output();
    assert_eq!(outcome.end, End::Exit(0), "{outcome}");
    let left = rustix::process::Pid::from_raw(outcome.stderr.trim().parse().unwrap()).unwrap();
    assert!(alive(left));
    send(left, Signal::KILL);
    drop(read);
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

/// Rule 46: the node itself tells the order. The last word is that of a grandchild, spoken after
/// the command has ended.
#[test]
fn rule_46_release_comes_after_the_last_word_of_the_last_process() {
    let fleet = fleet(1);
    let server = &fleet.servers()[0];
    let mut monitor = server.client();
    assert_eq!(monitor.command(&["MONITOR"]), Reply::Simple("OK".to_owned()));
    let line = format!(
        "setsid sh -c 'sleep 0.3; redis-cli -u {} set last-word x' >/dev/null & exit 3",
        server.url()
    );
    run(&fleet).shell(&line).exits(3).check();
    server.set("end", "x");
    let mut seen = Vec::new();
    loop {
        let Reply::Simple(line) = monitor.receive() else { panic!("not a line of MONITOR") };
        let line = line.to_lowercase();
        if line.contains("\"end\"") {
            break;
        }
        if line.contains("\"last-word\"") {
            seen.push("last word");
        } else if line.contains("lua] \"del\" \"k\"") || line.contains("lua] \"unlink\" \"k\"") {
            seen.push("release");
        }
    }
    assert_eq!(seen, ["last word", "release"]);
}

/// Rule 46: no node answers at the end. The exit is bounded, deaf to signals, and the command's.
#[test]
fn rule_46_release_without_an_answer_is_bounded_and_deaf() {
    let fleet = fleet(3);
    let place = scratch();
    let go = place.path().join("go");
    let mut run = run(&fleet)
        .under(["env", "--default-signal"])
        .shell(&format!("echo $$; until [ -e '{}' ]; do sleep 0.02; done; exit 8", go.display()))
        .exits(8)
        .stdout_like("*\n")
        .stderr_like("redlock: *'k'* may stay locked *\n")
        .start();
    let pids = pids(&run, 1);
    for server in fleet.servers() {
        server.stop().unwrap();
    }
    fs::write(go, "").unwrap();
    wait_dead("the command", &pids);
    let start = Instant::now();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        if run.ended().is_none() {
            run.signal(signal);
        }
    }
    run.check();
    // 1 s by the rule.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Rule 48: process 1 cannot die of a signal.
#[test]
fn rule_48_process_1_exits_with_128_and_the_signal_and_gives_the_lock_back() {
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let possible = std::process::Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !possible {
        crate::skip!("this machine has no unshare");
    }
    let fleet = fleet(3);
    run(&fleet).under(unshare).shell("kill $$").exits(143).check();
    run(&fleet).under(unshare).shell("kill -KILL $$").exits(137).check();
    assert_eq!(fleet.all_keys(), [""; 0]);
}

/// Rule 50: a standard error that is closed, or whose reader has gone, while there is much to say.
#[test]
fn rule_50_words_that_nobody_can_hear_hurt_nobody() {
    let fleet = fleet(3);
    for closed in ["2>&-", ">&- 2>&-", "2>&1 | true", "2>/dev/full"] {
        // `$!` is not the run's in a pipe, so the shell reports its status in a file.
        let place = scratch();
        let status = place.path().join("status");
        let line = format!("{{ \"$@\"; echo $? >'{}'; }} {closed}", status.display());
        let run = run_for(&fleet, "2s")
            .args(["-vv"])
            .under(["sh", "-c", &line, "sh"])
            .shell("until [ -e \"$GO\" ]; do sleep 0.02; done; exit 9")
            .env("GO", place.path().join("go"))
            .start();
        eventually("the lock", || fleet.holding("k").len() == 3);
        // Something to say again and again: extensions.
        wait_extensions(&fleet, 2);
        fs::write(place.path().join("go"), "").unwrap();
        run.output();
        eventually("the status", || fs::read_to_string(&status).is_ok_and(|s| s.ends_with('\n')));
        assert_eq!(fs::read_to_string(&status).unwrap(), "9\n", "{closed}");
        assert_eq!(fleet.all_keys(), [""; 0], "{closed}");
    }
}

/// Rule 50: the reason of a code of ours is lost with the descriptor; the code is not.
#[test]
fn rule_50_code_of_ours_does_not_depend_on_its_line() {
    let fleet = fleet(1);
    fleet.set_everywhere("k", "foreign");
    for closed in ["2>&-", "2>/dev/full"] {
        Redlock::run(fleet.nodes())
            .args(["-n"])
            .under(["sh", "-c", &format!("exec \"$@\" {closed}"), "sh"])
            .command(["true"])
            .exits(75)
            .check();
    }
}

/// A pipe that is full, and its reader's end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    while rustix::io::write(&write, &[b'x'; 4096]).is_ok() {}
    // As a command line has it: whoever writes waits.
    rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::empty()).unwrap();
    (read, write)
}

/// Rule 50; RedLock.net#110: what cannot be said, because the reader of our standard error has
/// stopped reading (`2>&1 | less`, ^S), is no reason to miss an extension, a deadline or a signal.
#[test]
fn rule_50_reader_that_stopped_reading_costs_neither_the_lock_nor_the_command() {
    let fleet = fleet(3);
    let (_reader, writer) = full_pipe();
    let deaf = |run: Redlock| {
        run.start_as(&mut |command| {
            command.stderr(writer.try_clone().unwrap());
        })
    };
    for guardian in [&[][..], &["--no-guardian"]] {
        // Something to say again and again: extensions, node by node.
        let run = deaf(run_for(&fleet, "2s").args(["-vv"]).args(guardian).shell("sleep 5; exit 9"));
        assert_eq!(run.output().end, End::Exit(9), "{guardian:?}");
        assert_eq!(fleet.all_keys(), [""; 0]);
    }
    // The deadline is kept, and by us.
    let run =
        deaf(run_for(&fleet, "2s").args(["-vv", "--no-guardian"]).shell("echo $$; exec sleep 60"));
    let pids = pids(&run, 1);
    for server in fleet.servers() {
        server.stop().unwrap();
    }
    let start = Instant::now();
    wait_dead("the command", &pids);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    for server in fleet.servers() {
        server.cont().unwrap();
    }
    assert_eq!(run.output().end, End::Exit(79));
    // A wait hears its signals.
    fleet.set_everywhere("k", "foreign");
    let run = deaf(Redlock::run(fleet.nodes()).command(["true"]));
    eventually("it listens", || fleet.listeners("k") == 1);
    run.signal(Signal::TERM);
    assert_eq!(run.output().end, End::Signal(15));
}

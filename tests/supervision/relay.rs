//! Relaying signals: each once, by its sender.

use rustix::process::Signal;

use super::support::{Lock, Running, alive, send, stopped, wait_for};

/// A run of the child that reports its signals, ready for them.
fn reporter(lock: &Lock, options: &[&str]) -> Running {
    let builder = options
        .iter()
        .fold(lock.sh("echo $$ >$D/pid; exec $SIGCOUNT $D/end"), |builder, option| {
            builder.opt(option)
        });
    let run = builder.start();
    run.wait_for_output("ready");
    run
}

/// Waits until everything sent before has arrived: what is relayed later comes later.
fn fence(run: &Running) {
    run.send(Signal::USR2);
    run.wait_for_output("got USR2");
}

#[test]
fn rule_23_every_signal_reaches_the_command_once() {
    for group in ["own", "shared"] {
        let lock = Lock::new();
        let run = reporter(&lock, &[&format!("group={group}")]);
        let names = [
            (Signal::HUP, "HUP"),
            (Signal::INT, "INT"),
            (Signal::QUIT, "QUIT"),
            (Signal::TERM, "TERM"),
            (Signal::USR1, "USR1"),
            (Signal::ALARM, "ALRM"),
            (Signal::CONT, "CONT"),
        ];
        for (signal, name) in names {
            run.send(signal);
            run.wait_for_output(&format!("got {name} from {}", run.pid()));
        }
        fence(&run);
        for (_, name) in names {
            assert_eq!(run.count(&format!("got {name}")), 1, "{name} {group}");
        }
        lock.make("end");
        assert_eq!(run.finish().code(), Some(0), "rule 49");
    }
}

#[test]
fn rule_23_window_changes_reach_an_own_group_only() {
    for (group, times) in [("own", 1), ("shared", 0)] {
        let lock = Lock::new();
        let run = reporter(&lock, &[&format!("group={group}")]);
        run.send(Signal::WINCH);
        fence(&run);
        assert_eq!(run.count("got WINCH"), times, "{group}");
        lock.make("end");
        run.finish();
    }
}

#[test]
fn rule_24_signal_to_the_commands_own_group_stays_there() {
    let lock = Lock::new();
    let run = lock
        .sh("$SIGCOUNT $D/end & trap '' INT; while [ ! -e $D/go ]; do sleep .01; done; \
             kill -INT 0; echo sent; wait")
        .start();
    run.wait_for_output("ready");
    lock.make("go");
    run.wait_for_output("got INT");
    fence(&run);
    assert_eq!(run.count("got INT"), 1);
    lock.make("end");
    run.finish();
}

#[test]
fn rule_24_member_that_signals_us_does_not_get_it_back() {
    let lock = Lock::new();
    let run = lock
        .sh("$SIGCOUNT $D/end & trap '' INT; while [ ! -e $D/go ]; do sleep .01; done; \
             kill -INT $PPID; echo sent; wait")
        .start();
    run.wait_for_output("ready");
    lock.make("go");
    run.wait_for_output("sent");
    fence(&run);
    assert_eq!(run.count("got INT"), 0);
    lock.make("end");
    run.finish();
}

#[test]
fn rule_26_signal_to_the_whole_group_changes_nothing_for_us() {
    let lock = Lock::new();
    let run = reporter(&lock, &["group=shared"]);
    let group = rustix::process::Pid::from_raw(run.pid()).unwrap();
    for _ in 0..3 {
        rustix::process::kill_process_group(group, Signal::INT).unwrap();
    }
    fence(&run);
    let times = run.count("got INT");
    assert!((1..=6).contains(&times), "{times}");
    lock.make("end");
    assert_eq!(run.finish().code(), Some(0));
}

#[test]
fn rule_28_lock_is_held_while_the_command_cleans_up() {
    let lock = Lock::new();
    let run = lock
        .sh("trap 'echo cleaning; while [ ! -e $D/clean ]; do sleep .01; done; exit 5' TERM; \
             echo ready; while :; do sleep .01; done")
        .opt("ttl=500ms")
        .start();
    run.wait_for_output("ready");
    run.send(Signal::TERM);
    run.wait_for_output("cleaning");
    // Longer than two ttl: extended all the while.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(lock.held());
    lock.make("clean");
    assert_eq!(run.finish().code(), Some(5));
    assert!(!lock.held());
}

#[test]
fn kill_after_ends_a_command_that_defies_term() {
    let lock = Lock::new();
    let run = lock
        .sh("trap '' TERM; echo ready; while :; do sleep .01; done")
        .opt("kill-after=200ms")
        .start();
    run.wait_for_output("ready");
    run.send(Signal::TERM);
    assert_eq!(run.finish().signal(), Some(libc::SIGKILL));
}

#[test]
fn rule_42_tstp_stops_both_and_cont_continues_both() {
    let lock = Lock::new();
    let run = lock.sh("echo $$ >$D/pid; exec $SIGCOUNT $D/end").opt("ttl=30s").start();
    run.wait_for_output("ready");
    let command = lock.number("pid");
    run.send(Signal::TSTP);
    wait_for("both to stop", || (stopped(run.pid()) && stopped(command)).then_some(()));
    run.send(Signal::CONT);
    wait_for("both to run", || {
        (!stopped(run.pid()) && alive(command) && !stopped(command)).then_some(())
    });
    lock.make("end");
    assert_eq!(run.finish().code(), Some(0));
}

#[test]
fn rule_22_stopped_command_is_killed_with_a_line() {
    let lock = Lock::new();
    let done = lock.sh("kill -STOP $$").opt("ttl=300ms").opt("max-stopped=700ms").finish();
    assert_eq!(done.code(), Some(137));
    assert!(done.stderr.contains("Stopped { signal: 19"), "{}", done.stderr);
    assert!(done.stderr.lines().last().unwrap().contains("MaxStopped"));
}

#[test]
fn rule_29_signals_at_any_moment_hit_nobody_else() {
    let lock = Lock::new();
    let mut sentinels: Vec<_> =
        (0..8).map(|_| std::process::Command::new("sleep").arg("600").spawn().unwrap()).collect();
    for round in 0..60_u64 {
        let run = lock.run(&["true"]).start();
        let pid = run.pid();
        std::thread::sleep(std::time::Duration::from_micros(round * 137 % 9000));
        if alive(pid) {
            send(pid, Signal::TERM);
        }
        let done = run.finish();
        assert!(done.code() == Some(0) || done.signal() == Some(libc::SIGTERM), "{done:?}");
        assert!(!lock.held());
    }
    for sentinel in &mut sentinels {
        assert!(sentinel.try_wait().unwrap().is_none());
        sentinel.kill().unwrap();
        sentinel.wait().unwrap();
    }
}

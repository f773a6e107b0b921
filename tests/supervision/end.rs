//! The end of the command: what is left of it, the release, the status.

use std::{
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::support::{Lock, alive, send, wait_for};

/// Leaves a process behind in a session of its own, its pid in `left`; exits 3.
const LEAVER: &str = "setsid sh -c 'echo $$ >$D/left; while [ ! -e $D/end ]; do sleep .01; done' & \
     while [ ! -s $D/left ]; do sleep .01; done; exit 3";

#[test]
fn rule_44_leftover_is_waited_for_and_named() {
    let lock = Lock::new();
    let run = lock.sh(LEAVER).start();
    let left = lock.number("left");
    wait_for("the line", || run.stderr().contains("Leftover {").then_some(()));
    assert!(run.stderr().contains(&format!("pid: {left}")), "{}", run.stderr());
    assert!(lock.held() && alive(left));
    lock.make("end");
    assert_eq!(run.finish().code(), Some(3));
    assert!(!lock.held());
}

#[test]
fn rule_44_leftover_can_be_killed() {
    let lock = Lock::new();
    let done = lock.sh(LEAVER).opt("leftover=kill").finish();
    assert_eq!(done.code(), Some(3));
    assert!(!alive(lock.number("left")));
}

#[test]
fn rule_44_leftover_can_be_ignored() {
    let lock = Lock::new();
    let done = lock.sh(LEAVER).opt("leftover=ignore").finish();
    assert_eq!(done.code(), Some(3));
    let left = lock.number("left");
    assert!(alive(left) && !lock.held());
    lock.make("end");
    wait_for("its end", || (!alive(left)).then_some(()));
}

#[test]
fn rule_44_signal_ends_the_wait_for_leftover() {
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let lock = Lock::new();
        let run = lock.sh(LEAVER).start();
        let left = lock.number("left");
        wait_for("the line", || run.stderr().contains("Leftover {").then_some(()));
        run.send(signal);
        assert_eq!(run.finish().code(), Some(3));
        assert!(!alive(left));
    }
}

#[test]
fn rule_45_output_is_not_piped_so_a_grandchild_holds_nobody_up() {
    let lock = Lock::new();
    let start = Instant::now();
    let done = lock.sh("sleep 30 & echo $! >$D/left").opt("leftover=ignore").finish();
    assert_eq!(done.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(15));
    send(lock.number("left"), Signal::KILL);
}

#[test]
fn rule_46_lock_is_released_only_when_the_last_process_is_gone() {
    let lock = Lock::new();
    // The last one looks at the lock as its very last act.
    let done = lock.sh("setsid sh -c 'sleep .3; [ -e $D/held ] && echo held' & exit 0").finish();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "held\n"));
    assert!(!lock.held());
}

#[test]
fn rule_46_release_is_bounded_and_leaves_the_status() {
    let lock = Lock::new();
    let run = lock.sh("while [ ! -e $D/frozen ]; do sleep .01; done; exit 8").start();
    lock.wait_for_file("held");
    lock.make("frozen");
    let start = Instant::now();
    let done = run.finish();
    assert_eq!(done.code(), Some(8));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(done.stderr.contains("NotReleased"), "{}", done.stderr);
}

#[test]
fn rule_48_every_exit_status_passes() {
    let lock = Lock::new();
    for status in (0..=255).step_by(5).chain([1, 2, 64, 69, 75, 79, 124, 125, 126, 127, 128]) {
        let done = lock.sh(&format!("exit {status}")).finish();
        assert_eq!(done.code(), Some(status));
    }
}

#[test]
fn rule_48_death_by_a_signal_is_the_same_death_for_us() {
    let lock = Lock::new();
    for signal in [1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 34, 64] {
        let done = lock.sh(&format!("kill -{signal} $$")).finish();
        assert_eq!(done.signal(), Some(signal));
        assert!(!done.status.core_dumped(), "{signal}");
        assert!(!lock.held());
    }
}

/// A naive re-raise overwrites the command's core file with ours.
#[test]
fn rule_48_we_leave_no_core_file() {
    let lock = Lock::new();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let done = lock
        .sh("cd $D; kill -SEGV $$")
        .under(&["sh", "-c", "cd $D; ulimit -c unlimited; exec \"$@\"", "sh"])
        .finish();
    assert_eq!(done.signal(), Some(libc::SIGSEGV));
    assert!(!done.status.core_dumped(), "our own death dumped core");
    // Where core files go to the working directory, at most the command's own is there.
    if !pattern.contains('/') && !pattern.starts_with('|') {
        let cores = std::fs::read_dir(lock.path(""))
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("core")
            })
            .count();
        assert!(cores <= 1, "{cores}");
    }
}

#[test]
fn rule_48_process_1_exits_with_128_and_the_signal() {
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    let possible = std::process::Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !possible {
        crate::skip!("this machine has no unshare");
    }
    let lock = Lock::new();
    let done = lock.sh("kill $$").under(&unshare).finish();
    assert_eq!(done.code(), Some(143));
}

#[test]
fn rule_50_closed_standard_error_never_hurts() {
    let lock = Lock::new();
    lock.make("busy");
    let done = lock.run(&["true"]).under(&["sh", "-c", "exec \"$@\" 2>&-", "sh"]).finish();
    assert_eq!(done.code(), Some(75));
    // A pipe whose reader has gone.
    let done = lock.run(&["true"]).under(&["bash", "-c", "exec \"$@\" 2> >(:)", "bash"]).finish();
    assert_eq!(done.code(), Some(75));
}

#[test]
fn rule_50_nothing_goes_to_standard_output() {
    let lock = Lock::new();
    assert_eq!(lock.run(&["true"]).finish().stdout, "");
}

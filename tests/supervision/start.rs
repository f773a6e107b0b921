//! Starting: what the command finds, and what stops it from starting.

use rustix::process::Signal;

use super::support::{Lock, Running, bit, input, status_field, wait_for};

/// Without the real-time signals, of which env(1) cannot reset all that a test's caller may ignore.
fn named(set: u64) -> u64 {
    set & (bit(32) - 1)
}

#[test]
fn rule_1_arguments_pass_byte_for_byte_without_a_shell() {
    let lock = Lock::new();
    let done = lock.run(&["printf", "%s|", "a b", "$x", "", "'\""]).finish();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "a b|$x||'\"|"));
}

#[test]
fn rule_2_ignored_sigchld_does_not_lose_the_status() {
    let lock = Lock::new();
    let run = |command: &[&str]| {
        let ignoring = ["env", "--ignore-signal=CHLD"];
        lock.run(command).under(&ignoring).finish()
    };
    assert_eq!(run(&["sh", "-c", "exit 7"]).code(), Some(7));
    // And the command finds it as our caller left it (a shell would set it back).
    let done = run(&["grep", "SigIgn", "/proc/self/status"]);
    assert_ne!(status_field(&done.stdout, "SigIgn") & bit(libc::SIGCHLD), 0);
}

#[test]
fn rule_3_blocked_term_reaches_us_and_stays_blocked_for_the_command() {
    let lock = Lock::new();
    let run = lock
        .run(&["bash", "-c", "grep SigBlk /proc/self/status; echo ready; exec sleep 60"])
        .under(&["env", "--block-signal=TERM"])
        .opt("kill-after=100ms")
        .start();
    run.wait_for_output("ready");
    assert_ne!(status_field(&run.stdout(), "SigBlk") & bit(libc::SIGTERM), 0);
    run.send(Signal::TERM);
    assert_eq!(run.finish().signal(), Some(libc::SIGKILL));
}

#[test]
fn rule_3_and_21_command_finds_clean_masks_and_dispositions() {
    let lock = Lock::new();
    for group in ["own", "shared"] {
        let done = lock.run(&["cat", "/proc/self/status"]).opt(&format!("group={group}")).finish();
        for field in ["SigBlk", "SigIgn", "SigCgt"] {
            assert_eq!(named(status_field(&done.stdout, field)), 0, "{field} {group}");
        }
    }
}

#[test]
fn rule_4_inherited_ignore_is_respected() {
    let lock = Lock::new();
    let run = lock
        .sh("grep SigIgn /proc/self/status; echo ready; exec sleep 60")
        .under(&["env", "--ignore-signal=HUP", "--ignore-signal=INT"])
        .start();
    run.wait_for_output("ready");
    let ignored = named(status_field(&run.stdout(), "SigIgn"));
    assert_eq!(ignored, bit(libc::SIGHUP) | bit(libc::SIGINT));
    run.send(Signal::HUP);
    run.send(Signal::INT);
    run.send(Signal::TERM);
    assert_eq!(run.finish().signal(), Some(libc::SIGTERM), "not of HUP or INT");
}

#[test]
fn rule_4_ignored_signal_does_not_end_the_wait_either() {
    let lock = Lock::new();
    lock.make("slow");
    let run = lock.sh("exit 7").under(&["env", "--ignore-signal=HUP"]).start();
    wait_for_handlers(&run);
    run.send(Signal::HUP);
    lock.remove("slow");
    assert_eq!(run.finish().code(), Some(7));
}

#[test]
fn rule_5_sigpipe_is_as_our_caller_left_it() {
    let lock = Lock::new();
    let done = lock.sh("yes | head -1; :").finish();
    assert_eq!((done.stdout.as_str(), done.stderr.contains("roken")), ("y\n", false));
    let done =
        lock.sh("grep SigIgn /proc/self/status").under(&["env", "--ignore-signal=PIPE"]).finish();
    assert_eq!(named(status_field(&done.stdout, "SigIgn")), bit(libc::SIGPIPE));
}

/// Rule 6: every failure leaves the lock alone and is 125, or the loader's own.
#[test]
fn rule_6_shortage_of_memory_never_leaves_a_lock() {
    let lock = Lock::new();
    let mut ours = 0;
    for limit in (2000..12_000).step_by(500) {
        let done = lock
            .run(&["true"])
            .under(&["sh", "-c", "ulimit -v $0; exec \"$@\"", &limit.to_string()])
            .finish();
        let code = done.code();
        ours += usize::from(code == Some(125));
        let failed = matches!(code, Some(0 | 125..=127)) || done.signal().is_some();
        assert!(failed, "{limit}: {done:?}");
        assert!(!lock.held(), "{limit}: {done:?}");
    }
    assert!(ours > 0, "no limit was one of ours");
}

#[test]
fn rule_7_foreign_descriptors_pass_and_ours_do_not() {
    let lock = Lock::new();
    let list = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done";
    let shell = |script: &str| {
        let done = lock
            .run(&["sh", "-c", list])
            .under(&["sh", "-c", &format!("{script} exec \"$@\""), "sh"])
            .finish();
        let mut fds: Vec<i32> = done.stdout.lines().map(|l| l.parse().unwrap()).collect();
        fds.sort_unstable();
        fds
    };
    let before = shell("");
    let with = shell("exec 7</etc/hostname;");
    let mut expected = before;
    if !expected.contains(&7) {
        expected.push(7);
        expected.sort_unstable();
    }
    assert_eq!(with, expected);
    let held: Vec<_> = lock
        .sh("ls -l /proc/self/fd")
        .finish()
        .stdout
        .lines()
        .filter(|l| l.contains("socket:") || l.contains("anon_inode"))
        .map(str::to_owned)
        .collect();
    assert_eq!(held, Vec::<String>::new());
}

#[test]
fn rule_8_closed_standard_descriptors_stay_closed() {
    let lock = Lock::new();
    let closed = |what: &str, fd: &str| {
        let script = format!("[ -e /proc/self/fd/{fd} ]");
        lock.sh(&script).under(&["sh", "-c", &format!("exec \"$@\" {what}"), "sh"]).finish().code()
    };
    assert_eq!(closed("<&-", "0"), Some(1));
    assert_eq!(closed(">&-", "1"), Some(1));
    assert_eq!(closed("2>&-", "2"), Some(1));
    assert_eq!(closed("", "0"), Some(0));
}

/// SIGCHLD is the last one that gets a handler.
fn wait_for_handlers(run: &Running) {
    wait_for("the handlers", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", run.pid())).ok()?;
        (status_field(&status, "SigCgt") & bit(libc::SIGCHLD) != 0).then_some(())
    });
}

#[test]
fn rule_9_signals_end_the_wait_for_the_lock() {
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let lock = Lock::new();
        lock.make("slow");
        let run = lock.sh("touch $D/ran").start();
        wait_for_handlers(&run);
        run.send(signal);
        assert_eq!(run.finish().signal(), Some(signal.as_raw()));
        assert!(!lock.has("ran") && !lock.held());
    }
}

#[test]
fn rule_11_busy_lock_is_75_with_one_last_line() {
    let lock = Lock::new();
    lock.make("busy");
    let done = lock.sh("touch $D/ran").finish();
    assert_eq!(done.code(), Some(75));
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(!lock.has("ran"));
}

#[test]
fn rule_13_script_without_an_interpreter_runs() {
    let lock = Lock::new();
    let script = lock.path("script");
    std::fs::write(&script, "exit 7\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    assert_eq!(lock.run(&[script.to_str().unwrap()]).finish().code(), Some(7));
}

#[test]
fn rule_14_what_cannot_be_executed_is_127_or_126_and_releases() {
    let lock = Lock::new();
    for (program, code) in [("/no/such", 127), ("no-such", 127), ("/etc/passwd", 126), ("/", 126)] {
        let done = lock.run(&[program]).finish();
        assert_eq!(done.code(), Some(code), "{program}");
        assert!(lock.has("released") && !lock.held());
        let last = done.stderr.lines().last().unwrap();
        assert!(last.contains(&format!("code: {code}")), "{last}");
    }
}

#[test]
fn rule_16_environment_passes_and_names_the_lock() {
    let lock = Lock::new();
    let path = std::env::var("PATH").unwrap();
    let done = lock.run(&["env"]).under(&["env", "-i", "A=1", &format!("PATH={path}")]).finish();
    let mut names: Vec<_> = done.stdout.lines().map(|l| l.split('=').next().unwrap()).collect();
    names.sort_unstable();
    let ours = ["REDLOCK_HELD", "REDLOCK_KEY", "REDLOCK_RUN", "REDLOCK_TOKEN", "REDLOCK_TTL_MS"];
    assert_eq!(names, [&["A", "PATH"][..], &ours[..]].concat());
}

#[test]
fn rule_17_standard_input_is_the_commands() {
    let lock = Lock::new();
    let done = lock.run(&["cat"]).stdin(input("hi")).finish();
    assert_eq!(done.stdout, "hi");
}

#[test]
fn rule_18_limits_stay() {
    const LOOK: &str = "ulimit -Sc; ulimit -Hc; umask; nice";
    const CHANGE: [&str; 4] =
        ["sh", "-c", "ulimit -c 1000; umask 027; exec nice -n 3 \"$@\"", "sh"];
    let without =
        std::process::Command::new(CHANGE[0]).args(&CHANGE[1..]).args(["sh", "-c", LOOK]).output();
    let without = String::from_utf8(without.unwrap().stdout).unwrap();
    assert!(without.starts_with("1000\n1000\n0027\n"), "{without}");
    assert_eq!(Lock::new().sh(LOOK).under(&CHANGE).finish().stdout, without);
}

#[test]
fn rule_20_own_group_is_there_at_the_first_instruction() {
    let lock = Lock::new();
    let done = lock.sh("echo $$; ps -o pgid= -p $$").finish();
    let ids: Vec<&str> = done.stdout.split_whitespace().collect();
    assert_eq!(ids[0], ids[1]);
    let done = lock.sh("echo $PPID; ps -o pgid= -p $$").opt("group=shared").finish();
    let ids: Vec<&str> = done.stdout.split_whitespace().collect();
    assert_eq!(ids[0], ids[1], "the run leads the group that setsid(1) made");
}

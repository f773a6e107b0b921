//! Before the command runs, and what it finds.

use std::os::unix::ffi::OsStringExt;

use rustix::process::{Signal, kill_process};

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually, fleet, scratch,
    servers::{Inspect, InspectAll},
};

use super::{pids, run, run_for, wait_extensions};

/// Rule 6: whatever cannot be had fails before the lock is asked for, or the lock is given back.
/// The ttl is longer than the test, so a key that is left is seen.
#[test]
fn rule_6_shortage_of_memory_never_leaves_a_lock() {
    let fleet = fleet(1);
    let mut ours = 0;
    let mut ran = 0;
    // In KiB: small steps where our own loading and starting fails, large ones where the stack of a
    // thread does.
    let limits = (2_000..16_000).step_by(500).chain((16_000..120_000).step_by(8_000));
    for limit in limits {
        let outcome = run(&fleet)
            .under(["sh", "-c", "ulimit -v $0; exec \"$@\"", &limit.to_string()])
            .command(["true"])
            .output();
        match outcome.end {
            End::Exit(0) => ran += 1,
            End::Exit(125) => {
                ours += 1;
                assert!(outcome.stderr.starts_with("redlock: exit 125: "), "{limit}: {outcome}");
            }
            // The loader's, the shell's, or that of `true`.
            End::Exit(126 | 127) | End::Signal(_) => {}
            End::Exit(_) => panic!("{limit}: {outcome}"),
        }
        // The language's runtime sets up a stack for signals before our first line runs.
        let before_us = outcome.stderr.contains("failed to allocate an alternative stack");
        assert!(before_us || !outcome.stderr.contains("panicked"), "{limit}: {outcome}");
        assert_eq!(fleet.all_keys(), [""; 0], "{limit}: {outcome}");
    }
    assert!(ours > 0, "no limit was one of ours");
    assert!(ran > 0, "no limit was enough");
}

/// As `rule_6_...memory`, for processes and threads.
#[test]
fn rule_6_shortage_of_processes_never_leaves_a_lock() {
    let fleet = fleet(1);
    // Root has no such limit, and whoever runs the tests has other processes: a user of our own.
    if !rustix::process::geteuid().is_root() {
        crate::skip!("only root can have a user without processes");
    }
    let mut codes = Vec::new();
    for limit in 0..6 {
        let limit = format!("--nproc={limit}");
        let outcome = run(&fleet)
            .under(["setpriv", "--reuid=54321", "--clear-groups", "prlimit", &limit])
            .command(["true"])
            .output();
        let End::Exit(code @ (0 | 125)) = outcome.end else { panic!("{limit}: {outcome}") };
        codes.push(code);
        assert_eq!(fleet.all_keys(), [""; 0], "{limit}: {outcome}");
    }
    // The guardian, then the node thread, then the command: the more there may be the further it
    // comes.
    assert!(codes.first() == Some(&125) && codes.last() == Some(&0), "{codes:?}");
}

/// Rule 7: a descriptor of the caller gets through, also to a grandchild that outlives us, and none
/// of ours keeps a connection open there.
#[test]
fn rule_7_foreign_descriptors_pass_and_a_daemon_keeps_no_connection() {
    let fleet = fleet(3);
    let run = run(&fleet)
        .args(["--leftover", "ignore"])
        .under(["sh", "-c", "exec 7</dev/null; exec \"$@\"", "sh"])
        .shell("setsid sh -c 'echo $$; exec sleep 60' & until [ -s /dev/stdout ]; do :; done")
        .stdout_like("*\n")
        .start();
    let daemon = pids(&run, 1)[0];
    run.check();
    let links = std::fs::read_dir(format!("/proc/{}/fd", daemon.as_raw_nonzero())).unwrap();
    let mut links: Vec<(i32, String)> = links
        .map(|entry| {
            let entry = entry.unwrap();
            let target = std::fs::read_link(entry.path()).unwrap();
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            (number, target.to_string_lossy().into_owned())
        })
        .collect();
    links.sort();
    assert!(links.contains(&(7, "/dev/null".to_owned())), "{links:?}");
    let foreign = |(_, target): &(i32, String)| {
        target.starts_with("socket:") || target.contains("[eventfd]") || target.contains("[timerfd")
    };
    assert!(!links.iter().any(foreign), "{links:?}");
    for server in fleet.servers() {
        let mut client = server.client();
        eventually("no connection is left", || {
            client.info_number("clients", "connected_clients") == 1
        });
    }
    kill_process(daemon, Signal::KILL).unwrap();
}

/// Rule 10: the first vote is there, a quorum is not, TERM comes, and then the rest of the nodes
/// answers: the command never starts and nothing is left.
#[test]
fn rule_10_term_in_a_slow_acquisition_starts_nothing() {
    for _ in 0..5 {
        let fleet = fleet(3);
        let marker = scratch();
        let marker = marker.path().join("ran");
        for server in &fleet.servers()[1..] {
            server.stop().unwrap();
        }
        let run = Redlock::run(fleet.nodes())
            .args(["--ttl", "90s", "-q"])
            .command(["touch", marker.to_str().unwrap()])
            .start();
        eventually("the first vote", || fleet.servers()[0].exists("k"));
        run.signal(Signal::TERM);
        for server in &fleet.servers()[1..] {
            server.cont().unwrap();
        }
        let outcome = run.output();
        assert_eq!(outcome.end, End::Signal(15), "{outcome}");
        assert!(!marker.exists());
        // Ours is 90 s.
        eventually("every vote is taken back", || fleet.all_keys().is_empty());
    }
}

/// Rule 10 in one step: the lock becomes free and TERM comes while redlock looks at neither.
#[test]
fn rule_10_term_and_the_lock_at_the_same_time_are_a_term() {
    let fleet = fleet(1);
    fleet.servers()[0].set("k", "foreign");
    let place = scratch();
    let marker = place.path().join("ran");
    let mut run = Redlock::run(fleet.nodes())
        .args(["--ttl", "90s"])
        .command(["touch", marker.to_str().unwrap()])
        .start();
    run.wait_stderr("waiting for 'k'");
    run.signal(Signal::STOP);
    eventually("the stop", || crate::harness::state(run.pid()) == Some('T'));
    assert!(fleet.servers()[0].client().del("k"));
    run.signal(Signal::TERM);
    run.signal(Signal::CONT);
    assert_eq!(run.output().end, End::Signal(15));
    assert!(!marker.exists());
    eventually("nothing is left", || fleet.all_keys().is_empty());
}

/// Rule 16: etcd#10840. Strange names and bytes that are not text pass too.
#[test]
fn rule_16_environment_passes_unchanged_but_for_what_is_ours() {
    let fleet = fleet(1);
    let strange = std::ffi::OsString::from_vec(b"\xff\xfe\n".to_vec());
    let outcome = Redlock::run(fleet.nodes())
        .args(["-n"])
        .env("RUNNER_TRACKING_ID", "github_1")
        .env("BASH_FUNC_f%%", "() { :; }")
        .env("EMPTY", "")
        .env("STRANGE", &strange)
        .command(["env", "--null"])
        .output();
    let mut names: Vec<&str> = outcome
        .stdout
        .split_terminator('\0')
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    let expected = [
        "BASH_FUNC_f%%",
        "EMPTY",
        "HOME",
        "PATH",
        "REDLOCK_CONFIG",
        "REDLOCK_HELD",
        "REDLOCK_KEY",
        "REDLOCK_NODES",
        "REDLOCK_RESTART_GUARD",
        "REDLOCK_RUN",
        "REDLOCK_TOKEN",
        "REDLOCK_TTL_MS",
        "RUNNER_TRACKING_ID",
        "STRANGE",
    ];
    assert_eq!(names, expected, "{outcome}");
    assert!(outcome.stdout.contains("BASH_FUNC_f%%=() { :; }\0EMPTY=\0"), "{outcome}");
    assert!(outcome.stdout.contains("STRANGE=\u{fffd}\u{fffd}\n\0"), "{outcome}");
}

/// Rule 17: nobody but the command reads it, not even a byte.
#[test]
fn rule_17_standard_input_is_read_by_the_command_alone() {
    let fleet = fleet(3);
    // The first command reads one line, byte by byte; the second finds the rest.
    let line = "read first; echo \"1 $first\"; exec \"$@\"";
    Redlock::run(fleet.nodes())
        .args(["-n"])
        .under(["sh", "-c", line, "sh"])
        .shell("read second; echo \"2 $second\"; cat")
        .stdin("a\nb\nc\n")
        .stdout("1 a\n2 b\nc\n")
        .check();
}

/// A program whose execution hangs in the kernel: somebody has a lease on its file.
struct Leased {
    place: tempfile::TempDir,
    holder: Option<Running>,
}

impl Leased {
    /// None where there is no perl(1), or no lease to be had in the directory for temporary files.
    fn new() -> Option<Self> {
        let place = scratch();
        let program = place.path().join("program");
        std::fs::copy("/bin/echo", &program).unwrap();
        let line = "$| = 1; $SIG{IO} = 'IGNORE'; open(my $file, '<', $ARGV[0]) or die; \
                    fcntl($file, 1024, 1) or die; print \"leased\\n\"; sleep 60";
        let mut holder = Redlock::new([] as [&str; 0])
            .under(["perl", "-e", line, program.to_str().unwrap()])
            .start();
        eventually("the lease", || holder.stdout() == "leased\n" || holder.ended().is_some());
        let leased = holder.ended().is_none();
        leased.then_some(Self { place, holder: Some(holder) })
    }

    fn words(&self) -> [String; 2] {
        [self.place.path().join("program").display().to_string(), "ran".to_owned()]
    }
}

/// Rule 15; nextest#470: the lock is extended while the new process has not become the command yet,
/// and one that never does is ended within the validity.
#[test]
fn rule_15_extensions_do_not_wait_for_the_exec_and_the_guardian_keeps_the_deadline() {
    let fleet = fleet(3);
    let Some(mut leased) = Leased::new() else {
        crate::skip!("no perl, or no leases where temporary files are");
    };
    let hang = || {
        let run = run_for(&fleet, "3s").command(leased.words());
        let run = run.stderr_like("*").stdout_like("*").start();
        eventually("the lock", || fleet.holding("k").len() == 3);
        wait_extensions(&fleet, 1);
        assert_eq!(run.stdout(), "", "it has started");
        run
    };
    let never = hang().output();
    assert_eq!(never.end, End::Exit(79), "{never}");
    eventually("nothing is left", || fleet.all_keys().is_empty());
    let late = hang();
    leased.holder = None;
    let late = late.output();
    assert_eq!((late.end, late.stdout.as_str()), (End::Exit(0), "ran\n"), "{late}");
}

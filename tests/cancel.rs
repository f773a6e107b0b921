//! Who cancels a run, by which signals, to whom, and with how much time (docs/supervision.md,
//! section 1.9), at a quarter of the real times: before the last KILL the command is gone and the lock
//! given back.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::{
    Redlock, alive,
    builder::Running,
    eventually, fleet, processes_with,
    servers::{Fleet, InspectAll},
};

const MS: Duration = Duration::from_millis(1);

/// To whom a canceller's signals go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The process that it started, alone.
    Entry,
    /// That process's group.
    Group,
    /// Everything with its mark in the environment, or in its cgroup: the guardian too.
    Everything,
}

/// One signal, and how long the canceller waits for the end after it.
type Step = (Signal, Duration);

/// How the step of a pipeline calls redlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// `exec redlock run ...`
    Exec,
    /// `redlock run ...; echo over` in a bash.
    FromBash,
}

struct Canceller {
    name: &'static str,
    call: Call,
    options: &'static [&'static str],
    reach: Reach,
    steps: &'static [Step],
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// INT, 7.5 s, TERM, 2.5 s, KILL.
const GITHUB: &[Step] = &[(Signal::INT, ms(1875)), (Signal::TERM, ms(625))];
/// TERM, 10 min, KILL to the group.
const GITLAB: &[Step] = &[(Signal::TERM, ms(150_000))];
/// TERM, the soft-kill wait of 5 s, KILL.
const JENKINS: &[Step] = &[(Signal::TERM, ms(1250))];
/// TERM, 9 s, KILL.
const BUILDKITE: &[Step] = &[(Signal::TERM, ms(2250))];
/// TERM, 10 s, KILL.
const DOCKER: &[Step] = &[(Signal::TERM, ms(2500))];
/// TERM and CONT at once, 90 s, KILL.
const SYSTEMD: &[Step] = &[(Signal::TERM, ms(0)), (Signal::CONT, ms(22_500))];
/// TERM and CONT at once.
const SHELL: &[Step] = &[(Signal::TERM, ms(0)), (Signal::CONT, ms(5000))];

const CANCELLERS: [Canceller; 8] = {
    const fn of(
        name: &'static str,
        call: Call,
        options: &'static [&'static str],
        reach: Reach,
        steps: &'static [Step],
    ) -> Canceller {
        Canceller { name, call, options, reach, steps }
    }
    let parent = &["--die-with-parent"];
    [
        of("GitHub Actions, exec", Call::Exec, &[], Reach::Entry, GITHUB),
        // bash dies of the TERM alone, and redlock hears of that.
        of("GitHub Actions, bash", Call::FromBash, parent, Reach::Entry, GITHUB),
        of("GitLab Runner", Call::FromBash, &[], Reach::Group, GITLAB),
        of("Jenkins", Call::FromBash, &[], Reach::Everything, JENKINS),
        of("Buildkite", Call::FromBash, &[], Reach::Group, BUILDKITE),
        of("docker stop", Call::Exec, &[], Reach::Entry, DOCKER),
        of("systemd", Call::Exec, &[], Reach::Everything, SYSTEMD),
        of("kill %1", Call::Exec, &[], Reach::Group, SHELL),
    ]
};

/// A command that takes no notice of INT, as a program under `bash -e` does, and on TERM needs a
/// moment to clean up. Its child in a session of its own ends with it.
const CLEANS_UP: &str = "trap '' INT; trap 'kill $!; sleep 0.05; echo cleaned; exit 0' TERM; \
                         setsid sleep 60 & echo ready; wait";

/// A command that nothing but KILL ends, with a grandchild in a session of its own.
const STUBBORN: &str = "trap '' INT TERM HUP; setsid sh -c \"trap '' TERM; sleep 60\" & \
                        echo ready; while :; do sleep 0.05; done";

/// What a canceller's own processes have in their environment.
struct Mark(String);

impl Mark {
    fn new() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    fn processes(&self) -> Vec<Pid> {
        processes_with(&self.0)
    }

    fn is_clean(&self) -> bool {
        self.processes().is_empty()
    }

    /// The search for orphans: KILL to all that is found. Whether there was nothing.
    fn sweep(&self) -> bool {
        let found = self.processes();
        for pid in &found {
            // It may have ended meanwhile.
            let _ = kill_process(*pid, Signal::KILL);
        }
        found.is_empty()
    }
}

/// A step of a pipeline that calls redlock.
fn step(fleet: &Fleet, canceller: &Canceller, mark: &Mark) -> Redlock {
    let wrapper: &[&str] = match canceller.call {
        Call::Exec => &["env", "--default-signal"],
        Call::FromBash => {
            &["env", "--default-signal", "bash", "-c", "\"$0\" \"$@\"; echo the step goes on"]
        }
    };
    Redlock::run(fleet.nodes())
        .under(wrapper)
        .env("RUNNER_TRACKING_ID", &mark.0)
        .args(canceller.options)
}

/// One that runs `line` under the lock.
fn start(fleet: &Fleet, canceller: &Canceller, mark: &Mark, ttl: &str, line: &str) -> Running {
    let mut run = step(fleet, canceller, mark).args(["-n", "--ttl", ttl]).shell(line).start();
    run.wait_stdout("ready\n");
    run
}

impl Canceller {
    fn send(&self, run: &Running, mark: &Mark, signal: Signal) {
        // Who is gone by now was meant all the same.
        let _ = match self.reach {
            Reach::Entry => kill_process(run.pid(), signal),
            Reach::Group => kill_process_group(run.pid(), signal),
            Reach::Everything => {
                for pid in mark.processes() {
                    let _ = kill_process(pid, signal);
                }
                Ok(())
            }
        };
    }

    /// Sends the signals and waits after each as long as the canceller does, or until `done`.
    fn cancel(&self, run: &Running, mark: &Mark, done: impl Fn() -> bool) -> bool {
        self.steps.iter().any(|(signal, wait)| {
            self.send(run, mark, *signal);
            let until = Instant::now() + *wait;
            loop {
                if done() {
                    return true;
                }
                if Instant::now() >= until {
                    return false;
                }
                thread::sleep(MS);
            }
        })
    }
}

#[test]
fn command_is_gone_and_the_lock_given_back_before_the_last_kill() {
    for canceller in &CANCELLERS {
        let (fleet, mark) = (fleet(3), Mark::new());
        let run = start(&fleet, canceller, &mark, "90s", CLEANS_UP);
        assert_eq!(fleet.holding("k").len(), 3);
        let in_time =
            canceller.cancel(&run, &mark, || mark.is_clean() && fleet.all_keys().is_empty());
        let name = canceller.name;
        assert!(in_time, "{name}: left: {:?} {:?}\n{run}", mark.processes(), fleet.all_keys());
        let outcome = run.output();
        assert!(outcome.stdout.contains("cleaned\n"), "{name}: {outcome}");
        assert_eq!(outcome.stdout.matches("cleaned").count(), 1, "{name}: {outcome}");
        assert_eq!(outcome.stderr.matches("redlock: exit").count(), 0, "{name}: {outcome}");
    }
}

#[test]
fn wait_for_the_lock_ends_in_time_too_and_leaves_nothing() {
    for canceller in &CANCELLERS {
        let (fleet, mark) = (fleet(3), Mark::new());
        // Held on a quorum: what we take on the third node has to be given back.
        for server in &fleet.servers()[..2] {
            crate::harness::servers::Inspect::set(server, "k", "other host");
        }
        let run = step(&fleet, canceller, &mark).command(["echo", "never"]).start();
        eventually("it waits", || fleet.listeners("k") == 1);
        let in_time =
            canceller.cancel(&run, &mark, || mark.is_clean() && fleet.holding("k") == [0, 1]);
        assert!(in_time, "{}: {:?}\n{run}", canceller.name, fleet.all_keys());
        let outcome = run.output();
        assert!(!outcome.stdout.contains("never"), "{}: {outcome}", canceller.name);
    }
}

/// The last KILL, where a command took no notice of all the rest: nothing of it lives on, also where
/// the KILL reached only redlock's caller or its group. The lock runs out by itself.
#[test]
fn last_kill_leaves_no_command_behind() {
    for canceller in &CANCELLERS {
        let (fleet, mark) = (fleet(3), Mark::new());
        let mut run = start(&fleet, canceller, &mark, "1500ms", STUBBORN);
        let steps: Vec<Signal> = canceller.steps.iter().map(|(signal, _)| *signal).collect();
        for signal in steps {
            canceller.send(&run, &mark, signal);
        }
        canceller.send(&run, &mark, Signal::KILL);
        eventually("the step has ended", || run.ended().is_some());
        // With it the command gets KILL after another 10 s; the runner finds orphans before that.
        let orphaned = canceller.options.contains(&"--die-with-parent");
        eventually(canceller.name, || if orphaned { mark.sweep() } else { mark.is_clean() });
        eventually("the lock runs out", || fleet.all_keys().is_empty());
    }
}

/// Kubernetes and docker signal PID 1 alone, from outside its namespace: the sender has no number
/// there, and a PID 1 without a handler would take no notice.
#[test]
fn container_that_is_stopped_gives_the_lock_back() {
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let attempt = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
    if !attempt.is_ok_and(|status| status.success()) {
        crate::skip!("this machine has no unshare");
    }
    let (fleet, mark) = (fleet(3), Mark::new());
    let mut run = Redlock::run(fleet.nodes())
        .under(unshare)
        .env("RUNNER_TRACKING_ID", &mark.0)
        .args(["-n", "--ttl", "90s"])
        .shell(CLEANS_UP)
        .start();
    run.wait_stdout("ready\n");
    let first = |pid: &Pid| {
        let status = format!("/proc/{}/status", pid.as_raw_nonzero());
        let status = std::fs::read_to_string(status).unwrap_or_default();
        status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    let init: Vec<Pid> = mark.processes().into_iter().filter(first).collect();
    assert_eq!(init.len(), 1);
    kill_process(init[0], Signal::TERM).unwrap();
    let until = Instant::now() + DOCKER[0].1;
    while alive(init[0]) && Instant::now() < until {
        thread::sleep(MS);
    }
    assert!(!alive(init[0]) && fleet.all_keys().is_empty(), "{:?}\n{run}", fleet.all_keys());
    assert!(run.output().stdout.contains("cleaned\n"));
    assert!(mark.is_clean());
}

/// Why `--die-with-parent` or `exec` is needed: GitHub's runner signals the step's bash alone, which
/// takes no notice of INT while redlock runs and dies of TERM. What it leaves, the runner finds by
/// its mark and kills, redlock and guardian too; then only the ttl frees the lock.
#[test]
fn step_without_either_is_left_to_the_search_for_orphans() {
    let (fleet, mark) = (fleet(3), Mark::new());
    let github = Canceller { options: &[], ..CANCELLERS[1] };
    let run = start(&fleet, &github, &mark, "1500ms", CLEANS_UP);
    let in_time = github.cancel(&run, &mark, || mark.is_clean());
    assert!(!in_time && !run.stdout().contains("cleaned"), "{run}");
    assert_eq!(fleet.holding("k").len(), 3);
    eventually("nothing of it lives", || mark.sweep());
    eventually("the lock runs out", || fleet.all_keys().is_empty());
}

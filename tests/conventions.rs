//! Exit codes and signals beside env(1), timeout(1) and flock(1), which people know: every case runs
//! through all four, and the table of what differs, and why, is asserted and not assumed.
//!
//! The tools are those of this machine. Where theirs has changed between their releases, a star
//! stands in the table, and why.

use std::{
    fs::File,
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use redlock::child::belt;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    alive,
    builder::End,
    eventually,
    fixture::child,
    fleet, scratch, script,
    servers::{Fleet, InspectAll},
    state,
};

/// Who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Env,
    Timeout,
    Flock,
    Redlock,
}

use Tool::{Env, Flock, Redlock, Timeout};

const TOOLS: [Tool; 4] = [Env, Timeout, Flock, Redlock];

/// What has to be so for a case: the four in the order of [`TOOLS`], and why they differ, if they do.
struct Row {
    case: Case,
    expected: [&'static str; 4],
    why: &'static str,
}

/// One situation.
#[derive(Clone, Copy)]
struct Case {
    /// A line for the shell that runs the tool: `"$@"` is the tool with the command.
    caller: &'static str,
    /// Options of the tool, or what stands in their place.
    options: Options,
    /// The command's words. `CHILD` is our fixture, `SCRIPT` an executable file without `#!`.
    command: &'static [&'static str],
    /// Sent to the tool alone once the command says something.
    signals: &'static [Signal],
}

#[derive(Clone, Copy)]
enum Options {
    Usual,
    /// One that no tool knows.
    Unknown,
    /// A time limit of 0.3 s, for who has one; KILL 2 s later, which is long for a shell on a busy
    /// machine.
    Limit,
}

const EXEC: &str = "exec \"$@\"";

const fn case(command: &'static [&'static str]) -> Case {
    Case { caller: EXEC, options: Options::Usual, command, signals: &[] }
}

const fn signalled(command: &'static [&'static str], signals: &'static [Signal]) -> Case {
    Case { signals, ..case(command) }
}

const fn row(case: Case, expected: [&'static str; 4], why: &'static str) -> Row {
    Row { case, expected, why }
}

const SAME: &str = "no difference";

/// Says so when it can be signalled, and ends with the first TERM.
const WITNESS: &[&str] = &["CHILD", "signals"];
/// Dies of every signal.
const MORTAL: &[&str] = &["sh", "-c", "ulimit -c 0; echo ready; exec sleep 60"];

const ENDS: &[Row] = &[
    row(case(&["true"]), ["0"; 4], SAME),
    row(case(&["sh", "-c", "exit 1"]), ["1"; 4], SAME),
    row(case(&["sh", "-c", "exit 75"]), ["75"; 4], SAME),
    row(case(&["sh", "-c", "exit 125"]), ["125"; 4], SAME),
    row(case(&["sh", "-c", "exit 255"]), ["255"; 4], SAME),
    row(
        case(&["sh", "-c", "kill -TERM $$"]),
        ["TERM", "TERM", "143", "TERM"],
        "flock turns a death into an exit; a shell shows the same",
    ),
    row(
        case(&["sh", "-c", "kill -INT $$"]),
        ["INT", "INT", "130", "INT"],
        "as above, but here even a shell sees it: its loop goes on after flock",
    ),
    row(case(&["sh", "-c", "kill -KILL $$"]), ["KILL", "KILL", "137", "KILL"], "as above"),
    row(
        case(&["sh", "-c", "ulimit -c 0; kill -SEGV $$"]),
        ["SEGV", "SEGV", "139", "SEGV"],
        "as above",
    ),
    row(
        case(&["/no/such/command"]),
        ["127", "127", "69", "127"],
        "flock calls a command that is not there an unavailable service",
    ),
    row(case(&["/etc/passwd"]), ["126", "126", "69", "126"], "as above"),
    row(case(&["/etc"]), ["126", "126", "69", "126"], "as above"),
    row(case(&["SCRIPT"]), ["7"; 4], SAME),
    row(
        case(&[]),
        ["0", "125", "64", "64"],
        "env shows its environment; timeout has one code for all that is its own; 64 is EX_USAGE",
    ),
    row(
        Case { options: Options::Unknown, ..case(&["true"]) },
        ["125", "125", "64", "64"],
        "125 and 64 as above",
    ),
];

const CALLERS: &[Row] = &[
    row(
        Case { caller: "exec env --ignore-signal=CHLD \"$@\"", ..case(&["sh", "-c", "exit 7"]) },
        ["7"; 4],
        SAME,
    ),
    row(
        Case { caller: "exec \"$@\" <&-", ..case(&["sh", "-c", "[ ! -e /proc/self/fd/0 ]"]) },
        ["0", "0", "1", "0"],
        "flock opens its file first, which becomes the command's standard input",
    ),
    row(Case { caller: "exec \"$@\" >&- 2>&-", ..case(&["sh", "-c", "exit 9"]) }, ["9"; 4], SAME),
    row(
        Case {
            caller: "exec env --ignore-signal=PIPE \"$@\"",
            ..case(&["sh", "-c", "kill -PIPE $$; exit 9"])
        },
        ["9"; 4],
        SAME,
    ),
    row(
        case(&["sh", "-c", "kill -PIPE $$; exit 9"]),
        ["PIPE", "PIPE", "141", "PIPE"],
        "a death by a signal, as above",
    ),
];

const SIGNALS: &[Row] = &[
    row(
        signalled(MORTAL, &[Signal::TERM]),
        ["TERM", "TERM", "TERM, command lives", "TERM"],
        "flock relays nothing: it dies, its command runs on, and with it the lock",
    ),
    row(signalled(MORTAL, &[Signal::INT]), ["INT", "INT", "INT, command lives", "INT"], "as above"),
    row(signalled(MORTAL, &[Signal::HUP]), ["HUP", "HUP", "HUP, command lives", "HUP"], "as above"),
    row(
        signalled(MORTAL, &[Signal::QUIT]),
        ["QUIT", "QUIT", "QUIT, command lives", "QUIT"],
        "as above",
    ),
    row(
        signalled(WITNESS, &[Signal::TERM]),
        ["0 got TERM", "0 got TERM", "TERM, command lives", "0 got TERM"],
        "the command's own status wins, where there is somebody left to tell it",
    ),
    row(
        signalled(WITNESS, &[Signal::INT, Signal::TERM]),
        ["0 got INT,TERM", "*", "INT, command lives", "0 got INT,TERM"],
        "as above; timeout tells the command and its whole group: two deliveries unless they meet",
    ),
    row(
        Case {
            caller: "exec env --ignore-signal=HUP \"$@\"",
            ..signalled(MORTAL, &[Signal::HUP, Signal::TERM])
        },
        ["TERM", "*", "TERM, command lives", "TERM"],
        "what the caller ignores (nohup) stays ignored; timeout handled it all the same until 9.10",
    ),
    row(
        Case {
            caller: "exec env --ignore-signal=INT \"$@\"",
            ..signalled(MORTAL, &[Signal::INT, Signal::TERM])
        },
        ["TERM", "*", "TERM, command lives", "TERM"],
        "as above, for `command &` in a script",
    ),
    row(
        signalled(WITNESS, &[Signal::USR2, Signal::TERM]),
        ["0 got USR2,TERM", "*", "USR2, command lives", "0 got USR2,TERM"],
        "flock dies of it, and so did timeout until 9.10; the command is left behind",
    ),
];

const LIMITS: &[Row] = &[
    row(Case { options: Options::Limit, ..case(&["sleep", "60"]) }, ["-", "124", "-", "124"], SAME),
    row(
        Case {
            options: Options::Limit,
            ..case(&["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
        },
        ["-", "KILL", "-", "137"],
        "timeout's KILL for its own group ends itself too; a shell shows 137 for both",
    ),
    row(
        Case {
            options: Options::Limit,
            ..case(&["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"])
        },
        ["-", "124", "-", "124"],
        SAME,
    ),
    row(
        Case { options: Options::Limit, ..case(&["sh", "-c", "exit 4"]) },
        ["-", "4", "-", "4"],
        SAME,
    ),
];

/// What a tool did, in the table's words.
struct Outcome {
    end: End,
    output: String,
    command_lives: bool,
}

impl Outcome {
    fn words(&self) -> String {
        let end = match self.end {
            End::Exit(code) => code.to_string(),
            End::Signal(signal) => {
                let name = signal_hook::low_level::signal_name(signal).unwrap_or("SIG?");
                name.trim_start_matches("SIG").to_owned()
            }
        };
        // timeout sends a CONT after whatever it relays; whether that arrives in time is chance.
        let got = self.output.lines().filter_map(|line| line.strip_prefix("got "));
        let got: Vec<&str> = got.filter(|name| *name != "CONT").collect();
        match (self.command_lives, got.as_slice()) {
            (true, _) => format!("{end}, command lives"),
            (false, []) => end,
            (false, got) => format!("{end} got {}", got.join(",")),
        }
    }
}

/// The tool's own words; none when it has nothing of the kind.
fn tool_words(tool: Tool, options: Options, place: &Path) -> Option<Vec<String>> {
    let lock = place.join("lock").display().to_string();
    let redlock = env!("CARGO_BIN_EXE_redlock");
    let words: Vec<&str> = match (tool, options) {
        (Env, Options::Usual) => vec!["env"],
        (Timeout, Options::Usual) => vec!["timeout", "60"],
        (Flock, Options::Usual) => vec!["flock", &lock],
        (Redlock, Options::Usual) => vec![redlock, "run", "-n", "-k", "k"],
        (Env, Options::Unknown) => vec!["env", "--bogus"],
        (Timeout, Options::Unknown) => vec!["timeout", "--bogus", "60"],
        (Flock, Options::Unknown) => vec!["flock", "--bogus", &lock],
        (Redlock, Options::Unknown) => vec![redlock, "run", "--bogus", "-n", "-k", "k"],
        (Env | Flock, Options::Limit) => return None,
        (Timeout, Options::Limit) => vec!["timeout", "-k", "2", "0.3"],
        (Redlock, Options::Limit) => {
            vec![redlock, "run", "-n", "-k", "k", "--max-runtime", "300ms", "--kill-after", "2s"]
        }
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

fn try_case(tool: Tool, case: Case, fleet: &Fleet) -> Option<Outcome> {
    let place = scratch();
    let mut words = tool_words(tool, case.options, place.path())?;
    words.extend(case.command.iter().map(|&word| match word {
        "CHILD" => child().display().to_string(),
        "SCRIPT" => script(&place, "script", "exit 7\n").display().to_string(),
        word => word.to_owned(),
    }));
    let output = place.path().join("output");
    let mut command = Command::new("env");
    command
        .args(["--default-signal", "sh", "-c", case.caller, "sh"])
        .args(&words)
        .env("REDLOCK_NODES", fleet.nodes())
        .env("REDLOCK_RESTART_GUARD", "off")
        .env("REDLOCK_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::null())
        // A group of its own, which timeout signals as a whole.
        .process_group(0);
    let mut running = belt::die_with_parent(&mut command).spawn().unwrap();
    let pid = Pid::from_child(&running);
    let read = || {
        let mut text = String::new();
        File::open(&output).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    let mut processes = Vec::new();
    for (number, signal) in case.signals.iter().enumerate() {
        // Ready, and every signal before this one has arrived wherever it does.
        if number == 0 {
            eventually("the command is ready", || read().contains("ready\n"));
            // Until 9.5 a timeout that was hit between fork and wait left at once (coreutils#82).
            eventually("the tool sleeps", || state(pid) == Some('S'));
            processes = members(pid);
        } else if case.command == WITNESS {
            eventually("the signal before", || {
                read().matches("got ").count() >= number || running.try_wait().unwrap().is_some()
            });
        }
        // A zombie takes it too.
        let _ = kill_process(pid, *signal);
    }
    let mut status = None;
    eventually("the tool ends", || {
        status = running.try_wait().unwrap();
        status.is_some()
    });
    let left: Vec<Pid> = processes.into_iter().filter(|&process| alive(process)).collect();
    let command_lives = !left.is_empty();
    for process in left {
        let _ = kill_process(process, Signal::KILL);
    }
    Some(Outcome { end: status.unwrap().into(), output: read(), command_lives })
}

/// The tool's descendants but redlock's guardian, which ends by itself.
fn members(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    children
        .filter(|child| {
            let path = format!("/proc/{}/comm", child.as_raw_nonzero());
            std::fs::read_to_string(path).is_ok_and(|name| name != "redlock-guard\n")
        })
        .collect()
}

#[track_caller]
fn check(table: &[Row]) {
    let missing: Vec<&str> = ["env", "timeout", "flock"]
        .into_iter()
        .filter(|tool| Command::new(tool).arg("--version").output().is_err())
        .collect();
    if !missing.is_empty() {
        crate::skip!("this machine has no {}", missing.join(", "));
    }
    let fleet = fleet(1);
    let mut wrong = Vec::new();
    for row in table {
        for (tool, expected) in TOOLS.into_iter().zip(row.expected) {
            let outcome = try_case(tool, row.case, &fleet);
            let found = outcome.map_or_else(|| "-".to_owned(), |outcome| outcome.words());
            if found != expected && expected != "*" {
                let Case { caller, command, signals, .. } = row.case;
                wrong.push(format!(
                    "{tool:?}: {caller} {command:?} {signals:?}: {found:?}, not {expected:?} ({})",
                    row.why
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(fleet.all_keys(), [""; 0]);
}

#[test]
fn ends_of_commands_are_told_as_other_tools_tell_them() {
    check(ENDS);
}

#[test]
fn what_the_caller_handed_down_gets_through_as_with_other_tools() {
    check(CALLERS);
}

#[test]
fn signals_to_the_tool_alone_do_what_they_do_to_other_tools_or_better() {
    check(SIGNALS);
}

#[test]
fn limits_of_time_have_the_codes_of_timeout() {
    check(LIMITS);
}

/// The table says itself where it has differences, and none goes unexplained.
#[test]
fn every_difference_has_its_reason() {
    for row in [ENDS, CALLERS, SIGNALS, LIMITS].into_iter().flatten() {
        let mut known = row.expected.into_iter().filter(|&one| !["-", "*"].contains(&one));
        let first = known.next().unwrap();
        let same = known.all(|one| one == first);
        assert_eq!(same, row.why == SAME, "{:?}: {}", row.case.command, row.why);
    }
}

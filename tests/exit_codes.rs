//! The command's status is ours, whatever it is; what is ours has its code and its line.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use rustix::process::Signal;

use crate::harness::{
    Redlock, eventually,
    fixture::child,
    fleet, scratch, script,
    servers::{Fleet, Inspect, InspectAll},
};

/// One node is enough where the nodes do not matter.
fn run(fleet: &Fleet) -> Redlock {
    Redlock::run(fleet.nodes()).args(["-n"])
}

#[test]
fn every_exit_status_is_passed_on() {
    let fleet = fleet(1);
    for code in 0..=255 {
        let line = format!("exit {code}");
        run(&fleet).shell(&line).exits(code).check();
    }
    assert!(fleet.all_keys().is_empty());
}

/// A shell shows 128+n for us as it does for the command.
#[test]
fn death_by_any_signal_is_passed_on() {
    let fleet = fleet(1);
    let fatal = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31];
    for signal in fatal.into_iter().chain([34, 50, 64]) {
        let line = format!("ulimit -c 0; kill -{signal} $$; exit 99");
        let outcome = run(&fleet)
            // Whoever runs the tests may ignore INT and QUIT (`&` in a script does).
            .under(["env", "--default-signal"])
            .shell(&line)
            .output();
        let expected = crate::harness::builder::End::Signal(signal);
        assert!(outcome.end == expected && outcome.stderr.is_empty(), "{signal}: {outcome}");
    }
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn command_that_is_not_there_is_127_and_gives_the_lock_back() {
    let fleet = fleet(3);
    for command in ["/no/such/command", "no-such-command", "/etc/passwd/x"] {
        let code = if command.starts_with("/etc") { 126 } else { 127 };
        let reason = format!("*{command}*");
        run(&fleet).command([command]).fails(code, &reason).check();
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
}

#[test]
fn command_that_cannot_be_executed_is_126_and_gives_the_lock_back() {
    let fleet = fleet(3);
    for command in ["/etc/passwd", "/etc"] {
        let reason = format!("*{command}*");
        run(&fleet).command([command]).fails(126, &reason).check();
        eventually("no key is left", || fleet.all_keys().is_empty());
    }
}

#[test]
fn script_without_a_first_line_runs_in_a_shell() {
    let fleet = fleet(1);
    let place = scratch();
    let path = script(&place, "s", "echo \"$1\"; exit 7\n");
    run(&fleet).command([path.as_os_str(), "a b".as_ref()]).stdout("a b\n").exits(7).check();
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let fleet = fleet(1);
    let arguments: Vec<OsString> = [
        &b"a b"[..],
        b"'",
        b"\"$x`\\",
        b"",
        b"\xff\xfe\n",
        b"--help",
        b"--",
        b"-n",
        b"--key=other",
        b"*",
    ]
    .into_iter()
    .map(|bytes| OsString::from_vec(bytes.to_vec()))
    .collect();
    let expected: String = arguments
        .iter()
        .flat_map(|argument| {
            let digits = argument.as_bytes().iter().map(|byte| format!("{byte:02x}"));
            digits.chain(["\n".to_owned()])
        })
        .collect();
    let program = [child().into_os_string(), "arguments".into()];
    let words = || program.iter().chain(&arguments);
    run(&fleet).command(words()).stdout(expected.as_str()).check();
    // The first operand starts the command, with or without `--`.
    run(&fleet).args(words()).stdout(expected.as_str()).check();
}

#[test]
fn options_after_the_first_operand_are_the_commands() {
    let fleet = fleet(1);
    run(&fleet)
        .args(["echo", "-k", "--ttl", "nonsense", "--version"])
        .stdout("-k --ttl nonsense --version\n")
        .check();
    run(&fleet).args(["--", "echo", "--", "--help"]).stdout("-- --help\n").check();
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands_own() {
    let fleet = fleet(1);
    run(&fleet)
        .shell("cat; echo err >&2; exit 4")
        .stdin("in\n")
        .stdout("in\n")
        .stderr("err\n")
        .exits(4)
        .check();
}

#[test]
fn command_that_exits_with_a_code_of_ours_has_no_line_of_ours() {
    let fleet = fleet(1);
    for code in [64, 69, 75, 77, 78, 79, 124, 125, 126, 127] {
        run(&fleet).shell(&format!("exit {code}")).exits(code).check();
    }
}

#[test]
fn relayed_signal_does_not_change_the_status_that_the_command_chooses() {
    let fleet = fleet(1);
    // The shell remarks that its sleep was ended too.
    let line = "exec 2>/dev/null; trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut running = run(&fleet).shell(line).stdout("ready\n").start();
    running.wait_stdout("ready\n");
    running.signal(Signal::TERM);
    running.check();
}

#[test]
fn signal_that_kills_the_command_kills_us() {
    let fleet = fleet(1);
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut running = run(&fleet)
            .under(["env", "--default-signal"])
            .shell("ulimit -c 0; echo ready; exec sleep 60")
            .stdout("ready\n")
            .dies_of(signal)
            .start();
        running.wait_stdout("ready\n");
        running.signal(signal);
        running.check();
    }
    eventually("no key is left", || fleet.all_keys().is_empty());
}

#[test]
fn every_relayed_signal_arrives_exactly_once() {
    let fleet = fleet(1);
    let signals = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    let program = child();
    let words: [&OsStr; 2] = [program.as_os_str(), OsStr::new("signals")];
    let mut running = run(&fleet).under(["env", "--default-signal"]).command(words).start();
    running.wait_stdout("ready\n");
    let mut expected = "ready\n".to_owned();
    for (signal, name) in signals {
        running.signal(signal);
        expected = format!("{expected}got {name}\n");
        running.wait_stdout(&expected);
    }
    running.signal(Signal::TERM);
    expected.push_str("got TERM\n");
    let outcome = running.output();
    assert_eq!(outcome.stdout, expected, "{outcome}");
    assert_eq!(outcome.end, crate::harness::builder::End::Exit(0), "{outcome}");
}

#[test]
fn signal_while_waiting_ends_the_waiting_and_takes_every_vote_back() {
    let fleet = fleet(3);
    for server in &fleet.servers()[..2] {
        server.set("k", "foreign");
    }
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut waiter = Redlock::run(fleet.nodes())
            .under(["env", "--default-signal"])
            .command(["echo", "ran"])
            .start();
        waiter.wait_stderr("waiting for 'k'");
        waiter.signal(signal);
        let outcome = waiter.output();
        let expected = crate::harness::builder::End::Signal(signal.as_raw());
        assert!(outcome.end == expected && outcome.stdout.is_empty(), "{outcome}");
        eventually("only the foreign values are left", || fleet.holding("k") == [0, 1]);
    }
}

/// One run for each row of the table; a row that is added needs one more.
#[test]
fn every_code_of_the_table_is_produced_by_something_that_can_happen() {
    let fleet = fleet(1);
    let locked = |user: &str| {
        let words = ["ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", "-eval"];
        fleet.servers()[0].client().command(&words);
        fleet.nodes().replace("redis://", &format!("redis://{user}:pw@"))
    };
    let other = "00000000-0000-4000-8000-000000000001";
    let on = |words: &[&str]| Redlock::new(words).nodes(fleet.nodes());
    let stubborn = "trap '' TERM; while :; do sleep 0.05; done";
    let short = ["run", "-k", "k", "--max-runtime", "100ms", "--kill-after", "100ms"];
    let runs = [
        (0, on(&["run", "-k", "k", "true"])),
        (1, on(&["doctor", "--strict"])),
        (64, on(&["run", "--bogus"])),
        (69, Redlock::run("redis://127.0.0.1:1").args(["-n", "true"])),
        (75, on(&["run", "-k", "taken", "-n", "true"])),
        (77, Redlock::run(locked("ci")).args(["-n", "true"])),
        (78, on(&["run", "-k", "k", "--grace", "1h", "true"])),
        (79, on(&["release", "-k", "k", "--token", other])),
        (124, on(&short).command(["sleep", "60"])),
        (125, on(&["acquire", "-k", "k", "-t", "1m", "--token-file", "/nonexistent/t"])),
        (126, on(&["run", "-k", "k", "/etc/passwd"])),
        (127, on(&["run", "-k", "k", "/no/such/program"])),
        (137, on(&short).shell(stubborn)),
    ];
    fleet.set_everywhere("taken", "foreign");
    let produced: Vec<u8> = runs.iter().map(|(code, _)| *code).collect();
    let table: Vec<u8> = redlock::exit::TABLE.iter().map(|row| row.code.number()).collect();
    assert_eq!(produced, table);
    for (code, run) in runs {
        let outcome = run.output();
        let expected = crate::harness::builder::End::Exit(code.into());
        assert_eq!(outcome.end, expected, "{outcome}");
        let last = outcome.stderr.lines().next_back().unwrap_or_default();
        let said = last.starts_with(&format!("redlock: exit {code}: "));
        assert_eq!(said, code != 0, "{outcome}");
    }
}

/// gearcmd#54: whoever signals the whole group means the command, and means it once.
#[test]
fn signal_to_our_group_reaches_the_command_once() {
    const ROUNDS: usize = 10;
    let fleet = fleet(1);
    let program = child();
    let words: [&OsStr; 3] = [program.as_os_str(), OsStr::new("signals"), OsStr::new("USR1")];
    let mut running = run(&fleet).under(["env", "--default-signal"]).command(words).start();
    running.wait_stdout("ready\n");
    for round in 1..=ROUNDS {
        // We lead a group of our own, and the command another one.
        rustix::process::kill_process_group(running.pid(), Signal::TERM).unwrap();
        eventually("the signal", || running.stdout().matches("got TERM").count() >= round);
        // Whatever would come twice comes before what is sent now.
        running.signal(Signal::USR2);
        eventually("the next one", || running.stdout().matches("got USR2").count() == round);
    }
    running.signal(Signal::USR1);
    let outcome = running.output();
    assert_eq!(outcome.stdout.matches("got TERM").count(), ROUNDS, "{outcome}");
    assert_eq!(outcome.end, crate::harness::builder::End::Exit(0), "{outcome}");
}

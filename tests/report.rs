//! `--report`: one object for every end of a run.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Redlock,
    builder::{End, Outcome},
    eventually, fleet, scratch,
    servers::{Fleet, InspectAll},
};

const FIELDS: [&str; 17] = [
    "v",
    "outcome",
    "exit",
    "source",
    "key",
    "label",
    "host",
    "start",
    "end",
    "wait_ms",
    "held_ms",
    "extensions",
    "failed_rounds",
    "min_margin_ms",
    "nodes_ok",
    "nodes",
    "fingerprint",
];

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// A run that is started, led to its end by `lead`, and has reported into a file of its own.
struct Case<'a> {
    words: &'a [&'a str],
    outcome: &'a str,
    exit: i64,
    source: &'a str,
    lead: fn(&Fleet),
}

fn nothing(_: &Fleet) {}

/// Runs `case` on a new fleet of three and compares.
fn check(case: &Case<'_>) -> (Value, Outcome) {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("report");
    (case.lead)(&fleet);
    let report = path.to_str().unwrap();
    let outcome = Redlock::run(fleet.nodes())
        .args(["--label", "nightly", "--report", report])
        .args(case.words)
        .output();
    let value = read(&path);
    let what = format!("{:?}: {value}\n{outcome}", case.words);
    let fields = value.as_object().unwrap();
    assert_eq!(fields.len(), FIELDS.len(), "{what}");
    assert!(FIELDS.iter().all(|name| fields.contains_key(*name)), "{what}");
    assert_eq!(value["outcome"], case.outcome, "{what}");
    assert_eq!(value["exit"], case.exit, "{what}");
    assert_eq!(value["source"], case.source, "{what}");
    assert_eq!((&value["v"], &value["key"]), (&1.into(), &"k".into()), "{what}");
    assert_eq!((&value["label"], &value["nodes"]), (&"nightly".into(), &3.into()), "{what}");
    assert!(value["start"].as_str().unwrap() <= value["end"].as_str().unwrap(), "{what}");
    let status = match outcome.end {
        End::Exit(code) => code,
        End::Signal(signal) => 128 + signal,
    };
    assert_eq!(i64::from(status), case.exit, "{what}");
    // Whose status it is can be told from the last line as well.
    let silent = case.outcome == "skipped" || case.outcome == "cancelled";
    let ours = outcome.stderr.contains(&format!("redlock: exit {status}: "));
    assert_eq!(ours, case.source == "redlock" && !silent, "{what}");
    (value, outcome)
}

fn held(fleet: &Fleet) {
    fleet.set_everywhere("k", "other host");
}

fn down(fleet: &Fleet) {
    for server in &fleet.servers()[..2] {
        server.stop().unwrap();
    }
}

fn unauthorised(fleet: &Fleet) {
    use crate::harness::servers::Inspect;
    for server in fleet.servers() {
        server.client().command(&["CONFIG", "SET", "requirepass", "secret"]);
    }
}

#[test]
fn every_end_is_reported_as_what_it_is() {
    let token = "11111111-1111-4111-8111-111111111111";
    let case = |words, outcome, exit, source, lead| Case { words, outcome, exit, source, lead };
    for case in [
        case(&["true"][..], "ran", 0, "command", nothing as fn(&Fleet)),
        case(&["sh", "-c", "exit 75"], "ran", 75, "command", nothing),
        case(&["sh", "-c", "kill -KILL $$"], "ran", 137, "command", nothing),
        case(&["-n", "true"], "busy", 75, "redlock", held),
        case(&["-n", "-E", "9", "true"], "busy", 9, "redlock", held),
        case(&["-w", "100ms", "true"], "timed-out", 75, "redlock", held),
        case(&["--skip", "true"], "skipped", 0, "redlock", held),
        case(&["-n", "-t", "1s", "true"], "unavailable", 69, "redlock", down),
        case(&["-n", "true"], "refused", 77, "redlock", unauthorised),
        case(&["--token", token, "true"], "lost", 79, "redlock", nothing),
        case(&["--max-runtime", "100ms", "sleep", "60"], "max-runtime", 124, "redlock", nothing),
        case(&["no-such-program"], "not-started", 127, "redlock", nothing),
        case(&["/"], "not-started", 126, "redlock", nothing),
    ] {
        let (value, _) = check(&case);
        let got = matches!(case.outcome, "ran" | "max-runtime" | "not-started");
        assert_eq!(value["held_ms"].is_u64(), got, "{value}");
        assert_eq!(value["min_margin_ms"].is_u64(), got, "{value}");
        let fingerprint = value["fingerprint"].as_str().unwrap();
        assert!(!fingerprint.is_empty(), "{value}");
        let ok = match case.outcome {
            "unavailable" => 1,
            "refused" => 0,
            // Every node answered, but one that was not waited for need not be in it.
            _ => 3,
        };
        let nodes = value["nodes_ok"].as_u64().unwrap();
        assert!(nodes == ok || (ok == 3 && nodes == 2), "{value}");
    }
}

#[test]
fn loss_and_cancellation_are_reported_too() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("report");
    let run = |words: &[&str]| {
        Redlock::run(fleet.nodes())
            .args(["--report", path.to_str().unwrap(), "-t", "1s"])
            .args(words)
            .start()
    };
    let mut lost = run(&["sh", "-c", "echo ready; sleep 60"]);
    lost.wait_stdout("ready\n");
    fleet.set_everywhere("k", "thief");
    assert_eq!(lost.output().end, End::Exit(79));
    assert_eq!((&read(&path)["outcome"], &read(&path)["exit"]), (&"lost".into(), &79.into()));
    let waiting = run(&["true"]);
    eventually("it waits", || fleet.listeners("k") == 1);
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.output().end, End::Signal(Signal::TERM.as_raw()));
    let value = read(&path);
    assert_eq!((&value["outcome"], &value["exit"]), (&"cancelled".into(), &143.into()));
    assert_eq!(value["source"], "redlock");
    assert_eq!(value["held_ms"], Value::Null);
}

#[test]
fn numbers_are_those_of_the_run() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("report");
    let start = std::time::Instant::now();
    Redlock::run(fleet.nodes())
        .args(["--report", path.to_str().unwrap(), "-t", "900ms"])
        .command(["sleep", "1.5"])
        .check();
    let took = u64::try_from(start.elapsed().as_millis()).unwrap();
    let value = read(&path);
    let number = |name: &str| value[name].as_u64().unwrap();
    assert!((1500..=took).contains(&number("held_ms")), "{value}");
    assert!(number("wait_ms") + number("held_ms") <= took, "{value}");
    // Every 300 ms.
    assert!((3..=5).contains(&number("extensions")), "{value}");
    assert_eq!((number("failed_rounds"), number("nodes_ok")), (0, 3), "{value}");
    assert!((100..=600).contains(&number("min_margin_ms")), "{value}");
    assert_eq!(value["label"], Value::Null);
}

#[test]
fn settings_that_cannot_work_are_reported_and_mistakes_of_the_line_are_not() {
    let place = scratch();
    let path = place.path().join("report");
    let report = path.to_str().unwrap();
    Redlock::run("").args(["--report", report, "true"]).fails(78, "*").check();
    let value = read(&path);
    assert_eq!((&value["outcome"], &value["exit"]), (&"not-started".into(), &78.into()));
    assert_eq!((&value["nodes"], &value["fingerprint"]), (&0.into(), &Value::Null));
    fs::remove_file(&path).unwrap();
    Redlock::run("").args(["--report", report, "--no-such", "true"]).fails(64, "*").check();
    assert!(!path.exists());
    for (place, said) in [
        ("fd:1", "*takes a number from 3 on*"),
        ("fd:77", "*fd:77 is not open*"),
        ("fd:x", "*takes a number from 3 on*"),
        ("", "*is empty"),
    ] {
        Redlock::run("localhost:1").args(["--report", place, "true"]).fails(64, said).check();
    }
}

#[test]
fn descriptor_is_appended_to_and_closed_in_the_command() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("log");
    fs::write(&path, "before\n").unwrap();
    let line = format!(
        "exec 7>>'{}'; for i in 1 2; do \"$0\" run -k k --report fd:7 -- sh -c 'ls /proc/self/fd; \
         if [ -e /proc/self/fd/7 ]; then echo leaked; fi'; done; echo after >&7",
        path.display()
    );
    let outcome = Redlock::new([] as [&str; 0])
        .under(["sh", "-c", &line])
        .nodes(fleet.nodes())
        .stdout_like("*\n*\n*\n*\n*\n*\n*\n*\n")
        .output();
    assert_eq!(outcome.end, End::Exit(0), "{outcome}");
    assert!(!outcome.stdout.contains("leaked"), "{outcome}");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (4, "before", "after"), "{text}");
    for line in &lines[1..3] {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["outcome"], "ran");
    }
}

/// The password would be read from where the report goes, and the number mean something of ours then.
#[test]
fn descriptor_of_the_password_is_not_taken_for_the_report_too() {
    let line = "exec \"$0\" run -k k --report fd:5 --password-file fd:5 -- true 5</dev/null";
    let outcome =
        Redlock::new([] as [&str; 0]).under(["sh", "-c", line]).nodes("localhost:1").output();
    assert_eq!(outcome.end, End::Exit(78), "{outcome}");
    assert!(outcome.stderr.contains("cannot read fd:5: bad file descriptor"), "{outcome}");
}

#[test]
fn report_that_cannot_be_written_changes_nothing_and_is_a_warning() {
    let fleet = fleet(3);
    let place = scratch();
    let missing = place.path().join("missing/report");
    let run = || {
        Redlock::run(fleet.nodes())
            .args(["--report", missing.to_str().unwrap()])
            .shell("exit 4")
            .exits(4)
    };
    // cron would mail it.
    run().check();
    let told =
        "redlock: the report was not written: cannot write into *: no such file or directory";
    let outcome = Redlock::run(fleet.nodes())
        .args(["-v", "--report", missing.to_str().unwrap()])
        .shell("exit 4")
        .exits(4)
        .stderr_like(&format!("redlock: got *\nredlock: let go of *\n{told}\n"))
        .check();
    assert_eq!(outcome.end, End::Exit(4));
    // The line with the code stays the last one.
    Redlock::run(fleet.nodes())
        .args(["-v", "--report", missing.to_str().unwrap(), "no-such-program"])
        .exits(127)
        .stderr_like(&format!(
            "redlock: got *\nredlock: let go of *\n{told}\nredlock: exit 127: *\n"
        ))
        .check();
    assert!(fs::read_dir(place.path()).unwrap().next().is_none());
}

#[test]
fn file_has_the_usual_rights_and_nothing_secret() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("report");
    let nodes = fleet.nodes().replace("127.0.0.1", "redis://:hunter2@127.0.0.1");
    // The nodes have no password and say so: refused or not, nothing of it is written.
    let line = format!("umask 027; exec \"$0\" run -k k -n --report '{}' -- true", path.display());
    let outcome = Redlock::new([] as [&str; 0]).under(["sh", "-c", &line]).nodes(nodes).output();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}\n{outcome}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn prometheus_file_is_merged_by_key_also_by_runs_that_end_together() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("redlock.prom");
    fs::write(&path, "# TYPE node_up gauge\nnode_up 1\n").unwrap();
    let report = path.to_str().unwrap();
    let run = |key: &str, words: &[&str]| {
        Redlock::new(["run", "-k", key, "--report", report])
            .nodes(fleet.nodes())
            .args(words)
            .start()
    };
    let all: Vec<_> = (0..8).map(|n| run(&format!("job {n}"), &["sh", "-c", "exit 0"])).collect();
    for one in all {
        assert_eq!(one.output().end, End::Exit(0));
    }
    assert_eq!(run("job 3", &["sh", "-c", "exit 5"]).output().end, End::Exit(5));
    let text = fs::read_to_string(&path).unwrap();
    for n in 0..8 {
        let code = if n == 3 { 5 } else { 0 };
        let line = format!("redlock_last_exit_code{{key=\"job {n}\"}} {code}");
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        let success = format!("redlock_last_success_timestamp_seconds{{key=\"job {n}\"}} ");
        assert!(text.contains(&success), "{success}:\n{text}");
    }
    assert!(text.ends_with("# TYPE node_up gauge\nnode_up 1\n"), "{text}");
    assert_eq!(text.matches("# HELP redlock_last_exit_code ").count(), 1);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn reader_of_the_file_never_sees_a_part_of_it() {
    let fleet = fleet(3);
    let place = scratch();
    let path = place.path().join("report");
    let run = || Redlock::run(fleet.nodes()).args(["--report", path.to_str().unwrap(), "true"]);
    run().check();
    // Whoever has it open keeps the old one, whole.
    let before = fs::read_to_string(&path).unwrap();
    let mut open = File::open(&path).unwrap();
    run().within(Duration::from_secs(10)).check();
    let mut old = String::new();
    std::io::Read::read_to_string(&mut open, &mut old).unwrap();
    assert_eq!(old, before);
    assert_ne!(fs::read_to_string(&path).unwrap(), before);
}

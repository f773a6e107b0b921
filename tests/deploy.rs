//! The job that the help describes, done by a shell script that knows nothing but the help: a lock
//! for a deploy of several steps, extended in a loop, given back in a trap, and survived by others
//! when the script is killed in between.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{
    Redlock, eventually, fleet, scratch, script,
    servers::{Fleet, Inspect, InspectAll},
};

const DEPLOY: &str = r#"#!/bin/sh
# Written from `redlock acquire --help` alone.
token=$(redlock acquire -k deploy -t "$TTL" -w 10s --label "deploy $1") || exit
trap 'redlock release -k deploy --token "$token"' EXIT
trap 'exit 130' INT; trap 'exit 143' TERM
# Extend while the long part runs, and stop when the lock is not ours any more.
echo "start $1" >>log
for part in 1 2 3; do
    redlock extend -k deploy --token "$token" -t "$TTL" >/dev/null || exit
    echo "part $part of $1" >>log
    [ -z "$STEP" ] || sh -c "$STEP"
done
redlock run -k deploy --token "$token" -t "$TTL" -- sh -c "echo step2 of $1 >>log" || exit
echo "end $1" >>log
"#;

/// A directory with the script, and `redlock` by that name on PATH.
struct Place {
    directory: tempfile::TempDir,
    fleet: Fleet,
}

impl Place {
    fn new() -> Self {
        let directory = scratch();
        script(&directory, "deploy", DEPLOY);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_redlock"), directory.path().join("redlock"))
            .unwrap();
        Self { directory, fleet: fleet(3) }
    }

    fn sh(&self, line: &str) -> Redlock {
        let place = self.directory.path().display();
        let path = format!("{place}:{}", std::env::var("PATH").unwrap());
        Redlock::new([] as [&str; 0])
            .under(["sh", "-c", &format!("cd {place} && {line}")])
            .nodes(self.fleet.nodes())
            .env("PATH", path)
            .env("TTL", "1m")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

#[test]
fn script_holds_the_lock_over_all_its_steps_and_gives_it_back() {
    let place = Place::new();
    let step = "redlock run -k deploy -n -- echo intruder >>log; true";
    place
        .sh("./deploy a")
        .env("STEP", step)
        .stderr_like(&"redlock: exit 75: *\n".repeat(3))
        .check();
    assert_eq!(place.log(), "start a\npart 1 of a\npart 2 of a\npart 3 of a\nstep2 of a\nend a\n");
    assert!(place.fleet.all_keys().is_empty());
    // A second one waits for the first.
    place.sh("{ ./deploy b & ./deploy c; wait; }").output();
    let log = place.log();
    let (b, c) = (log.find("end b").unwrap(), log.find("end c").unwrap());
    let (start_b, start_c) = (log.find("start b").unwrap(), log.find("start c").unwrap());
    assert!(b < start_c || c < start_b, "{log}");
    assert!(place.fleet.all_keys().is_empty());
}

#[test]
fn script_that_is_told_to_end_gives_the_lock_back_on_its_way_out() {
    let place = Place::new();
    let run = place.sh("exec ./deploy a").env("STEP", "sleep 0.05").exits(143).start();
    eventually("it has begun", || place.log().contains("part 1"));
    run.signal(Signal::TERM);
    run.check();
    assert!(place.fleet.all_keys().is_empty() && !place.log().contains("end a"));
}

/// cli-reports 67: a late release by the dead script's token changes nothing.
#[test]
fn script_that_is_killed_blocks_others_for_a_ttl_at_most_and_its_token_is_dead() {
    let place = Place::new();
    let step = "echo $PPID >pid; sleep 60";
    let run = place.sh("exec ./deploy a").env("TTL", "3s").env("STEP", step).start();
    eventually("it has begun", || place.directory.path().join("pid").exists());
    let value = place.fleet.servers()[0].get("deploy").unwrap();
    let token = &value[..36];
    let _ = kill_process(Pid::from_raw(run.pid().as_raw_nonzero().get()).unwrap(), Signal::KILL);
    run.output();
    // Who holds it, and since when?
    let out = place.sh("redlock status deploy --json").stdout_like("*\n").check().stdout;
    let report: Value = serde_json::from_str(&out).unwrap();
    let lock = &report["locks"][0];
    assert_eq!(lock["holder"]["label"], "deploy a");
    assert!(lock["held_for_ms"].as_u64().is_some() && lock["life"] == "acquired", "{lock}");
    // The next one comes through when the ttl is over, and the dead one's token cannot free it.
    let release = format!("redlock release -k deploy --token {token}");
    place
        .sh("./deploy b")
        .env("STEP", &release)
        .stderr_like(&format!(
            "redlock: waiting for 'deploy': *\nredlock: got 'deploy' after *\n{}",
            "redlock: exit 79: *\n".repeat(3)
        ))
        .check();
    assert!(place.log().contains("end b"), "{}", place.log());
    assert!(place.fleet.all_keys().is_empty());
}

#[test]
fn dead_lock_is_freed_by_the_line_that_status_shows() {
    let place = Place::new();
    place.sh("redlock acquire -k deploy -t 1h >token").check();
    let line = "redlock status deploy | sed -n 's/^to free it: //p' >free; sh ./free; sh ./free";
    place.sh(line).exits(79).stderr_like("redlock: exit 79: *\n").check();
    assert!(place.fleet.all_keys().is_empty());
}

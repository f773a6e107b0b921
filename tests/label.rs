//! `--label`: a remark for everybody who finds the lock held; `--heartbeat`: how often waiting says so.

use serde_json::Value;

use crate::harness::{
    Redlock, fleet,
    servers::{Fleet, Inspect, InspectAll},
};

/// What the value of `k` says about a holder that was started in this way.
fn label(fleet: &Fleet, adjust: impl Fn(Redlock) -> Redlock) -> Value {
    let run = adjust(Redlock::run(fleet.nodes()).args(["--min-hold", "1m"]));
    run.command(["true"]).check();
    let value = fleet.servers()[0].get("k").unwrap();
    for server in fleet.servers() {
        server.client().del("k");
    }
    serde_json::from_str::<Value>(&value[37..]).unwrap()["label"].clone()
}

#[test]
fn label_comes_from_the_option_or_the_environment() {
    let fleet = fleet(1);
    let url = "https://ci.example/run/7";
    assert_eq!(label(&fleet, |run| run), Value::Null);
    assert_eq!(label(&fleet, |run| run.env("REDLOCK_LABEL", url)), url);
    let both = label(&fleet, |run| run.env("REDLOCK_LABEL", url).args(["--label", "mine"]));
    assert_eq!(both, "mine");
    assert_eq!(label(&fleet, |run| run.env("REDLOCK_LABEL", "")), Value::Null, "no remark");
    assert_eq!(label(&fleet, |run| run.args(["--label", ""])), Value::Null);
}

#[test]
fn label_has_at_most_200_bytes() {
    let fleet = fleet(1);
    for longest in ["x".repeat(200), "\u{e9}".repeat(100)] {
        assert_eq!(label(&fleet, |run| run.args(["--label", &longest])), *longest);
    }
    let run = || Redlock::run(fleet.nodes());
    let said = "a label has at most 200 bytes (--label, REDLOCK_LABEL)";
    for long in ["x".repeat(201), "\u{e9}".repeat(101)] {
        run().args(["--label", &long, "true"]).fails(64, said).check();
        run().env("REDLOCK_LABEL", long).args(["true"]).fails(64, said).check();
    }
}

#[test]
fn label_is_shown_to_whoever_finds_the_lock_held() {
    let fleet = fleet(3);
    let run = || Redlock::run(fleet.nodes());
    // What could steer a terminal does not get there.
    run().args(["--min-hold", "1m", "--label", "run 7\u{1b}[2J"]).command(["true"]).check();
    let held = "held by * pid * (*, true, run 7*[2J) since *";
    let busy = run().args(["-n"]).command(["true"]).fails(75, &format!("'k' is {held}")).check();
    assert!(!busy.stderr.contains('\u{1b}'), "{busy}");
    let waited = run()
        .args(["-w", "1200ms"])
        .command(["true"])
        .exits(75)
        .stderr_like(&format!(
            "redlock: waiting for 'k': {held}\nredlock: exit 75: 'k' is {held}\n"
        ))
        .check();
    assert!(!waited.stderr.contains('\u{1b}'), "{waited}");
}

#[test]
fn heartbeat_of_zero_says_it_once() {
    let fleet = fleet(3);
    fleet.set_everywhere("k", "other host");
    let lines = |heartbeat: &str| {
        let outcome = Redlock::run(fleet.nodes())
            .args(["-w", "1500ms", "--heartbeat", heartbeat])
            .command(["true"])
            .exits(75)
            .stderr_like("*")
            .output();
        outcome.stderr.matches("redlock: waiting for 'k'").count()
    };
    assert_eq!((lines("0"), lines("0s")), (1, 1));
    // After 200 and another 400 ms.
    assert!((2..=4).contains(&lines("200ms")));
    Redlock::run(fleet.nodes())
        .args(["--heartbeat", "5", "true"])
        .fails(64, "*did you mean 5s?*")
        .check();
}

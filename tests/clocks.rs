//! Nodes whose clocks are wrong, and nodes that are younger than the others: real servers under
//! libfaketime.

use redlock::commands::sandbox::servers::Server;
use serde_json::Value;

use crate::{
    harness::{
        Redlock, eventually, fleet,
        servers::{Deceived, Inspect},
    },
    skip,
};

fn report(nodes: &str) -> Value {
    let doctor = Redlock::new(["doctor", "--json"]).nodes(nodes);
    let out = doctor.env("REDLOCK_RESTART_GUARD", "auto").output();
    serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"))
}

/// The findings of this kind.
fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    all.iter().filter(|finding| finding["check"] == check).collect()
}

/// The nodes of a finding about this server alone.
fn names(server: &Server) -> Value {
    serde_json::json!([server.address().to_string()])
}

/// Ends a test that cannot have the clock that it needs.
macro_rules! deceived {
    ($clock:expr) => {
        match Deceived::start($clock) {
            Ok(server) => server,
            Err(missing) => skip!("{missing}"),
        }
    };
}

#[test]
fn clock_that_is_set_wrong_is_found_on_the_node_that_has_it() {
    let right = fleet(2);
    for (clock, way) in [("+50s", " ahead of the others"), ("-50s", " behind the others")] {
        let wrong = deceived!(clock);
        let report = report(&format!("{},{}", right.nodes(), wrong.server.url()));
        let found = findings(&report, "clock");
        assert_eq!(found.len(), 1, "{report}");
        assert_eq!(found[0]["nodes"], names(&wrong.server));
        let what = found[0]["what"].as_str().unwrap();
        let apart = what.strip_prefix("its clock is ").and_then(|rest| rest.strip_suffix(way));
        assert!(matches!(apart, Some("49s" | "50s")), "{what}");
        assert_eq!(findings(&report, "clock-rate").len(), 0, "{report}");
        // It votes all the same: only differences of its clock matter for locks.
        assert_eq!(report["exit"], 0, "{report}");
    }
}

#[test]
fn clock_that_runs_at_another_rate_is_found_within_a_second() {
    let right = fleet(2);
    for clock in ["+0 x2", "+0 x0.5"] {
        let wrong = deceived!(clock);
        let report = report(&format!("{},{}", right.nodes(), wrong.server.url()));
        let found = findings(&report, "clock-rate");
        assert_eq!(found.len(), 1, "{report}");
        assert_eq!(found[0]["nodes"], names(&wrong.server));
        assert!(found[0]["what"].as_str().unwrap().starts_with("its clock ran for "), "{report}");
    }
}

#[test]
fn node_that_is_younger_than_the_others_votes_later() {
    let old = [deceived!("+0"), deceived!("+0")];
    for node in &old {
        node.set("+1h");
        eventually("it is an hour old", || {
            node.server.client().info_number("server", "uptime_in_seconds") >= 3600
        });
    }
    let young = fleet(1);
    let nodes = format!("{},{},{}", old[0].server.url(), old[1].server.url(), young.nodes());
    let report = report(&nodes);
    let found = findings(&report, "young");
    assert_eq!(found.len(), 1, "{report}");
    assert_eq!(found[0]["nodes"], names(&young.servers()[0]));
    assert!(found[0]["mend"].as_str().unwrap().contains("doctor --wait"), "{report}");
    let votes = |node: &Value| (node["node"].clone(), node["votes"].as_bool().unwrap());
    for (node, votes) in report["nodes"].as_array().unwrap().iter().map(votes) {
        assert_eq!(votes, node != names(&young.servers()[0])[0], "{report}");
    }
    assert!(report["verdict"].as_str().unwrap().contains("2 of 3 nodes vote"), "{report}");
}

//! What `doctor` and `status` say about TLS.

use rcgen::date_time_ymd;
use serde_json::Value;

use crate::harness::{
    Redlock, fleet,
    tls::{Authority, DAY, list},
};

fn report(nodes: &str, adjust: impl FnOnce(Redlock) -> Redlock) -> (Value, Vec<String>) {
    let doctor = adjust(Redlock::new(["doctor", "--json"]).nodes(nodes));
    let out = doctor.output();
    let report: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    let checks = report["findings"].as_array().unwrap().iter();
    let checks = checks.map(|finding| finding["check"].as_str().unwrap().to_owned());
    // What is so with every server of a test.
    let usual = ["loopback", "single-node", "no-persistence"];
    let checks = checks.filter(|check| !usual.contains(&check.as_str())).collect();
    (report, checks)
}

fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).unwrap()
}

#[test]
fn certificate_that_ends_within_a_fortnight_is_a_warning() {
    needs_tls!();
    let authority = Authority::new();
    let servers = [
        authority.server(&authority.issue_until(&["127.0.0.1"], DAY * 20), &[]),
        authority.server(&authority.issue_until(&["127.0.0.1"], DAY * 13), &[]),
        authority.server(&authority.issue_until(&["127.0.0.1"], DAY * 400), &[]),
    ];
    let (report, checks) = report(&list(&servers), |run| run.trusting(&authority.ca()));
    assert_eq!(checks, ["certificate-ends"]);
    let found = finding(&report, "certificate-ends");
    assert_eq!(found["nodes"], serde_json::json!([servers[1].url()]));
    let what = found["what"].as_str().unwrap();
    assert!(what.starts_with("its certificate ends 20") && what.ends_with(" in 12 days"), "{what}");
    let ends = |node: &Value| node["certificate_ends"].as_str().unwrap().starts_with("20");
    assert!(report["nodes"].as_array().unwrap().iter().all(ends), "{report}");
}

#[test]
fn insecure_is_a_finding_and_lets_ended_certificates_be_seen() {
    needs_tls!();
    let authority = Authority::new();
    let old = authority.issue_as(&["127.0.0.1"], |p| p.not_after = date_time_ymd(2023, 11, 14));
    let server = authority.server(&old, &[]);
    let (insecure, checks) = report(&server.url(), |run| run.args(["--tls-insecure"]));
    assert_eq!(checks, ["tls-insecure", "certificate-ended"]);
    let what = &finding(&insecure, "certificate-ended")["what"];
    assert_eq!(what, "its certificate ended 2023-11-14T00:00:00Z");
    // Checked, it is as good as down.
    let (checked, checks) = report(&server.url(), |run| run.trusting(&authority.ca()));
    assert_eq!((checks, &checked["exit"]), (vec!["tls-expired".to_owned()], &69.into()));
}

#[test]
fn ports_that_speak_the_other_language_are_findings_with_the_line_that_mends_them() {
    needs_tls!();
    let authority = Authority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let (plain, secure) = (fleet(1), authority.server(&issued, &[]));
    let right = authority.server(&issued, &[]);
    let nodes = format!(
        "rediss://{},{},{}",
        plain.servers()[0].address(),
        secure.url().replace("rediss:", "redis:"),
        right.url()
    );
    let (report, checks) = report(&nodes, |run| run.trusting(&authority.ca()));
    assert_eq!(checks.len(), 2, "{report}");
    let find = |names: &[&str]| {
        let check = checks.iter().find(|check| names.contains(&check.as_str()));
        finding(&report, check.unwrap_or_else(|| panic!("none of {names:?}: {report}")))
    };
    let (no_tls, tls) = (find(&["no-tls", "tls-silent"]), find(&["speaks-tls", "cut"]));
    assert!(no_tls["mend"].as_str().unwrap().contains("redis://"), "{no_tls}");
    assert!(tls["mend"].as_str().unwrap().contains("rediss://"), "{tls}");
    eprintln!("{checks:?}");
}

#[test]
fn status_and_doctor_say_what_a_run_says() {
    needs_tls!();
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let words = "its certificate comes from a CA that is not trusted here";
    for command in ["status", "doctor"] {
        let run = Redlock::new([command]).nodes(server.url()).trusting(&other.ca());
        let out = run.exits(69).output();
        let all = format!("{}{}", out.stdout, out.stderr);
        assert!(all.contains(words), "{out}");
    }
}

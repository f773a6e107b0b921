//! The report in the text format that Prometheus's `node_exporter` reads from files (`*.prom`): what
//! the last runs of each lock were like. Others may write about other locks into the same file.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{Fate, Figures, Reporting, status};
use crate::exit::Exit;

/// The metrics, with what each says. All are gauges with the label `key`.
const FAMILIES: [(&str, &str); 6] = [
    ("redlock_last_start_timestamp_seconds", "When redlock run was last started for this lock."),
    (
        "redlock_last_success_timestamp_seconds",
        "When the command last ended with status 0 under this lock.",
    ),
    (
        "redlock_last_skip_timestamp_seconds",
        "When a run was last skipped because somebody else had this lock.",
    ),
    ("redlock_last_wait_seconds", "How long the last run that got this lock waited for it."),
    ("redlock_last_held_seconds", "How long the last run that got this lock held it."),
    ("redlock_last_exit_code", "The exit code of the last run for this lock."),
];

/// The text of a file that was `old`, with what is new about this lock. What the file says of other
/// locks stays, and so does what is not ours.
pub fn merged(old: &str, about: &Reporting, figures: &Figures, end: SystemTime) -> String {
    let ours = format!("{{key=\"{}\"}}", escaped(&about.key));
    let news = news(about, figures, end);
    let mut text = String::new();
    for ((name, help), news) in FAMILIES.into_iter().zip(news) {
        let known = old.lines().filter_map(|line| sample(line, name));
        let mut samples: BTreeMap<&str, String> =
            known.map(|(labels, value)| (labels, value.to_owned())).collect();
        if let Some(value) = news {
            samples.insert(&ours, value);
        }
        if samples.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    for line in old.lines().filter(|line| !is_ours(line)) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The value of each metric that this run changes.
fn news(about: &Reporting, figures: &Figures, end: SystemTime) -> [Option<String>; FAMILIES.len()] {
    let success = figures.fate == Fate::Ran && figures.exit == Exit::Status(0);
    let skipped = figures.fate == Fate::Skipped;
    [
        Some(unix(about.began)),
        success.then(|| unix(end)),
        skipped.then(|| unix(end)),
        figures.held.map(|_| seconds(figures.waited)),
        figures.held.map(seconds),
        Some(status(figures.exit).to_string()),
    ]
}

/// The labels and the value of a line about the metric `name`.
fn sample<'a>(line: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let rest = line.strip_prefix(name).filter(|rest| rest.starts_with('{'))?;
    // A value has no brace, a label's may.
    let (labels, value) = rest.split_at(rest.rfind('}')? + 1);
    let value = value.trim();
    (!value.is_empty()).then_some((labels, value))
}

/// Whether a line is about a metric of ours.
fn is_ours(line: &str) -> bool {
    let subject = ["# HELP ", "# TYPE "].iter().find_map(|start| line.strip_prefix(start));
    let subject = subject.unwrap_or(line);
    FAMILIES.iter().any(|(name, _)| {
        subject
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', ' ']))
    })
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn unix(time: SystemTime) -> String {
    seconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn seconds(duration: Duration) -> String {
    format!("{}.{:03}", duration.as_secs(), duration.subsec_millis())
}

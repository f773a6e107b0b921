//! What became of a run, for whoever watches it (`--report`): one JSON object, or the Prometheus
//! text format. Pure but for `file`, which writes.

mod file;
mod prometheus;

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{
    machine::{Fate, Figures},
    start::chain,
};
use crate::{
    exit::{Code, Exit},
    settings::{ReportTo, Reporting, RunPlan},
    ui::{Notice, Say},
};

/// The version of the schema: it grows when a field changes its meaning or goes away.
const VERSION: u32 = 1;

/// The object. Times are RFC 3339 in UTC, durations whole milliseconds; what is not known is null.
#[derive(Debug, Serialize)]
struct Report<'a> {
    v: u32,
    outcome: &'static str,
    /// The exit status; 128 and the signal's number where we die as the command did.
    exit: u16,
    /// Whose status it is: `command` or `redlock`.
    source: &'static str,
    key: &'a str,
    label: Option<&'a str>,
    host: &'a str,
    start: String,
    end: String,
    wait_ms: u64,
    held_ms: Option<u64>,
    extensions: u64,
    failed_rounds: u64,
    min_margin_ms: Option<u64>,
    nodes_ok: usize,
    nodes: usize,
    fingerprint: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn of(about: &'a Reporting, figures: &Figures, end: SystemTime) -> Self {
        Self {
            v: VERSION,
            outcome: figures.fate.word(),
            exit: status(figures.exit),
            source: if figures.fate == Fate::Ran { "command" } else { "redlock" },
            key: &about.key,
            label: about.label.as_deref(),
            host: &about.host,
            start: humantime::format_rfc3339_millis(about.began).to_string(),
            end: humantime::format_rfc3339_millis(end).to_string(),
            wait_ms: millis(figures.waited),
            held_ms: figures.held.map(millis),
            extensions: figures.extensions,
            failed_rounds: figures.failed_rounds,
            min_margin_ms: figures.min_margin.map(millis),
            nodes_ok: figures.nodes_ok,
            nodes: about.fleet.as_ref().map_or(0, |(nodes, _)| *nodes),
            fingerprint: about.fleet.as_ref().map(|(_, fingerprint)| fingerprint.as_str()),
        }
    }

    /// One line.
    fn json(&self) -> String {
        // Plain strings and numbers always serialise.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The status that a shell sees.
fn status(exit: Exit) -> u16 {
    match exit {
        Exit::Status(status) => status.into(),
        Exit::Signal(signal) => 128 + u16::try_from(signal).unwrap_or(0),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reports a run that is over, where that is wanted. What goes wrong is a warning.
pub(super) fn write(plan: &RunPlan, figures: &Figures, say: &mut dyn Say) {
    let Some(about) = &plan.report else { return };
    if let Err(error) = put(about, figures) {
        say.say(Notice::NotReported { error: chain(&error) });
    }
}

/// Reports a run that did not begin: its settings cannot work. Whoever reads the line about that
/// needs no second one.
pub fn report_refusal(about: &Reporting, code: Code) {
    let _ = put(about, &Figures::of_nothing(code.into()));
}

fn put(about: &Reporting, figures: &Figures) -> anyhow::Result<()> {
    let end = SystemTime::now();
    let report = Report::of(about, figures, end);
    match &about.to {
        ReportTo::Descriptor(descriptor) => file::append(descriptor, &report.json()),
        ReportTo::File(path) if path.extension().is_some_and(|end| end == "prom") => {
            file::update(path, |old| prometheus::merged(old, about, figures, end))
        }
        ReportTo::File(path) => file::replace(path, &report.json()),
    }
}

#[cfg(test)]
mod tests;

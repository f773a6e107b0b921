//! Our lines as objects (`--log-format json`): the same events, one JSON object a line on standard
//! error. `v` counts the format's versions; names are only ever added.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::{
    denial,
    notice::{Notice, Reason},
    words::Subject,
};
use crate::protocol::{Denial, Holder, NodeView, Note, Occupant, Verdict};

/// The object for `notice`, whose sentence is `text`.
pub fn object(notice: &Notice, text: &str, subject: &Subject, wall: SystemTime) -> String {
    let mut object = head(event(notice), text, wall);
    object.insert("key".into(), subject.key.as_str().into());
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    match notice {
        Notice::Note(Note::Waiting(denial) | Note::Outage(denial)) => {
            for (name, value) in details(denial, subject) {
                put(name, value);
            }
            if let Some(limit) = subject.limit {
                put("remaining_ms", millis(limit.saturating_sub(denial.waited)));
            }
        }
        Notice::Note(
            Note::Acquired { nodes } | Note::Extended { nodes } | Note::ExtensionFailed { nodes },
        ) => {
            put("nodes_ok", (*nodes).into());
        }
        Notice::Acquired { waited } => {
            put("waited_ms", millis(*waited));
        }
        Notice::Over { held, extensions } => {
            put("held_ms", millis(*held));
            put("extensions", (*extensions).into());
        }
        Notice::Exit { code, reason } => {
            put("code", (*code).into());
            if let Reason::Denied(denial) = reason {
                for (name, value) in details(denial, subject) {
                    put(name, value);
                }
            }
        }
        _ => {}
    }
    Value::Object(object).to_string()
}

/// The last line of a run that never began.
pub fn exit(code: u8, reason: &str, wall: SystemTime) -> String {
    let mut object = head("exit", &format!("exit {code}: {reason}"), wall);
    object.insert("code".into(), code.into());
    Value::Object(object).to_string()
}

/// A warning that is always said.
pub fn warning(text: &str, wall: SystemTime) -> String {
    Value::Object(head("warning", text, wall)).to_string()
}

fn head(event: &str, text: &str, wall: SystemTime) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("v".into(), 1.into());
    object.insert("time".into(), humantime::format_rfc3339_millis(wall).to_string().into());
    object.insert("event".into(), event.into());
    object.insert("message".into(), text.into());
    object
}

const fn event(notice: &Notice) -> &'static str {
    match notice {
        Notice::Note(Note::Waiting(_)) => "waiting",
        Notice::Note(Note::Outage(_)) => "outage",
        Notice::Note(Note::Recovered) => "recovered",
        Notice::Note(Note::Nodes(_)) => "nodes",
        Notice::Note(Note::Acquired { .. }) | Notice::Acquired { .. } => "acquired",
        Notice::Note(Note::Unfit { .. }) => "unfit-node",
        Notice::Note(Note::Extended { .. }) => "extended",
        Notice::Note(Note::ExtensionFailed { .. }) => "extension-failed",
        Notice::Warning(_) => "warning",
        Notice::Slot(_) => "slot",
        Notice::Cancelled { .. } => "cancelled",
        Notice::Ending { .. } => "ending",
        Notice::RanOut => "ran-out",
        Notice::Lost { .. } => "lost",
        Notice::MaxRuntime { .. } => "max-runtime",
        Notice::ParentDied { .. } => "parent-died",
        Notice::Stopped { .. } => "stopped",
        Notice::Leftover { .. } => "leftover",
        Notice::EndingLeftover { .. } => "ending-leftover",
        Notice::CannotSignal { .. } => "cannot-signal",
        Notice::GuardianDied => "guardian-died",
        Notice::NodesGone => "nodes-gone",
        Notice::Untold { .. } => "untold",
        Notice::NotReleased { .. } => "not-released",
        Notice::Over { .. } => "over",
        Notice::NotReported { .. } => "not-reported",
        Notice::Exit { .. } => "exit",
    }
}

fn details(denial: &Denial, subject: &Subject) -> Vec<(&'static str, Value)> {
    let verdict = match denial.verdict {
        Verdict::Held => "held",
        Verdict::Contended => "contended",
        Verdict::Unavailable => "unavailable",
        Verdict::TooSlow => "too-slow",
        Verdict::Guarded(_) => "guarded",
        Verdict::Unfit => "unfit",
        Verdict::Ourselves { .. } => "ourselves",
        Verdict::NotOurs => "not-ours",
        Verdict::NotInherited => "not-inherited",
    };
    let nodes = subject.nodes.iter().zip(&denial.nodes);
    let nodes = nodes.map(|(name, view)| json!({"node": name, "state": denial::state(view)}));
    let mut told = vec![
        ("verdict", verdict.into()),
        ("waited_ms", millis(denial.waited)),
        ("nodes", nodes.collect()),
    ];
    if let Some(holder) = holder(denial) {
        told.push(("holder", holder));
    }
    told
}

/// The holder on the most nodes.
fn holder(denial: &Denial) -> Option<Value> {
    let all = denial.nodes.iter().filter_map(|view| match view {
        NodeView::Held(obstacles) => obstacles.first(),
        _ => None,
    });
    let all: Vec<_> = all.collect();
    let count = |wanted: &Occupant| all.iter().filter(|o| o.occupant == *wanted).count();
    let first = all.iter().max_by_key(|obstacle| count(&obstacle.occupant))?;
    let expires = first.expires_in.map_or(Value::Null, millis);
    Some(match &first.occupant {
        Occupant::Type(name) => json!({"type": name, "expires_ms": expires}),
        Occupant::Value(value) => match Holder::of_value(value) {
            Some(holder) => {
                let mut known = serde_json::to_value(holder).unwrap_or_default();
                known["expires_ms"] = expires;
                known
            }
            None => json!({
                "value": String::from_utf8_lossy(value).chars().take(40).collect::<String>(),
                "expires_ms": expires,
            }),
        },
    })
}

fn millis(duration: Duration) -> Value {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

//! `redlock extend`: one round of strict extensions.

use serde_json::json;

use super::talk;
use crate::{
    clock::{BootClock, Clock as _},
    duration::show,
    exit::{Code, Exit},
    protocol::{Errand, Outcome, Request, Round, Tally},
    settings::{ExtendSettings, Target},
    ui,
};

/// Carries it out.
pub fn run(settings: ExtendSettings) -> Exit {
    let ExtendSettings { target, token, json } = settings;
    ui::warn(&target.warnings);
    let rounds = [Round::of(vec![Request::Extend { token, ttl: target.timing.ttl }])];
    let said = match talk::interview(&target.fleet, &target.keys, target.timing, &rounds) {
        Ok(said) => said,
        Err(error) => return fail(Code::Failure, &error.to_string()),
    };
    let tally = Tally::count(&said, &target.timing);
    let outcome = tally.outcome(Errand::Extend);
    if outcome != Outcome::Done {
        return refuse(outcome, &tally, &target, "extended");
    }
    let left = tally.left(BootClock.now());
    let text = if json {
        let object = json!({
            "v": 1,
            "key": target.key(),
            "validity_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            "nodes": tally.done,
            "of": target.names.len(),
        });
        format!("{object}\n")
    } else {
        format!("{}\n", show(left))
    };
    match ui::deliver(&text) {
        Ok(()) => Code::Success.into(),
        Err(error) => fail(Code::Failure, &format!("cannot write to standard output: {error}")),
    }
}

/// Says why an errand was in vain.
pub(super) fn refuse(outcome: Outcome, tally: &Tally, target: &Target, done: &str) -> Exit {
    let key = target.key();
    let troubles = ui::troubles(&tally.nodes, &target.names);
    let of = target.names.len();
    if outcome == Outcome::NotOurs {
        let rest = troubles.map_or_else(String::new, |text| format!("; {text}"));
        let text = format!(
            "the token does not hold '{key}' (any more): {} of {of} nodes do not carry it{rest}; \
             who holds it: redlock status",
            tally.gone
        );
        return fail(Code::Lost, &text);
    }
    let code = if tally.is_about_rights() { Code::Refused } else { Code::Unavailable };
    let troubles = troubles.unwrap_or_else(|| "nodes do not answer in time".to_owned());
    fail(code, &format!("'{key}' was {done} on {} of {of} nodes only: {troubles}", tally.done))
}

pub(super) fn fail(code: Code, text: &str) -> Exit {
    ui::exit_line(code.number(), text);
    code.into()
}

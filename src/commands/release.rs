//! `redlock release`: gives back what a token holds; by force, exactly what was seen.

use std::time::{Duration, SystemTime};

use super::{
    extend::{fail, refuse},
    talk,
};
use crate::{
    exit::{Code, Exit},
    protocol::{
        Errand, Holder, Interview, NodeView, Obstacle, Occupant, Outcome, Request, Round, Tally,
        Token,
    },
    settings::{By, ReleaseSettings, Target},
    ui::{self, Answer},
};

/// Carries it out.
pub fn run(settings: ReleaseSettings) -> Exit {
    let ReleaseSettings { target, by } = settings;
    ui::warn(&target.warnings);
    let result = match by {
        By::Token(token) => by_token(&target, token),
        By::Force { yes } => by_force(&target, yes),
    };
    result.unwrap_or_else(|error| fail(Code::Failure, &error.to_string()))
}

fn by_token(target: &Target, token: Token) -> std::io::Result<Exit> {
    let values = vec![token.to_string().into_bytes(); target.keys.len()];
    let rounds = [Round::of(vec![Request::Free { values }])];
    let said = talk::interview(&target.fleet, &target.keys, target.timing, &rounds)?;
    let tally = Tally::count(&said, &target.timing);
    Ok(match tally.outcome(Errand::Release) {
        Outcome::Done => Code::Success.into(),
        outcome => refuse(outcome, &tally, target, "released"),
    })
}

/// What stands at one key of one node and can be freed.
struct Seen {
    key: usize,
    occupant: Occupant,
    expires_in: Option<Duration>,
}

fn by_force(target: &Target, yes: bool) -> std::io::Result<Exit> {
    let look = [Round::of(vec![Request::Look])];
    let said = talk::interview(&target.fleet, &target.keys, target.timing, &look)?;
    let views = Tally::count(&said, &target.timing);
    let key = target.key();
    let answered = views.gone;
    if answered < crate::protocol::quorum(target.names.len()) {
        return Ok(refuse(Outcome::Unavailable, &views, target, "looked at"));
    }
    let seen = seen(&views.nodes);
    if seen.is_empty() {
        return Ok(fail(Code::Lost, &format!("'{key}' is free already: nothing was released")));
    }
    let now = SystemTime::now();
    for (seen, nodes) in &seen {
        let who = ui::describe(&seen.occupant, seen.expires_in, now);
        let names: Vec<&str> = nodes.iter().map(|&node| target.names[node].as_str()).collect();
        let name = target.keys[seen.key].to_string();
        ui::line(&format!("'{name}' is held by {who} on {}", names.join(", ")));
        if let Some(line) = unfreeable(seen, target) {
            return Ok(fail(
                Code::Config,
                &format!(
                    "what is at '{name}' is no lock that ends by itself and is not touched; to \
                     remove it on each of these nodes: {line}"
                ),
            ));
        }
    }
    let alive = seen.iter().any(|(seen, _)| is_alive(seen));
    let question = if alive {
        format!("release '{key}'? its holder is alive: its command will be killed")
    } else {
        format!("release '{key}'?")
    };
    if !yes {
        match ui::ask(&question) {
            Answer::Yes => {}
            Answer::No => return Ok(fail(Code::Lost, "nothing was released")),
            Answer::NobodyThere => {
                return Ok(fail(
                    Code::Usage,
                    "there is no terminal to ask on: --force needs --yes here",
                ));
            }
        }
    }
    free(target, &views.nodes)
}

/// Frees on every node what was seen there, and looks again.
fn free(target: &Target, views: &[NodeView]) -> std::io::Result<Exit> {
    let rounds = views.iter().map(|view| {
        let mut values = vec![Vec::new(); target.keys.len()];
        if let NodeView::Held(obstacles) = view {
            for obstacle in obstacles {
                if let Occupant::Value(value) = &obstacle.occupant {
                    let token = Token::of_value(value).map(|token| token.to_string().into_bytes());
                    values[obstacle.key] = token.unwrap_or_else(|| value.clone());
                }
            }
        }
        let free = Request::Free { values };
        let is_held = matches!(view, NodeView::Held(_));
        vec![Round::of(if is_held { vec![free, Request::Look] } else { vec![Request::Look] })]
    });
    let interview = Interview::each(target.timing, rounds);
    let said = talk::last(&target.fleet, &target.keys, interview)?;
    let key = target.key();
    let tally = Tally::count(&said, &target.timing);
    let changed = views
        .iter()
        .zip(&tally.nodes)
        .any(|(before, after)| matches!((before, after), (NodeView::Held(_), NodeView::Held(_))));
    if changed {
        let text = format!(
            "'{key}' changed meanwhile: what was not shown is left alone; look again: redlock \
             status {key}"
        );
        return Ok(fail(Code::Lost, &text));
    }
    if tally.done == 0 && tally.gone > 0 {
        return Ok(fail(Code::Lost, &format!("'{key}' was free already")));
    }
    if tally.done + tally.gone < crate::protocol::quorum(target.names.len()) {
        return Ok(refuse(Outcome::Unavailable, &tally, target, "released"));
    }
    ui::line(&format!("released '{key}' on {} of {} nodes", tally.done, target.names.len()));
    Ok(Code::Success.into())
}

/// Everything different that stands somewhere, with the nodes that show it.
fn seen(views: &[NodeView]) -> Vec<(Seen, Vec<usize>)> {
    let mut all: Vec<(Seen, Vec<usize>)> = Vec::new();
    for (node, view) in views.iter().enumerate() {
        let NodeView::Held(obstacles) = view else { continue };
        for Obstacle { key, occupant, expires_in } in obstacles {
            let same = |(seen, _): &&mut (Seen, Vec<usize>)| {
                seen.key == *key && seen.occupant == *occupant
            };
            match all.iter_mut().find(same) {
                Some((seen, nodes)) => {
                    nodes.push(node);
                    seen.expires_in = seen.expires_in.zip(*expires_in).map(|(a, b)| a.max(b));
                }
                None => all.push((
                    Seen { key: *key, occupant: occupant.clone(), expires_in: *expires_in },
                    vec![node],
                )),
            }
        }
    }
    all
}

/// The line that removes what we do not: what is no string, and what has no expiry.
fn unfreeable(seen: &Seen, target: &Target) -> Option<String> {
    let ends = seen.expires_in.is_some();
    let key = shell_quoted(target.keys[seen.key].on_node());
    (!ends || matches!(seen.occupant, Occupant::Type(_)))
        .then(|| format!("redis-cli -h HOST -p PORT DEL {key}"))
}

/// Bytes as a word for a shell.
fn shell_quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether a holder that extends is seen to do so.
fn is_alive(seen: &Seen) -> bool {
    let Occupant::Value(value) = &seen.occupant else { return false };
    Holder::of_value(value).is_some_and(|holder| holder.every.is_some())
}

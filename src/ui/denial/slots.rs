//! The same where one of several slots would do: how many there are, and who has them.

use std::time::{Duration, SystemTime};

use super::{Names, describe, name, troubles};
use crate::protocol::{Denial, NodeView, Obstacle, Verdict, identity};

/// So many holders are named.
const NAMED: usize = 8;

/// The sentence for `denial` of the slots `keys`, where it is about who has them.
pub(super) fn sentence(
    denial: &Denial,
    keys: &[String],
    names: &Names,
    now: SystemTime,
) -> Option<String> {
    let (key, number) = (keys.first()?, keys.len());
    let all = match number {
        1 => format!("the only slot of '{key}' is held"),
        _ => format!("all {number} slots of '{key}' are held"),
    };
    let mut text = match denial.verdict {
        Verdict::Held => all,
        Verdict::Contended => format!(
            "'{key}' is contended: none of {number} slots is free, and not each is really held"
        ),
        Verdict::Ourselves { .. } => {
            return Some(format!(
                "{all} by the very run that this is part of, which would be waited for without \
                 end; to run under its lock: --reentrant"
            ));
        }
        _ => return None,
    };
    let who = holders(denial, now);
    if !who.is_empty() {
        text = format!("{text}, by {}", who.join(", "));
    }
    if let Some(troubles) = troubles(&denial.nodes, names) {
        text = format!("{text}; {troubles}");
    }
    Some(text)
}

/// The holders, the one whose lock would end first in full.
fn holders(denial: &Denial, now: SystemTime) -> Vec<String> {
    let mut seen: Vec<(&Obstacle, Option<Duration>)> = Vec::new();
    let shown = denial.nodes.iter().filter_map(|view| match view {
        NodeView::Held(obstacles) => Some(obstacles),
        _ => None,
    });
    for obstacle in shown.flatten() {
        let who = identity(&obstacle.occupant);
        let same = |other: &Obstacle| other.key == obstacle.key && identity(&other.occupant) == who;
        match seen.iter_mut().find(|(other, _)| same(other)) {
            // `None` is for ever.
            Some((_, longest)) => {
                *longest = longest.zip(obstacle.expires_in).map(|(a, b)| a.max(b));
            }
            None => seen.push((obstacle, obstacle.expires_in)),
        }
    }
    seen.sort_by_key(|(obstacle, expires)| (expires.is_none(), *expires, obstacle.key));
    let first = seen.first().map(|(first, expires)| describe(&first.occupant, *expires, now));
    let others = seen.iter().take(NAMED).skip(1).map(|(other, _)| name(&other.occupant));
    let more = seen.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    first.into_iter().chain(others).chain(more).collect()
}

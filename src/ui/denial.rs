//! Why the lock could not be had, in one line: who holds it, since when, whether they are alive,
//! and what is wrong with the nodes that did not vote.

mod slots;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::secure;
use crate::{
    duration::show,
    protocol::{
        Denial, Holder, NodeIndex, NodeView, Obstacle, Occupant, Refusal, RefusalKind, Trouble,
        Unfit, Verdict, Youth, identity, quorum,
    },
};

/// The nodes of a list, in canonical order, as they are written.
pub type Names = [String];

/// What is wanted of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sought {
    /// All of them together.
    #[default]
    All,
    /// Any one.
    Slot,
}

/// The sentence for `denial` of the locks `keys`.
pub fn sentence(
    denial: &Denial,
    (keys, sought): (&[String], Sought),
    names: &Names,
    now: SystemTime,
) -> String {
    if sought == Sought::Slot
        && let Some(text) = slots::sentence(denial, keys, names, now)
    {
        return text;
    }
    let key = match sought {
        Sought::All => keys.join(", "),
        Sought::Slot => keys[..1].concat(),
    };
    let holders = holders(denial, keys, names, now);
    // Of several keys each holder's is named.
    let held = |it: &str| match keys {
        [_] => format!("{it}held by {}", holders.join(", and ")),
        _ => holders.join(", and "),
    };
    let troubles = troubles(&denial.nodes, names);
    let with_troubles = |text: String| match &troubles {
        Some(troubles) => format!("{text}; {troubles}"),
        None => text,
    };
    match denial.verdict {
        Verdict::Held => with_troubles(held(&format!("'{key}' is "))),
        Verdict::Ourselves { key } => ourselves(denial, key, keys),
        Verdict::Contended if holders.is_empty() => {
            with_troubles(format!("'{key}' is contended: others try to take it at the same time"))
        }
        Verdict::Contended => with_troubles(format!(
            "'{key}' is contended: nobody has a quorum, but {}",
            held("it is ")
        )),
        Verdict::Unavailable => {
            let needed = quorum(names.len());
            let text = format!("no quorum for '{key}' ({needed} of {} nodes needed)", names.len());
            let text = match troubles {
                Some(troubles) => format!("{text}: {troubles}"),
                None => format!("{text}: nodes do not answer in time"),
            };
            if holders.is_empty() { text } else { format!("{text}; {}", held("")) }
        }
        Verdict::Guarded(youth) => with_troubles(format!(
            "no quorum for '{key}' ({} of {} nodes needed): {}",
            quorum(names.len()),
            names.len(),
            young(youth)
        )),
        Verdict::Unfit => {
            // Where the list itself is at fault, nothing else matters.
            let unfit = |view: &NodeView| match view {
                NodeView::Refused(Refusal { kind: RefusalKind::Unfit(_), .. }) => view.clone(),
                _ => NodeView::Unknown,
            };
            let unfit: Vec<NodeView> = denial.nodes.iter().map(unfit).collect();
            let troubles = self::troubles(&unfit, names).unwrap_or_default();
            format!(
                "the list of nodes cannot keep '{key}': {troubles}; name {} independent masters",
                names.len()
            )
        }
        Verdict::NotOurs => with_troubles(format!(
            "the token does not hold '{key}' on a quorum of nodes (any more)"
        )),
        Verdict::NotInherited => with_troubles(match keys {
            [_] => format!("no run around this one holds '{key}' (any more)"),
            _ => format!("no run around this one holds all of '{key}' together (any more)"),
        }),
        Verdict::TooSlow => with_troubles(format!(
            "the nodes answer too slowly to hold '{key}' with this ttl; raise --ttl"
        )),
    }
}

/// Who stands in the way, as far as their values are ours.
pub fn holders_of(denial: &Denial) -> impl Iterator<Item = Holder> {
    let obstacles = denial.nodes.iter().filter_map(|view| match view {
        NodeView::Held(obstacles) => Some(obstacles),
        _ => None,
    });
    obstacles.flatten().filter_map(|obstacle| match &obstacle.occupant {
        Occupant::Value(value) => Holder::of_value(value),
        Occupant::Type(_) => None,
    })
}

/// A run around us has the key at this place.
fn ourselves(denial: &Denial, place: usize, keys: &[String]) -> String {
    let key = keys.get(place).map_or("", String::as_str);
    let held = denial.nodes.iter().filter_map(|view| match view {
        NodeView::Held(obstacles) => obstacles.iter().find(|obstacle| obstacle.key == place),
        _ => None,
    });
    let who = held.map(|obstacle| format!(" ({})", name(&obstacle.occupant))).next();
    let way_out = match keys {
        [_] => "--reentrant",
        _ => "--reentrant, where it holds all the keys",
    };
    format!(
        "'{key}' is held by the very run that this is part of{}, which would be waited for without \
         end; to run under its lock: {way_out}",
        who.unwrap_or_default()
    )
}

/// Everybody who stands in the way, each with the nodes that show them.
fn holders(denial: &Denial, keys: &[String], names: &Names, now: SystemTime) -> Vec<String> {
    let mut seen: Vec<(&Obstacle, Vec<&str>, Option<Duration>)> = Vec::new();
    for (view, name) in denial.nodes.iter().zip(names) {
        let NodeView::Held(obstacles) = view else { continue };
        for obstacle in obstacles {
            // What is known of one holder can change from one node's answer to the next's.
            let who = identity(&obstacle.occupant);
            let same =
                |other: &Obstacle| other.key == obstacle.key && identity(&other.occupant) == who;
            match seen.iter_mut().find(|(other, ..)| same(other)) {
                Some((_, nodes, longest)) => {
                    if !nodes.contains(&name.as_str()) {
                        nodes.push(name);
                    }
                    // `None` is for ever.
                    *longest = longest.zip(obstacle.expires_in).map(|(a, b)| a.max(b));
                }
                None => seen.push((obstacle, vec![name], obstacle.expires_in)),
            }
        }
    }
    // Whoever is on most nodes matters most.
    seen.sort_by_key(|(_, nodes, _)| std::cmp::Reverse(nodes.len()));
    let told = seen.into_iter().enumerate().map(|(place, (obstacle, nodes, expires))| {
        let who = describe(&obstacle.occupant, expires, now);
        let everywhere =
            denial.verdict == Verdict::Held && (place == 0 || nodes.len() >= quorum(names.len()));
        let who = if everywhere { who } else { format!("{who} on {}", nodes.join(", ")) };
        match keys.get(obstacle.key) {
            Some(key) if keys.len() > 1 => format!("'{key}' is held by {who}"),
            _ => who,
        }
    });
    told.collect()
}

/// One holder: who, since when, alive or not; or whose value it is.
pub fn describe(occupant: &Occupant, expires: Option<Duration>, now: SystemTime) -> String {
    let ends = match expires {
        Some(time) => format!("expires in {}", show(time)),
        None => "without expiry: it does not free itself".to_owned(),
    };
    match occupant {
        Occupant::Type(name) => format!("a {name} of another program ({ends})"),
        Occupant::Value(value) => {
            if let Some(holder) = Holder::of_value(value) {
                return person(&holder, expires, &ends, now);
            }
            let text = String::from_utf8_lossy(value);
            let short: String = text.chars().take(40).collect();
            format!("another client's value '{short}' ({ends})")
        }
    }
}

/// `db1 pid 4242 (backup, nightly) since 2026-11-29T14:03:12Z (3m ago; alive: extended 4s ago)`.
fn person(holder: &Holder, expires: Option<Duration>, ends: &str, now: SystemTime) -> String {
    let mut remarks: Vec<&str> = vec![&holder.user];
    remarks.extend(holder.prog.as_deref());
    remarks.extend(holder.label.as_deref());
    let since = UNIX_EPOCH.checked_add(Duration::from_millis(holder.since)).unwrap_or(UNIX_EPOCH);
    let age = now.duration_since(since).unwrap_or_default();
    let date = date(holder.since).unwrap_or_else(|| "an unknown time".to_owned());
    let life = match (holder.every, expires) {
        _ if holder.until.is_some() => format!("{}, {ends}", finished(holder)),
        (Some(_), Some(expires)) if expires > Duration::from_millis(holder.ttl) => {
            format!("kept, {ends}")
        }
        (Some(every), Some(expires)) => {
            let silent = Duration::from_millis(holder.ttl).saturating_sub(expires);
            let patience = Duration::from_millis(every) * 2 + Duration::from_millis(500);
            if silent <= patience {
                format!("alive: extended {} ago", show(silent))
            } else {
                format!("late: not extended for {}, {ends}", show(silent))
            }
        }
        _ => ends.to_owned(),
    };
    format!(
        "{} pid {} ({}) since {date} ({} ago; {life})",
        holder.host,
        holder.pid,
        remarks.join(", "),
        show(age),
    )
}

/// `finished, held until 14:03:12Z`: of a holder whose command is done.
pub fn finished(holder: &Holder) -> String {
    let time = holder.until.and_then(date).map(|date| date[11..].to_owned());
    format!("finished, held until {}", time.unwrap_or_else(|| "an unknown time".to_owned()))
}

/// A Unix time in milliseconds as `2026-11-29T14:03:12Z`. humantime writes years up to 9999; what
/// lies beyond is no time of ours.
fn date(millis: u64) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    let time = time.filter(|_| millis < 253_402_300_800_000)?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

/// What is wrong with the nodes that gave no answer that counts, grouped by the reason.
pub fn troubles(nodes: &[NodeView], names: &Names) -> Option<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (view, name) in nodes.iter().zip(names) {
        let reason = match view {
            NodeView::Refused(Refusal { kind: RefusalKind::Unfit(why), .. }) => unfit(*why, names),
            NodeView::Refused(refusal) => format!("refused: {}", refusal.text),
            NodeView::Troubled(it) => trouble(it),
            _ => continue,
        };
        match groups.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, nodes)) => nodes.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    if groups.is_empty() {
        return None;
    }
    let told: Vec<String> =
        groups.iter().map(|(reason, nodes)| format!("{}: {reason}", nodes.join(", "))).collect();
    Some(told.join("; "))
}

/// `2 nodes restarted less than 30s ago and vote in 22s`.
fn young(youth: Youth) -> String {
    let Youth { nodes, guard, votes_in } = youth;
    let (nodes, vote) = match nodes {
        1 => ("1 node".to_owned(), "votes"),
        _ => (format!("{nodes} nodes"), "vote"),
    };
    match votes_in {
        Some(time) => {
            format!("{nodes} restarted less than {} ago and {vote} in {}", show(guard), show(time))
        }
        None => {
            // Who does not tell, does not vote under the strict rule.
            format!(
                "{nodes} may have restarted less than {} ago, and the age of some is not known: \
                 --restart-guard strict needs the right to INFO (+info)",
                show(guard)
            )
        }
    }
}

/// Why a server is no independent master.
pub fn unfit(why: Unfit, names: &Names) -> String {
    let name = |node: NodeIndex| names.get(node.get()).map_or("another node", String::as_str);
    match why {
        Unfit::SameServer(Some(other)) => format!("the same server as {}", name(other)),
        Unfit::SameServer(None) => "the same server as another node of the list".to_owned(),
        Unfit::Replica => "a replica".to_owned(),
        Unfit::Cluster => "part of a Redis Cluster".to_owned(),
        Unfit::Sentinel => "a sentinel".to_owned(),
        Unfit::SharedHistory(other) => format!("a former replica of {}", name(other)),
    }
}

/// A node's part in a few words.
pub fn state(view: &NodeView) -> String {
    match view {
        NodeView::Unknown => "no answer yet".to_owned(),
        NodeView::Free => "free".to_owned(),
        NodeView::Ours => "ours".to_owned(),
        NodeView::Held(obstacles) => match obstacles.first() {
            Some(Obstacle { occupant, .. }) => format!("held by {}", name(occupant)),
            None => "held".to_owned(),
        },
        NodeView::Refused(refusal) => format!("refused: {}", refusal.text),
        NodeView::Troubled(it) => trouble(it),
    }
}

/// Who it is, and no more.
fn name(occupant: &Occupant) -> String {
    match occupant {
        Occupant::Type(name) => format!("a {name} of another program"),
        Occupant::Value(value) => match Holder::of_value(value) {
            Some(holder) => format!("{} pid {}", holder.host, holder.pid),
            None => "another client's value".to_owned(),
        },
    }
}

/// A trouble in words.
pub fn trouble(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Unresolvable(text) => format!("no address: {text}"),
        Trouble::ConnectTimeout => "no connection in time".to_owned(),
        Trouble::Unreachable(text) => text.clone(),
        Trouble::Silent => "connected, but no answer in time".to_owned(),
        Trouble::Cut => "closed the connection".to_owned(),
        Trouble::Garbage => "does not speak the Redis protocol".to_owned(),
        Trouble::Tls(it) => secure::words(it),
        Trouble::SpeaksTls => "speaks TLS there".to_owned(),
    }
}

#[cfg(test)]
mod tests;

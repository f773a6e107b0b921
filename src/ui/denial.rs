//! Why the lock could not be had, in one line: who holds it, since when, whether they are alive,
//! and what is wrong with the nodes that did not vote.

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
        && let Some(text) = slots(denial, keys, names, now)
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

/// Where one of several slots would do, and they are taken: how many, and who has them.
fn slots(denial: &Denial, keys: &[String], names: &Names, now: SystemTime) -> Option<String> {
    let (key, number) = (keys.first()?, keys.len());
    let all = match number {
        1 => format!("the only slot of '{key}' is held"),
        _ => format!("all {number} slots of '{key}' are held"),
    };
    let text = match denial.verdict {
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
    let mut seen: Vec<(&Obstacle, Option<Duration>)> = Vec::new();
    for obstacle in denial.nodes.iter().flat_map(|view| match view {
        NodeView::Held(obstacles) => obstacles.as_slice(),
        _ => &[],
    }) {
        let same = |(other, _): &&mut (&Obstacle, _)| {
            other.key == obstacle.key && identity(&other.occupant) == identity(&obstacle.occupant)
        };
        match seen.iter_mut().find(same) {
            // `None` is for ever.
            Some((_, longest)) => {
                *longest = longest.zip(obstacle.expires_in).map(|(a, b)| a.max(b))
            }
            None => seen.push((obstacle, obstacle.expires_in)),
        }
    }
    // Who comes first is told in full: the lock that would end first.
    seen.sort_by_key(|(obstacle, expires)| (expires.is_none(), *expires, obstacle.key));
    let mut told = seen
        .iter()
        .enumerate()
        .take(NAMED)
        .map(|(place, (obstacle, expires))| {
            if place == 0 {
                describe(&obstacle.occupant, *expires, now)
            } else {
                name(&obstacle.occupant)
            }
        })
        .collect::<Vec<_>>();
    if seen.len() > NAMED {
        told.push(format!("{} more", seen.len() - NAMED));
    }
    let who = if told.is_empty() { String::new() } else { format!(", by {}", told.join(", ")) };
    let troubles = troubles(&denial.nodes, names).map(|it| format!("; {it}"));
    Some(format!("{text}{who}{}", troubles.unwrap_or_default()))
}

/// So many holders of slots are named.
const NAMED: usize = 8;

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
            format!("{nodes} may have restarted less than {} ago (--restart-guard)", show(guard))
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
mod tests {
    use super::*;
    use crate::protocol::Token;

    fn names() -> Vec<String> {
        ["a:1", "b:1", "c:1"].map(String::from).to_vec()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn held(value: &[u8], ms: u64) -> NodeView {
        NodeView::Held(vec![Obstacle {
            key: 0,
            occupant: Occupant::Value(value.to_vec()),
            expires_in: Some(Duration::from_millis(ms)),
        }])
    }

    fn denial(verdict: Verdict, nodes: impl Into<Vec<NodeView>>) -> Denial {
        Denial { verdict, nodes: nodes.into(), waited: Duration::ZERO }
    }

    fn ours() -> Vec<u8> {
        let holder = Holder {
            host: "db1".into(),
            pid: 4242,
            user: "backup".into(),
            since: 1_700_000_000_000,
            ttl: 30_000,
            every: Some(10_000),
            label: Some("nightly".into()),
            prog: Some("dump".into()),
            ..Holder::default()
        };
        holder.value(Token::from_random(1)).into_bytes()
    }

    #[test]
    fn holder_is_named_with_age_and_life() {
        let value = ours();
        let nodes = [held(&value, 25_000), held(&value, 26_000), NodeView::Free];
        assert_eq!(
            sentence(
                &denial(Verdict::Held, nodes),
                (&["K".into()], Sought::All),
                &names(),
                at(1_700_000_192)
            ),
            "'K' is held by db1 pid 4242 (backup, dump, nightly) since 2023-11-14T22:13:20Z \
             (3m 12s ago; alive: extended 4s ago)"
        );
    }

    #[test]
    fn of_several_keys_the_one_that_is_held_is_named() {
        let held = |keys: &[usize]| {
            let obstacle = |&key: &usize| Obstacle {
                key,
                occupant: Occupant::Value(format!("thief{key}").into_bytes()),
                expires_in: Some(Duration::from_secs(5)),
            };
            NodeView::Held(keys.iter().map(obstacle).collect())
        };
        let keys = ["a", "b", "c"].map(String::from);
        let told = |verdict, nodes: [NodeView; 3]| {
            sentence(&denial(verdict, nodes), (&keys, Sought::All), &names(), at(0))
        };
        assert_eq!(
            told(Verdict::Held, [held(&[1]), held(&[1]), NodeView::Free]),
            "'b' is held by another client's value 'thief1' (expires in 5s)"
        );
        assert_eq!(
            told(Verdict::Held, [held(&[0, 2]), held(&[0, 2]), held(&[0])]),
            "'a' is held by another client's value 'thief0' (expires in 5s), and 'c' is held by \
             another client's value 'thief2' (expires in 5s)"
        );
        assert_eq!(
            told(Verdict::Contended, [held(&[2]), NodeView::Free, NodeView::Ours]),
            "'a, b, c' is contended: nobody has a quorum, but 'c' is held by another client's \
             value 'thief2' (expires in 5s) on a:1"
        );
    }

    #[test]
    fn slots_are_counted_and_their_holders_named_the_first_to_end_in_full() {
        let value = |pid: u32| {
            let holder = Holder { host: "db".into(), pid, user: "u".into(), ..Holder::default() };
            Occupant::Value(holder.value(Token::from_random(u128::from(pid))).into_bytes())
        };
        let view = |slots: &[(usize, u64)]| {
            let obstacle = |&(key, ms): &(usize, u64)| Obstacle {
                key,
                occupant: value(u32::try_from(key).unwrap() + 1),
                expires_in: Some(Duration::from_millis(ms)),
            };
            NodeView::Held(slots.iter().map(obstacle).collect())
        };
        let told = |verdict, slots: &[(usize, u64)], number: usize| {
            let keys: Vec<String> = (0..number).map(|slot| format!("K#{}", slot + 1)).collect();
            let nodes = [view(slots), view(slots), NodeView::Troubled(Trouble::Silent)];
            sentence(&denial(verdict, nodes), (&keys, Sought::Slot), &names(), at(0))
        };
        assert_eq!(
            told(Verdict::Held, &[(0, 9000), (1, 2000), (2, 5000)], 3),
            "all 3 slots of 'K#1' are held, by db pid 2 (u) since 1970-01-01T00:00:00Z (0ms ago; \
             expires in 2s), db pid 3, db pid 1; c:1: connected, but no answer in time"
        );
        let many: Vec<(usize, u64)> = (0..64).map(|slot| (slot, 9000)).collect();
        let text = told(Verdict::Held, &many, 64);
        assert!(text.starts_with("all 64 slots") && text.contains("db pid 8, 56 more"), "{text}");
        let text = told(Verdict::Contended, &[(1, 2000)], 2);
        assert!(text.starts_with("'K#1' is contended: none of 2 slots is free"), "{text}");
    }

    #[test]
    fn wait_for_ourselves_names_the_key_the_run_and_the_way_out() {
        let value = ours();
        let nodes = [held(&value, 5_000), held(&value, 5_000), NodeView::Free];
        let verdict = Verdict::Ourselves { key: 0 };
        assert_eq!(
            sentence(&denial(verdict, nodes), (&["K".into()], Sought::All), &names(), at(0)),
            "'K' is held by the very run that this is part of (db1 pid 4242), which would be \
             waited for without end; to run under its lock: --reentrant"
        );
    }

    #[test]
    fn holder_that_stopped_extending_is_late() {
        let value = ours();
        let nodes = [held(&value, 5_000), held(&value, 5_000), NodeView::Free];
        let text =
            sentence(&denial(Verdict::Held, nodes), (&["K".into()], Sought::All), &names(), at(0));
        assert!(text.ends_with("(0ms ago; late: not extended for 25s, expires in 5s)"), "{text}");
    }

    #[test]
    fn holder_that_is_done_is_told_with_its_end_and_counts_once() {
        let until = Some(1_700_000_050_000);
        let holder = Holder::of_value(&ours()).unwrap();
        let done = Holder { until, every: None, ..holder }.value(Token::from_random(1));
        // One node was asked before the holder was done.
        let nodes = [held(done.as_bytes(), 38_000), held(&ours(), 30_000), NodeView::Free];
        assert_eq!(
            sentence(
                &denial(Verdict::Held, nodes),
                (&["K".into()], Sought::All),
                &names(),
                at(1_700_000_012)
            ),
            "'K' is held by db1 pid 4242 (backup, dump, nightly) since 2023-11-14T22:13:20Z \
             (12s ago; finished, held until 22:14:10Z, expires in 38s)"
        );
        let far = Holder { until: Some(u64::MAX), ..Holder::default() };
        assert_eq!(finished(&far), "finished, held until an unknown time");
    }

    #[test]
    fn holder_that_is_kept_beyond_its_ttl_is_not_called_alive() {
        let value = ours();
        let nodes = [held(&value, 40_000), held(&value, 40_000), NodeView::Free];
        let text =
            sentence(&denial(Verdict::Held, nodes), (&["K".into()], Sought::All), &names(), at(0));
        assert!(text.ends_with("(0ms ago; kept, expires in 40s)"), "{text}");
    }

    #[test]
    fn held_here_and_down_there_are_both_said() {
        let down = NodeView::Troubled(Trouble::Unreachable("connection refused".into()));
        let nodes = [held(b"thief", 5_000), NodeView::Free, down];
        assert_eq!(
            sentence(
                &denial(Verdict::Contended, nodes),
                (&["K".into()], Sought::All),
                &names(),
                at(0)
            ),
            "'K' is contended: nobody has a quorum, but it is held by another client's value \
             'thief' (expires in 5s) on a:1; c:1: connection refused"
        );
    }

    #[test]
    fn outage_groups_nodes_by_reason() {
        let refusal = Refusal { kind: RefusalKind::State, text: "LOADING wait".into() };
        let silent = || NodeView::Troubled(Trouble::Silent);
        let nodes = [silent(), NodeView::Refused(refusal), silent()];
        assert_eq!(
            sentence(
                &denial(Verdict::Unavailable, nodes),
                (&["K".into()], Sought::All),
                &names(),
                at(0)
            ),
            "no quorum for 'K' (2 of 3 nodes needed): a:1, c:1: connected, but no answer in time; \
             b:1: refused: LOADING wait"
        );
    }

    #[test]
    fn young_nodes_are_told_with_their_end() {
        let s = Duration::from_secs;
        let youth = |nodes, votes_in| Verdict::Guarded(Youth { nodes, guard: s(30), votes_in });
        let told = |verdict| {
            let nodes = [NodeView::Ours, NodeView::Ours, NodeView::Ours];
            sentence(&denial(verdict, nodes), (&["K".into()], Sought::All), &names(), at(0))
        };
        assert_eq!(
            told(youth(2, Some(s(22)))),
            "no quorum for 'K' (2 of 3 nodes needed): 2 nodes restarted less than 30s ago and vote \
             in 22s"
        );
        let one = "1 node restarted less than 30s ago and votes in 22s";
        assert!(told(youth(1, Some(s(22)))).ends_with(one));
        assert!(told(youth(2, None)).ends_with("30s ago (--restart-guard)"));
    }

    #[test]
    fn list_that_cannot_work_names_what_is_wrong_with_it() {
        let unfit =
            |why| NodeView::Refused(Refusal { kind: RefusalKind::Unfit(why), text: String::new() });
        let nodes = [
            unfit(Unfit::SameServer(Some(NodeIndex(2)))),
            NodeView::Troubled(Trouble::Silent),
            unfit(Unfit::Replica),
        ];
        assert_eq!(
            sentence(&denial(Verdict::Unfit, nodes), (&["K".into()], Sought::All), &names(), at(0)),
            "the list of nodes cannot keep 'K': a:1: the same server as c:1; c:1: a replica; name \
             3 independent masters"
        );
    }

    #[test]
    fn what_is_no_lock_of_ours_is_said_as_what_it_is() {
        let hash = || {
            NodeView::Held(vec![Obstacle {
                key: 0,
                occupant: Occupant::Type("hash".into()),
                expires_in: None,
            }])
        };
        assert_eq!(
            sentence(
                &denial(Verdict::Held, [hash(), hash(), hash()]),
                (&["K".into()], Sought::All),
                &names(),
                at(0)
            ),
            "'K' is held by a hash of another program (without expiry: it does not free itself)"
        );
    }
}

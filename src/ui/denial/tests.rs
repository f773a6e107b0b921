//! The sentences for every verdict.

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
        sentence(&denial(Verdict::Contended, nodes), (&["K".into()], Sought::All), &names(), at(0)),
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
    assert!(
        told(youth(2, None)).ends_with("--restart-guard strict needs the right to INFO (+info)")
    );
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

//! Nodes that are named, and resolvers that fail or hang.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
};

use super::*;
use crate::node::testing::Server;

/// A resolver that answers as told, and for `hang` not before `release` is dropped.
fn resolver_of(addresses: Vec<SocketAddr>) -> (Lookup, mpsc::Sender<()>) {
    let (release, hang) = mpsc::channel::<()>();
    let hang = Mutex::new(hang);
    let lookup: Lookup = Arc::new(move |host| match host {
        "hang" => {
            let _ = hang.lock().unwrap().recv();
            Ok(addresses.clone())
        }
        "good" => Ok(addresses.clone()),
        "empty" => Ok(Vec::new()),
        _ => Err(io::Error::other("failed to lookup address information: No such host")),
    });
    (lookup, release)
}

#[test]
fn resolver_that_hangs_delays_nobody_not_even_the_end() {
    let server = Server::start();
    let (lookup, _hanging) = resolver_of(Vec::new());
    let act = (0..2).flat_map(|node| [open(node), acquire(node)]).collect();
    let rig = Rig::with(&[&server.address(), "hang:1"], vec![act], Vec::new(), &lookup, &[]);
    rig.begin();
    assert_eq!((rig.next(), rig.next()), ((conn(0), LinkEvent::Ready), (conn(0), DONE)));
    rig.stop();
}

#[test]
fn late_addresses_reach_those_who_still_wait_and_only_them() {
    let server = Server::start();
    let address = server.address().parse().unwrap();
    let (lookup, release_it) = resolver_of(vec![address]);
    let node = format!("hang:{}", address.port());
    let second = ConnId { serial: 1, ..conn(0) };
    let rig = Rig::with(
        &[&node],
        vec![
            vec![open(0), acquire(0)],
            vec![close(0), Action::Open(second), Action::Send(second, Request::Look)],
        ],
        Vec::new(),
        &lookup,
        &[],
    );
    rig.begin();
    rig.next_act();
    drop(release_it);
    assert_eq!(rig.next(), (second, LinkEvent::Ready));
    // What was queued on the connection that never was ready was dropped with it.
    assert_eq!(rig.next(), (second, LinkEvent::Replied(Reply::Absent)));
    rig.stop();
}

#[test]
fn addresses_are_tried_one_after_the_other() {
    let server = Server::start();
    let live: SocketAddr = server.address().parse().unwrap();
    // Nobody listens on the same port of these.
    let dead = ["127.1.2.3", "127.1.2.4"].map(|ip| SocketAddr::new(ip.parse().unwrap(), 0));
    let (lookup, _hang) = resolver_of(vec![dead[0], dead[1], live]);
    let node = format!("good:{}", live.port());
    let rig = Rig::with(&[&node], vec![vec![open(0), acquire(0)]], Vec::new(), &lookup, &[]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.stop();
}

#[test]
fn names_without_an_address_are_reported_with_the_resolvers_words() {
    let (lookup, _hang) = resolver_of(Vec::new());
    for (node, words) in [("empty:1", "the name has no address"), ("bad:1", "no such host")] {
        let rig = Rig::with(&[node], vec![vec![open(0), acquire(0)]], Vec::new(), &lookup, &[]);
        rig.begin();
        assert_eq!(rig.event(), LinkEvent::Ended(Trouble::Unresolvable(words.into())));
        rig.stop();
    }
}

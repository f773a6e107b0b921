//! Ports that speak something else, or nothing, or slowly.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::Duration,
};

use super::{refused, works};
use crate::harness::{
    Redlock, fleet,
    proxy::{Mode, Proxy},
    tls::{Authority, TlsServer},
};

/// Somebody who accepts every connection, reads, and says this once.
fn impostor(says: &'static [u8]) -> (String, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(says);
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
        }
    });
    (format!("rediss://127.0.0.1:{port}"), port)
}

#[test]
fn plain_port_that_is_spoken_to_in_tls_is_named_as_one() {
    needs_tls!();
    // What a real one answers depends on whether there is the end of a line in what we say.
    let servers = fleet(1);
    let real = format!("rediss://{}", servers.servers()[0].address());
    let out = Redlock::run(real).args(["-n"]).command(["true"]).exits(69).output().stderr;
    assert!(out.contains("TLS") && out.contains("redis://"), "{out}");
    let (answering, _) = impostor(b"-ERR unknown command\r\n");
    refused(
        answering,
        |run| run,
        "*: does not speak TLS; to mend it: write redis:// in the list, or *",
    );
}

#[test]
fn tls_port_that_is_spoken_to_in_the_clear_is_named_as_one() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let clear = server.url().replace("rediss:", "redis:");
    let out = Redlock::run(clear).args(["-n"]).command(["true"]).exits(69).output().stderr;
    assert!(out.contains("rediss://"), "{out}");
    let (_, port) = impostor(b"\x15\x03\x01\x00\x02\x02\x46");
    let clear = format!("redis://127.0.0.1:{port}");
    refused(clear, |run| run, "*: speaks TLS there; to mend it: write rediss:// in the list");
}

#[test]
fn handshake_that_is_never_answered_costs_the_connect_timeout_and_no_more() {
    needs_tls!();
    let authority = Authority::new();
    let good = authority.fleet(2);
    let (silent, _) = impostor(b"");
    let out = refused(
        &silent,
        |run| run.args(["--connect-timeout", "300ms"]),
        "*: connected, but no answer to the TLS handshake in time; *",
    );
    assert!(out.took >= Duration::from_millis(300), "{:?}", out.took);
    assert!(out.took < Duration::from_secs(5), "{:?}", out.took);
    // It takes nothing from the others.
    let nodes = format!("{},{},{silent}", good[0].url(), good[1].url());
    works(nodes, |run| {
        let patient = run.trusting(&authority.ca()).args(["--connect-timeout", "18s"]);
        patient.within(Duration::from_secs(12))
    });
}

#[test]
fn node_whose_handshake_drips_is_understood_or_given_up_in_time() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let url = proxy.url().replace("redis:", "rediss:");
    proxy.set(Mode::Drip(Duration::from_micros(50)));
    works(&url, |run| {
        run.trusting(&authority.ca()).args([
            "--connect-timeout",
            "10s",
            "--node-timeout",
            "10s",
            "-t",
            "1m",
        ])
    });
    proxy.set(Mode::Drip(Duration::from_millis(50)));
    let out = refused(
        &url,
        |run| run.trusting(&authority.ca()).args(["--connect-timeout", "400ms"]),
        "*: connected, but no answer to the TLS handshake in time; *",
    );
    assert!(out.took < Duration::from_secs(5), "{:?}", out.took);
}

#[test]
fn slow_handshake_has_a_time_of_its_own() {
    needs_tls!();
    // samcook/RedLock.net#95: a time-out of 100 ms for everything was too short for TLS.
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    proxy.set(Mode::Delay(Duration::from_millis(150)));
    let url = proxy.url().replace("redis:", "rediss:");
    works(&url, |run| run.trusting(&authority.ca()));
}

#[test]
fn plain_and_tls_nodes_stand_in_one_list() {
    needs_tls!();
    let authority = Authority::new();
    let plain = fleet(1);
    let secure: Vec<TlsServer> = authority.fleet(2);
    let nodes = format!("{},{},{}", secure[0].url(), plain.nodes(), secure[1].url());
    works(nodes, |run| run.trusting(&authority.ca()));
}

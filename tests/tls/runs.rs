//! Whole runs over TLS: extensions, hand-overs, nodes that stop, die and come back.

use std::{fs, time::Duration};

use rustix::process::Signal;

use crate::harness::{
    Redlock, eventually, fleet,
    proxy::{Mode, Proxy},
    resp::Reply,
    scratch,
    servers::Inspect,
    terminator::Terminator,
    tls::{Authority, TlsServer, list},
};

/// A command that says `ready` and ends when the file `go` is there.
fn until(go: &std::path::Path) -> String {
    format!("echo ready; until [ -e '{}' ]; do sleep 0.02; done; echo done", go.display())
}

fn run(authority: &Authority, servers: &[TlsServer]) -> Redlock {
    Redlock::run(list(servers)).trusting(&authority.ca())
}

fn requests(server: &TlsServer) -> u64 {
    let mut client = server.server.client();
    client.calls("eval") + client.calls("evalsha")
}

fn holding(servers: &[TlsServer]) -> usize {
    servers.iter().filter(|server| server.server.exists("k")).count()
}

#[test]
fn lock_is_extended_over_tls_and_comes_back_to_a_node_that_restarted() {
    needs_tls!();
    let authority = Authority::new();
    let mut servers = authority.fleet(3);
    let place = scratch();
    let go = place.path().join("go");
    let mut holder = run(&authority, &servers)
        .args(["--ttl", "1500ms"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    holder.wait_stdout("ready\n");
    servers[1].server.kill();
    let before = requests(&servers[0]);
    eventually("extensions without it", || requests(&servers[0]) >= before + 4);
    servers[1].server.restart().unwrap();
    eventually("the lock is on all nodes again", || holding(&servers) == 3);
    let before = requests(&servers[1]);
    eventually("extensions with it", || requests(&servers[1]) >= before + 3);
    fs::write(go, "").unwrap();
    holder.check();
    eventually("the lock is given back", || holding(&servers) == 0);
}

#[test]
fn release_is_heard_by_a_waiter_over_tls() {
    needs_tls!();
    let authority = Authority::new();
    let servers = authority.fleet(3);
    let listeners = |server: &TlsServer| match server.server.client().command(&[
        "PUBSUB",
        "NUMSUB",
        "redlock:released:k",
    ]) {
        Reply::List(parts) => parts.last() == Some(&Reply::Integer(1)),
        other => panic!("{other:?}"),
    };
    for _ in 0..3 {
        let mut holder = run(&authority, &servers).shell("echo has it; exec sleep 60").start();
        holder.wait_stdout("has it");
        let waiter =
            run(&authority, &servers).args(["-q"]).command(["echo", "ran"]).stdout("ran\n").start();
        eventually("it listens", || servers.iter().all(listeners));
        let before = requests(&servers[0]);
        holder.signal(Signal::TERM);
        waiter.check();
        let requests = requests(&servers[0]) - before;
        assert!(requests <= 8, "{requests} requests for one hand-over");
        drop(holder);
    }
}

#[test]
fn stopped_node_gets_the_release_behind_what_it_has_not_read() {
    needs_tls!();
    let authority = Authority::new();
    let servers = authority.fleet(3);
    let place = scratch();
    let go = place.path().join("go");
    let mut holder = run(&authority, &servers)
        .args(["--ttl", "1m"])
        .shell(&until(&go))
        .stdout("ready\ndone\n")
        .start();
    holder.wait_stdout("ready\n");
    assert_eq!(holding(&servers), 3);
    servers[2].server.stop().unwrap();
    fs::write(go, "").unwrap();
    holder.check();
    servers[2].server.cont().unwrap();
    // Long before the ttl.
    eventually("the lock is given back", || holding(&servers) == 0);
}

#[test]
fn handshake_and_first_requests_are_one_flight() {
    needs_tls!();
    let authority = Authority::new();
    let issued = authority.issue(&["127.0.0.1"]);
    let server = authority.server(&issued, &["--tls-protocols", "TLSv1.3"]);
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into());
    let way = Duration::from_millis(300);
    proxy.set(Mode::Delay(way));
    let url = proxy.url().replace("redis:", "rediss:");
    let patient = ["-n", "--connect-timeout", "10s", "--node-timeout", "10s", "-t", "2m"];
    let run = Redlock::run(url).trusting(&authority.ca()).args(patient);
    let out = run.command(["true"]).check();
    // Hello there and back; the end of the handshake with the acquire behind it there, and the
    // answer back; the release there and its answer back. One way more would be two more.
    assert!(out.took >= way * 6 && out.took < way * 8, "{:?}", out.took);
}

#[test]
fn connections_end_as_tls_wants_it_behind_something_else_that_speaks_it() {
    let (authority, plain) = (Authority::new(), fleet(3));
    let issued = authority.issue(&["127.0.0.1"]);
    let ends: Vec<Terminator> =
        plain.servers().iter().map(|server| Terminator::to(server.address(), &issued)).collect();
    let nodes: Vec<String> = ends.iter().map(Terminator::url).collect();
    for _ in 0..5 {
        let run = Redlock::run(nodes.join(",")).trusting(&authority.ca());
        run.command(["echo", "ran"]).stdout("ran\n").check();
    }
    for end in &ends {
        eventually("all connections have ended", || end.ends().0 + end.ends().1 == 5);
        assert_eq!(end.ends(), (5, 0));
    }
}

#[test]
fn answers_of_many_records_are_read_to_their_end() {
    needs_tls!();
    let authority = Authority::new();
    let server = authority.server(&authority.issue(&["127.0.0.1"]), &[]);
    let mut client = server.server.client();
    // Long names: a page of them is several records of 16 KiB.
    let name = "k".repeat(400);
    for number in 0..3000 {
        client.set_px(&format!("{name}{number}"), "v", 600_000);
    }
    let status = Redlock::new(["status", "--all", "--json"]).nodes(server.url());
    let out = status.trusting(&authority.ca()).output();
    assert_eq!(out.stdout.matches(&name).count(), 3000, "{}", out.stderr);
}

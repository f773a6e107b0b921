//! Every way to write a node, against real servers: sockets in the file system, IPv6, databases,
//! users, and passwords of its own for each node.

use std::net::{Ipv6Addr, TcpListener};

use redlock::commands::sandbox::{launcher::Launcher, servers::Server};

use crate::{
    harness::{
        Redlock,
        builder::End,
        fleet,
        resp::{Reply, Resp},
        scratch,
        servers::Inspect,
    },
    skip,
};

fn server(options: &[&str]) -> Server {
    Server::start(&Launcher::new().unwrap(), options.iter().copied()).unwrap()
}

fn ok(reply: &Reply) {
    assert_eq!(*reply, Reply::Simple("OK".into()));
}

/// A connection that sees database `db`.
fn client(server: &Server, db: u8) -> Resp {
    let mut client = server.client();
    ok(&client.command(&["SELECT", &db.to_string()]));
    client
}

/// Runs something under the lock on `nodes`, which are shown as `names`; what `look` finds
/// meanwhile.
#[track_caller]
fn held<T>(nodes: &str, names: &[&str], look: impl FnOnce() -> T) -> T {
    let shell = "echo ready; read x; echo $x";
    let place = scratch();
    let fifo = place.path().join("fifo");
    let mkfifo = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(mkfifo.success());
    let line = format!("exec <{}; {shell}", fifo.display());
    let mut run = Redlock::run(nodes).shell(&line).stdout("ready\ngo\n").start();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&fifo)
        .map(|mut pipe| {
            run.wait_stdout("ready");
            let found = look();
            let status = Redlock::new(["status", "k", "--json"]).nodes(nodes).output();
            let said: serde_json::Value = serde_json::from_str(&status.stdout)
                .unwrap_or_else(|error| panic!("{error}: {status}"));
            assert_eq!(said["locks"][0]["state"], "held", "{said}");
            let shown: Vec<&str> = said["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n["node"].as_str().unwrap())
                .collect();
            assert_eq!(shown, names);
            std::io::Write::write_all(&mut pipe, b"go\n").unwrap();
            drop(pipe);
            run.check();
            found
        })
        .unwrap()
}

#[test]
fn node_is_a_socket_in_the_file_system() {
    let place = scratch();
    // A name that has to be escaped in a URL.
    let path = place.path().join("a b.sock");
    let server = server(&["--unixsocket", path.to_str().unwrap()]);
    let url = format!("unix://{}/a%20b.sock", place.path().display());
    assert!(held(&url, &[&url], || client(&server, 0).exists("k")));
    assert!(!client(&server, 0).exists("k"));
    let url = format!("{url}?db=7");
    let found = held(&url, &[&url], || (client(&server, 7).exists("k"), server.exists("k")));
    assert_eq!(found, (true, false));
    // The password that all nodes share is for sockets too.
    ok(&server.client().command(&["CONFIG", "SET", "requirepass", "pw"]));
    let run = || Redlock::run(&url).args(["-n"]).command(["true"]);
    assert_eq!(run().output().end, End::Exit(77));
    run().env("REDLOCK_PASSWORD", "pw").check();
}

#[test]
fn socket_that_is_not_there_or_nobody_listens_on_is_said() {
    let place = scratch();
    let url = format!("unix://{}/s", place.path().display());
    let run = || Redlock::run(&url).args(["-n"]).command(["true"]);
    run().fails(69, "*no such file or directory*").check();
    drop(std::os::unix::net::UnixListener::bind(place.path().join("s")).unwrap());
    run().fails(69, "*connection refused*").check();
}

#[test]
fn node_is_an_ipv6_address_in_brackets() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        skip!("no IPv6 here: {error}");
    }
    let server = server(&["--bind", "127.0.0.1", "::1"]);
    let port = server.port();
    let name = format!("[::1]:{port}");
    for url in [format!("[::1]:{port}"), format!("redis://[0:0:0:0:0:0:0:1]:{port}/0")] {
        assert!(held(&url, &[&name], || server.exists("k")));
    }
    let name = format!("[::1]:{port}/2");
    assert!(held(&format!("redis://{name}"), &[&name], || client(&server, 2).exists("k")));
}

#[test]
fn node_is_one_database_of_a_server() {
    let fleet = fleet(3);
    let number = |number: usize| format!("127.0.0.1:{}", fleet.servers()[number].port());
    // Each has its own.
    let list = format!("{}/1,redis://{}/15,{}", number(0), number(1), number(2));
    let mut names = [format!("{}/1", number(0)), format!("{}/15", number(1)), number(2)];
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = held(&list, &names, || {
        let servers = fleet.servers();
        let dbs = [(0, 1), (1, 15), (2, 0)];
        let there = dbs.map(|(server, db)| client(&servers[server], db).exists("k"));
        (there, servers[0].exists("k"), servers[1].exists("k"))
    });
    assert_eq!(found, ([true; 3], false, false));
    // A database that the server does not have.
    let run = Redlock::run(format!("{}/16", number(0))).args(["-n"]).command(["true"]);
    run.fails(69, "*DB index is out of range*").check();
}

#[test]
fn every_node_has_credentials_of_its_own() {
    let fleet = fleet(3);
    let mut list = Vec::new();
    let passwords = ["p:w/%1", "p@w 2", "pw3"];
    let encoded = ["p%3Aw%2F%251", "p%40w%202", "pw3"];
    for (number, server) in fleet.servers().iter().enumerate() {
        let mut client = server.client();
        let (user, pw) = (format!("u@{number}"), format!(">{}", passwords[number]));
        ok(&client.command(&["ACL", "SETUSER", &user, "on", &pw, "~*", "&*", "+@all"]));
        ok(&client.command(&["ACL", "SETUSER", "default", "off"]));
        let port = server.port();
        list.push(format!("redis://u%40{number}:{}@127.0.0.1:{port}", encoded[number]));
    }
    let run = |list: &[String]| Redlock::run(list.join(",")).args(["-n"]).command(["true"]);
    run(&list).check();
    // Each URL's own come before what all share.
    run(&list).env("REDLOCK_USERNAME", "x").env("REDLOCK_PASSWORD", "x").check();
    let mut wrong = list.clone();
    wrong[1] = wrong[1].replace("p%40w", "other");
    run(&wrong).check();
    wrong[2] = wrong[2].replace("pw3", "other");
    run(&wrong).fails(77, "*WRONGPASS*").check();
    // A node whose URL has none gets what all share; without it there would be no quorum.
    wrong[2] = format!("127.0.0.1:{}", fleet.servers()[2].port());
    run(&wrong).env("REDLOCK_USERNAME", "u@2").env("REDLOCK_PASSWORD", "pw3").check();
    run(&wrong)
        .env("REDLOCK_USERNAME", "u@2")
        .env("REDLOCK_PASSWORD", "x")
        .exits(77)
        .stderr_like("*\n")
        .check();
}

#[test]
fn password_for_a_server_that_has_none_is_said() {
    let fleet = fleet(1);
    let run = Redlock::run(fleet.nodes()).args(["-n"]).env("REDLOCK_PASSWORD", "pw");
    run.command(["true"]).fails(77, "*without any password configured*").check();
    // With a name the server looks the user up.
    let run = Redlock::run(fleet.nodes()).args(["-n"]).env("REDLOCK_PASSWORD", "pw");
    let run = run.env("REDLOCK_USERNAME", "nobody");
    run.command(["true"]).fails(77, "*WRONGPASS*").check();
}

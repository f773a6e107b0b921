//! What a connection says first, and what nodes make of it.

use std::{io::Read as _, sync::mpsc};

use redis::Value;

use super::*;
use crate::node::testing::{Server, impostor};

#[test]
fn connection_presents_itself_before_its_first_request() {
    let server = Server::with(&["--requirepass", "pa:ss"]);
    let node = format!("redis://default:pa%3Ass@{}/2", server.address());
    let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    let mut client = server.client();
    client.call("AUTH pa:ss");
    let Value::BulkString(list) = client.call("CLIENT LIST") else { panic!() };
    let list = String::from_utf8(list).unwrap();
    let ours = list.lines().find(|line| line.contains("name=redlock")).unwrap();
    assert!(ours.contains(" db=2 ") && ours.contains(" resp=3"), "{ours}");
    client.call("SELECT 2");
    assert_eq!(client.call("EXISTS k"), Value::Int(1));
    rig.stop();
}

#[test]
fn preamble_and_first_request_are_one_write() {
    let (seen, first) = mpsc::channel();
    let address = impostor(move |mut stream| {
        let mut buffer = [0; 8192];
        let count = stream.read(&mut buffer).unwrap();
        seen.send(buffer[..count].to_vec()).unwrap();
    });
    let rig = Rig::new(&[&format!("redis://u:p@{address}/1")], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    let bytes = first.recv_timeout(BOUND).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let places: Vec<_> = [
        "AUTH",
        "HELLO",
        "SELECT",
        "SETNAME",
        "server",
        "replication",
        "EVAL",
        &token().to_string(),
    ]
    .iter()
    .map(|word| text.find(word).unwrap_or_else(|| panic!("{word} in {text}")))
    .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn resp2_serves_where_hello_is_refused() {
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    let rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0), release(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event(), rig.event()), (LinkEvent::Ready, DONE, DONE));
    rig.stop();
}

#[test]
fn database_that_cannot_be_selected_refuses_everything_and_the_undo_reaches_its_place() {
    let server = Server::start();
    let rig = Rig::new(
        &[&format!("{}/99", server.address())],
        vec![vec![open(0), acquire(0)], vec![release(0)]],
    );
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    let (kind, text) = rig.refusal();
    assert_eq!((kind, text.as_str()), (RefusalKind::State, "ERR DB index is out of range"));
    assert!(exists(&server), "the request behind SELECT was executed, in database 0");
    rig.next_act();
    assert_eq!(rig.refusal().1, "ERR DB index is out of range");
    assert!(!exists(&server));
    rig.stop();
}

#[test]
fn wrong_and_needless_passwords_are_a_matter_of_rights() {
    for (options, code) in [(&["--requirepass", "right"][..], "WRONGPASS"), (&[], "ERR AUTH")] {
        let server = Server::with(options);
        let node = format!("redis://:wr0ng@{}", server.address());
        let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0), release(0)]]);
        rig.begin();
        assert_eq!(rig.event(), LinkEvent::Ready);
        for _ in 0..2 {
            let (kind, text) = rig.refusal();
            assert_eq!(kind, RefusalKind::Rights);
            assert!(text.starts_with(code) && !text.contains("wr0ng"), "{text}");
        }
        rig.stop();
    }
}

#[test]
fn renamed_auth_does_not_give_the_password_away() {
    let server = Server::with(&["--rename-command", "AUTH", "secret-auth"]);
    let node = format!("redis://{}:s3cr3t@{}", "u".repeat(110), server.address());
    let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    let (kind, text) = rig.refusal();
    assert_eq!((kind, text.as_str()), (RefusalKind::Rights, "ERR unknown command 'AUTH'"));
    rig.stop();
}

#[test]
fn node_with_too_many_clients_is_a_refusal_and_not_a_mystery() {
    let server = Server::with(&["--maxclients", "1"]);
    let mut only = server.client();
    only.call("PING");
    let rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    let (kind, text) = rig.refusal();
    assert_eq!((kind, text.as_str()), (RefusalKind::State, "ERR max number of clients reached"));
    assert_eq!(rig.event(), LinkEvent::Ended(Trouble::Cut));
    rig.stop();
}

/// What the server of the only connection says about itself.
fn introduction(rig: &Rig) -> Introduction {
    match rig.introduced.recv_timeout(BOUND) {
        Ok((_, LinkEvent::Introduced(introduction))) => introduction,
        other => panic!("{other:?}"),
    }
}

#[test]
fn server_introduces_itself_before_its_first_answer_whatever_it_speaks() {
    for options in [&[][..], &["--rename-command", "HELLO", ""]] {
        let server = Server::with(options);
        let rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)]]);
        rig.begin();
        let Introduction::Known(told) = introduction(&rig) else { panic!("unknown") };
        let Value::BulkString(info) = server.call("INFO server") else { panic!() };
        let info = String::from_utf8(info).unwrap();
        assert!(info.contains(&format!("run_id:{}\r\n", told.run_id)), "{info}");
        assert!(told.uptime < BOUND && !told.history.is_empty() && !told.promoted);
        assert_eq!((told.mode, told.role, told.before), (Mode::Standalone, Role::Master, None));
        assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
        rig.stop();
    }
}

#[test]
fn server_that_may_not_tell_is_unknown_and_serves() {
    let server = Server::start();
    server.call("ACL SETUSER u on >p ~* &* +@all -info");
    let node = format!("redis://u:p@{}", server.address());
    let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!(introduction(&rig), Introduction::Unknown);
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.stop();
}

#[test]
fn server_that_cannot_tell_is_refused() {
    let server = Server::with(&["--rename-command", "INFO", ""]);
    let rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    let (kind, text) = rig.refusal();
    assert_eq!(kind, RefusalKind::State);
    assert!(text.starts_with("ERR unknown command 'INFO'"), "{text}");
    rig.stop();
}

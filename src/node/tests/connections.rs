//! Connections from their opening to their end.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::mpsc,
};

use redis::Value;
use rustix::process::Signal;

use super::*;
use crate::node::testing::{Server, free_port, impostor};

#[test]
fn five_nodes_are_acquired_and_released() {
    let servers: Vec<_> = (0..5).map(|_| Server::start()).collect();
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let acts = vec![
        (0..5).flat_map(|node| [open(node), acquire(node)]).collect(),
        (0..5).map(release).collect(),
    ];
    let rig = Rig::new(&addresses, acts);
    rig.begin();
    let heard: Vec<_> = (0..10).map(|_| rig.next()).collect();
    for node in 0..5 {
        let of: Vec<_> = heard.iter().filter(|(id, _)| *id == conn(node)).collect();
        assert_eq!((&of[0].1, &of[1].1), (&LinkEvent::Ready, &DONE));
    }
    assert!(servers.iter().all(exists));
    rig.next_act();
    assert!((0..5).all(|_| rig.event() == DONE));
    assert!(!servers.iter().any(exists));
    rig.stop();
}

#[test]
fn stopped_node_gets_the_undo_behind_the_request_on_the_same_connection() {
    let server = Server::start();
    server.signal(Signal::STOP);
    let rig =
        Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)], vec![release(0), close(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    rig.next_act();
    rig.stop();
    server.signal(Signal::CONT);
    let mut client = server.client();
    assert_eq!(client.call("EXISTS k"), Value::Int(0));
    // Not for want of an attempt.
    assert_eq!((calls(&server, "set"), calls(&server, "del")), (1, 1));
}

#[test]
fn closed_connection_reports_nothing_and_reads_its_answers_to_the_end() {
    let (ended, end) = mpsc::channel();
    let address = impostor(move |mut stream| {
        let mut bytes = Vec::new();
        let mut buffer = [0; 8192];
        // The release: by then the connection is closed for the machine.
        while String::from_utf8_lossy(&bytes).matches("EVAL").count() < 2 {
            let count = stream.read(&mut buffer).unwrap();
            bytes.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n").unwrap();
        let read = stream.read_to_end(&mut bytes);
        ended.send(read.is_ok()).unwrap();
    });
    let rig = Rig::new(&[&address], vec![vec![open(0), acquire(0)], vec![release(0), close(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    rig.next_act();
    assert!(end.recv_timeout(BOUND).unwrap(), "an end and not a reset");
    assert_eq!(rig.log.try_recv(), Err(TryRecvError::Empty));
    rig.stop();
}

#[test]
fn answers_behind_the_one_that_made_the_machine_close_are_not_reported() {
    let address = impostor(|mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        let _ = stream.write_all(b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n:1\r\nrubbish");
    });
    let rig =
        Rig::reacting(&address, vec![vec![open(0), acquire(0), release(0)]], vec![vec![close(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.stop();
}

#[test]
fn requests_that_do_not_fit_into_the_socket_go_out_in_order() {
    let server = Server::start();
    server.signal(Signal::STOP);
    let value = format!("{} {}", token(), "x".repeat(100_000));
    let big = Request::Acquire { token: token(), value, ttl: TTL };
    let mut act = vec![open(0)];
    act.extend((0..150).flat_map(|_| [Action::Send(conn(0), big.clone()), release(0)]));
    act.push(Action::Send(conn(0), Request::Look));
    let rig = Rig::new(&[&server.address()], vec![act]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    server.signal(Signal::CONT);
    assert!((0..300).all(|_| rig.event() == DONE));
    assert_eq!(rig.reply(), Reply::Absent);
    rig.stop();
}

#[test]
fn ends_of_connections_are_told_apart() {
    let closed = format!("127.0.0.1:{}", free_port());
    let cut = impostor(|mut stream| {
        let mut buffer = [0; 64];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"+OK\r\n$10\r\nhalf");
    });
    let garbage = impostor(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let unasked = impostor(|mut stream| {
        let _ = stream.write_all(b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let directory = tempfile::tempdir().unwrap();
    let missing = format!("unix://{}", directory.path().join("s").display());
    for (node, trouble) in [
        (closed, Trouble::Unreachable("connection refused".into())),
        (missing, Trouble::Unreachable("no such file or directory".into())),
        (cut, Trouble::Cut),
        (garbage, Trouble::Garbage),
        (unasked, Trouble::Garbage),
    ] {
        let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0)]]);
        rig.begin();
        let end = loop {
            match rig.event() {
                LinkEvent::Ready => {}
                LinkEvent::Ended(trouble) => break trouble,
                other => panic!("{node}: {other:?}"),
            }
        };
        assert_eq!(end, trouble, "{node}");
        rig.stop();
    }
}

#[test]
fn peer_that_half_closes_is_cut_off() {
    let address = impostor(|stream: TcpStream| {
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = (&stream).read_to_end(&mut Vec::new());
    });
    let rig = Rig::new(&[&address], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, LinkEvent::Ended(Trouble::Cut)));
    rig.stop();
}

#[test]
fn socket_in_the_file_system_serves() {
    let server = Server::start();
    let node = format!("unix://{}?db=1", server.socket().display());
    let rig = Rig::new(&[&node], vec![vec![open(0), acquire(0), release(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event(), rig.event()), (LinkEvent::Ready, DONE, DONE));
    rig.stop();
}

#[test]
fn messages_are_nobodys_answer() {
    let address = impostor(|mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        let message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
        for answer in [&b"+OK\r\n"[..], b"+OK\r\n", b"+OK\r\n", b"+OK\r\n", b":1\r\n", b":0\r\n"] {
            let _ = stream.write_all(message);
            let _ = stream.write_all(answer);
        }
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let rig = Rig::new(&[&address], vec![vec![open(0), acquire(0), release(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    assert_eq!(rig.reply(), Reply::Absent);
    rig.stop();
}

#[test]
fn node_that_drips_bytes_delays_nobody_and_is_understood() {
    let server = Server::start();
    let (go, drip) = mpsc::channel::<()>();
    let dripping = impostor(move |mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        for byte in b"%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n" {
            drip.recv().unwrap();
            stream.write_all(&[*byte]).unwrap();
        }
    });
    let act = (0..2).flat_map(|node| [open(node), acquire(node)]).collect();
    let rig = Rig::new(&[&server.address(), &dripping], vec![act, vec![release(0), release(1)]]);
    rig.begin();
    let mut ready = 0;
    let fast = loop {
        match rig.next() {
            (_, LinkEvent::Ready) => ready += 1,
            (id, event) => break (id, event),
        }
    };
    assert_eq!(fast.1, DONE);
    while ready < 2 {
        assert_eq!(rig.event(), LinkEvent::Ready);
        ready += 1;
    }
    (0..36).for_each(|_| {
        let _ = go.send(());
    });
    let slow = rig.next();
    assert_eq!(slow.1, DONE);
    assert_ne!(slow.0, fast.0);
}

fn send(node: u8, request: Request) -> Action {
    Action::Send(conn(node), request)
}

#[test]
fn release_comes_as_a_message_on_the_connection_that_asked_for_it() {
    let server = Server::start();
    let talk = vec![open(0), send(0, Request::Subscribe), acquire(0), send(0, Request::Look)];
    let rig =
        Rig::new(&[&server.address()], vec![talk, vec![send(0, Request::Attend), acquire(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event(), rig.event()), (LinkEvent::Ready, DONE, DONE));
    assert!(matches!(rig.reply(), Reply::Held(_)));
    let message = format!("{} 3", token());
    let publish = |channel: &str, text: &str| {
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(channel).arg(text);
        server.client().raw(&cmd.get_packed_command())
    };
    publish("redlock:released:k", &message);
    let released = LinkEvent::Released { extent: Extent::Whole, by: Some(token()), listeners: 3 };
    assert_eq!(rig.event(), released);
    assert_eq!(publish("redlock:holder:k", &message), Value::Int(0));
    // Whoever has the lock hears what is said to holders and nothing else.
    rig.next_act();
    assert_eq!((rig.event(), rig.reply()), (DONE, Reply::Already));
    assert_eq!(publish("redlock:released:k", &message), Value::Int(0));
    publish("redlock:holder:k", &message);
    assert_eq!(rig.event(), LinkEvent::Called(token()));
    rig.stop();
}

#[test]
fn node_without_resp3_refuses_to_tell_and_serves_all_the_rest() {
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    let talk = vec![open(0), acquire(0), send(0, Request::Subscribe), acquire(0)];
    let more = vec![send(0, Request::Subscribe), send(0, Request::Attend), release(0)];
    let rig = Rig::new(&[&server.address()], vec![talk, more]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    assert_eq!(rig.refusal(), (RefusalKind::State, "no messages without RESP3".into()));
    assert_eq!(rig.reply(), Reply::Already);
    rig.next_act();
    rig.refusal();
    rig.refusal();
    assert_eq!(rig.event(), DONE);
    rig.stop();
}

#[test]
fn user_without_the_channel_is_refused_it_alone() {
    let server = Server::start();
    server.call("ACL SETUSER default on nopass ~* resetchannels +@all");
    let talk = vec![open(0), send(0, Request::Subscribe), acquire(0), send(0, Request::Attend)];
    let rig = Rig::new(&[&server.address()], vec![talk, vec![release(0)]]);
    rig.begin();
    assert_eq!(rig.event(), LinkEvent::Ready);
    assert_eq!(rig.refusal().0, RefusalKind::Rights);
    assert_eq!(rig.event(), DONE);
    assert_eq!(rig.refusal().0, RefusalKind::Rights);
    rig.next_act();
    assert_eq!(rig.event(), DONE);
    rig.stop();
}

#[test]
fn undo_behind_a_subscription_that_was_held_back_still_goes_out() {
    let server = Server::start();
    let talk = vec![open(0), send(0, Request::Subscribe), acquire(0), release(0), close(0)];
    let rig = Rig::new(&[&server.address()], vec![talk]);
    rig.begin();
    rig.stop();
    assert!(!exists(&server));
}

//! The proxy does what it is told.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{
    eventually,
    proxy::{Mode, Proxy},
    resp::{Reply, Resp},
    servers::{Fleet, fleet},
};

const MS: Duration = Duration::from_millis(1);

fn start() -> (Fleet, Proxy) {
    let fleet = fleet(1);
    let proxy = Proxy::to(fleet.servers()[0].address());
    (fleet, proxy)
}

fn ping(client: &mut Resp) -> Duration {
    let start = Instant::now();
    let answer = client.command(&["PING"]);
    assert_eq!(answer, Reply::Simple("PONG".to_owned()));
    start.elapsed()
}

/// A raw connection that has asked for a PONG, and how long an answer is waited for.
fn asked(proxy: &Proxy, patience: Duration) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream
}

fn silent(stream: &mut TcpStream) -> bool {
    let kind = stream.read(&mut [0; 8]).map_err(|error| error.kind());
    matches!(kind, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

fn cut(stream: &mut TcpStream) -> bool {
    let kind = stream.read(&mut [0; 8]).map_err(|error| error.kind());
    matches!(kind, Ok(0) | Err(ErrorKind::ConnectionReset))
}

#[test]
fn proxy_passes_and_counts() {
    let (_fleet, proxy) = start();
    let mut client = Resp::connect(proxy.address());
    ping(&mut client);
    assert_eq!(proxy.connections(), 1);
    // It is counted after it has gone out.
    eventually("the answer is counted", || proxy.bytes_down() == 7);
    assert_eq!(proxy.bytes_up(), "*1\r\n$4\r\nPING\r\n".len() as u64);
}

#[test]
fn proxy_delays_each_way_and_only_the_connection_it_should() {
    let (_fleet, proxy) = start();
    proxy.rule(0, Mode::Delay(50 * MS));
    let mut slow = Resp::connect(proxy.address());
    proxy.wait_connections(1);
    let mut fast = Resp::connect(proxy.address());
    assert!(ping(&mut slow) >= 100 * MS);
    // Pipelined requests are delayed once, not one after the other.
    let start = Instant::now();
    for _ in 0..50 {
        slow.send(&["PING"]);
    }
    for _ in 0..50 {
        slow.receive();
    }
    let took = start.elapsed();
    assert!(took >= 100 * MS && took < 2000 * MS, "{took:?}");
    let fastest = (0..5).map(|_| ping(&mut fast)).min();
    assert!(fastest.unwrap() < 50 * MS);
}

#[test]
fn proxy_swallows() {
    let (_fleet, proxy) = start();
    proxy.set(Mode::Blackhole);
    let mut stream = asked(&proxy, 50 * MS);
    assert!(silent(&mut stream));
    eventually("the request is counted", || proxy.bytes_up() == 6);
    assert_eq!(proxy.bytes_down(), 0);
    proxy.set(Mode::Pass);
    stream.write_all(b"PING\r\n").unwrap();
    assert!(silent(&mut stream), "a connection with a hole in it works");
    ping(&mut Resp::connect(proxy.address()));
}

#[test]
fn proxy_holds_and_lets_go() {
    let (_fleet, proxy) = start();
    proxy.set(Mode::Hold);
    let mut stream = asked(&proxy, 50 * MS);
    assert!(silent(&mut stream));
    stream.set_read_timeout(Some(crate::harness::LIMIT)).unwrap();
    proxy.set(Mode::Pass);
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn proxy_refuses_and_listens_again() {
    let (_fleet, proxy) = start();
    let mut open = asked(&proxy, crate::harness::LIMIT);
    open.read_exact(&mut [0; 7]).unwrap();
    proxy.set(Mode::Refuse);
    assert!(cut(&mut open));
    let refused = TcpStream::connect(proxy.address()).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    proxy.set(Mode::Pass);
    ping(&mut Resp::connect(proxy.address()));
}

#[test]
fn proxy_cuts_old_and_new_connections() {
    let (_fleet, proxy) = start();
    let mut open = asked(&proxy, crate::harness::LIMIT);
    open.read_exact(&mut [0; 7]).unwrap();
    proxy.set(Mode::Cut);
    assert!(cut(&mut open));
    assert!(cut(&mut TcpStream::connect(proxy.address()).unwrap()));
}

#[test]
fn proxy_drips_answers() {
    let (_fleet, proxy) = start();
    proxy.set(Mode::Drip(10 * MS));
    let mut client = Resp::connect(proxy.address());
    assert!(ping(&mut client) >= 70 * MS);
}

#[test]
fn proxy_without_its_server_hangs_up() {
    let (mut fleet, proxy) = start();
    fleet.servers_mut()[0].kill();
    assert!(cut(&mut TcpStream::connect(proxy.address()).unwrap()));
}

//! The whole thread against real servers and impostors, driven by a machine that follows a script.

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError, TryRecvError},
    },
    time::Duration,
};

use redis::Value;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::Signal,
    time::Timespec,
};

use super::{
    testing::{Server, free_port, impostor},
    *,
};
use crate::{
    clock::{BootClock, Clock as _, Tick},
    protocol::{
        Action, ConnId, LinkEvent, NodeIndex, Refusal, RefusalKind, Reply, Request, Token, Trouble,
    },
};

/// No healthy machine takes that long for anything in here.
const BOUND: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(60);

/// What happened, in order.
type Log = mpsc::Receiver<(ConnId, LinkEvent)>;

/// A machine that follows a script.
struct Actor {
    /// What it does whenever it is started, woken or stopped; at the end of its acts it settles.
    acts: VecDeque<Vec<Action>>,
    /// What it does at each reply.
    reactions: VecDeque<Vec<Action>>,
    log: mpsc::Sender<(ConnId, LinkEvent)>,
    actions: Vec<Action>,
    deadlines: Vec<Tick>,
}

impl Actor {
    fn act(&mut self) {
        self.actions.extend(self.acts.pop_front().unwrap_or_default());
    }
}

impl Driver for Actor {
    fn start(&mut self, _: Tick) {
        self.act();
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, _: Tick) {
        if matches!(event, LinkEvent::Replied(_)) {
            self.actions.extend(self.reactions.pop_front().unwrap_or_default());
        }
        let _ = self.log.send((conn, event));
    }

    fn wake(&mut self, now: Tick) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.deadlines.retain(|due| *due > now);
            self.actions.push(Action::Tell(Event::Validity(now)));
        } else {
            self.act();
        }
    }

    fn stop(&mut self, _: Tick) {
        if self.acts.is_empty() {
            self.actions.push(settled());
        } else {
            self.act();
        }
    }

    fn deadline(&self) -> Option<Tick> {
        self.deadlines.iter().min().copied()
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}

/// A running thread as its owner sees it.
struct Rig {
    nodes: Option<Nodes>,
    events: wake::Receiver<Event>,
    log: Log,
}

impl Rig {
    fn new(addresses: &[&str], acts: Vec<Vec<Action>>) -> Self {
        Self::with(addresses, acts, Vec::new(), &resolver::system(), &[])
    }

    fn reacting(address: &str, acts: Vec<Vec<Action>>, reactions: Vec<Vec<Action>>) -> Self {
        Self::with(&[address], acts, reactions, &resolver::system(), &[])
    }

    fn with(
        addresses: &[&str],
        acts: Vec<Vec<Action>>,
        reactions: Vec<Vec<Action>>,
        lookup: &Lookup,
        deadlines: &[Tick],
    ) -> Self {
        let fleet = Fleet::parse(addresses.iter().copied(), None).unwrap();
        let (log, heard) = mpsc::channel();
        let actor = Actor {
            acts: acts.into(),
            log,
            actions: Vec::new(),
            deadlines: deadlines.to_vec(),
            reactions: reactions.into(),
        };
        let (sender, events) = wake::channel().unwrap();
        let keys = [Key::new("", b"k").unwrap()];
        let nodes = start_with(fleet, actor, &keys, sender, lookup).unwrap();
        Self { nodes: Some(nodes), events, log: heard }
    }

    fn begin(&self) {
        self.nodes.as_ref().unwrap().begin();
    }

    fn next_act(&self) {
        self.nodes.as_ref().unwrap().wake();
    }

    /// What happens next.
    fn next(&self) -> (ConnId, LinkEvent) {
        self.log.recv_timeout(BOUND).expect("something happens")
    }

    /// What happens next, on the only connection.
    fn event(&self) -> LinkEvent {
        self.next().1
    }

    fn reply(&self) -> Reply {
        match self.event() {
            LinkEvent::Replied(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self) -> (RefusalKind, String) {
        match self.reply() {
            Reply::Refused(Refusal { kind, text }) => (kind, text),
            other => panic!("{other:?}"),
        }
    }

    fn told(&self) -> Result<Event, TryRecvError> {
        loop {
            let mut fds = [PollFd::new(&self.events, PollFlags::IN)];
            match self.events.try_recv() {
                Err(TryRecvError::Empty) => {}
                other => return other,
            }
            let bound = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&bound)), Ok(1), "the owner hears nothing");
            self.events.hush();
        }
    }

    /// Stops the machine; the thread must end.
    fn stop(self) {
        self.nodes.as_ref().unwrap().stop();
        assert!(matches!(self.told(), Ok(Event::Settled { .. })));
        assert_eq!(self.told(), Err(TryRecvError::Disconnected));
        assert_eq!(self.log.recv_timeout(BOUND), Err(RecvTimeoutError::Disconnected));
    }
}

fn settled() -> Action {
    Action::Tell(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO })
}

const fn conn(node: u8) -> ConnId {
    ConnId { node: NodeIndex(node), serial: 0 }
}

fn token() -> Token {
    Token::from_random(7)
}

fn acquire(node: u8) -> Action {
    let (token, value) = (token(), token().to_string());
    Action::Send(conn(node), Request::Acquire { token, value, ttl: TTL })
}

fn release(node: u8) -> Action {
    Action::Send(conn(node), Request::Release { token: token(), announce: false })
}

fn open(node: u8) -> Action {
    Action::Open(conn(node))
}

fn close(node: u8) -> Action {
    Action::Close(conn(node))
}

const DONE: LinkEvent = LinkEvent::Replied(Reply::Done);

fn exists(server: &Server) -> bool {
    server.call("EXISTS k") == Value::Int(1)
}

/// How often a server has executed `command`.
fn calls(server: &Server, command: &str) -> usize {
    let Value::BulkString(text) = server.call("INFO commandstats") else {
        panic!("no statistics");
    };
    let text = String::from_utf8(text).unwrap();
    let found =
        text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    found.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

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
    let places: Vec<_> = ["AUTH", "HELLO", "SELECT", "SETNAME", "EVAL", &token().to_string()]
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
        stream.write_all(b"+OK\r\n+OK\r\n:1\r\n").unwrap();
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
        let _ = stream.write_all(b"+OK\r\n+OK\r\n+OK\r\n");
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
                LinkEvent::Replied(reply) => panic!("{node}: {reply:?}"),
            }
        };
        assert_eq!(end, trouble, "{node}");
        rig.stop();
    }
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
fn node_that_drips_bytes_delays_nobody_and_is_understood() {
    let server = Server::start();
    let (go, drip) = mpsc::channel::<()>();
    let dripping = impostor(move |mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        for byte in b"%1\r\n+proto\r\n:3\r\n+OK\r\n:1\r\n" {
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
    (0..26).for_each(|_| {
        let _ = go.send(());
    });
    let slow = rig.next();
    assert_eq!(slow.1, DONE);
    assert_ne!(slow.0, fast.0);
}

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

#[test]
fn vanished_owner_ends_the_thread_and_releases_nothing() {
    let server = Server::start();
    let mut rig = Rig::new(&[&server.address()], vec![vec![open(0), acquire(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.nodes = None;
    assert_eq!(rig.told(), Err(TryRecvError::Disconnected));
    assert!(exists(&server));
}

#[test]
fn owner_that_asked_for_the_end_may_go() {
    let server = Server::start();
    let mut rig = Rig::reacting(
        &server.address(),
        vec![vec![open(0), acquire(0)], vec![release(0)]],
        vec![vec![], vec![settled()]],
    );
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    server.signal(Signal::STOP);
    rig.nodes.as_ref().unwrap().stop();
    rig.nodes = None;
    server.signal(Signal::CONT);
    assert!(matches!(rig.told(), Ok(Event::Settled { .. })));
    assert!(!exists(&server));
}

#[test]
fn answers_behind_the_one_that_made_the_machine_close_are_not_reported() {
    let address = impostor(|mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        let _ = stream.write_all(b"+OK\r\n+OK\r\n:1\r\n:1\r\nrubbish");
    });
    let rig =
        Rig::reacting(&address, vec![vec![open(0), acquire(0), release(0)]], vec![vec![close(0)]]);
    rig.begin();
    assert_eq!((rig.event(), rig.event()), (LinkEvent::Ready, DONE));
    rig.stop();
}

#[test]
fn messages_are_nobodys_answer() {
    let address = impostor(|mut stream| {
        let _ = stream.read(&mut [0; 8192]);
        let message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
        for answer in [&b"+OK\r\n"[..], b"+OK\r\n", b":1\r\n", b":0\r\n"] {
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
fn deadline_wakes_the_machine_and_not_before() {
    let now = BootClock.now();
    let dues = [now.after(Duration::from_millis(40)), now.after(Duration::from_millis(20))];
    let rig = Rig::with(&["127.0.0.1:1"], Vec::new(), Vec::new(), &resolver::system(), &dues);
    for due in [dues[1], dues[0]] {
        match rig.told() {
            Ok(Event::Validity(at)) => assert!(at >= due),
            other => panic!("{other:?}"),
        }
    }
    rig.stop();
}

/// A machine whose deadline comes closer when it starts.
struct Hasty(Option<Tick>, Vec<Action>);

impl Driver for Hasty {
    fn start(&mut self, now: Tick) {
        self.0 = Some(now.after(Duration::from_millis(20)));
    }
    fn handle(&mut self, _: ConnId, _: LinkEvent, _: Tick) {}
    fn wake(&mut self, _: Tick) {
        self.1.push(settled());
    }
    fn stop(&mut self, _: Tick) {}
    fn deadline(&self) -> Option<Tick> {
        self.0.or_else(|| Some(BootClock.now().after(BOUND * 10)))
    }
    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.1)
    }
}

fn rig_of(driver: impl Driver) -> Rig {
    let fleet = Fleet::parse(["127.0.0.1:1"], None).unwrap();
    let (sender, events) = wake::channel().unwrap();
    let nodes = start(fleet, driver, &[Key::new("", b"k").unwrap()], sender).unwrap();
    Rig { nodes: Some(nodes), events, log: mpsc::channel().1 }
}

#[test]
fn deadline_that_comes_closer_is_not_slept_through() {
    let rig = rig_of(Hasty(None, Vec::new()));
    rig.begin();
    let start = BootClock.now();
    assert!(matches!(rig.told(), Ok(Event::Settled { .. })));
    assert!(BootClock.now().since(start) < BOUND);
}

/// A machine that fails.
struct Broken;

impl Driver for Broken {
    fn start(&mut self, _: Tick) {
        panic!("a broken machine, on purpose");
    }
    fn handle(&mut self, _: ConnId, _: LinkEvent, _: Tick) {}
    fn wake(&mut self, _: Tick) {}
    fn stop(&mut self, _: Tick) {}
    fn deadline(&self) -> Option<Tick> {
        None
    }
    fn actions(&mut self) -> Vec<Action> {
        Vec::new()
    }
}

#[test]
fn panic_of_the_thread_reaches_its_owner() {
    let rig = rig_of(Broken);
    rig.begin();
    assert_eq!(rig.told(), Err(TryRecvError::Disconnected));
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

//! Each script against a real server.

use super::*;
use crate::node::testing::{Client, Server};

const TTL: Duration = Duration::from_secs(30);

/// A server, a connection, and requests on the keys `a` and `b`, or only `a`.
struct Bench {
    server: Server,
    client: Client,
    wire: Wire,
    token: Token,
}

impl Bench {
    fn new(keys: &[&str]) -> Self {
        let server = Server::start();
        let keys: Vec<_> = keys.iter().map(|k| Key::new("", k.as_bytes()).unwrap()).collect();
        Self {
            client: server.client(),
            server,
            wire: Wire::new(&keys),
            token: Token::from_random(1),
        }
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let mut bytes = Vec::new();
        self.wire.pack(request, &mut bytes);
        let answer = self.client.raw(&bytes);
        self.wire.reply(&answer, None).unwrap_or_else(|| panic!("{request:?}: {answer:?}"))
    }

    fn value(&self) -> String {
        format!("{} {{\"pid\":1}}", self.token)
    }

    fn acquire(&mut self, ttl: Duration) -> Reply {
        let (token, value) = (self.token, self.value());
        self.ask(&Request::Acquire { token, value, ttl })
    }

    fn extend(&mut self, ttl: Duration) -> Reply {
        let token = self.token;
        self.ask(&Request::Extend { token, ttl })
    }

    fn release(&mut self, announce: bool) -> Reply {
        let token = self.token;
        self.ask(&Request::Release { token, announce })
    }

    fn int(&mut self, command: &str) -> i64 {
        match self.client.call(command) {
            Value::Int(number) => number,
            other => panic!("{command}: {other:?}"),
        }
    }

    fn pttl(&mut self, key: &str) -> i64 {
        self.int(&format!("PTTL {key}"))
    }
}

/// The one obstacle of a reply.
fn obstacle(reply: Reply) -> Obstacle {
    match reply {
        Reply::Held(mut rows) if rows.len() == 1 => rows.remove(0),
        other => panic!("{other:?}"),
    }
}

fn value(text: &str) -> Occupant {
    Occupant::Value(text.as_bytes().to_vec())
}

#[test]
fn lock_is_set_extended_and_released() {
    let mut bench = Bench::new(&["a"]);
    assert_eq!(bench.ask(&Request::Look), Reply::Absent);
    assert_eq!(bench.extend(TTL), Reply::Absent);
    assert_eq!(bench.release(true), Reply::Absent);

    assert_eq!(bench.acquire(Duration::from_secs(1)), Reply::Done);
    assert_eq!(bench.client.call("GET a"), Value::BulkString(bench.value().into_bytes()));
    assert!((1..=1000).contains(&bench.pttl("a")));
    let seen = obstacle(bench.ask(&Request::Look));
    assert_eq!((seen.key, seen.occupant), (0, value(&bench.value())));
    assert!(seen.expires_in.unwrap() <= Duration::from_secs(1));

    assert!(bench.extend(TTL).is_done());
    assert!(bench.pttl("a") > 29_000);
    assert_eq!(bench.release(true), Reply::Done);
    assert_eq!(bench.int("EXISTS a"), 0);
}

#[test]
fn expiry_is_never_lowered() {
    let mut bench = Bench::new(&["a"]);
    assert_eq!(bench.acquire(Duration::from_secs(600)), Reply::Done);
    assert_eq!(bench.acquire(TTL), Reply::Already);
    assert!(bench.pttl("a") > 599_000 - 20_000);
    assert!(bench.extend(TTL).is_done());
    assert!(bench.pttl("a") > 599_000 - 20_000);
    // An acquire of our own raises it, and leaves the value.
    assert_eq!(bench.acquire(Duration::from_secs(1200)), Reply::Already);
    assert!(bench.pttl("a") > 1_100_000);
}

#[test]
fn expiry_of_nothing_is_one_millisecond_and_deletes_nobody() {
    let mut bytes = Vec::new();
    let wire = Wire::new(&[Key::new("", b"a").unwrap()]);
    let token = Token::from_random(1);
    wire.pack(&Request::Extend { token, ttl: Duration::from_micros(999) }, &mut bytes);
    assert!(bytes.ends_with(b"$1\r\n1\r\n"), "{}", bytes.escape_ascii());
    assert_eq!(millis(Duration::MAX), 1 << 53);
}

#[test]
fn other_holders_are_reported_and_left_alone() {
    let mut bench = Bench::new(&["a"]);
    bench.client.call("SET a thief PX 60000");
    for reply in [bench.acquire(TTL), bench.extend(TTL), bench.release(true)] {
        let seen = obstacle(reply);
        assert_eq!((seen.key, seen.occupant), (0, value("thief")));
        assert!(seen.expires_in.unwrap() > TTL);
    }
    assert_eq!(bench.client.call("GET a"), Value::BulkString(b"thief".to_vec()));
}

#[test]
fn what_is_no_string_is_held_by_its_type() {
    let mut bench = Bench::new(&["a"]);
    for (command, kind) in [
        ("HSET a f 1", "hash"),
        ("LPUSH a 1", "list"),
        ("ZADD a 1 x", "zset"),
        ("SADD a x", "set"),
        ("XADD a * f 1", "stream"),
    ] {
        bench.client.call("DEL a");
        bench.client.call(command);
        let look = bench.ask(&Request::Look);
        for reply in [bench.acquire(TTL), bench.extend(TTL), bench.release(false), look] {
            let seen = obstacle(reply);
            assert_eq!(seen.occupant, Occupant::Type(kind.into()));
            assert_eq!(seen.expires_in, None);
        }
        assert_eq!(bench.int("EXISTS a"), 1);
    }
}

#[test]
fn key_without_expiry_is_held_for_ever() {
    let mut bench = Bench::new(&["a"]);
    bench.client.call("SET a thief");
    assert_eq!(obstacle(bench.acquire(TTL)).expires_in, None);
    // One of our own that somebody persisted gets its expiry back.
    bench.client.call("DEL a");
    bench.acquire(TTL);
    bench.client.call("PERSIST a");
    assert!(bench.extend(TTL).is_done());
    assert!(bench.pttl("a") > 0);
}

#[test]
fn bare_token_is_ours_and_longer_words_are_not() {
    let mut bench = Bench::new(&["a"]);
    let token = bench.token;
    bench.client.call(&format!("SET a {token} PX 60000"));
    assert!(bench.extend(TTL).is_done());
    assert_eq!(bench.acquire(TTL), Reply::Already);
    assert_eq!(bench.release(false), Reply::Done);

    for word in [format!("{token}x"), token.to_string()[..35].to_owned()] {
        bench.client.call(&format!("SET a {word}"));
        for reply in [bench.acquire(TTL), bench.extend(TTL), bench.release(false)] {
            assert_eq!(obstacle(reply).occupant, value(&word));
        }
        assert_eq!(bench.int("EXISTS a"), 1);
    }
    // An empty value is nobody's, and still somebody's.
    bench.client.raw(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
    assert_eq!(obstacle(bench.acquire(TTL)).occupant, value(""));
    assert_eq!(obstacle(bench.ask(&Request::Look)).occupant, value(""));
}

#[test]
fn values_of_others_are_shown_by_their_head_only() {
    let mut bench = Bench::new(&["a"]);
    bench.client.call(&format!("SET a {}", "x".repeat(100_000)));
    assert_eq!(obstacle(bench.acquire(TTL)).occupant, value(&"x".repeat(1024)));
}

#[test]
fn several_keys_are_taken_all_or_none() {
    let mut bench = Bench::new(&["a", "b", "c"]);
    bench.client.call("SET b thief PX 60000");
    assert_eq!(obstacle(bench.acquire(TTL)).key, 1);
    assert_eq!(bench.int("EXISTS a c"), 0);
    bench.client.call("HSET c f 1");
    match bench.acquire(TTL) {
        Reply::Held(rows) => assert_eq!((rows[0].key, rows[1].key), (1, 2)),
        other => panic!("{other:?}"),
    }

    bench.client.call("DEL b c");
    assert_eq!(bench.acquire(Duration::from_secs(10)), Reply::Done);
    assert_eq!(bench.int("EXISTS a b c"), 3);
    // One is gone: nothing is extended.
    bench.client.call("DEL b");
    assert_eq!(bench.extend(TTL), Reply::Absent);
    assert!(bench.pttl("a") <= 10_000);
    // One is somebody else's: that is said rather than that another is gone.
    bench.client.call("DEL a");
    bench.client.call("SET b thief");
    assert_eq!(obstacle(bench.extend(TTL)).key, 1);
    assert!(bench.pttl("c") <= 10_000);
    // What is ours goes, whatever became of the rest.
    assert_eq!(bench.release(false), Reply::Done);
    assert_eq!(bench.int("EXISTS a c"), 0);
    assert_eq!(bench.client.call("GET b"), Value::BulkString(b"thief".to_vec()));
    assert_eq!(obstacle(bench.release(false)).key, 1);
}

#[test]
fn finish_keeps_what_is_ours_for_the_rest_and_nothing_else() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.acquire(TTL);
    let (token, value) = (bench.token, format!("{} {{\"until\":9}}", bench.token));
    let request = Request::Finish { token, value: value.clone(), rest: Duration::from_secs(5) };
    assert_eq!(bench.ask(&request), Reply::Done);
    // The rest may be shorter than what the last extension asked for.
    assert!((4_000..=5_000).contains(&bench.pttl("a")) && bench.pttl("b") <= 5_000);
    assert_eq!(bench.client.call("GET a"), Value::BulkString(value.into_bytes()));
    bench.client.call("SET b thief");
    assert_eq!(bench.ask(&request), Reply::Done, "a is ours");
    bench.client.call("DEL a");
    assert_eq!(obstacle(bench.ask(&request)).key, 1);
    assert_eq!(bench.client.call("GET b"), Value::BulkString(b"thief".to_vec()));
    assert_eq!(bench.int("EXISTS a"), 0);
    bench.client.call("DEL b");
    assert_eq!(bench.ask(&request), Reply::Absent);
    assert_eq!(bench.int("EXISTS a b"), 0);
}

#[test]
fn finish_without_memory_sets_the_expiry_alone() {
    let mut bench = Bench::new(&["a"]);
    bench.acquire(TTL);
    bench.client.call("CONFIG SET maxmemory 1");
    let (token, value) = (bench.token, format!("{} {{\"until\":9}}", bench.token));
    let request = Request::Finish { token, value, rest: Duration::from_secs(5) };
    assert_eq!(bench.ask(&request), Reply::Done);
    assert!((4_000..=5_000).contains(&bench.pttl("a")));
    let before = bench.value().into_bytes();
    assert_eq!(bench.client.call("GET a"), Value::BulkString(before));
}

#[test]
fn announced_release_publishes_what_it_deleted_and_an_undo_is_silent() {
    let mut bench = Bench::new(&["a", "b"]);
    let mut listener = bench.server.client();
    listener.call("HELLO 3");
    listener.call("PSUBSCRIBE *");
    bench.acquire(TTL);
    bench.release(false);
    bench.acquire(TTL);
    bench.client.call("DEL b");
    bench.release(true);
    bench.client.call("PUBLISH end end");
    let mut heard = Vec::new();
    loop {
        match listener.next() {
            Value::Push { data, .. } if data.len() == 3 => {
                heard.push((data[1].clone(), data[2].clone()));
            }
            _ => continue,
        }
        if heard.last().unwrap().0 == Value::BulkString(b"end".to_vec()) {
            break;
        }
    }
    // Who listens to a pattern is not counted.
    let token = Value::BulkString(format!("{} 0", bench.token).into_bytes());
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0], (Value::BulkString(b"redlock:released:a".to_vec()), token));
}

#[test]
fn release_without_the_right_to_publish_still_deletes() {
    let mut bench = Bench::new(&["a"]);
    bench.acquire(TTL);
    bench.client.call("ACL SETUSER u on >pw ~* +@all resetchannels");
    bench.client.call("AUTH u pw");
    assert!(matches!(bench.client.call("PUBLISH x y"), Value::ServerError(_)));
    assert_eq!(bench.release(true), Reply::Done);
    assert_eq!(bench.int("EXISTS a"), 0);
}

#[test]
fn node_out_of_memory_refuses_to_acquire_and_still_extends_and_releases() {
    let mut bench = Bench::new(&["a"]);
    bench.acquire(Duration::from_secs(10));
    bench.client.call("CONFIG SET maxmemory 1");
    assert!(bench.extend(TTL).is_done());
    assert!(bench.pttl("a") > 20_000);
    assert_eq!(bench.release(true), Reply::Done);
    match bench.acquire(TTL) {
        Reply::Refused(Refusal { kind: RefusalKind::State, text }) => {
            assert_eq!(text, "OOM command not allowed when used memory > 'maxmemory'.");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.int("EXISTS a"), 0);
}

/// What the server says to an acquire after `command`.
fn refused(bench: &mut Bench) -> (RefusalKind, String) {
    match bench.acquire(TTL) {
        Reply::Refused(refusal) => (refusal.kind, refusal.text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_rights_are_told_from_states() {
    let mut bench = Bench::new(&["a"]);
    let mut admin = bench.server.client();
    admin.call("ACL SETUSER u on >pw ~* +@all -set");
    bench.client.call("AUTH u pw");
    let (kind, text) = refused(&mut bench);
    assert_eq!(kind, RefusalKind::Rights, "{text}");
    assert!(!text.contains("@user_script"), "{text}");

    admin.call("ACL SETUSER u -eval");
    let (kind, text) = refused(&mut bench);
    assert_eq!(kind, RefusalKind::Rights, "{text}");
    assert!(text.starts_with("NOPERM"), "{text}");

    admin.call("ACL SETUSER u +@all resetkeys ~other");
    let (kind, text) = refused(&mut bench);
    assert_eq!(kind, RefusalKind::Rights, "{text}");

    admin.call("CONFIG SET requirepass pw");
    let mut stranger = bench.server.client();
    std::mem::swap(&mut bench.client, &mut stranger);
    let (kind, text) = refused(&mut bench);
    assert_eq!(kind, RefusalKind::Rights);
    assert!(text.starts_with("NOAUTH"), "{text}");
}

#[test]
fn replicas_and_lonely_masters_refuse_by_their_state() {
    for option in ["--min-replicas-to-write 1", "--replicaof 127.0.0.1 1"] {
        let words: Vec<_> = option.split(' ').collect();
        let server = Server::with(&words);
        let mut bench = Bench {
            client: server.client(),
            server,
            wire: Wire::new(&[Key::new("", b"a").unwrap()]),
            token: Token::from_random(1),
        };
        let (kind, text) = refused(&mut bench);
        assert_eq!(kind, RefusalKind::State, "{text}");
        let code = text.split(' ').next().unwrap();
        assert!(["NOREPLICAS", "READONLY", "MASTERDOWN"].contains(&code), "{text}");
        assert!(!text.contains("script"), "{text}");
    }
}

fn refusal_of(line: &str) -> Refusal {
    match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
        Value::ServerError(error) => refusal(&error, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_of_every_version_are_understood() {
    for (line, kind, text) in [
        ("NOAUTH Authentication required.", RefusalKind::Rights, "NOAUTH Authentication required."),
        ("WRONGPASS invalid", RefusalKind::Rights, "WRONGPASS invalid"),
        ("NOPERMX y", RefusalKind::State, "NOPERMX y"),
        (
            "ERR Error running script (call to f_0a): @user_script:18: @user_script: 18: -OOM no.",
            RefusalKind::State,
            "OOM no.",
        ),
        (
            "ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -NOPERM no.",
            RefusalKind::Rights,
            "NOPERM no.",
        ),
        ("OOM no. script: 0a, on @user_script:18.", RefusalKind::State, "OOM no."),
        ("LOADING Redis is loading", RefusalKind::State, "LOADING Redis is loading"),
        ("MOVED 1 127.0.0.1:1", RefusalKind::State, "MOVED 1 127.0.0.1:1"),
        (
            "ERR max number of clients reached",
            RefusalKind::State,
            "ERR max number of clients reached",
        ),
        ("ERR a\tb\u{1b}[31m", RefusalKind::State, "ERR a b [31m"),
    ] {
        let refusal = refusal_of(line);
        assert_eq!((refusal.kind, refusal.text.as_str()), (kind, text));
    }
    assert_eq!(refusal_of(&format!("ERR {}", "x".repeat(999))).text.len(), 200);
}

#[test]
fn answers_that_no_script_gives_are_no_replies() {
    let wire = Wire::new(&[Key::new("", b"a").unwrap()]);
    for answer in [
        &b"+OK\r\n"[..],
        b":3\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*1\r\n:1\r\n",
        b"*1\r\n*4\r\n:2\r\n$6\r\nstring\r\n:1\r\n$1\r\nx\r\n",
        b"*1\r\n*4\r\n:0\r\n$6\r\nstring\r\n:1\r\n$1\r\nx\r\n",
        b"*1\r\n*3\r\n:1\r\n$6\r\nstring\r\n:1\r\n",
    ] {
        let value = redis::parse_redis_value(answer).unwrap();
        assert_eq!(wire.reply(&value, None), None, "{value:?}");
    }
}

/// What a subscriber hears of the next message.
fn heard(wire: &Wire, client: &mut Client) -> Option<LinkEvent> {
    match client.next() {
        Value::Push { kind, data } => wire.message(&kind, &data),
        other => panic!("{other:?}"),
    }
}

#[test]
fn release_tells_listeners_whose_lock_it_was_and_how_many_they_are() {
    let mut bench = Bench::new(&["a", "b"]);
    let mut listeners = [bench.server.client(), bench.server.client()];
    for client in &mut listeners {
        client.call("HELLO 3");
        let mut bytes = Vec::new();
        bench.wire.pack(&Request::Subscribe, &mut bytes);
        assert!(matches!(client.raw(&bytes), Value::Push { kind: PushKind::Subscribe, .. }));
        client.next();
    }
    bench.acquire(TTL);
    assert_eq!(bench.release(false), Reply::Done, "an undo is not announced");
    bench.acquire(TTL);
    assert_eq!(bench.release(true), Reply::Done);
    let by = Some(bench.token);
    for client in &mut listeners {
        for _key in 0..2 {
            let told = heard(&bench.wire, client);
            let extent = Extent::Part;
            assert_eq!(told, Some(LinkEvent::Released { extent, by, listeners: 2 }));
        }
    }
}

#[test]
fn lock_is_released_also_where_the_user_may_not_publish_or_count() {
    let mut bench = Bench::new(&["a"]);
    for rights in ["-publish", "-pubsub", "resetchannels"] {
        let user = format!("ACL SETUSER default on nopass ~* &* +@all {rights}");
        bench.client.call(&user);
        bench.acquire(TTL);
        assert_eq!(bench.release(true), Reply::Done, "{rights}");
        assert_eq!(bench.int("EXISTS a"), 0);
    }
}

#[test]
fn messages_of_others_mean_a_release_at_the_most() {
    let bench = Bench::new(&["a"]);
    let message = |channel: &str, text: &str| {
        let data = [channel, text].map(|part| Value::BulkString(part.as_bytes().to_vec()));
        bench.wire.message(&PushKind::Message, &data)
    };
    let released =
        |by, listeners| Some(LinkEvent::Released { extent: Extent::Whole, by, listeners });
    let token = bench.token;
    for (text, by, listeners) in [
        ("", None, 1),
        ("7", None, 1),
        ("\u{1b}[2J x", None, 1),
        (&format!("{token}"), Some(token), 1),
        (&format!("{token} 17"), Some(token), 17),
        (&format!("{token} -1"), Some(token), 1),
        (&format!("{token} 99999999999999"), Some(token), 1),
        (&format!("{token}17"), None, 1),
    ] {
        assert_eq!(message("redlock:released:a", text), released(by, listeners), "{text}");
    }
    assert_eq!(message("redlock:released:b", "x"), None);
    assert_eq!(message("redlock:holder:a", "x"), None);
    let called = message("redlock:holder:a", &format!("{token} db1"));
    assert_eq!(called, Some(LinkEvent::Called(token)));
    assert_eq!(bench.wire.message(&PushKind::Invalidate, &[Value::Nil]), None);
}

#[test]
fn request_about_one_key_leaves_the_others_alone() {
    let mut bench = Bench::new(&["a", "b", "c"]);
    let only = |request| Request::Only { key: 1, request: Box::new(request) };
    let (token, value) = (bench.token, bench.value());
    let reply = bench.ask(&only(Request::AcquireCounted { token, value, ttl: TTL }));
    assert!(matches!(&reply, Reply::Counted(numbers) if numbers.len() == 1), "{reply:?}");
    let there = |bench: &mut Bench| ["a", "b", "c"].map(|key| bench.int(&format!("EXISTS {key}")));
    assert_eq!(there(&mut bench), [0, 1, 0]);
    assert_eq!(bench.int("EXISTS redlock:fence:a redlock:fence:b redlock:fence:c"), 1);
    // By its place among those that were asked about, and among all.
    assert_eq!(obstacle(bench.ask(&only(Request::Look))).key, 0);
    assert_eq!(obstacle(bench.ask(&only(Request::Look)).about(1)).key, 1);
    assert_eq!(obstacle(bench.ask(&Request::Look)).key, 1);
    bench.client.call("SET a other");
    assert!(bench.ask(&only(Request::Extend { token, ttl: TTL })).is_done());
    assert_eq!(bench.ask(&only(Request::Release { token, announce: true })), Reply::Done);
    assert_eq!(there(&mut bench), [1, 0, 0]);
    assert_eq!(bench.ask(&only(Request::Look)), Reply::Absent);
}

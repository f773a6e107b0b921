//! Each script against a real server.

mod refusals;
mod releases;

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

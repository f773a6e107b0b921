//! What a node says when it refuses.

use super::*;

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

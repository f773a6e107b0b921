//! How a lock is given back, or kept for the rest of its time, and who hears of it.

use super::*;

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

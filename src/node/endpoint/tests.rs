//! Every form of a node, and its traps.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Endpoint {
    Endpoint::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn problem(text: &str) -> Problem {
    match Endpoint::parse(text) {
        Err(EndpointError::Malformed { problem, .. }) => problem,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_form_has_one_canonical_text() {
    for (text, canonical) in [
        ("db1", "db1:6379"),
        ("DB1.Example.org:7000", "db1.example.org:7000"),
        ("db1:7000/2", "db1:7000/2"),
        ("redis://db1", "db1:6379"),
        ("REDIS://db1/", "db1:6379"),
        ("redis://:pw@db1:7000/0", "db1:7000"),
        ("redis://user:pw@db1:7000/3", "db1:7000/3"),
        ("redis://db1:07000/03", "db1:7000/3"),
        ("rediss://db1:7000/3", "rediss://db1:7000/3"),
        ("127.0.0.1:7000", "127.0.0.1:7000"),
        ("[::1]:7000", "[::1]:7000"),
        ("[0:0:0:0:0:0:0:1]", "[::1]:6379"),
        ("redis://[::1]/1", "[::1]:6379/1"),
        ("[::ffff:127.0.0.1]:7000", "127.0.0.1:7000"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix:///run//redis.sock?db=0", "unix:///run/redis.sock"),
        ("unix:///run/a%20b.sock?db=4", "unix:///run/a%20b.sock?db=4"),
    ] {
        assert_eq!(parse(text).to_string(), canonical, "{text}");
        assert_eq!(parse(canonical).to_string(), canonical, "{text}");
    }
}

#[test]
fn credentials_are_decoded_and_never_shown() {
    let node = parse("redis://us%40er:p%3Aw%2F%25@db1");
    let credentials = node.credentials().unwrap();
    assert_eq!(credentials.username.as_deref(), Some("us@er"));
    assert_eq!(credentials.password, "p:w/%");
    assert_eq!(parse("redis://:pw@db1").credentials().unwrap().username, None);
    assert_eq!(parse("redis://:p@ss@db1").credentials().unwrap().password, "p@ss");
    let shown = format!("{node} {node:?} {credentials:?}");
    assert!(!shown.contains("p:w") && !shown.contains("p%3Aw"), "{shown}");
}

#[test]
fn names_are_looked_up_and_literals_are_not() {
    assert_eq!(*parse("localhost:7000").address(), Address::Name("localhost".into(), 7000));
    assert!(matches!(parse("[::1]").address(), Address::Literal(a) if a.is_ipv6()));
    assert_eq!(parse("db1/7").db(), 7);
    assert_eq!(parse("rediss://db1").transport(), Transport::Tls);
}

#[test]
fn user_without_any_password_is_refused_since_it_would_send_no_auth() {
    for text in ["redis://pw:@db1", "redis://@db1", "redis://:@db1"] {
        assert_eq!(problem(text), Problem::NoPassword, "{text}");
    }
    let error = parse("redis://s3cr3t@db1").or_credentials(None).unwrap_err().to_string();
    assert!(error.contains("redis://:PASSWORD@") && !error.contains("s3cr3t"), "{error}");
}

#[test]
fn user_of_a_node_goes_with_the_password_of_all() {
    let all = Credentials { username: Some("all".into()), password: "pw".into() };
    let node = |text| parse(text).or_credentials(Some(&all)).unwrap();
    let of = |text| {
        let node = node(text);
        let Credentials { username, password } = node.credentials().unwrap();
        (username.clone(), password.clone(), node.without_password())
    };
    for (text, user, password, reference) in [
        ("redis://app@db1/2", Some("app"), "pw", "redis://app@db1:6379/2"),
        ("rediss://a%40b@db1", Some("a@b"), "pw", "rediss://a%40b@db1:6379"),
        ("redis://app:own@db1", Some("app"), "own", "db1:6379"),
        ("redis://:own@db1", None, "own", "db1:6379"),
        ("db1:7000", Some("all"), "pw", "db1:7000"),
        ("unix:///s?db=1", Some("all"), "pw", "unix:///s?db=1"),
    ] {
        let expected = (user.map(str::to_owned), password.to_owned(), reference.to_owned());
        assert_eq!(of(text), expected, "{text}");
        // It says no more than what it leads to.
        assert_eq!(node(reference).to_string(), node(text).to_string());
    }
}

#[test]
fn unknown_parameters_are_refused_by_name() {
    for (text, name) in [
        ("redis://db1?db=1", "db"),
        ("redis://db1/1?timeout=3", "timeout"),
        ("db1?protocol=resp3", "protocol"),
        ("unix:///s?pass=pw", "pass"),
        ("redis://db1?pw", "***"),
        ("unix:///s?db=1&db=2", "db"),
    ] {
        assert_eq!(problem(text), Problem::Parameter(name.into()), "{text}");
    }
}

#[test]
fn what_cannot_be_a_node_is_refused_with_its_reason() {
    for (text, expected) in [
        ("", Problem::Empty),
        (" db1", Problem::WhiteSpace),
        ("redis://d\tb1", Problem::WhiteSpace),
        ("http://db1", Problem::Scheme),
        ("://db1", Problem::Scheme),
        ("/run/redis.sock", Problem::BarePath),
        ("unix://run/redis.sock", Problem::UnixHost),
        ("unix:///", Problem::Path),
        ("unix:///a%00b", Problem::Path),
        ("unix:///s?db=-1", Problem::Db),
        ("unix:///s#1", Problem::Fragment),
        (":pw@db1", Problem::BareCredentials),
        ("redis://:a/b@db1", Problem::Unescaped),
        ("redis://", Problem::NoHost),
        (":7000", Problem::NoHost),
        ("redis://:pw@", Problem::NoHost),
        ("db1:", Problem::Port),
        ("db1:0", Problem::Port),
        ("db1:65536", Problem::Port),
        ("db1:+1", Problem::Port),
        ("db1:redis", Problem::Port),
        ("::1", Problem::Brackets),
        ("::1:7000", Problem::Brackets),
        ("[::1", Problem::Brackets),
        ("[fe80::1%eth0]", Problem::Brackets),
        ("[db1]", Problem::Brackets),
        ("0.0.0.0:7000", Problem::Wildcard),
        ("[::]:7000", Problem::Wildcard),
        ("127.1:7000", Problem::Host),
        ("0x7f000001", Problem::Host),
        ("300.1.1.1", Problem::Host),
        ("h\u{f6}st", Problem::Host),
        ("a%20b", Problem::Host),
        ("db1/x", Problem::Db),
        ("db1/1/2", Problem::Db),
        ("db1/-1", Problem::Db),
        ("db1/4294967296", Problem::Db),
        ("redis://db1#insecure", Problem::Fragment),
    ] {
        // Both are refusals of the host; which of the two comes first does not matter.
        let found = match problem(text) {
            Problem::Url if expected == Problem::Host => Problem::Host,
            Problem::Url if expected == Problem::Wildcard => Problem::Wildcard,
            found => found,
        };
        assert_eq!(found, expected, "{text}");
    }
    let long = format!("unix:///{}", "x".repeat(107));
    assert_eq!(problem(&long), Problem::Path);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".{0,60}") {
        let _ = Endpoint::parse(&text);
    }

    #[test]
    fn parsing_of_almost_urls_never_panics_and_never_shows_the_password(
        scheme in "(redis://|rediss://|unix://|http://|)",
        user in "[a-z]{0,3}",
        tail in "[-a-z0-9:/?#@%\\[\\]&=. ]{0,12}",
        host in "(|db1|\\[::1\\]|127\\.1|[-a-z0-9:/?#@%\\[\\]]{0,8})",
        behind in "(|:7000|:x|/1|/x|\\?db=1|\\?pass=s3cr3t|#s3cr3t|[ -~]{0,8})",
    ) {
        let text = format!("{scheme}{user}:s3cr3t{tail}@{host}{behind}");
        if let Err(error) = Endpoint::parse(&text) {
            prop_assert!(!error.to_string().contains("s3cr3t"), "{}", error);
        }
    }

    #[test]
    fn canonical_text_means_the_same_node(
        host in "(db[0-9]\\.[a-z]{1,5}|127\\.0\\.0\\.[0-9]|\\[fd00::[1-9a-f]{1,4}\\]|localhost)",
        port in 1_u16.., db in 0_u32..,
        scheme in "(redis://|rediss://|)",
    ) {
        let node = parse(&format!("{scheme}{host}:{port}/{db}"));
        prop_assert_eq!(&parse(&node.to_string()), &node);
    }

    #[test]
    fn canonical_path_means_the_same_socket(name in "[^/.\\x00-\\x1f\\x7f]{1,20}", db in 0_u32..) {
        let address = Address::Unix(std::path::Path::new("/run").join(&name));
        let node = Endpoint { address, transport: Transport::Plain, db, login: Login::NOTHING, peer: None };
        prop_assert_eq!(&parse(&node.to_string()), &node);
    }
}

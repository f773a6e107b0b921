//! What cannot work is said in one clear line, and nobody is contacted before.

use std::{
    ffi::OsStr,
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener},
};

use crate::harness::{
    Redlock,
    builder::{End, Outcome},
};

/// Something that would notice to be contacted.
struct Witness {
    listener: TcpListener,
    port: u16,
}

impl Witness {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Runs redlock, which has to end by one of `codes` with one line and in peace.
    #[track_caller]
    fn refuses(&self, run: Redlock, codes: &[i32], words: &[&str]) -> Outcome {
        let outcome = run.output();
        let End::Exit(code) = outcome.end else {
            panic!("{outcome}");
        };
        assert!(codes.contains(&code), "{outcome}");
        assert!(outcome.stdout.is_empty(), "{outcome}");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1, "not one line: {outcome}");
        assert!(lines[0].starts_with(&format!("redlock: exit {code}: ")), "{outcome}");
        for word in words {
            assert!(outcome.stderr.contains(word), "no {word:?}: {outcome}");
        }
        let contact = self.listener.accept().map_err(|error| error.kind());
        assert_eq!(contact.err(), Some(ErrorKind::WouldBlock), "contacted: {outcome}");
        outcome
    }
}

/// The program with these arguments and the witness as the only node.
fn with<A: AsRef<OsStr>>(witness: &Witness, arguments: impl IntoIterator<Item = A>) -> Redlock {
    Redlock::new(arguments).nodes(witness.url())
}

#[test]
fn usage_errors_are_64() {
    let witness = Witness::new();
    for (arguments, words) in [
        (&["run", "-k", "k"][..], &["COMMAND"][..]),
        (&["run", "-k", "k", "--"], &["COMMAND"]),
        (&["run", "--", "true"], &["--key"]),
        (&["run", "-k", "", "true"], &["key"]),
        (&["run", "-k", "k", "--bogus", "true"], &["--bogus"]),
        (&["run", "-k", "k", "-E", "256", "true"], &["256"]),
        (&["run", "-k", "k", "-E", "-1", "true"], &[]),
        (&["run", "-k", "k", "-E", "x", "true"], &["x"]),
        (&["run", "-k", "k", "-n", "-w", "1s", "true"], &["--wait"]),
        (&["run", "-k", "k", "-t", "10", "true"], &["10s"]),
        (&["run", "-k", "k", "-t", "ten", "true"], &["ten"]),
        (&["run", "-k", "k", "-w", "5", "true"], &["5s"]),
        (&["run", "-k", "k", "-w", "0", "true"], &["did you mean 0s?"]),
        (&["acquire", "-k", "k", "-t", "1s", "-w", "0"], &["did you mean 0s?"]),
        (&["run", "-k", "k", "--strategy", "wild", "true"], &["wild"]),
        (&["walk"], &["walk"]),
        (&[], &[]),
    ] {
        witness.refuses(with(&witness, arguments), &[64], words);
    }
    let long = "k".repeat(513);
    witness.refuses(with(&witness, ["run", "-k", &long, "true"]), &[64], &["512"]);
}

#[test]
fn durations_that_cannot_work_are_refused() {
    let witness = Witness::new();
    for (ttl, words) in [
        ("0s", &["0s"][..]),
        ("50ms", &["50ms", "100ms"]),
        ("25h", &["1day", "above"]),
        // Months, not minutes.
        ("5M", &["1day", "above"]),
    ] {
        let run = with(&witness, ["run", "-k", "k", "-t", ttl, "true"]);
        witness.refuses(run, &[64, 78], words);
    }
}

#[test]
fn ttl_too_short_for_its_chain_is_refused_with_the_numbers() {
    let witness = Witness::new();
    for options in [["--grace", "25s"], ["--margin", "25s"], ["--node-timeout", "25s"]] {
        let run = with(&witness, ["run", "-k", "k", "-t", "30s"]).args(options).command(["true"]);
        witness.refuses(run, &[78], &["25s", "30s"]);
    }
}

#[test]
fn key_of_our_own_namespace_is_refused() {
    let witness = Witness::new();
    let run = with(&witness, ["run", "-k", "redlock:fence:k", "true"]);
    witness.refuses(run, &[64, 78], &["redlock:"]);
}

#[test]
fn node_lists_that_break_the_premises_are_78() {
    let witness = Witness::new();
    let url = witness.url();
    let other = |number: u8| format!("redis://127.0.0.{number}:{}", witness.port);
    for (nodes, words) in [
        (format!("ftp://127.0.0.1:{}", witness.port), &["ftp"][..]),
        ("redis://".to_owned(), &[]),
        ("redis://127.0.0.1:port".to_owned(), &[]),
        ("redis://127.0.0.1:70000".to_owned(), &[]),
        (format!("{url}?timeout=3"), &["timeout"]),
        (format!("{url}/nonsense"), &["nonsense"]),
        (format!("{url},{}", other(2)), &["odd", "--allow-even-nodes"]),
        (format!("{url},{url},{}", other(2)), &["twice"]),
        (format!("127.0.0.1:{},{url},{}", witness.port, other(2)), &["twice"]),
    ] {
        let run = Redlock::run(&nodes).command(["true"]);
        witness.refuses(run, &[78], words);
        let flag = Redlock::new(["run", "-k", "k", "--nodes", &nodes, "true"]);
        witness.refuses(flag, &[64, 78], words);
    }
    let many: Vec<String> = (1..=17).map(other).collect();
    let run = Redlock::run(many.join(",")).command(["true"]);
    witness.refuses(run, &[78], &["15"]);
}

#[test]
fn password_of_a_bad_list_is_never_repeated() {
    let witness = Witness::new();
    for nodes in [
        format!("redis://user:s3cret@127.0.0.1:{}?timeout=3", witness.port),
        format!("redis://:s3cret@127.0.0.1:{0},redis://127.0.0.1:{0}", witness.port),
        "ftp://user:s3cret@127.0.0.1".to_owned(),
        "redis://user:s3cret@127.0.0.1:port".to_owned(),
    ] {
        let run = Redlock::run(nodes).command(["true"]);
        let outcome = witness.refuses(run, &[78], &[]);
        assert!(!outcome.stderr.contains("s3cret"), "{outcome}");
    }
}

#[test]
fn no_nodes_is_78_and_says_how_to_name_them() {
    for nodes in [None, Some(""), Some(" , ")] {
        let mut run = Redlock::new(["run", "-k", "k"]).command(["true"]);
        if let Some(nodes) = nodes {
            run = run.env("REDLOCK_NODES", nodes);
        }
        let outcome = run.output();
        assert_eq!(outcome.end, End::Exit(78), "{outcome}");
        for word in ["--nodes", "REDLOCK_NODES", "config", "redlock sandbox"] {
            assert!(outcome.stderr.contains(word), "no {word:?}: {outcome}");
        }
        let last = outcome.stderr.lines().next_back().unwrap_or_default();
        assert!(last.starts_with("redlock: exit 78: "), "{outcome}");
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure_and_a_reader_who_has_enough_is_none() {
    for words in [&["--help"][..], &["run", "--help"], &["--version"]] {
        Redlock::new(words.iter().copied())
            .under(["sh", "-c", "exec \"$0\" \"$@\" >/dev/full"])
            .fails(125, "cannot write to stdout: *")
            .check();
        // The other end of the pipe is closed already.
        Redlock::new(words.iter().copied())
            .under(["bash", "-c", "exec > >(:); wait $!; exec \"$0\" \"$@\""])
            .check();
    }
}

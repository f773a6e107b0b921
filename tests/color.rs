//! Colour is for terminals, and only where nobody asked for none.

use crate::harness::{
    Redlock,
    builder::End,
    fleet,
    pty::Terminal,
    servers::{Fleet, Inspect},
};

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";

/// Two masters, one of them gone, and a lock whose holder's label would steer the terminal.
fn scene() -> Fleet {
    let mut fleet = fleet(3);
    let value = "01234567-89ab-4cde-8f01-23456789abcd {\"v\":1,\"host\":\"h\",\"pid\":1,\"user\":\"u\",\
                 \"since\":1,\"ttl\":30000,\"n\":3,\"fleet\":\"00000000\",\
                 \"label\":\"\\u001b[31mred\\u0007\"}";
    for server in &fleet.servers()[..2] {
        server.set("k", value);
    }
    fleet.servers_mut()[2].kill();
    fleet
}

fn on_a_terminal(fleet: &Fleet, words: &[&str], env: &[(&str, &str)]) -> String {
    let words = [&[env!("CARGO_BIN_EXE_redlock")], words].concat();
    let nodes = fleet.nodes();
    let nodes = [("REDLOCK_NODES", nodes.as_str()), ("REDLOCK_RESTART_GUARD", "off")];
    let mut terminal = Terminal::start(words, &[&nodes, env].concat());
    assert_eq!(terminal.finish(), End::Exit(0), "{}", terminal.screen());
    terminal.screen()
}

fn in_a_pipe(fleet: &Fleet, words: &[&str]) -> String {
    let out = Redlock::new(words).nodes(fleet.nodes()).output();
    assert_eq!(out.end, End::Exit(0), "{out}");
    out.stdout
}

/// What is left without the sequences of the three colours.
fn without_colours(text: &str) -> String {
    ["\x1b[31m", GREEN, YELLOW, "\x1b[0m"].iter().fold(text.to_owned(), |t, c| t.replace(c, ""))
}

#[test]
fn states_are_coloured_on_a_terminal_and_nothing_else_steers_it() {
    let fleet = scene();
    for (words, coloured) in [
        (&["status"][..], [format!("{GREEN}reachable\x1b[0m"), format!("{GREEN}held\x1b[0m")]),
        (&["doctor"], [format!("{GREEN}votes\x1b[0m"), format!("{YELLOW}verdict\x1b[0m: ")]),
    ] {
        let screen = on_a_terminal(&fleet, words, &[]);
        for text in coloured {
            assert!(screen.contains(&text), "no {text:?}: {screen:?}");
        }
        let rest = without_colours(&screen).replace("\r\x1b[K", "");
        assert!(!rest.contains('\x1b') && !rest.contains('\x07'), "{rest:?}");
    }
    let screen = on_a_terminal(&fleet, &["status", "k"], &[]);
    assert!(screen.contains("\u{fffd}[31mred\u{fffd}"), "{screen:?}");
    // Columns stand where they stand without colour.
    let plain = on_a_terminal(&fleet, &["status", "k", "--color", "never"], &[]);
    let column = |text: &str| text.lines().next().unwrap().find("LATENCY").unwrap();
    assert_eq!(column(&without_colours(&screen)), column(&plain));
}

#[test]
fn nobody_who_asked_for_none_gets_colour() {
    let fleet = scene();
    for command in ["status", "doctor"] {
        for (words, env) in [
            (&["--color", "never"][..], &[][..]),
            (&[], &[("NO_COLOR", "1")]),
            (&["--color=auto"], &[("NO_COLOR", "0")]),
            (&[], &[("TERM", "dumb")]),
        ] {
            let words = [&[command], words].concat();
            let screen = on_a_terminal(&fleet, &words, env).replace("\r\x1b[K", "");
            assert!(!screen.contains('\x1b'), "{words:?} {env:?}: {screen:?}");
        }
        // Set and empty is as not set (no-color.org).
        let screen = on_a_terminal(&fleet, &[command], &[("NO_COLOR", "")]);
        assert!(screen.contains(GREEN), "{screen:?}");
        let screen = on_a_terminal(&fleet, &[command, "--color", "always"], &[("NO_COLOR", "1")]);
        assert!(screen.contains(GREEN), "{screen:?}");
    }
}

#[test]
fn pipe_has_colour_only_when_told_so_and_json_never() {
    let fleet = scene();
    for command in ["status", "doctor"] {
        assert!(!in_a_pipe(&fleet, &[command]).contains('\x1b'));
        assert!(in_a_pipe(&fleet, &[command, "--color", "always"]).contains(GREEN));
        let json = in_a_pipe(&fleet, &[command, "--json", "--color", "always"]);
        assert!(!json.contains('\x1b'), "{json}");
    }
}

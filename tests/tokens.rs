//! Locks by token, for scripts: `acquire`, `extend`, `release`, `run --token`.

use std::{fs, os::unix::fs::PermissionsExt};

use rustix::process::Signal;

use crate::harness::{
    Redlock, alive, eventually, fleet,
    pty::Terminal,
    scratch,
    servers::{Fleet, Inspect, InspectAll},
};

fn redlock(fleet: &Fleet, words: &[&str]) -> Redlock {
    Redlock::new(words).nodes(fleet.nodes())
}

/// The token of a new lock on `k`.
fn acquire(fleet: &Fleet, ttl: &str) -> String {
    let out = redlock(fleet, &["acquire", "-k", "k", "-t", ttl]).stdout_like("*\n").check();
    let token = out.stdout.trim().to_owned();
    assert_eq!(token.len(), 36, "{token}");
    token
}

const OTHER: &str = "00000000-0000-4000-8000-000000000001";

#[test]
fn acquire_prints_the_token_alone_and_leaves_the_lock() {
    let fleet = fleet(5);
    let token = acquire(&fleet, "1m");
    assert_eq!(fleet.holding("k"), [0, 1, 2, 3, 4]);
    for server in fleet.servers() {
        let value = server.get("k").unwrap();
        assert!(value.starts_with(&format!("{token} {{")), "{value}");
        assert!(!value.contains("every"), "nobody extends it: {value}");
        let left = server.client().pttl("k");
        assert!(left > 30_000 && left <= 60_000, "{left}");
    }
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "-n"])
        .fails(75, "'k' is held by *")
        .check();
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn acquire_as_json_names_key_token_validity_and_nodes() {
    let fleet = fleet(3);
    let out =
        redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "--json"]).stdout_like("*\n").check();
    let object: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&object["v"], &object["key"]), (&1.into(), &"k".into()));
    assert_eq!((&object["nodes"], &object["of"]), (&3.into(), &3.into()));
    assert!(object["fencing_token"].is_null());
    let validity = object["validity_ms"].as_u64().unwrap();
    assert!(validity > 30_000 && validity < 60_000, "{validity}");
    let token = object["token"].as_str().unwrap();
    redlock(&fleet, &["unlock", "-k", "k", "--token", token]).check();
}

#[test]
fn empty_token_can_never_look_like_success() {
    let fleet = fleet(1);
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "-n", "-E", "0"])
        .fails(64, "*-E 0*")
        .check();
    redlock(&fleet, &["acquire", "-k", "k"]).fails(64, "*--ttl*").check();
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "--skip"]).fails(64, "*--skip*").check();
}

#[test]
fn token_file_is_private_and_replaced_as_a_whole() {
    let fleet = fleet(1);
    let place = scratch();
    let path = place.path().join("token");
    fs::write(&path, "older").unwrap();
    let words = ["acquire", "-k", "k", "-t", "1m", "--token-file", path.to_str().unwrap()];
    let out = redlock(&fleet, &words).stdout_like("*\n").check();
    assert_eq!(fs::read_to_string(&path).unwrap(), out.stdout);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn token_that_cannot_be_written_means_no_lock() {
    let fleet = fleet(3);
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "--token-file", "/nonexistent/token"])
        .fails(125, "cannot write the token file; the lock is given back: *")
        .check();
    assert!(fleet.all_keys().is_empty());
    let place = scratch();
    let path = place.path().join("token");
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "--token-file", path.to_str().unwrap()])
        .under(["sh", "-c", "exec \"$0\" \"$@\" >/dev/full"])
        .fails(125, "cannot write the token to standard output; the lock is given back: *")
        .check();
    assert!(fleet.all_keys().is_empty() && !path.exists());
}

/// A device or a pipe that is renamed over is gone for everybody: root would break /dev/null with it.
#[test]
fn token_file_that_is_no_regular_file_stays_what_it_is() {
    let fleet = fleet(3);
    let place = scratch();
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for path in [&pipe, &link] {
        let kind = || fs::symlink_metadata(path).unwrap().file_type();
        let before = kind();
        let words = ["acquire", "-k", "k", "-t", "1m", "--token-file", path.to_str().unwrap()];
        redlock(&fleet, &words)
            .fails(
                125,
                "cannot write the token file; the lock is given back: it is no regular file",
            )
            .check();
        assert_eq!(kind(), before);
        assert!(fleet.all_keys().is_empty());
    }
}

/// The runtime makes a closed descriptor /dev/null, where the token would vanish without an error.
#[test]
fn closed_output_never_swallows_a_token() {
    let fleet = fleet(3);
    let closed = ["sh", "-c", "exec \"$0\" \"$@\" >&-"];
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m"])
        .under(closed)
        .fails(125, "cannot write the token to standard output: *")
        .check();
    assert!(fleet.all_keys().is_empty());
    // The file is enough.
    let place = scratch();
    let path = place.path().join("token");
    redlock(&fleet, &["acquire", "-k", "k", "-t", "1m", "--token-file", path.to_str().unwrap()])
        .under(closed)
        .check();
    assert_eq!(fs::read_to_string(&path).unwrap().trim().len(), 36);
    assert_eq!(fleet.holding("k"), [0, 1, 2]);
}

#[test]
fn signal_while_waiting_leaves_nothing() {
    let fleet = fleet(3);
    fleet.servers()[0].set("k", "foreign");
    fleet.servers()[1].set("k", "foreign");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut run = redlock(&fleet, &["acquire", "-k", "k", "-t", "1m"])
            .dies_of(signal)
            .stderr_like("redlock: waiting for 'k': *\n")
            .start();
        run.wait_stderr("waiting");
        run.signal(signal);
        run.check();
        eventually("only the foreign values are left", || fleet.holding("k") == [0, 1]);
    }
}

#[test]
fn one_node_down_neither_hinders_acquire_nor_release() {
    let fleet = fleet(3);
    fleet.servers()[2].stop().unwrap();
    let token = acquire(&fleet, "1m");
    redlock(&fleet, &["extend", "-k", "k", "--token", &token, "-t", "2m"])
        .stdout_like("*\n")
        .check();
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).check();
    fleet.servers()[2].cont().unwrap();
    eventually("the stopped node forgets as well", || fleet.all_keys().is_empty());
}

#[test]
fn extend_raises_and_never_shortens() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "10s");
    let extend = |ttl: &str| {
        redlock(&fleet, &["extend", "-k", "k", "--token", &token, "-t", ttl])
            .stdout_like("*\n")
            .check()
    };
    assert!(extend("5m").stdout.starts_with("4m "));
    let left = |server: &redlock::commands::sandbox::servers::Server| server.client().pttl("k");
    assert!(fleet.servers().iter().all(|server| left(server) > 200_000));
    extend("5s");
    assert!(fleet.servers().iter().all(|server| left(server) > 200_000));
}

#[test]
fn extend_tells_a_lost_lock_from_an_outage() {
    let mut fleet = fleet(3);
    let token = acquire(&fleet, "1m");
    let extend = || redlock(&fleet, &["extend", "-k", "k", "--token", &token, "-t", "1m"]);
    fleet.servers()[0].client().del("k");
    extend().stdout_like("*\n").check();
    fleet.servers()[1].client().del("k");
    extend()
        .fails(79, "the token does not hold 'k' (any more): 2 of 3 nodes do not carry it; *")
        .check();
    assert_eq!(fleet.holding("k"), [2], "an extension never takes a lock");
    fleet.servers_mut()[0].kill();
    fleet.servers_mut()[2].kill();
    let extend = || redlock(&fleet, &["extend", "-k", "k", "--token", &token, "-t", "1m"]);
    extend().fails(69, "'k' was extended on 0 of 3 nodes only: *").check();
}

/// terraform#28710, lockable-resources#84; cli-reports 67: a late release by a dead script's token.
#[test]
fn old_token_never_frees_a_newer_lock() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "1m");
    redlock(&fleet, &["release", "-k", "k", "--token", OTHER]).fails(79, "*").check();
    assert_eq!(fleet.holding("k"), [0, 1, 2]);
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).check();
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).fails(79, "*").check();
}

#[test]
fn inside_of_a_run_extend_knows_the_lock_and_release_does_not_touch_it() {
    let fleet = fleet(3);
    let bin = env!("CARGO_BIN_EXE_redlock");
    Redlock::run(fleet.nodes())
        .args(["-t", "20s"])
        .shell(&format!("{bin} extend && {bin} extend -t 3m; {bin} release; echo $?"))
        .stdout_like("19*s\n2m *s\n64\n")
        .stderr_like("redlock: exit 64: inside of a run the lock is the run's, *\n")
        .check();
    assert!(fleet.all_keys().is_empty());
}

#[test]
fn errands_without_a_token_say_what_is_missing() {
    let fleet = fleet(1);
    redlock(&fleet, &["extend", "-k", "k", "-t", "1m"]).fails(64, "--token is needed*").check();
    redlock(&fleet, &["extend", "-k", "k", "--token", OTHER]).fails(64, "--ttl is needed*").check();
    redlock(&fleet, &["release", "--token", OTHER]).fails(64, "--key is needed*").check();
    redlock(&fleet, &["release", "-k", "k", "--token", "x"])
        .fails(64, "--token: not a token*")
        .check();
}

#[test]
fn adopted_lock_is_extended_and_left_with_a_full_ttl() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "3s");
    let value = fleet.servers()[0].get("k");
    redlock(&fleet, &["run", "-k", "k", "-t", "3s", "--token", &token])
        .shell("sleep 4; echo $REDLOCK_TOKEN")
        .stdout(format!("{token}\n"))
        .check();
    assert_eq!(fleet.holding("k"), [0, 1, 2]);
    assert_eq!(fleet.servers()[0].get("k"), value);
    // However little of it was left when the command ended.
    let shorten: Vec<String> = fleet
        .servers()
        .iter()
        .map(|server| format!("redis-cli -p {} PEXPIRE k 5000 >/dev/null", server.port()))
        .collect();
    redlock(&fleet, &["run", "-k", "k", "-t", "1m", "--token", &token])
        .shell(&shorten.join("; "))
        .check();
    assert!(fleet.servers().iter().all(|server| server.client().pttl("k") > 50_000));
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).check();
}

#[test]
fn adoption_checks_the_token_on_a_quorum() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "1m");
    let adopt =
        |token: &str| redlock(&fleet, &["run", "-k", "k", "--token", token]).shell("echo ran");
    adopt(OTHER).fails(79, "the token does not hold 'k' *").check();
    fleet.servers()[0].client().del("k");
    adopt(&token).stdout("ran\n").check();
    fleet.servers()[1].client().del("k");
    adopt(&token).fails(79, "the token does not hold 'k' *").check();
    for option in [&["-n"][..], &["-w", "1s"], &["-E", "3"], &["--quorum-wait", "1s"]] {
        redlock(&fleet, &["run", "-k", "k", "--token", &token])
            .args(option)
            .shell("echo ran")
            .fails(64, "*--token*")
            .check();
    }
}

#[test]
fn adopted_lock_that_is_taken_away_ends_the_command() {
    let fleet = fleet(3);
    let token = acquire(&fleet, "3s");
    let mut run = redlock(&fleet, &["run", "-k", "k", "-t", "3s", "--token", &token])
        .shell("echo started; exec sleep 60")
        .stdout("started\n")
        .exits(79)
        // Lost, or run out: where the third node has not confirmed it yet, the first that is gone
        // leaves no certain quorum.
        .stderr_like("redlock: *'k'*\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("started");
    for server in fleet.servers() {
        server.client().del("k");
    }
    run.check();
}

#[test]
fn forced_release_frees_exactly_what_it_showed_and_ends_the_holder() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["-t", "3s"])
        .shell("echo started; exec sleep 60")
        .stdout("started\n")
        .exits(79)
        .stderr_like("redlock: lost 'k': *\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("started");
    eventually("the lock is everywhere", || fleet.holding("k").len() == 3);
    redlock(&fleet, &["release", "-k", "k", "--force"])
        .exits(64)
        .stderr_like(
            "redlock: 'k' is held by * pid * on *\n\
             redlock: exit 64: there is no terminal to ask on: --force needs --yes here\n",
        )
        .check();
    assert!(alive(run.pid()));
    redlock(&fleet, &["release", "-k", "k", "--force", "--yes"])
        .stderr_like("redlock: 'k' is held by *\nredlock: released 'k' on 3 of 3 nodes\n")
        .check();
    run.check();
    redlock(&fleet, &["release", "-k", "k", "--force", "--yes"])
        .fails(79, "'k' is free already: nothing was released")
        .check();
}

#[test]
fn forced_release_asks_on_a_terminal_and_takes_no_for_an_answer() {
    let fleet = fleet(1);
    fleet.servers()[0].set("k", "other \x1b[2Jclient");
    let nodes = fleet.nodes();
    let environment = [("REDLOCK_NODES", nodes.as_str())];
    let words = [env!("CARGO_BIN_EXE_redlock"), "release", "-k", "k", "--force"];
    let mut terminal = Terminal::start(words, &environment);
    terminal.wait_for("[y/N]").types("n\n");
    terminal.finish();
    assert!(!terminal.screen().contains("\x1b[2J"), "{}", terminal.screen());
    assert!(fleet.servers()[0].exists("k"));
    let mut terminal = Terminal::start(words, &environment);
    // It changes between the look and the answer.
    terminal.wait_for("[y/N]");
    fleet.servers()[0].set("k", "newer");
    terminal.types("y\n").wait_for("changed meanwhile");
    terminal.finish();
    assert_eq!(fleet.servers()[0].get("k").as_deref(), Some("newer"));
    let mut terminal = Terminal::start(words, &environment);
    terminal.wait_for("[y/N]").types("y\n").wait_for("released 'k' on 1 of 1 nodes");
    terminal.finish();
    assert!(!fleet.servers()[0].exists("k"));
}

#[test]
fn what_does_not_end_by_itself_is_never_deleted() {
    let fleet = fleet(1);
    let server = &fleet.servers()[0];
    server.client().command(&["SET", "k", "for ever"]);
    let force = || redlock(&fleet, &["release", "-k", "k", "--force", "--yes"]).exits(78);
    let said = "redlock: 'k' is held by *\n\
        redlock: exit 78: what is at 'k' is no lock *: redis-cli -h HOST -p PORT DEL 'k'\n";
    force().stderr_like(said).check();
    server.client().del("k");
    server.client().command(&["HSET", "k", "a", "b"]);
    server.client().command(&["PEXPIRE", "k", "60000"]);
    force().stderr_like(said).check();
    assert!(server.exists("k"));
}

/// Whoever waits by subscription hears of it: both channels are told.
#[test]
fn release_from_outside_tells_waiters_and_the_holder() {
    let fleet = fleet(1);
    let token = acquire(&fleet, "1m");
    let mut listener = fleet.servers()[0].client();
    listener.send(&["SUBSCRIBE", "redlock:released:k", "redlock:holder:k"]);
    listener.receive();
    listener.receive();
    redlock(&fleet, &["release", "-k", "k", "--token", &token]).check();
    let said = [listener.receive(), listener.receive()];
    let text = format!("{said:?}");
    assert!(text.matches("Text").count() == 6, "{text}");
}

/// Long before its next extension: the holder listens on its own channel and looks at once.
#[test]
fn forced_release_reaches_a_holder_that_extends_rarely() {
    let fleet = fleet(3);
    let mut run = Redlock::run(fleet.nodes())
        .args(["-t", "1h"])
        .shell("echo started; exec sleep 60")
        .stdout("started\n")
        .exits(79)
        .stderr_like("redlock: lost 'k': *\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("started");
    eventually("the holder listens", || {
        fleet.servers().iter().all(|server| {
            let words = ["PUBSUB", "NUMSUB", "redlock:holder:k"];
            format!("{:?}", server.client().command(&words)).contains("Integer(1)")
        })
    });
    redlock(&fleet, &["release", "-k", "k", "--force", "--yes"])
        .stderr_like("redlock: 'k' is held by *\nredlock: released 'k' on * of 3 nodes\n")
        .check();
    run.check();
}

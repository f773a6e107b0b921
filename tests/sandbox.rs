//! `redlock sandbox`: masters for a command, gone with it whatever ends it.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
};

use rustix::process::Signal;

use crate::harness::{
    Redlock,
    builder::{End, Running},
    eventually,
    resp::{Reply, Resp},
    scratch,
};

/// The addresses in a list of nodes.
fn addresses(nodes: &str) -> Vec<SocketAddr> {
    let urls = nodes.trim().split(',');
    urls.map(|url| url.strip_prefix("redis://").unwrap().parse().unwrap()).collect()
}

fn answers(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
        && Resp::connect(address).command(&["PING"]) == Reply::Simple("PONG".to_owned())
}

/// A sandbox that has printed its nodes, and their addresses. Its temporary files are in `place`.
fn started(place: &tempfile::TempDir, command: &[&str]) -> (Running, Vec<SocketAddr>) {
    let mut running = Redlock::new(["sandbox", "--count", "3"])
        .under(["env", "--default-signal"])
        .args(command)
        .env("TMPDIR", place.path())
        .start();
    running.wait_stdout("\n");
    eventually("the nodes are printed", || running.stdout().contains("REDLOCK_NODES="));
    let text = running.stdout();
    let (_, rest) = text.split_once("REDLOCK_NODES=").unwrap();
    let nodes = rest.lines().next().unwrap().trim_matches('\'').to_owned();
    (running, addresses(&nodes))
}

fn is_empty(place: &tempfile::TempDir) -> bool {
    fs::read_dir(place.path()).unwrap().next().is_none()
}

const SHOW: &str = "echo REDLOCK_NODES=$REDLOCK_NODES; exec sleep 60";

#[test]
fn sandbox_runs_a_command_beside_real_masters_and_takes_them_away() {
    let outcome = Redlock::new(["sandbox"])
        .shell("echo $REDLOCK_NODES; for url in $(echo $REDLOCK_NODES | tr , ' '); do redis-cli -u $url ping; done; exit 7")
        .exits(7)
        .stdout_like("*\nPONG\nPONG\nPONG\nPONG\nPONG\n")
        .check();
    let addresses = addresses(outcome.stdout.lines().next().unwrap());
    assert_eq!(addresses.len(), 5);
    assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() != 6379));
    assert!(!addresses.iter().any(|&address| answers(address)));
}

#[test]
fn sandbox_gives_its_command_three_variables_of_ours_and_no_other() {
    let outcome = Redlock::new(["sandbox", "--count", "1"])
        .env("REDLOCK_NODES", "redis://user:s3cret@production:6379")
        .env("REDLOCK_PASSWORD", "s3cret")
        .env("REDLOCK_PREFIX", "x:")
        .env("OTHER", "stays")
        .shell("env | grep -e REDLOCK -e OTHER | sort")
        .stdout_like(
            "OTHER=stays\nREDLOCK_CONFIG=/dev/null\nREDLOCK_NODES=redis://127.0.0.1:*\n\
             REDLOCK_RESTART_GUARD=off\n",
        )
        .check();
    assert!(!outcome.stdout.contains("s3cret"));
}

#[test]
fn first_minute_works() {
    let redlock = env!("CARGO_BIN_EXE_redlock");
    Redlock::new(["sandbox"])
        .command([redlock, "run", "--key", "hello", "--ttl", "30s", "--", "echo", "it works"])
        .stdout("it works\n")
        .check();
}

#[test]
fn sandbox_ends_as_its_command_does() {
    let sandbox = || Redlock::new(["sandbox", "--count", "1"]);
    sandbox().shell("exit 255").exits(255).check();
    sandbox().shell("kill -TERM $$").dies_of(Signal::TERM).check();
    sandbox().command(["/no/such"]).fails(127, "*/no/such*").check();
    sandbox().command(["/etc/passwd"]).fails(126, "*/etc/passwd*").check();
}

#[test]
fn sandbox_without_a_command_prints_exports_and_stays_until_a_signal() {
    let place = scratch();
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let (running, addresses) = started(&place, &[]);
        eventually("all three lines are there", || running.stdout().contains("REDLOCK_CONFIG"));
        let lines: Vec<String> = running.stdout().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("export REDLOCK_")), "{lines:?}");
        assert_eq!(addresses.len(), 3);
        assert!(addresses.iter().all(|&address| answers(address)));
        running.signal(signal);
        assert_eq!(running.output().end, End::Signal(signal.as_raw()));
        assert!(!addresses.iter().any(|&address| answers(address)));
        assert!(is_empty(&place));
    }
}

#[test]
fn sandbox_that_is_told_to_end_tells_its_command() {
    let place = scratch();
    let line =
        "trap 'exit 5' TERM; echo REDLOCK_NODES=$REDLOCK_NODES; while :; do sleep 0.02; done";
    let (running, addresses) = started(&place, &["sh", "-c", line]);
    running.signal(Signal::TERM);
    assert_eq!(running.output().end, End::Exit(5));
    assert!(!addresses.iter().any(|&address| answers(address)));
    assert!(is_empty(&place));
}

#[test]
fn sandbox_that_is_killed_leaves_no_server_no_command_and_no_directory() {
    let place = scratch();
    let (running, addresses) = started(&place, &["sh", "-c", &format!("echo $$; {SHOW}")]);
    let child = running.stdout().lines().next().unwrap().parse().unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    running.signal(Signal::KILL);
    assert_eq!(running.output().end, End::Signal(9));
    eventually("the servers are gone", || {
        !addresses.iter().any(|address| TcpStream::connect(address).is_ok())
    });
    eventually("the command is gone", || !crate::harness::alive(child));
    assert!(is_empty(&place));
}

#[test]
fn sandbox_leaves_nothing_on_the_disk_while_it_runs() {
    let place = scratch();
    let (running, _) = started(&place, &["sh", "-c", SHOW]);
    assert!(is_empty(&place));
    drop(running);
}

#[test]
fn sandbox_respects_a_signal_that_its_caller_ignores() {
    let place = scratch();
    let mut running = Redlock::new(["sandbox", "--count", "1"])
        .under(["env", "--default-signal", "--ignore-signal=HUP"])
        .env("TMPDIR", place.path())
        .start();
    running.wait_stdout("REDLOCK_CONFIG");
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    assert_eq!(running.output().end, End::Signal(15));
}

#[test]
fn missing_server_is_125_and_says_what_to_install() {
    Redlock::new(["sandbox"])
        .env("PATH", "/nonexistent")
        .command(["/bin/true"])
        .fails(125, "*redis-server*install*")
        .check();
}

#[test]
fn directory_of_the_servers_is_private() {
    // While a server hangs at its start the directory is still there to be looked at.
    let place = scratch();
    let bin = scratch();
    crate::harness::script(&bin, "redis-server", "#!/bin/sh\necho up >&2; exec sleep 60\n");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let running = Redlock::new(["sandbox", "--count", "1"])
        .env("PATH", path)
        .env("TMPDIR", place.path())
        .start();
    eventually("the directory is there", || !is_empty(&place));
    let entry = fs::read_dir(place.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    running.signal(Signal::KILL);
}

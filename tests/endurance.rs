//! What a hold survives: nodes that restart, forget their scripts, run out of memory, refuse, or
//! vanish without a word.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use redlock::commands::sandbox::{launcher::Launcher, servers::Server};

use crate::harness::{
    Redlock,
    builder::Running,
    eventually, fleet,
    proxy::{Mode, Proxy},
    scratch,
    servers::{Fleet, Inspect, InspectAll},
};

/// A command that says `ready` and ends when the file `go` is there.
fn until(go: &Path) -> String {
    format!("echo ready; until [ -e '{}' ]; do sleep 0.02; done; echo done", go.display())
}

/// A run with a command that holds until it is told, and is expected never to notice a thing.
struct Hold {
    run: Running,
    place: tempfile::TempDir,
}

impl Hold {
    fn start(nodes: &str, ttl: &str) -> Self {
        let place = scratch();
        let mut run = Redlock::run(nodes)
            .args(["--ttl", ttl])
            .shell(&until(&place.path().join("go")))
            .stdout("ready\ndone\n")
            .start();
        run.wait_stdout("ready\n");
        Self { run, place }
    }

    /// Lets the command end, and compares.
    #[track_caller]
    fn end(self) {
        fs::write(self.place.path().join("go"), "").unwrap();
        self.run.check();
    }
}

/// How many requests of ours a node has had.
fn requests(server: &Server) -> u64 {
    server.client().calls("eval")
}

/// Waits until the node has had `rounds` more requests.
fn wait_rounds(server: &Server, rounds: u64) {
    let before = requests(server);
    eventually("extensions", || requests(server) >= before + rounds);
}

fn given_back(fleet: &Fleet) {
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

#[test]
fn rolling_restart_of_all_nodes_is_not_noticed_by_the_command() {
    let mut fleet = fleet(3);
    let hold = Hold::start(&fleet.nodes(), "1500ms");
    for number in 0..3 {
        fleet.servers_mut()[number].restart().unwrap();
        eventually("the lock is on all nodes again", || fleet.holding("k").len() == 3);
        // A healed node counts when an extension was answered after it.
        wait_rounds(&fleet.servers()[number], 1);
    }
    hold.end();
    given_back(&fleet);
}

/// redsync#186: a lock on a bare quorum would be lost with the next node.
#[test]
fn node_that_was_down_at_the_acquisition_is_taken_in() {
    let mut fleet = fleet(3);
    fleet.servers_mut()[2].kill();
    let hold = Hold::start(&fleet.nodes(), "1500ms");
    assert!(fleet.servers()[..2].iter().all(|server| server.exists("k")));
    fleet.servers_mut()[2].restart().unwrap();
    eventually("the lock is on all nodes", || fleet.holding("k").len() == 3);
    wait_rounds(&fleet.servers()[2], 1);
    fleet.servers_mut()[0].restart().unwrap();
    eventually("the lock is on all nodes again", || fleet.holding("k").len() == 3);
    hold.end();
    given_back(&fleet);
}

#[test]
fn flushed_scripts_and_a_full_memory_do_not_end_a_hold() {
    let fleet = fleet(3);
    let hold = Hold::start(&fleet.nodes(), "1500ms");
    for server in fleet.servers() {
        let mut client = server.client();
        client.command(&["SCRIPT", "FLUSH"]);
        client.command(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    // Where nothing is extended it is gone by then.
    let flushed = Instant::now();
    eventually("two ttl have passed", || flushed.elapsed() > Duration::from_secs(3));
    assert_eq!(fleet.holding("k").len(), 3);
    hold.end();
    given_back(&fleet);
}

/// A peer that vanished without a word: its connection stays open, and nothing comes any more.
#[test]
fn connections_that_swallow_everything_are_given_up_and_the_rest_is_extended() {
    let fleet = fleet(5);
    let proxies: Vec<Proxy> = fleet.servers().iter().map(|s| Proxy::to(s.address())).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let hold = Hold::start(&urls.join(","), "1500ms");
    eventually("the lock is everywhere", || fleet.holding("k").len() == 5);
    for proxy in &proxies[..2] {
        proxy.set(Mode::Blackhole);
    }
    eventually("it has run out there", || fleet.holding("k") == [2, 3, 4]);
    wait_rounds(&fleet.servers()[4], 3);
    assert_eq!(fleet.holding("k"), [2, 3, 4]);
    // They are taken in again.
    for proxy in &proxies[..2] {
        proxy.set(Mode::Pass);
    }
    eventually("the lock is everywhere again", || fleet.holding("k").len() == 5);
    hold.end();
    given_back(&fleet);
}

/// A loop without a pause would make thousands of connections.
#[test]
fn nodes_that_refuse_are_asked_again_at_intervals() {
    let fleet = fleet(3);
    let proxies: Vec<Proxy> = fleet.servers().iter().map(|s| Proxy::to(s.address())).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let mut run = Redlock::run(urls.join(","))
        .args(["--ttl", "6s"])
        .shell("echo ready; exec sleep 60")
        .exits(79)
        .stdout("ready\n")
        .stderr_like("redlock: *\nredlock: *\nredlock: exit 79: *\n")
        .start();
    run.wait_stdout("ready\n");
    for proxy in &proxies {
        proxy.set(Mode::Cut);
    }
    run.check();
    for proxy in &proxies {
        // Every tenth of the ttl, at once after a cut, and at the release.
        let connections = proxy.connections();
        assert!((3..=30).contains(&connections), "{connections}");
    }
}

/// A server in a directory of its launcher, with options that tell it from others there.
fn server(launcher: &Launcher, options: &[&str]) -> Server {
    Server::start(launcher, options.iter().copied()).unwrap()
}

/// node-redlock#11: a node that cannot save refuses the release like all that writes.
#[test]
fn node_that_cannot_save_is_named_when_the_release_fails() {
    let launcher = Launcher::new().unwrap();
    let server = server(&launcher, &["--dbfilename", "dump.dir", "--save", "3600 1"]);
    // A directory where its file should be.
    fs::create_dir(launcher.directory().join("dump.dir")).unwrap();
    let place = scratch();
    let mut run = Redlock::run(server.url())
        .args(["--ttl", "90s"])
        .shell(&until(&place.path().join("go")))
        .stdout("ready\ndone\n")
        .stderr_like("redlock: could not tell *: 'k' may stay locked there for up to *\n")
        .start();
    run.wait_stdout("ready\n");
    server.client().command(&["BGSAVE"]);
    eventually("the save failed", || {
        server.client().info("persistence").contains("rdb_last_bgsave_status:err")
    });
    fs::write(place.path().join("go"), "").unwrap();
    run.check();
    assert!(server.exists("k"));
}

#[test]
fn nodes_that_restart_with_their_memory_keep_the_lock() {
    let launcher = Launcher::new().unwrap();
    let mut servers: Vec<Server> = ["a", "b", "c"]
        .map(|name| {
            let options = ["--appendonly", "yes", "--appendfsync", "always", "--appenddirname"];
            server(&launcher, &[&options[..], &[name]].concat())
        })
        .into();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let nodes = urls.join(",");
    let hold = Hold::start(&nodes, "3s");
    let value = servers[0].get("k");
    for server in &mut servers {
        server.restart().unwrap();
        let loads = |server: &Server| server.client().info_number("persistence", "loading") == 1;
        eventually("the server has its memory back", || !loads(server));
        assert_eq!(server.get("k"), value);
    }
    Redlock::run(&nodes).args(["-n"]).command(["echo", "ran"]).fails(75, "'k' is held *").check();
    wait_rounds(&servers[2], 4);
    hold.end();
    eventually("the lock is given back", || !servers.iter().any(|server| server.exists("k")));
}

/// Redisson#6651: what is not there need not be given back.
#[test]
fn release_that_finds_nothing_is_a_success() {
    let fleet = fleet(3);
    let delete: Vec<String> = fleet
        .servers()
        .iter()
        .map(|server| format!("redis-cli -u {} DEL k >/dev/null", server.url()))
        .collect();
    let line = format!("{}; exit 5", delete.join("; "));
    Redlock::run(fleet.nodes()).args(["--ttl", "90s"]).shell(&line).exits(5).check();
}

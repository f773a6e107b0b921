//! `rediss://`: real servers, real certificates, good and bad ones.

use crate::harness::{
    Redlock,
    servers::Inspect,
    tls::{Authority, list},
};

#[test]
fn command_runs_under_a_lock_that_was_taken_over_tls() {
    let authority = Authority::new();
    let servers = authority.fleet(3);
    let key = format!("redis-cli -p {} exists k", servers[0].server.port());
    Redlock::run(list(&servers)).trusting(&authority.ca()).shell(&key).stdout("1\n").check();
    assert!(servers.iter().all(|server| !server.server.exists("k")));
}

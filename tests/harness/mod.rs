//! What the tests are made of: real servers on free loopback ports, a proxy that misbehaves, a
//! builder that runs the program in an empty environment and expects exactly what it was told,
//! a terminal, and a client to look into the nodes.
//!
//! Nothing here sleeps to let something happen: what takes time is waited for, with a bound.

pub mod builder;
pub mod fixture;
pub mod matching;
pub mod proxy;
mod proxy_tests;
pub mod pty;
pub mod resp;
pub mod servers;
pub mod skip;
pub mod terminator;
pub mod tls;

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;

pub use self::{builder::Redlock, servers::fleet};

/// How long anything may take that is not itself a duration under test. Far beyond what it takes,
/// so that it says "never" and not "slow machine".
pub const LIMIT: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The state of a process (proc(5): `R`, `S`, `T`, `Z`, ...); none when there is no such process.
pub fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

/// Whether a process still runs. A zombie does not: where nobody reaps it, kill(2) finds it for
/// ever.
pub fn alive(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !"ZX".contains(state))
}

/// The processes whose command line or environment contains `mark`, zombies left out.
pub fn processes_with(mark: &str) -> Vec<Pid> {
    let contains = |path: String| {
        let text = fs::read(path).unwrap_or_default();
        text.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| {
            let pid = pid.as_raw_nonzero();
            contains(format!("/proc/{pid}/cmdline")) || contains(format!("/proc/{pid}/environ"))
        })
        .filter(|&pid| alive(pid))
        .collect()
}

/// A directory for one test, removed at its end.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("redlock-test-").tempdir().unwrap()
}

/// An executable script in `place`.
pub fn script(place: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn zombie_is_not_alive() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    eventually("the child is a zombie", || state(pid) == Some('Z'));
    assert!(!alive(pid));
    child.wait().unwrap();
    assert!(alive(rustix::process::getpid()));
}

//! The programs of tests/fixtures/: what the tests run under redlock when a shell would not be exact
//! enough.

use std::{env, path::PathBuf};

/// `child`, which says what happens to it.
pub fn child() -> PathBuf {
    example("child")
}

/// `worker`, which does what only one may do at a time, and leaves a record.
pub fn worker() -> PathBuf {
    example("worker")
}

/// Where Cargo has put a fixture. It is an example to Cargo, so that a plain `cargo test` builds it
/// and `cargo install` does not install it.
fn example(name: &str) -> PathBuf {
    let own = env::current_exe().unwrap();
    let profile = own.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: run plain `cargo test`, or `cargo build --examples` first",
        path.display()
    );
    path
}

#[test]
fn child_counts_two_deliveries_in_quick_succession_as_two() {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
        time::Duration,
    };

    use rustix::process::{Pid, Signal, kill_process};

    let mut command = Command::new(child());
    command.arg("signals").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    // A busy machine may not let the child run within 100 us; the kernel itself merges the two then.
    let exact = (0..1000).any(|_| {
        kill_process(pid, Signal::INT).unwrap();
        std::thread::sleep(Duration::from_micros(100));
        kill_process(pid, Signal::INT).unwrap();
        kill_process(pid, Signal::USR1).unwrap();
        let count =
            std::iter::from_fn(|| Some(next())).take_while(|line| line == "got INT").count();
        count == 2
    });
    kill_process(pid, Signal::TERM).unwrap();
    assert!(exact);
    assert!(child.wait().unwrap().success());
}

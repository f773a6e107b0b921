//! The program `child` (tests/fixtures/child.rs): what the tests run under redlock when a shell
//! would not be exact enough.

use std::{env, path::PathBuf};

/// Where Cargo has put the fixture. It is an example to Cargo, so that a plain `cargo test` builds
/// it and `cargo install` does not install it.
pub fn child() -> PathBuf {
    let own = env::current_exe().unwrap();
    let profile = own.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join("child");
    assert!(
        path.exists(),
        "{} is missing: run plain `cargo test`, or `cargo build --example child` first",
        path.display()
    );
    path
}

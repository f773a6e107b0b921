//! What the README promises first, and what it stands on.

use std::{
    os::unix::fs::symlink,
    process::{Command, Output, Stdio},
};

use crate::harness::{scratch, script};

#[test]
fn demo_shows_the_main_job() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(format!("{root}/scripts/demo"))
        .arg(env!("CARGO_BIN_EXE_redlock"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for text in ["on 5 of 5 nodes", "exit status: 75", "it works"] {
        assert!(stdout.contains(text), "no {text:?}: {stdout}\n{stderr}");
    }
    assert!(!stdout.lines().any(|line| line == "never printed"), "{stdout}");
    assert!(stderr.contains("5 of 5") || stderr.contains("5/5"), "{stderr}");
    assert!(stderr.contains("redlock: exit 75: "), "{stderr}");
}

/// Runs scripts/setup where these commands are all there is, and `id` says who we are.
fn setup(uid: &str, commands: &[&str]) -> Output {
    let place = scratch();
    for tool in ["cat", "tr"] {
        symlink(format!("/usr/bin/{tool}"), place.path().join(tool)).unwrap();
    }
    script(&place, "id", &format!("#!/bin/sh\necho {uid}\n"));
    for command in commands {
        script(&place, command, "#!/bin/sh\nexit 1\n");
    }
    Command::new("/bin/sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/setup"))
        .env_clear()
        .env("PATH", place.path())
        .output()
        .unwrap()
}

const THERE: [&str; 12] = [
    "cargo",
    "redis-cli",
    "cc",
    "make",
    "bash",
    "setsid",
    "timeout",
    "apt-get",
    "mandoc",
    "openssl",
    "jq",
    "faketime",
];

#[test]
fn setup_has_nothing_to_do_where_everything_is() {
    for server in ["redis-server", "valkey-server"] {
        let commands = [&THERE[..], &[server]].concat();
        let output = setup("1000", &commands);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn setup_without_root_says_what_to_install() {
    let output = setup("1000", &THERE);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(
        stderr.ends_with("sudo apt-get install --no-install-recommends redis-server\n"),
        "{stderr}"
    );
}

#[test]
fn setup_where_nothing_can_be_installed_names_what_is_missing() {
    let output = setup("0", &["cargo"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    for package in ["redis-server", "redis-tools", "gcc", "make", "util-linux"] {
        assert!(stderr.contains(package), "no {package}: {stderr}");
    }
}

#[test]
fn setup_without_rust_says_where_it_is_from() {
    let output = setup("1000", &["redis-server", "redis-cli"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("rustup"), "{output:?}");
}

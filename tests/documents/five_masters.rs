//! The README's five masters, set up word for word: certificates, `redis.conf`, ACL, configuration
//! file; and then a line of its crontab. Host names are those of the README; only the ports and the
//! directories are the test's.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Output},
};

use redlock::child::belt;

use super::blocks;
use crate::{
    harness::{eventually, scratch, script},
    skip,
};

const HOSTS: [&str; 5] = ["redis1", "redis2", "redis3", "redis4", "redis5"];

/// A master; it is killed on drop.
struct Master(Child);

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that is free on all the addresses of the masters.
fn port(addresses: &[Ipv4Addr]) -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind((addresses[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        if addresses[1..].iter().all(|&address| TcpListener::bind((address, port)).is_ok()) {
            return port;
        }
    }
    panic!("no port is free on {addresses:?}");
}

#[test]
fn five_masters_of_the_readme_work_as_they_are_written_down() {
    let place = scratch();
    let here = place.path();
    let has = |tool: &str| Command::new(tool).arg("version").output().is_ok();
    if !has("openssl") {
        skip!("no openssl to make certificates with");
    }
    // The last byte differs, the third is the test's own.
    let third = std::process::id().to_le_bytes()[0];
    let addresses: Vec<Ipv4Addr> = (1..=5).map(|n| Ipv4Addr::new(127, 87, third, n)).collect();
    let port = port(&addresses);
    let hosts: String = HOSTS
        .iter()
        .zip(&addresses)
        .map(|(host, address)| format!("{address} {host}.example.net\n"))
        .collect();
    fs::write(here.join("hosts"), hosts).unwrap();
    let known =
        format!("#!/bin/sh\nmount --bind '{}/hosts' /etc/hosts && exec \"$@\"\n", here.display());
    let known = script(&place, "known", &known);
    let world = |words: &[&str]| -> Output {
        Command::new("unshare")
            .arg("--mount")
            .arg(&known)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .env("REDLOCK_CONFIG", here.join("config.toml"))
            .current_dir(here)
            .output()
            .unwrap()
    };
    if !world(&["true"]).status.success() {
        skip!("no mount namespace can be had (unshare --mount)");
    }

    certificates(here);
    let users = blocks::only("users.acl");
    fs::write(here.join("users.acl"), users.replace("CHANGE-ME", "pa:ss")).unwrap();
    fs::write(here.join("password"), "pa:ss\n").unwrap();
    let masters: Vec<Master> =
        HOSTS.iter().zip(&addresses).map(|(host, &at)| master(here, host, at, port)).collect();
    let config = blocks::only("config.toml")
        .replace("/etc/redlock/", &format!("{}/", here.display()))
        .replace(":6379", &format!(":{port}"));
    fs::write(here.join("config.toml"), config).unwrap();

    let redlock = env!("CARGO_BIN_EXE_redlock");
    let mut said = String::new();
    eventually("the doctor is content", || {
        let out = world(&[redlock, "doctor"]);
        said = String::from_utf8_lossy(&out.stdout).into_owned();
        out.status.success()
    });
    // What is true of a test: all masters are on one machine.
    let findings: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("warning: ") && !line.contains("on this machine"))
        .collect();
    assert!(findings.is_empty(), "{said}");
    assert!(said.contains("5 of 5 nodes vote"), "{said}");

    script(&place, "backup", "#!/bin/sh\n[ \"$1\" = --all ] && : >ran\n");
    let line = blocks::only("crontab").lines().next().unwrap().to_owned();
    let (_, command) = line.split_once("root").unwrap();
    let command = command.replace("/usr/local/bin/redlock", redlock);
    let command = command.replace("/usr/local/bin", here.to_str().unwrap());
    let out = world(&["sh", "-c", &command]);
    assert!(out.status.success() && here.join("ran").exists(), "{out:?}");
    assert!(out.stdout.is_empty() && out.stderr.is_empty(), "{out:?}");
    // Every right that any part of it needs.
    let fenced = [redlock, "run", "--key", "k", "--fence", "--", "true"];
    let status = [redlock, "status", "--all"];
    for words in [&fenced[..], &status[..]] {
        let out = world(words);
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    }
    drop(masters);
}

/// The README's lines for certificates.
fn certificates(here: &Path) {
    let lines = blocks::readme().into_iter().find(|block| block.text.starts_with("openssl"));
    let out = Command::new("sh").arg("-euc").arg(lines.unwrap().text).current_dir(here).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// A master by the README's `redis.conf`.
fn master(here: &Path, host: &str, at: Ipv4Addr, port: u16) -> Master {
    let data = here.join(host);
    fs::create_dir(&data).unwrap();
    let path = |name: &str| here.join(name).display().to_string();
    let mut config = blocks::only("redis.conf");
    for (theirs, ours) in [
        ("bind * -::*", format!("bind {at}")),
        ("tls-port 6379", format!("tls-port {port}")),
        ("/etc/redis/tls/server.crt", path(&format!("{host}.crt"))),
        ("/etc/redis/tls/server.key", path(&format!("{host}.key"))),
        ("/etc/redis/tls/ca.crt", path("ca.crt")),
        ("/etc/redis/users.acl", path("users.acl")),
        ("/var/lib/redis", data.display().to_string()),
    ] {
        assert!(config.contains(theirs), "{theirs}");
        config = config.replace(theirs, &ours);
    }
    let file = here.join(format!("{host}.conf"));
    fs::write(&file, config).unwrap();
    let mut command = Command::new("redis-server");
    command.arg(file).stdout(std::process::Stdio::null());
    Master(belt::die_with_parent(&mut command).spawn().unwrap())
}

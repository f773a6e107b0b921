//! `redlock status` on five nodes with 100,000 locks and 10,000 other keys: how long it takes and
//! how much memory. It streams, so the memory must not follow the number of locks.
//!
//! `make bench` runs it. It is never a test: a number above its target is printed as `over`.

#[path = "support/report.rs"]
#[expect(dead_code, reason = "what all benches share; here nothing is waited for")]
mod report;

use std::{
    fs,
    io::Read,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use redlock::commands::sandbox::servers::Fleet;
use report::{Outcome, end, verdict};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");
const LOCKS: u32 = 100_000;
/// In KiB.
const MEMORY: u64 = 32 << 10;
const TIME: Duration = Duration::from_secs(20);

/// Fills one node: its arguments are how many locks, and how many other keys.
const FILL: &str = "for i = 1, ARGV[1] do redis.call('SET', 'lock:' .. i, \
    string.format('11111111-1111-4111-8111-%012d {\"host\":\"db1\",\"pid\":4242,\"user\":\"backup\",\
    \"since\":1700000000000,\"ttl\":30000,\"n\":5,\"fleet\":\"0a1b2c3d\",\"every\":10000}', i), \
    'PX', 600000) end for i = 1, ARGV[2] do redis.call('HSET', 'other:' .. i, 'a', 'b') end";

fn main() -> ExitCode {
    end(bench())
}

fn bench() -> Outcome<String> {
    let fleet = Fleet::start(5)?;
    for server in fleet.servers() {
        let port = server.port().to_string();
        let status = Command::new("redis-cli")
            .args(["-p", &port, "EVAL", FILL, "0", &LOCKS.to_string(), "10000"])
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err("a node could not be filled".into());
        }
    }
    let start = Instant::now();
    let mut child = Command::new(REDLOCK)
        .args(["status", "--json"])
        .env("REDLOCK_NODES", fleet.nodes())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let mut piece = vec![0; 1 << 16];
    let (mut bytes, mut memory) = (0, 0);
    loop {
        let count = output.read(&mut piece)?;
        if count == 0 {
            break;
        }
        bytes += count;
        memory = memory.max(peak(child.id()).unwrap_or(0));
    }
    let took = start.elapsed();
    if !child.wait()?.success() {
        return Err("status failed".into());
    }
    let verdict = verdict(took <= TIME && memory <= MEMORY);
    Ok(format!(
        "status of {LOCKS} locks, {} MiB of JSON: {took:.1?} (at most {TIME:?}), {memory} KiB \
         (at most {MEMORY})   {verdict}\n",
        bytes >> 20
    ))
}

/// The most memory that a process has had so far, in KiB.
fn peak(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

//! How fast a command dies: from the moment at which a majority of the keys was replaced to the
//! command's death (which waits for the next extension, so a third of the ttl at most), and from
//! KILL to the reaped process, which is what the margin is for. And what a run costs on ways of 20 ms,
//! with a fencing token and without: one round trip more.
//!
//! `make bench` runs it. It is never a test: a number above its target is printed as `over`.

#[path = "../tests/harness/proxy.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "it is the tests' own, which use the rest of it"
)]
mod proxy;
#[path = "support/report.rs"]
mod report;

use std::{
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use proxy::{Mode, Proxy};
use redlock::commands::sandbox::servers::{Fleet, Server};
use report::{Outcome, end, eventually, verdict};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");
const ROUNDS: u32 = 50;
const TTL: Duration = Duration::from_millis(1500);
/// An extension comes every third of the ttl; what follows may take this much.
const AFTER_EXTENSION: Duration = Duration::from_millis(50);
/// There and back.
const WAY: Duration = Duration::from_millis(20);
/// A command with this much memory takes longest to die.
const HEAVY: usize = 256 << 20;

fn main() -> ExitCode {
    end(bench())
}

fn bench() -> Outcome<String> {
    let fleet = Fleet::start(5)?;
    let mut text =
        format!("{ROUNDS} times each\n\n{:<40} {:>10} {:>10}\n", "", "median ms", "worst");
    let loss = series(|round| loss_to_dead(&fleet, round))?;
    let target = TTL / 3 + AFTER_EXTENSION;
    let verdict = verdict(loss.iter().all(|took| *took <= target));
    line(&mut text, &format!("loss to dead, ttl {TTL:?}"), &loss)?;
    writeln!(text, "{:<40} at most {target:?}   {verdict}", "")?;
    line(&mut text, "KILL to reaped, sleep", &series(|_| kill_to_reaped(0))?)?;
    line(&mut text, "KILL to reaped, 256 MiB", &series(|_| kill_to_reaped(HEAVY))?)?;
    fencing(&fleet, &mut text)?;
    Ok(text)
}

/// How soon the command runs when the nodes are far away, with and without a fencing token, by turns.
fn fencing(fleet: &Fleet, text: &mut String) -> Outcome<()> {
    let far = |server: &Server| {
        let proxy = Proxy::to(server.address());
        proxy.set(Mode::Delay(WAY / 2));
        proxy
    };
    let proxies: Vec<Proxy> = fleet.servers().iter().map(far).collect();
    let nodes = proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(",");
    let (mut plain, mut fenced) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(far_run(&nodes, &[])?);
        fenced.push(far_run(&nodes, &["--fence"])?);
    }
    plain.sort_unstable();
    fenced.sort_unstable();
    line(text, &format!("start to command, ways of {WAY:?}"), &plain)?;
    line(text, "the same with --fence", &fenced)?;
    let median = |times: &[Duration]| times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64);
    let trips = (median(&fenced) - median(&plain)) / WAY.as_secs_f64();
    let good = verdict((trips - 1.0).abs() < 0.25);
    writeln!(text, "{:<40} {trips:.2} round trips more, 1 is meant   {good}", "")?;
    Ok(())
}

/// From the start to the first word of the command.
fn far_run(nodes: &str, flags: &[&str]) -> Outcome<Duration> {
    let start = Instant::now();
    let mut run = Command::new(REDLOCK)
        .args(["run", "-n", "--key", "far"])
        .args(flags)
        .args(["--", "echo", "here"])
        .env("REDLOCK_NODES", nodes)
        .env("REDLOCK_RESTART_GUARD", "off")
        .env("REDLOCK_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    run.stdout.take().ok_or("no output")?.read_exact(&mut [0])?;
    let took = start.elapsed();
    let status = run.wait()?;
    if status.success() { Ok(took) } else { Err(format!("ended with {status}").into()) }
}

fn series(mut one: impl FnMut(u32) -> Outcome<Duration>) -> Outcome<Vec<Duration>> {
    let mut times = (0..ROUNDS).map(&mut one).collect::<Outcome<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times)
}

fn line(text: &mut String, name: &str, times: &[Duration]) -> Outcome<()> {
    let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0);
    let (median, worst) = (ms(times.get(times.len() / 2)), ms(times.last()));
    writeln!(text, "{name:<40} {median:>10.2} {worst:>10.2}")?;
    Ok(())
}

/// Replaces the key on three of five nodes, at another point between two extensions in each round.
fn loss_to_dead(fleet: &Fleet, round: u32) -> Outcome<Duration> {
    let key = format!("loss{round}");
    let mut run = Command::new(REDLOCK)
        .args(["run", "--key", &key, "--ttl", &format!("{}ms", TTL.as_millis()), "--"])
        .args(["sh", "-c", "echo $$; exec sleep 600"])
        .env("REDLOCK_NODES", fleet.nodes())
        .env("REDLOCK_RESTART_GUARD", "off")
        .env("REDLOCK_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut first = String::new();
    BufReader::new(run.stdout.take().ok_or("no output")?).read_line(&mut first)?;
    let command = first.trim();
    let mut thieves = fleet.servers()[..3]
        .iter()
        .map(|server| TcpStream::connect(server.address()))
        .collect::<io::Result<Vec<_>>>()?;
    thread::sleep(TTL / 3 * (round % 10) / 10);
    for thief in &mut thieves {
        thief.write_all(format!("SET {key} thief\r\n").as_bytes())?;
        thief.read_exact(&mut [0; 5])?;
    }
    let start = Instant::now();
    while is_alive(command) {
        thread::sleep(Duration::from_micros(200));
    }
    let took = start.elapsed();
    let status = run.wait()?;
    if status.code() == Some(79) { Ok(took) } else { Err(format!("ended with {status}").into()) }
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Kills a process that holds this much memory: tail(1) keeps a line until it ends.
fn kill_to_reaped(memory: usize) -> Outcome<Duration> {
    let mut child = if memory == 0 {
        Command::new("sleep").arg("600").spawn()?
    } else {
        let mut tail = Command::new("tail").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        fill(&mut tail, memory)?;
        tail
    };
    let start = Instant::now();
    child.kill()?;
    child.wait()?;
    Ok(start.elapsed())
}

fn fill(tail: &mut Child, memory: usize) -> Outcome<()> {
    // Kept open: at its end tail would print and exit.
    let input = tail.stdin.as_mut().ok_or("no input")?;
    let block = vec![b'x'; 1 << 16];
    for _ in 0..memory / block.len() {
        input.write_all(&block)?;
    }
    Ok(())
}

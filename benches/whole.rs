//! What a lock costs from outside: `redlock run --key K -- true` as a whole process on five loopback
//! nodes, beside `true`, `flock f true` and a floor of plain sockets (`benches/floor.rs`), in turn
//! within the same minute, since only ratios survive a change of machine. The same on five nodes that
//! speak TLS, with a CA of our own. Then what redlock weighs while it holds, and
//! on the disk: a plain list pays nothing for TLS but its bytes there.
//!
//! `make bench` runs it. It is never a test: a number above its target is printed as `over`.
//! `cargo bench --bench whole -- ROUNDS` sets how often (300).

#[path = "support/report.rs"]
#[expect(dead_code, reason = "what all benches share; here nothing is waited for")]
mod report;
#[allow(dead_code, clippy::unwrap_used, reason = "a harness of the tests, which need more of it")]
#[path = "../tests/harness/tls.rs"]
mod tls;

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use redlock::commands::sandbox::servers::Fleet;

use self::report::{Outcome, verdict};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");

/// Runs that are made and not counted: page cache, CPU frequency, the servers' first connections.
const WARM_UP: usize = 20;

/// Targets: the ratio of the medians to flock's and to the floor's, that of TLS to none, bytes while
/// holding, bytes on the disk.
const TO_FLOCK: f64 = 1.5;
const TO_FLOOR: f64 = 1.2;
const TO_PLAIN: f64 = 3.0;
const RESIDENT: u64 = 3_500_000;
const RESIDENT_TLS: u64 = 6_000_000;
const BINARY: u64 = 3_000_000;

fn main() -> ExitCode {
    report::end(bench())
}

fn bench() -> Outcome<String> {
    // Cargo adds `--bench`.
    let rounds = env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(300);
    let fleet = Fleet::start(5)?;
    let plain = vec![("REDLOCK_NODES", fleet.nodes())];
    let authority = tls::Authority::new();
    let servers = authority.fleet(5);
    let ca = path(&authority.ca())?.to_owned();
    let secure = vec![("REDLOCK_NODES", tls::list(&servers)), ("REDLOCK_TLS_CA", ca)];
    let floor = floor()?;
    let lock_file = env::temp_dir().join(format!("redlock-bench-{}", std::process::id()));
    let run = ["run", "--key", "b", "--", "true"];
    let mut subjects = [
        Subject::new("true", &plain, "true", &[]),
        Subject::new("flock f true", &plain, "flock", &[path(&lock_file)?, "true"]),
        Subject::new("floor (plain sockets)", &plain, path(&floor)?, &["b", "true"]),
        Subject::new("redlock run", &plain, REDLOCK, &run),
        Subject::new("redlock run over TLS", &secure, REDLOCK, &run),
    ];
    for round in 0..WARM_UP + rounds {
        for subject in &mut subjects {
            let took = time(&mut subject.command())?;
            if round >= WARM_UP {
                subject.times.push(took);
            }
        }
    }
    let residents = [resident(&plain)?, resident(&secure)?];
    // The file may never have been there, if flock is not.
    let _ = fs::remove_file(&lock_file);
    report(&mut subjects, rounds, &residents)
}

/// The floor program lies where Cargo puts examples.
fn floor() -> Outcome<PathBuf> {
    let place = Path::new(REDLOCK).parent().ok_or("no directory")?;
    let floor = place.join("examples/floor");
    if floor.exists() {
        Ok(floor)
    } else {
        let name = floor.display();
        Err(format!("no {name}: run `cargo build --release --example floor` or `make bench`")
            .into())
    }
}

fn path(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| format!("{} is no text", path.display()).into())
}

/// The variables that say which nodes there are and how to reach them.
type Nodes = Vec<(&'static str, String)>;

/// Something that is timed.
struct Subject<'a> {
    name: &'static str,
    nodes: &'a Nodes,
    program: &'a str,
    arguments: Vec<&'a str>,
    times: Vec<Duration>,
}

impl<'a> Subject<'a> {
    fn new(name: &'static str, nodes: &'a Nodes, program: &'a str, arguments: &[&'a str]) -> Self {
        Self { name, nodes, program, arguments: arguments.to_vec(), times: Vec::new() }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.arguments);
        with_nodes(&mut command, self.nodes);
        command
    }

    /// The time that `share` of the runs did not exceed. The times are sorted.
    fn quantile(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a few hundred runs"
        )]
        let place = (self.times.len().saturating_sub(1) as f64 * share).round() as usize;
        self.times.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

fn with_nodes(command: &mut Command, nodes: &Nodes) {
    command
        .envs(nodes.iter().map(|(name, value)| (name, value)))
        .env("REDLOCK_RESTART_GUARD", "off")
        .env("REDLOCK_CONFIG", "/dev/null")
        .stdin(Stdio::null());
}

fn time(command: &mut Command) -> Outcome<Duration> {
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    let took = start.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Memory in bytes.
struct Resident {
    now: u64,
    most: u64,
}

/// What redlock takes while its command sleeps, a few extensions into the hold.
fn resident(nodes: &Nodes) -> Outcome<Resident> {
    let mut command = Command::new(REDLOCK);
    command.args(["run", "--key", "b", "--ttl", "600ms", "--", "sleep", "2"]);
    with_nodes(&mut command, nodes);
    let mut child = command.spawn()?;
    thread::sleep(Duration::from_secs(1));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim_end_matches("kB").trim().parse().ok()?;
        Some(kib * 1024)
    };
    let resident = field("VmRSS:").zip(field("VmHWM:"));
    child.wait()?;
    let (now, most) = resident.ok_or("no VmRSS in /proc/PID/status")?;
    Ok(Resident { now, most })
}

fn report(subjects: &mut [Subject], rounds: usize, residents: &[Resident; 2]) -> Outcome<String> {
    let mut text = format!("{rounds} runs each, in turn, after {WARM_UP} to warm up\n\n");
    writeln!(text, "{:<24} {:>10} {:>10}", "", "median ms", "p95 ms")?;
    for subject in &mut *subjects {
        subject.times.sort_unstable();
        let (median, p95) = (subject.quantile(0.5), subject.quantile(0.95));
        writeln!(text, "{:<24} {median:>10.2} {p95:>10.2}", subject.name)?;
    }
    let [_, flock, floor, redlock, secure] = subjects else {
        return Err("five subjects".into());
    };
    writeln!(text)?;
    for (one, peer, target) in
        [(&*redlock, &*flock, TO_FLOCK), (redlock, floor, TO_FLOOR), (secure, redlock, TO_PLAIN)]
    {
        let ratio = one.quantile(0.5) / peer.quantile(0.5);
        let name = format!("{} / {}", one.name.trim_start_matches("redlock "), peer.name);
        let verdict = verdict(ratio <= target);
        writeln!(text, "{name:<34} {ratio:>8.2} x   at most {target:.1} x   {verdict}")?;
    }
    let mut weigh = |name: &str, bytes: u64, most: u64| {
        #[expect(clippy::cast_precision_loss, reason = "megabytes")]
        let [have, target] = [bytes, most].map(|bytes| bytes as f64 / 1e6);
        let verdict = verdict(bytes <= most);
        writeln!(text, "{name:<34} {have:>8.2} MB  at most {target:.1} MB  {verdict}")
    };
    let [plain, secure] = residents;
    weigh("resident while holding", plain.now, RESIDENT)?;
    weigh("resident at most", plain.most, RESIDENT)?;
    weigh("resident while holding over TLS", secure.now, RESIDENT_TLS)?;
    weigh("binary", fs::metadata(REDLOCK)?.len(), BINARY)?;
    Ok(text)
}

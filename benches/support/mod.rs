//! The actors of the hand-over bench: the fleet, the processes, and what they wrote down.

mod report;

use std::{
    env, fs,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlock::commands::sandbox::servers::Fleet;

pub use self::report::{Outcome, end, eventually, verdict};
use crate::proxy::{Mode, Proxy};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");
const KEY: &str = "b";
/// Times in ms.
pub struct Stats {
    pub median: f64,
    pub p95: f64,
    pub worst: f64,
}

pub fn quantiles(mut times: Vec<f64>) -> Stats {
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| {
        times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
    };
    Stats { median: at(50), p95: at(95), worst: at(100) }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn ms(ns: u128) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a bench's run")]
    let ns = ns as f64;
    ns / 1e6
}

/// The command under the lock: works for so many ms, or until a file of that name is there, and
/// appends when it began and when it ended.
pub fn stamp(file: &str, until: &str) -> Outcome<()> {
    let start = now_ns();
    match until.parse() {
        Ok(0) => {}
        Ok(millis) => thread::sleep(Duration::from_millis(millis)),
        Err(_) => eventually("go", || Path::new(until).exists()),
    }
    let line = format!("{start} {}\n", now_ns());
    let mut file = File::options().append(true).create(true).open(file)?;
    Ok(file.write_all(line.as_bytes())?)
}

/// Waits with many others until the gate file is unlocked, then becomes the program.
pub fn gate(words: &[&str]) -> Outcome<()> {
    let [gate, program, arguments @ ..] = words else { return Err("gate FILE PROGRAM".into()) };
    let file = File::open(gate)?;
    let mut out = std::io::stdout();
    out.write_all(b"x")?;
    out.flush()?;
    file.lock_shared()?;
    Err(Command::new(program).args(arguments).stdout(Stdio::null()).exec().into())
}

/// Whose lock it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    Redlock,
    Flock,
    /// At this endpoint.
    Etcd(String),
}

impl Peer {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redlock => "redlock",
            Self::Flock => "flock",
            Self::Etcd(_) => "etcdctl",
        }
    }
}

/// An etcd of our own.
pub struct Etcd {
    child: Child,
    endpoint: String,
    _data: tempfile::TempDir,
}

impl Etcd {
    pub fn start() -> Option<Self> {
        let port = || std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok();
        let (client, peer) = (port()?, port()?);
        let data = tempfile::tempdir().ok()?;
        let endpoint = format!("http://{client}");
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        eventually("etcd", || TcpStream::connect(client).is_ok());
        Some(Self { child, endpoint, _data: data })
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where it all happens.
pub struct Scene<'a> {
    fleet: &'a Fleet,
    nodes: String,
    place: tempfile::TempDir,
    this: PathBuf,
}

/// A scene behind proxies.
pub struct Way<'a> {
    pub scene: Scene<'a>,
    _proxies: Vec<Proxy>,
}

/// What came of many starts at once.
pub struct Rush {
    /// How many ran their command.
    pub ran: usize,
    /// From the start to the first command, and to the end of the last, in ms.
    pub first: f64,
    pub drain: f64,
    /// Of all together, per node.
    pub requests: u64,
}

/// Processes that wait for the lock, and who has it.
pub struct Waiting {
    children: Vec<Child>,
}

impl<'a> Scene<'a> {
    pub fn new(fleet: &'a Fleet) -> Outcome<Self> {
        let nodes = fleet.nodes().clone();
        Ok(Self { fleet, nodes, place: tempfile::tempdir()?, this: env::current_exe()? })
    }

    /// The same nodes, so far away.
    pub fn far(&self, trip: Duration) -> Outcome<Way<'a>> {
        let proxies: Vec<Proxy> = self
            .addresses()?
            .into_iter()
            .map(|address| {
                let proxy = Proxy::to(address);
                proxy.set(Mode::Delay(trip / 2));
                proxy
            })
            .collect();
        let nodes: Vec<String> = proxies.iter().map(Proxy::url).collect();
        let scene = Self { nodes: nodes.join(","), ..Self::new(self.fleet)? };
        Ok(Way { scene, _proxies: proxies })
    }

    fn addresses(&self) -> Outcome<Vec<SocketAddr>> {
        let nodes = self.fleet.nodes().clone();
        let plain = |node: &str| node.trim_start_matches("redis://").parse();
        Ok(nodes.split(',').map(plain).collect::<Result<_, _>>()?)
    }

    /// What the first node says to a command.
    fn ask(&self, command: &str) -> Outcome<String> {
        let first = self.addresses()?[0];
        let mut stream = TcpStream::connect(first)?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    fn waiters(&self) -> Outcome<usize> {
        let text = self.ask(&format!("PUBSUB NUMSUB redlock:released:{KEY}"))?;
        let count = text.lines().find_map(|line| line.strip_prefix(':')?.parse().ok());
        Ok(count.unwrap_or(0))
    }

    /// Requests of runs that one node has executed so far, on average.
    pub fn requests(&self) -> Outcome<u64> {
        let text = self.ask("INFO commandstats")?;
        let count = |name: &str| -> u64 {
            let name = format!("cmdstat_{name}:calls=");
            let found = text.lines().find_map(|line| line.strip_prefix(&name));
            found.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        Ok(count("eval"))
    }

    fn file(&self, name: &str) -> Outcome<String> {
        let path = self.place.path().join(name);
        Ok(path.to_str().ok_or("the directory is no text")?.to_owned())
    }

    /// A process that takes the lock and works.
    fn locked(&self, peer: &Peer, flags: &[&str], until: &str) -> Outcome<Vec<String>> {
        let lock: Vec<String> = match peer {
            Peer::Redlock => [REDLOCK, "run", "-q", "--key", KEY]
                .iter()
                .chain(flags)
                .chain(&["--"])
                .map(ToString::to_string)
                .collect(),
            Peer::Flock => vec!["flock".into(), self.file("lock")?],
            Peer::Etcd(endpoint) => {
                vec!["etcdctl".into(), format!("--endpoints={endpoint}"), "lock".into(), KEY.into()]
            }
        };
        let this = self.this.to_str().ok_or("the program is no text")?.to_owned();
        let work = [this, "stamp".into(), self.file("stamps")?, until.to_owned()];
        Ok(lock.into_iter().chain(work).collect())
    }

    fn spawn(&self, words: &[String]) -> Outcome<Child> {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("REDLOCK_NODES", &self.nodes)
            .env("REDLOCK_RESTART_GUARD", "off")
            .env("REDLOCK_CONFIG", "/dev/null")
            .env("ETCDCTL_API", "3")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(command.spawn().map_err(|error| format!("{}: {error}", words[0]))?)
    }

    /// What the commands wrote down, in order.
    fn stamps(&self) -> Outcome<Vec<(u128, u128)>> {
        let text = fs::read_to_string(self.file("stamps")?).unwrap_or_default();
        let line = |line: &str| -> Option<(u128, u128)> {
            let (start, end) = line.split_once(' ')?;
            Some((start.parse().ok()?, end.parse().ok()?))
        };
        let mut stamps: Vec<_> = text.lines().filter_map(line).collect();
        stamps.sort_unstable();
        Ok(stamps)
    }

    fn clear(&self) -> Outcome<()> {
        for name in ["stamps", "go"] {
            let _ = fs::remove_file(self.file(name)?);
        }
        File::create(self.file("gate")?)?;
        Ok(())
    }

    /// The gaps between the commands of a holder and `waiters`, and the time from the end of the
    /// holder's command to the end of the last, in ms.
    pub fn hand_over(&self, peer: &Peer, waiters: usize, work: u64) -> Outcome<(Vec<f64>, f64)> {
        self.clear()?;
        let go = self.file("go")?;
        let mut children = vec![self.spawn(&self.locked(peer, &[], &go)?)?];
        thread::sleep(Duration::from_millis(if *peer == Peer::Redlock { 20 } else { 60 }));
        if *peer == Peer::Redlock {
            // Over a long way the lock has to be there first.
            eventually("the holder", || {
                self.ask(&format!("EXISTS {KEY}")).is_ok_and(|t| t.starts_with(":1"))
            });
        }
        for _ in 0..waiters {
            children.push(self.spawn(&self.locked(peer, &[], &work.to_string())?)?);
        }
        if *peer == Peer::Redlock {
            eventually("waiters", || self.waiters().is_ok_and(|count| count >= waiters));
        }
        // Whoever has just begun to listen looks once more.
        thread::sleep(Duration::from_millis(100 + 4 * waiters as u64));
        File::create(&go)?;
        for child in &mut children {
            child.wait()?;
        }
        let stamps = self.stamps()?;
        if stamps.len() != waiters + 1 {
            return Err(format!("{} of {} commands ran", stamps.len(), waiters + 1).into());
        }
        let gap = |pair: &[(u128, u128)]| ms(pair[1].0.saturating_sub(pair[0].1));
        let gaps = stamps.windows(2).map(gap).collect();
        Ok((gaps, ms(stamps[waiters].1 - stamps[0].1)))
    }

    /// Starts `count` runs in the same instant.
    pub fn rush(&self, count: usize, flags: &[&str], work: Duration) -> Outcome<Rush> {
        self.clear()?;
        let before = self.requests()?;
        let gate = self.file("gate")?;
        let lock = File::open(&gate)?;
        lock.lock()?;
        let this = self.this.to_str().ok_or("the program is no text")?;
        let mut words = vec![this.to_owned(), "gate".into(), gate];
        words.extend(self.locked(&Peer::Redlock, flags, &work.as_millis().to_string())?);
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(self.spawn(&words)?);
        }
        for child in &mut children {
            let out = child.stdout.as_mut().ok_or("no output")?;
            out.read_exact(&mut [0])?;
        }
        let start = now_ns();
        lock.unlock()?;
        for child in &mut children {
            child.wait()?;
        }
        let stamps = self.stamps()?;
        let first = stamps.first().map_or(f64::NAN, |(first, _)| ms(first.saturating_sub(start)));
        let last = stamps.iter().map(|(_, end)| *end).max().unwrap_or(start);
        let drain = ms(last.saturating_sub(start));
        Ok(Rush { ran: stamps.len(), first, drain, requests: self.requests()? - before })
    }

    /// A holder, and `count` who wait for it and listen.
    pub fn wait(&self, count: usize) -> Outcome<Waiting> {
        self.clear()?;
        let words = self.locked(&Peer::Redlock, &[], &self.file("go")?)?;
        let mut children = vec![self.spawn(&words)?];
        eventually("the holder", || {
            self.ask(&format!("EXISTS {KEY}")).is_ok_and(|text| text.starts_with(":1"))
        });
        for _ in 0..count {
            children.push(self.spawn(&words)?);
        }
        eventually("waiters", || self.waiters().is_ok_and(|waiters| waiters >= count));
        Ok(Waiting { children })
    }
}

impl Waiting {
    /// Bytes per waiter.
    pub fn resident(&self) -> Outcome<u64> {
        let mut sum = 0;
        for child in &self.children[1..] {
            let file = BufReader::new(File::open(format!("/proc/{}/status", child.id()))?);
            let lines = file.lines().map_while(Result::ok);
            let kib = lines.into_iter().find_map(|line| {
                line.strip_prefix("VmRSS:")?
                    .trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<u64>()
                    .ok()
            });
            sum += kib.ok_or("no VmRSS")? * 1024;
        }
        Ok(sum / (self.children.len() as u64 - 1))
    }

    /// Waiters first: nobody shall take over.
    pub fn end(self) -> Outcome<()> {
        let mut children = self.children;
        while let Some(mut child) = children.pop() {
            let pid = i32::try_from(child.id())?;
            let pid = rustix::process::Pid::from_raw(pid).ok_or("no pid")?;
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            if children.is_empty() {
                child.wait()?;
            } else {
                thread::spawn(move || child.wait());
            }
        }
        Ok(())
    }
}

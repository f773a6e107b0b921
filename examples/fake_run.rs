//! `redlock run` with a lock that is only pretended, for the tests of everything between the
//! command and the operating system (tests/supervision.rs). The lock lives in a directory: the file
//! `held` is there while it is held; a test makes `frozen` (no extension succeeds), `stolen` (a
//! definite loss), `busy` (held by somebody else) or `slow` (no answer yet) to change its fate.
//!
//! usage: `fake_run` DIRECTORY [NAME=VALUE]... -- COMMAND [ARG]...
#![expect(clippy::print_stderr, reason = "this is a main of its own")]

use std::{
    env,
    ffi::OsString,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use redlock::{
    child::{self, GroupChoice},
    clock::{BootClock, Clock},
    exit::Exit,
    protocol::{Denial, Event, Limits, NodeView, Timing, Token, Ttl, Verdict},
    run::{Lock, run},
    settings::{Conflict, Facts, GuardianChoice, Leftover, ParentDeath, RunPlan},
    ui::{Notice, OnLost, Say},
    wake::Sender,
};

struct Stderr;

impl Say for Stderr {
    fn say(&mut self, notice: Notice) {
        let _ = writeln!(io::stderr(), "redlock: {notice:?}");
    }
}

enum Order {
    Stop,
    Extend,
}

struct Fake(mpsc::Sender<Order>);

impl Lock for Fake {
    fn stop(&mut self) {
        let _ = self.0.send(Order::Stop);
    }

    fn extend(&mut self) {
        let _ = self.0.send(Order::Extend);
    }
}

fn start(dir: &Path, timing: Timing, events: Sender<Event>) -> io::Result<Fake> {
    let (orders, inbox) = mpsc::channel();
    let dir = dir.to_owned();
    thread::Builder::new().spawn(move || live(&dir, timing, &events, &inbox))?;
    Ok(Fake(orders))
}

/// The pretended lock's life.
fn live(dir: &Path, timing: Timing, events: &Sender<Event>, orders: &mpsc::Receiver<Order>) {
    let is = |name: &str| dir.join(name).exists();
    let held = dir.join("held");
    let settle = || {
        let released = dir.join("released");
        if held.exists() {
            let _ = fs::rename(&held, released);
        }
        events.send(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO });
    };
    let first_look = BootClock.now();
    while is("slow") {
        match orders.recv_timeout(Duration::from_millis(2)) {
            Ok(Order::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => return settle(),
            _ => {}
        }
    }
    if is("busy") {
        events.send(Event::Denied(Denial {
            verdict: Verdict::Held,
            nodes: vec![NodeView::Free],
            waited: Duration::ZERO,
        }));
        return settle();
    }
    let validity = |from| BootClock::now(&from).after(timing.ttl).before(timing.drift);
    let mut until = validity(BootClock);
    let _ = fs::write(&held, "");
    events.send(Event::Acquired {
        token: Token::from_random(u128::from(std::process::id())),
        validity: until,
        nodes: 1,
        waited: BootClock.now().since(first_look),
    });
    let mut next = BootClock.now().after(timing.every);
    let mut lost = false;
    loop {
        let order = orders.recv_timeout(Duration::from_millis(2));
        let now = BootClock.now();
        match order {
            Ok(Order::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                if is("frozen") {
                    thread::sleep(Duration::from_secs(60));
                }
                return settle();
            }
            Ok(Order::Extend) => next = now,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if is("stolen") && !lost {
            lost = true;
            events.send(Event::Lost(vec![NodeView::Free]));
        }
        // As the real lock: past its end it is dead for ever.
        if now >= next && now < until && !lost && !is("frozen") {
            next = now.after(timing.every);
            until = validity(BootClock);
            events.send(Event::Validity(until));
        }
    }
}

fn duration(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap_or_default()
}

fn main() {
    let mut args = env::args_os().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_default());
    let mut limits = Limits::default();
    let mut ttl = Duration::from_secs(3);
    let mut plan = RunPlan {
        command: Vec::new(),
        facts: Facts {
            keys: vec![b"k".to_vec()],
            run: Token::from_random(rand()).to_string(),
            ..Facts::default()
        },
        timing: timing(ttl, &limits),
        group: GroupChoice::Auto,
        on_lost: OnLost::Kill,
        leftover: Leftover::Wait,
        max_runtime: None,
        kill_after: None,
        max_stopped: None,
        heartbeat: Some(Duration::from_secs(30)),
        guardian: GuardianChoice::On,
        parent_death: ParentDeath::Ignore,
        conflict: Conflict::Exit(75),
    };
    for arg in args.by_ref() {
        let arg = arg.to_string_lossy();
        let (name, value) = arg.split_once('=').unwrap_or((&arg, ""));
        match (name, value) {
            ("--", _) => break,
            ("ttl", _) => ttl = duration(value),
            ("grace", _) => limits.grace = Some(duration(value)),
            ("margin", _) => limits.margin = Some(duration(value)),
            ("max-runtime", _) => plan.max_runtime = Some(duration(value)),
            ("kill-after", _) => plan.kill_after = Some(duration(value)),
            ("max-stopped", _) => plan.max_stopped = Some(duration(value)),
            ("leftover", "kill") => plan.leftover = Leftover::Kill,
            ("leftover", "ignore") => plan.leftover = Leftover::Ignore,
            ("on-lost", "term") => plan.on_lost = OnLost::Term,
            ("on-lost", "continue") => plan.on_lost = OnLost::Continue,
            ("group", "own") => plan.group = GroupChoice::Own,
            ("group", "shared") => plan.group = GroupChoice::Shared,
            ("group", "handover") => plan.group = GroupChoice::Handover,
            ("guardian", "off") => plan.guardian = GuardianChoice::Off,
            ("die-with-parent", _) => plan.parent_death = ParentDeath::Terminate,
            _ => eprintln!("fake_run: what is {arg}?"),
        }
    }
    plan.timing = timing(ttl, &limits);
    plan.facts.ttl = ttl;
    plan.command = args.collect::<Vec<OsString>>();
    let exit = run(&plan, |events| start(&dir, plan.timing, events), &mut Stderr);
    let status = match exit {
        Exit::Status(status) => status,
        Exit::Signal(signal) => child::die_of(signal),
    };
    std::process::exit(status.into());
}

fn timing(ttl: Duration, limits: &Limits) -> Timing {
    let ttl = Ttl::new(ttl, Ttl::DEFAULT_MAX).unwrap_or_else(|error| panic!("{error}"));
    Timing::new(ttl, limits).unwrap_or_else(|error| panic!("{error}"))
}

fn rand() -> u128 {
    let mut bytes = [0; 16];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u128::from_ne_bytes(bytes)
}

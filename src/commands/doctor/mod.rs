//! `redlock doctor`: can these nodes keep the lock's promise, and what would mend it if not?

mod checks;
mod facts;

use std::{
    fmt::Write as _,
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};
use serde_json::json;
use uuid::Uuid;

use self::{
    checks::{Finding, Gravity, Patient, Verdict, verdict},
    facts::Facts,
};
use super::{extend::fail, status::report::Maker, talk};
use crate::{
    clock::{BootClock, Clock as _},
    duration::show,
    exit::{Code, Exit},
    node,
    protocol::{Cell, Census, Found, Key, State, Token, Wanted, lasts, quorum},
    settings::{DoctorSettings, Target, Warning},
    signal,
    ui::{self, Hue, Progress},
    wake::{self, Receiver},
};

/// Between two looks of `--wait`.
const PAUSE: Duration = Duration::from_millis(500);

/// The version of the JSON.
const VERSION: u32 = 1;

/// Carries it out.
pub fn run(settings: &DoctorSettings) -> Exit {
    match settings.wait.map_or_else(|| examine(settings).map(Some), |limit| wait(settings, limit)) {
        Ok(Some(report)) => say(settings, &report),
        Ok(None) => Exit::Signal(libc::SIGINT),
        Err(error) => fail(Code::Failure, &error.to_string()),
    }
}

/// What an examination brought to light.
struct Report {
    probe: String,
    facts: Vec<Facts>,
    findings: Vec<Finding>,
    voters: Vec<bool>,
    /// Locks that are held and not on all nodes.
    thin: u64,
}

impl Report {
    fn votes(&self) -> usize {
        self.voters.iter().filter(|votes| **votes).count()
    }

    /// Whether every node votes and every held lock is on all of them.
    fn is_whole(&self) -> bool {
        self.votes() == self.voters.len() && self.thin == 0
    }
}

fn examine(settings: &DoctorSettings) -> io::Result<Report> {
    let target = &settings.target;
    let id = Uuid::new_v4();
    let probe = Key::probe(&target.prefix, &id.to_string());
    let token = Token::from_random(id.as_u128());
    let full = String::from_utf8_lossy(probe.on_node()).into_owned();
    let channel = String::from_utf8_lossy(&probe.released_channel()).into_owned();
    let rounds = facts::questions(token, &full, &channel);
    let keys = std::slice::from_ref(&probe);
    let said = talk::interview(&target.fleet, keys, target.timing, &rounds)?;
    let facts: Vec<Facts> = said.iter().map(Facts::of).collect();
    let locks = locks(target)?;
    let patient = Patient {
        fleet: &target.fleet,
        names: &target.names,
        prefix: &target.prefix,
        node_timeout: target.timing.node_timeout,
        guard: target.guard.with(locks.longest),
        wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        facts: &facts,
    };
    let mut findings = patient.examine();
    let voters = patient.voters(&findings);
    findings.extend(locks.foreign_lists());
    findings.extend(target.warnings.iter().map(exposed));
    Ok(Report { probe: full, facts, findings, voters, thin: locks.thin })
}

/// What the doctor wants to know of the locks there are.
#[derive(Default)]
struct Locks {
    /// How many are held and not on all nodes.
    thin: u64,
    /// How many were taken with another list, and some of them.
    foreign: u64,
    examples: Vec<String>,
    /// The longest that any of them lasts.
    longest: Duration,
}

impl Locks {
    fn foreign_lists(&self) -> Option<Finding> {
        (self.foreign > 0).then(|| Finding {
            gravity: Gravity::Warning,
            check: "other-list",
            nodes: Vec::new(),
            what: format!(
                "{} taken with another list of nodes, db or prefix: {}",
                if self.foreign == 1 {
                    "1 lock was".into()
                } else {
                    format!("{} locks were", self.foreign)
                },
                self.examples.join(", ")
            ),
            endangers: "these locks: two lists may have a quorum each".into(),
            mend: "use the same list everywhere; change it by one node at a time".into(),
        })
    }
}

/// A secret that is none.
fn exposed(warning: &Warning) -> Finding {
    Finding {
        gravity: Gravity::Warning,
        check: warning.check(),
        nodes: Vec::new(),
        what: warning.what(),
        endangers: warning.endangers().into(),
        mend: warning.mend(),
    }
}

fn locks(target: &Target) -> io::Result<Locks> {
    let census =
        Census::new(target.names.len(), target.timing, target.prefix.clone(), Wanted::Ours);
    let (events, news) = wake::channel()?;
    let walk = node::start(target.fleet.clone(), census, &[], events)?;
    walk.begin();
    let maker = Maker::new(target);
    let mut found = Locks::default();
    loop {
        match talk::next(&news)? {
            Found::Nodes(_) => {}
            Found::Page { locks, .. } => {
                for lock in &locks {
                    let row = maker.lock(lock);
                    found.thin += u64::from(lock.state() == State::Held && row.on < row.of);
                    for cell in &lock.cells {
                        if let Cell::Taken { occupant, expires_in } = cell {
                            found.longest = found.longest.max(lasts(occupant, *expires_in));
                        }
                    }
                    let Some(holder) = &row.holder else { continue };
                    if holder.other_list {
                        found.foreign += 1;
                        if found.examples.len() < 3 {
                            let (key, host, pid) = (&row.key, &holder.host, holder.pid);
                            found.examples.push(format!("'{key}' by {host} pid {pid}"));
                        }
                    }
                }
                walk.more();
            }
            Found::End { .. } => return Ok(found),
        }
    }
}

/// Examines again and again until all is whole, or the time is over; none when interrupted.
fn wait(settings: &DoctorSettings, limit: Duration) -> io::Result<Option<Report>> {
    let interrupts = signal::on_interrupt()?;
    let until = BootClock.now().after(limit);
    let mut progress = Progress::default();
    loop {
        let report = examine(settings)?;
        let left = until.since(BootClock.now());
        if report.is_whole() || left.is_zero() {
            return Ok(Some(report));
        }
        progress.show(&format!(
            "{} of {} nodes vote, {} locks are not on all nodes; waiting for {} more",
            report.votes(),
            report.voters.len(),
            report.thin,
            show(left)
        ));
        if pause(&interrupts, PAUSE.min(left))? {
            return Ok(None);
        }
    }
}

/// Sleeps; whether it was interrupted.
fn pause(interrupts: &Receiver<()>, time: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(interrupts, PollFlags::IN)];
    let timeout = Timespec::try_from(time).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// How it ends: the code, and the last line.
fn end(settings: &DoctorSettings, report: &Report) -> (Code, String) {
    let all = report.voters.len();
    let (votes, needed) = (report.votes(), quorum(all));
    let warnings = report.findings.len();
    let missing = votes < all;
    let counted = match warnings {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    match verdict(&report.findings, &report.facts, votes) {
        Verdict::WrongList => {
            (Code::Config, "the list breaks the premises of Redlock: mend it first".to_owned())
        }
        Verdict::Refused => (
            Code::Refused,
            format!("no quorum for want of rights: {votes} of {all} nodes vote, {needed} needed"),
        ),
        Verdict::NoQuorum => {
            (Code::Unavailable, format!("no quorum: {votes} of {all} nodes vote, {needed} needed"))
        }
        _ if settings.wait.is_some() && !report.is_whole() => (
            Code::Unavailable,
            format!(
                "not whole in time: {votes} of {all} nodes vote, {} locks are not on all nodes",
                report.thin
            ),
        ),
        Verdict::Sound if !missing => {
            (Code::Success, format!("all {all} nodes vote, nothing was found"))
        }
        Verdict::Sound | Verdict::Warned if settings.strict => {
            (Code::Warning, format!("{counted} (--strict); {votes} of {all} nodes vote"))
        }
        Verdict::Sound | Verdict::Warned => {
            (Code::Success, format!("the lock works, {votes} of {all} nodes vote; {counted}"))
        }
    }
}

fn say(settings: &DoctorSettings, report: &Report) -> Exit {
    let (code, text) = end(settings, report);
    let body = if settings.json {
        as_json(settings, report, code, &text)
    } else {
        as_text(settings, report, code, &text)
    };
    if let Err(error) = ui::deliver(&body) {
        return fail(Code::Failure, &format!("cannot write to standard output: {error}"));
    }
    match code {
        Code::Success => code.into(),
        _ => fail(code, &text),
    }
}

fn as_text(settings: &DoctorSettings, report: &Report, code: Code, verdict: &str) -> String {
    let target = &settings.target;
    let all = target.names.len();
    let mut text = format!(
        "{all} nodes from {}, a quorum is {}; rights were tried with the key {}, which is removed \
         again\n",
        ui::clean(&target.source.to_string()),
        quorum(all),
        ui::clean(&report.probe)
    );
    let paint = |hue, word| settings.palette.paint(Some(hue), word);
    let mut line = |before: &str, word: &str, behind: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{word}{}", ui::clean(before), ui::clean(behind));
    };
    for ((name, facts), votes) in target.names.iter().zip(&report.facts).zip(&report.voters) {
        let (hue, votes) = if *votes { (Hue::Good, "votes") } else { (Hue::Bad, "does not vote") };
        let version = facts.version().map_or_else(String::new, |version| format!(", {version}"));
        let latency = facts.latency.map_or_else(String::new, |time| {
            format!(", answers in {:.1}ms", time.as_secs_f64() * 1000.0)
        });
        line(&format!("{name}: "), &paint(hue, votes), &format!("{version}{latency}"));
    }
    for Finding { gravity, nodes, what, endangers, mend, .. } in &report.findings {
        let (hue, word) = match gravity {
            Gravity::Warning => (Hue::Warning, "warning"),
            Gravity::Node => (Hue::Bad, "no vote"),
            Gravity::List => (Hue::Bad, "wrong list"),
        };
        let place =
            if nodes.is_empty() { String::new() } else { format!("{}: ", nodes.join(", ")) };
        let finding = format!(": {place}{what}; endangers {endangers}; to mend it: {mend}");
        line("", &paint(hue, word), &finding);
    }
    let hue = match code {
        Code::Success if report.findings.is_empty() => Hue::Good,
        Code::Success | Code::Warning => Hue::Warning,
        _ => Hue::Bad,
    };
    line("", &paint(hue, "verdict"), &format!(": {verdict}"));
    text
}

fn as_json(settings: &DoctorSettings, report: &Report, code: Code, verdict: &str) -> String {
    let target = &settings.target;
    let nodes = target.names.iter().zip(&report.facts).zip(&report.voters);
    let nodes: Vec<_> = nodes
        .map(|((name, facts), votes)| {
            json!({
                "node": name,
                "votes": votes,
                "role": facts.field("role"),
                "version": facts.version(),
                "uptime_s": facts.number("uptime_in_seconds"),
                "latency_ms": facts.latency.map(|time| (time.as_secs_f64() * 100_000.0).round() / 100.0),
                "user": facts.user,
                "certificate_ends": facts.certificate_ends.map(|ends| {
                    humantime::format_rfc3339_seconds(UNIX_EPOCH + ends).to_string()
                }),
            })
        })
        .collect();
    let object = json!({
        "v": VERSION,
        "source": target.source.to_string(),
        "quorum": quorum(target.names.len()),
        "probe_key": report.probe,
        "nodes": nodes,
        "findings": report.findings,
        "locks_not_on_all_nodes": report.thin,
        "verdict": verdict,
        "exit": code.number(),
    });
    format!("{}\n", ui::json(&object.to_string()))
}

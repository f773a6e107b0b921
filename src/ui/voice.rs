//! What a run says, and when: success is silent, waiting talks, errors are always said.

use std::time::{Duration, SystemTime};

use super::{
    denial, exit_line, line,
    notice::{EndedBy, Notice, OnLost, Process, Reason, Say},
};
use crate::{
    clock::{BootClock, Clock, Tick},
    duration::show,
    protocol::{Denial, NodeView, Note, Verdict, quorum},
};

/// What a run is about, for people.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The lock's name (several: joined by a comma).
    pub key: String,
    /// The nodes as they are written, in canonical order.
    pub nodes: Vec<String>,
    /// How the wait ends, for the line that announces it.
    pub patience: String,
}

/// How much is said.
#[derive(Clone, Copy, Debug)]
pub struct Tone {
    /// Nothing about waiting or a busy lock.
    pub quiet: bool,
    /// 0; 1 with `-v`: acquisitions, extensions, warnings; 2 with `-vv`: nodes.
    pub verbosity: u8,
    /// Standard error is a terminal: warnings are said.
    pub terminal: bool,
}

/// The voice of a run.
#[derive(Debug)]
pub struct Voice {
    subject: Subject,
    tone: Tone,
    /// When the next line about waiting is due, and the pause after it.
    heartbeat: Option<(Tick, Duration)>,
}

/// The pause between the first and the second line about waiting; it doubles.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Lines about waiting are at most so far apart.
const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(300);

impl Voice {
    /// A voice that has not said anything.
    pub fn new(subject: Subject, tone: Tone) -> Self {
        Self { subject, tone, heartbeat: None }
    }

    fn detail(&self, text: &str) {
        if self.tone.verbosity > 0 {
            line(text);
        }
    }

    fn warning(&self, text: &str) {
        if self.tone.verbosity > 0 || self.tone.terminal {
            line(text);
        }
    }

    fn progress(&self, text: &str) {
        if !self.tone.quiet {
            line(text);
        }
    }

    fn key(&self) -> &str {
        &self.subject.key
    }

    fn denial(&self, denial: &Denial) -> String {
        denial::sentence(denial, self.key(), &self.subject.nodes, SystemTime::now())
    }

    fn note(&mut self, note: &Note) {
        let all = self.subject.nodes.len();
        match note {
            Note::Waiting(denial) => self.waiting(denial),
            Note::Outage(denial) => {
                if self.heartbeat_is_due() {
                    let text = format!("{}; trying again, {}", self.denial(denial), self.subject.patience);
                    self.progress(&text);
                }
            }
            Note::Recovered => {
                self.heartbeat = None;
                self.progress("a quorum of nodes answers again");
            }
            Note::Acquired { nodes } => {
                self.detail(&format!("'{}' is held on {nodes} of {all} nodes", self.key()));
            }
            Note::Extended { nodes } => {
                self.detail(&format!("extended '{}' on {nodes} of {all} nodes", self.key()));
            }
            Note::ExtensionFailed { nodes } => self.warning(&format!(
                "extension of '{}' reached only {nodes} of {all} nodes, a quorum is {}; trying again",
                self.key(),
                quorum(all)
            )),
        }
    }

    fn waiting(&mut self, denial: &Denial) {
        if self.heartbeat_is_due() {
            let text = self.denial(denial);
            let text = text.strip_prefix(&format!("'{}' is ", self.key())).unwrap_or(&text);
            let patience = &self.subject.patience;
            self.progress(&format!("waiting for '{}': {text}, {patience}", self.key()));
        }
    }

    fn heartbeat_is_due(&mut self) -> bool {
        let now = BootClock.now();
        let (due, pause) = match self.heartbeat {
            None => (now, HEARTBEAT),
            Some((due, pause)) => (due, pause),
        };
        if now < due {
            return false;
        }
        self.heartbeat = Some((now.after(pause), (pause * 2).min(SLOWEST_HEARTBEAT)));
        true
    }

    /// The nodes that prove the loss of the lock.
    fn without_lock(&self, views: &[NodeView]) -> String {
        let gone = views.iter().zip(&self.subject.nodes);
        let gone = gone.filter(|(view, _)| matches!(view, NodeView::Held(_) | NodeView::Free));
        gone.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn lost(&self, views: &[NodeView], policy: OnLost) -> String {
        let nodes = self.without_lock(views);
        let next = match policy {
            OnLost::Kill => "the command gets KILL",
            OnLost::Term => "the command gets TERM, and KILL after the grace",
            OnLost::Continue => "the command runs on without a lock (--on-lost continue)",
        };
        format!("lost '{}': {nodes} do not hold it any more; {next}", self.key())
    }

    fn exit(&self, code: u8, reason: &Reason) {
        if let Reason::Denied(denial) = reason {
            let busy = matches!(denial.verdict, Verdict::Held | Verdict::Contended);
            if busy && self.tone.quiet {
                return;
            }
            exit_line(code, &self.denied(denial, busy));
            return;
        }
        exit_line(code, &self.reason(reason));
    }

    fn denied(&self, denial: &Denial, busy: bool) -> String {
        let mut text = self.denial(denial);
        if !denial.waited.is_zero() && denial.waited >= Duration::from_secs(1) {
            text = format!("{text}; gave up after {}", show(denial.waited));
        } else if busy {
            text.push_str("; to wait for it: --wait 10m");
        }
        let forbidden = |view: &NodeView| {
            matches!(view, NodeView::Refused(refusal) if refusal.is_about_rights())
        };
        if !busy && denial.nodes.iter().any(forbidden) {
            text.push_str("; check --username, REDLOCK_PASSWORD and the user's rights on the nodes");
        }
        text
    }

    fn reason(&self, reason: &Reason) -> String {
        let key = self.key();
        match reason {
            Reason::Denied(denial) => self.denial(denial),
            Reason::TooLate { left, needed } => format!(
                "'{key}' was acquired too late: {} of it are left, starting the command needs {}; \
                 raise --ttl",
                show(*left),
                show(*needed)
            ),
            Reason::Lost => format!("'{key}' was lost while the command ran"),
            Reason::RanOut => format!("'{key}' could not be extended in time"),
            Reason::MaxRuntime { limit, by: EndedBy::Term } => {
                format!("the command ran for {} and was ended by TERM (--max-runtime)", show(*limit))
            }
            Reason::MaxRuntime { limit, by: EndedBy::Kill } => {
                format!("the command ran for {} and needed KILL (--max-runtime)", show(*limit))
            }
            Reason::MaxStopped { limit } => format!(
                "the command was stopped for longer than {} and got KILL (--max-stopped)",
                show(*limit)
            ),
            Reason::NotFound { program } => format!("command not found: {program}"),
            Reason::NotExecutable { program, error } => format!("cannot execute {program}: {error}"),
            Reason::Failed { what, error } => format!("cannot {what}: {error}"),
        }
    }
}

/// A signal's name without its SIG.
fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(
        || signal.to_string(),
        |name| name.trim_start_matches("SIG").to_owned(),
    )
}

fn processes(processes: &[Process]) -> String {
    const SHOWN: usize = 8;
    let mut told: Vec<String> =
        processes.iter().take(SHOWN).map(|p| format!("{} ({})", p.pid, p.name)).collect();
    if processes.len() > SHOWN {
        told.push(format!("{} more", processes.len() - SHOWN));
    }
    told.join(", ")
}

impl Say for Voice {
    fn say(&mut self, notice: Notice) {
        match notice {
            Notice::Note(note) => self.note(&note),
            Notice::Acquired { waited, nodes, validity } => {
                let all = self.subject.nodes.len();
                let text = format!(
                    "got '{}' after {} on {nodes} of {all} nodes so far, certain for {}",
                    self.key(),
                    show(waited),
                    show(validity)
                );
                if self.heartbeat.take().is_some() {
                    // Whoever was told about the wait is told about its end.
                    let text = format!("got '{}' after {}", self.key(), show(waited));
                    self.progress(&text);
                } else {
                    self.detail(&text);
                }
            }
            Notice::Cancelled { signal } => {
                self.detail(&format!("{} while waiting: giving up", signal_name(signal)));
            }
            Notice::Ending { left, kill_in } => line(&format!(
                "'{}' cannot be extended and ends in {}: the command gets TERM now, KILL in {}",
                self.key(),
                show(left),
                show(kill_in)
            )),
            Notice::RanOut => {
                line(&format!("'{}' has run out: the command gets KILL", self.key()));
            }
            Notice::Lost { nodes, policy } => line(&self.lost(&nodes, policy)),
            Notice::MaxRuntime { limit, kill_in } => line(&format!(
                "the command has run for {}: TERM now, KILL in {} (--max-runtime)",
                show(limit),
                show(kill_in)
            )),
            Notice::ParentDied { kill_in } => line(&format!(
                "our parent has ended: the command gets TERM now, KILL in {} (--die-with-parent)",
                show(kill_in)
            )),
            Notice::Stopped { signal, since, kill_in } => line(&format!(
                "the command has been stopped by {} for {} and keeps '{}'; it gets KILL in {} \
                 (--max-stopped)",
                signal_name(signal),
                show(since),
                self.key(),
                show(kill_in)
            )),
            Notice::Leftover { processes: left, since } => line(&format!(
                "the command ended {} ago, its descendants did not: '{}' is kept for {} (--leftover)",
                show(since),
                self.key(),
                processes(&left)
            )),
            Notice::EndingLeftover { signal } => {
                let why = signal.map_or("--leftover kill".to_owned(), signal_name);
                self.detail(&format!("{why}: ending the descendants that are left"));
            }
            Notice::CannotSignal { processes: left } => line(&format!(
                "not allowed to signal {}: '{}' is kept until they are gone or it ends; run \
                 redlock with their rights (sudo redlock run ...)",
                processes(&left),
                self.key()
            )),
            Notice::GuardianDied => {
                line("the guardian process is gone: the run goes on without it");
            }
            Notice::NodesGone => line(&format!(
                "the connections to the nodes are gone: '{}' cannot be extended any more",
                self.key()
            )),
            Notice::Untold { nodes, at_most } => {
                let all = &self.subject.nodes;
                let names: Vec<&str> =
                    nodes.iter().filter_map(|n| all.get(n.get()).map(String::as_str)).collect();
                let text = format!(
                    "could not tell {}: '{}' may stay locked there for up to {}",
                    names.join(", "),
                    self.key(),
                    show(at_most)
                );
                // A minority keeps nobody from taking the lock.
                if nodes.len() > all.len() - quorum(all.len()) {
                    line(&text);
                } else {
                    self.warning(&text);
                }
            }
            Notice::NotReleased { at_most } => line(&format!(
                "'{}' could not be given back in time and may stay locked for up to {}",
                self.key(),
                show(at_most)
            )),
            Notice::Exit { code, reason } => self.exit(code, &reason),
        }
    }
}

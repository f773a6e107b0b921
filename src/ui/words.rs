//! The sentences of a run. Pure: what happened goes in, a line comes out.

use std::time::{Duration, SystemTime};

use super::{
    denial::{self, Sought},
    mend,
    notice::{EndedBy, Notice, OnLost, Process, Reason},
};
use crate::{
    duration::show,
    protocol::{Denial, Holder, NodeView, Note, Verdict, quorum},
};

/// So many leftover processes are named.
const NAMED: usize = 8;

/// What a run is about, for people.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The lock's name (several: joined by a comma; of slots: the first's).
    pub key: String,
    /// The keys.
    pub keys: Vec<String>,
    /// What is wanted of them.
    pub sought: Sought,
    /// The nodes as they are written, in canonical order.
    pub nodes: Vec<String>,
    /// Their fingerprint, which holders with the same list have too.
    pub fleet: String,
    /// How the wait ends, for the line that announces it.
    pub patience: String,
    /// How an outage ends, for the line about it.
    pub endurance: String,
    /// How long it lasts at most.
    pub limit: Option<Duration>,
}

impl Subject {
    /// Why the lock could not be had.
    pub(super) fn denial(&self, denial: &Denial, now: SystemTime) -> String {
        let mut text = denial::sentence(denial, (&self.keys, self.sought), &self.nodes, now);
        let elsewhere = |holder: &Holder| !holder.has_list(self.nodes.len(), &self.fleet);
        if let Some(holder) = denial::holders_of(denial).find(elsewhere) {
            let (theirs, ours) = (holder.n, self.nodes.len());
            let count = if usize::from(theirs) == ours {
                String::new()
            } else {
                format!(" ({theirs} nodes, here {ours})")
            };
            text.push_str("; the holder has another list of nodes, db or prefix");
            text.push_str(&count);
            text.push_str(", so that it may not exclude us: see redlock doctor");
        }
        text
    }

    /// What a run waits for.
    pub(super) fn waiting(&self, denial: &Denial, now: SystemTime) -> String {
        let (key, patience) = (&self.key, &self.patience);
        let text = self.denial(denial, now);
        let text = text.strip_prefix(&format!("'{key}' is ")).unwrap_or(&text);
        let text = text.replacen(&format!("slots of '{key}'"), "slots", 1);
        let left = self.limit.filter(|_| denial.waited >= Duration::from_secs(1));
        let left = left.map(|limit| {
            let left = limit.saturating_sub(denial.waited);
            format!(" ({} left)", show(Duration::from_secs(left.as_secs())).replace("0ms", "0s"))
        });
        format!("waiting for '{key}': {text}, {patience}{}", left.unwrap_or_default())
    }

    /// What is known of each node.
    pub(super) fn nodes(&self, views: &[NodeView]) -> Vec<String> {
        let each = self.nodes.iter().zip(views);
        each.map(|(name, view)| format!("{name}: {}", denial::state(view))).collect()
    }

    /// The end of a wait.
    pub(super) fn got(&self, waited: Duration) -> String {
        format!("got '{}' after {}", self.key, show(waited))
    }

    /// The lock, when every node has answered.
    pub(super) fn got_on(&self, nodes: usize, waited: Duration) -> String {
        let (key, all) = (&self.key, self.nodes.len());
        format!("got '{key}' on {nodes} of {all} nodes after {}", show(waited))
    }

    /// The sentence for a notice.
    pub(super) fn sentence(&self, notice: &Notice, now: SystemTime) -> String {
        let key = &self.key;
        match notice {
            Notice::Note(note) => self.note(note, now),
            Notice::Warning(text) => format!("warning: {text}"),
            Notice::Slot(_) => String::new(),
            Notice::Acquired { waited } => self.got(*waited),
            Notice::Cancelled { signal } => {
                format!("{} while waiting for '{key}': giving up", signal_name(*signal))
            }
            Notice::Ending { left, kill_in } => format!(
                "'{key}' cannot be extended and ends in {}: the command gets TERM now, KILL in {}",
                show(*left),
                show(*kill_in)
            ),
            Notice::RanOut => format!("'{key}' has run out: the command gets KILL"),
            Notice::Lost { nodes, policy } => self.lost(nodes, *policy),
            Notice::MaxRuntime { limit, kill_in } => format!(
                "the command has run for {}: TERM now, KILL in {} (--max-runtime)",
                show(*limit),
                show(*kill_in)
            ),
            Notice::ParentDied { kill_in } => format!(
                "our parent has ended: the command gets TERM now, KILL in {} (--die-with-parent)",
                show(*kill_in)
            ),
            Notice::Stopped { signal, since, kill_in } => format!(
                "the command has been stopped by {} for {} and keeps '{key}'; it gets KILL in {} \
                 (--max-stopped)",
                signal_name(*signal),
                show(*since),
                show(*kill_in)
            ),
            Notice::Leftover { processes, since } => format!(
                "the command ended {} ago, its descendants did not: '{key}' is kept for {} \
                 (--leftover)",
                show(*since),
                named(processes)
            ),
            Notice::EndingLeftover { signal } => {
                let why = signal.map_or("--leftover kill".to_owned(), signal_name);
                format!("{why}: ending the descendants that are left")
            }
            Notice::CannotSignal { processes } => format!(
                "not allowed to signal {}: '{key}' is kept until they are gone or it ends; run \
                 redlock with their rights (sudo redlock run ...)",
                named(processes)
            ),
            Notice::GuardianDied => {
                "the guardian process is gone: the run goes on without it".to_owned()
            }
            Notice::NodesGone => format!(
                "the connections to the nodes are gone: '{key}' cannot be extended any more"
            ),
            Notice::Untold { nodes, at_most } => {
                let names = nodes.iter().filter_map(|n| self.nodes.get(n.get()));
                format!(
                    "could not tell {}: '{key}' may stay locked there for up to {}",
                    names.map(String::as_str).collect::<Vec<_>>().join(", "),
                    show(*at_most)
                )
            }
            Notice::NotReleased { at_most } => format!(
                "'{key}' could not be given back in time and may stay locked for up to {}",
                show(*at_most)
            ),
            Notice::Over { held, extensions } => {
                let often = match extensions {
                    0 => String::new(),
                    1 => ", extended once".to_owned(),
                    _ => format!(", extended {extensions} times"),
                };
                format!("let go of '{key}' after {}{often}", show(*held))
            }
            Notice::NotReported { error } => format!("the report was not written: {error}"),
            Notice::Exit { code, reason } => format!("exit {code}: {}", self.reason(reason, now)),
        }
    }

    fn note(&self, note: &Note, now: SystemTime) -> String {
        let (key, all) = (&self.key, self.nodes.len());
        match note {
            Note::Waiting(denial) => self.waiting(denial, now),
            Note::Outage(denial) => {
                format!("{}; trying again, {}", self.denial(denial, now), self.endurance)
            }
            Note::Nodes(_) => String::new(),
            Note::Recovered => "a quorum of nodes answers again".to_owned(),
            Note::Acquired { nodes } => format!("got '{key}' on {nodes} of {all} nodes"),
            Note::Unfit { node, why } => {
                let name = self.nodes.get(node.get()).map_or("a node", String::as_str);
                format!("{name} does not count for '{key}': {}", denial::unfit(*why, &self.nodes))
            }
            Note::Extended { nodes } => format!("extended '{key}' on {nodes} of {all} nodes"),
            Note::ExtensionFailed { nodes } => format!(
                "extension of '{key}' reached only {nodes} of {all} nodes, a quorum is {}; trying \
                 again",
                quorum(all)
            ),
        }
    }

    fn lost(&self, views: &[NodeView], policy: OnLost) -> String {
        let gone = views.iter().zip(&self.nodes);
        let gone = gone.filter(|(view, _)| matches!(view, NodeView::Held(_) | NodeView::Free));
        let names: Vec<&str> = gone.map(|(_, name)| name.as_str()).collect();
        let next = match policy {
            OnLost::Kill => "the command gets KILL",
            OnLost::Term => "the command gets TERM, and KILL after the grace",
            OnLost::Continue => "the command runs on without a lock (--on-lost continue)",
        };
        format!("lost '{}': {} do not hold it any more; {next}", self.key, names.join(", "))
    }

    fn denied(&self, denial: &Denial, now: SystemTime) -> String {
        let mut text = self.denial(denial, now);
        let busy = is_busy(denial);
        if denial.waited >= Duration::from_secs(1) {
            text.push_str("; gave up after ");
            text.push_str(&show(denial.waited));
        } else if busy && frees_itself(denial) {
            text.push_str("; to wait for it: --wait 10m");
        }
        if denial.verdict == Verdict::Unavailable
            && let Some(line) = mend::most(&denial.nodes)
        {
            text.push_str("; to mend it: ");
            text.push_str(line);
        }
        text
    }

    fn reason(&self, reason: &Reason, now: SystemTime) -> String {
        let key = &self.key;
        match reason {
            Reason::Denied(denial) => self.denied(denial, now),
            Reason::TooLate { left, needed } => format!(
                "'{key}' was acquired too late: {} of it are left, starting the command needs {}; \
                 raise --ttl",
                show(*left),
                show(*needed)
            ),
            Reason::Lost => format!("'{key}' was lost while the command ran"),
            Reason::RanOut => format!("'{key}' could not be extended in time"),
            Reason::MaxRuntime { limit, by } => {
                let end = match by {
                    EndedBy::Term => "was ended by TERM",
                    EndedBy::Kill => "needed KILL",
                };
                format!("the command ran for {} and {end} (--max-runtime)", show(*limit))
            }
            Reason::MaxStopped { limit } => format!(
                "the command was stopped for longer than {} and got KILL (--max-stopped)",
                show(*limit)
            ),
            Reason::NotFound { program } if program.contains(' ') => format!(
                "command not found: '{program}'; no shell takes it apart: give each word by itself"
            ),
            Reason::NotFound { program } => format!("command not found: {program}"),
            Reason::NotExecutable { program, error } => {
                format!("cannot execute {program}: {error}")
            }
            Reason::Failed { error } => error.clone(),
        }
    }
}

/// Whether somebody else has the lock, or nobody a quorum.
pub(super) fn is_busy(denial: &Denial) -> bool {
    matches!(denial.verdict, Verdict::Held | Verdict::Contended)
}

/// Whether waiting can help: everything that stands in the way has an expiry.
fn frees_itself(denial: &Denial) -> bool {
    let stays = |view: &NodeView| match view {
        NodeView::Held(obstacles) => obstacles.iter().any(|o| o.expires_in.is_none()),
        _ => false,
    };
    !denial.nodes.iter().any(stays)
}

/// A signal's name without its SIG.
fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| signal.to_string(), |name| name.trim_start_matches("SIG").to_owned())
}

fn named(processes: &[Process]) -> String {
    let told = processes.iter().take(NAMED).map(|p| format!("{} ({})", p.pid, p.name));
    let mut told: Vec<String> = told.collect();
    if processes.len() > NAMED {
        told.push(format!("{} more", processes.len() - NAMED));
    }
    told.join(", ")
}

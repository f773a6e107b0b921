//! What became of a run, in numbers: for `--report`.

use std::time::Duration;

use crate::{
    clock::Tick,
    exit::Exit,
    protocol::{Denial, Event, NodeView, Note, Verdict},
    settings::Conflict,
    ui::Reason,
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The command ran, and the status is its own.
    Ran,
    /// Somebody else has the lock, and nobody wanted to wait.
    Busy,
    /// The wait for somebody else's lock ran out.
    TimedOut,
    /// Somebody else does the work (`--skip`).
    Skipped,
    /// No quorum of nodes could be had, or not in time.
    Unavailable,
    /// The nodes, or we, refuse what only an operator can mend.
    Refused,
    /// The lock was lost while the command ran, or the token does not hold it.
    Lost,
    /// A limit of ours ended the command (`--max-runtime`, `--max-stopped`).
    MaxRuntime,
    /// The command could not be started.
    NotStarted,
    /// A signal ended the wait.
    Cancelled,
}

impl Fate {
    /// The word for it in a report.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Busy => "busy",
            Self::TimedOut => "timed-out",
            Self::Skipped => "skipped",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::MaxRuntime => "max-runtime",
            Self::NotStarted => "not-started",
            Self::Cancelled => "cancelled",
        }
    }

    /// Of a run whose exit code is ours for this reason; `limit`: how long it wanted to wait.
    pub fn of(reason: &Reason, conflict: Conflict, limit: Option<Duration>) -> Self {
        match reason {
            Reason::Denied(denial) => match denial.verdict {
                Verdict::Held if conflict == Conflict::Skip => Self::Skipped,
                Verdict::Held | Verdict::Contended => limit.map_or(Self::Busy, |_| Self::TimedOut),
                Verdict::Unfit | Verdict::Ourselves { .. } => Self::Refused,
                Verdict::NotOurs | Verdict::NotInherited => Self::Lost,
                Verdict::Unavailable if denial.is_about_rights() => Self::Refused,
                Verdict::Unavailable | Verdict::TooSlow | Verdict::Guarded(_) => Self::Unavailable,
            },
            Reason::TooLate { .. } => Self::Unavailable,
            Reason::Lost | Reason::RanOut => Self::Lost,
            Reason::MaxRuntime { .. } | Reason::MaxStopped { .. } => Self::MaxRuntime,
            Reason::NotFound { .. } | Reason::NotExecutable { .. } | Reason::Failed { .. } => {
                Self::NotStarted
            }
        }
    }
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// How it ended.
    pub fate: Fate,
    /// With which status.
    pub exit: Exit,
    /// From the start to the lock, or to the end without it.
    pub waited: Duration,
    /// From the lock to the order to give it back; `None` without it.
    pub held: Option<Duration>,
    /// Extensions that a quorum confirmed.
    pub extensions: u64,
    /// Extensions that missed their quorum.
    pub failed_rounds: u64,
    /// The least that was left of the validity when an extension came or the run ended.
    pub min_margin: Option<Duration>,
    /// Nodes that took part when they were asked the last time.
    pub nodes_ok: usize,
}

impl Figures {
    /// Of a run that did not even begin.
    pub const fn of_nothing(exit: Exit) -> Self {
        Self {
            fate: Fate::NotStarted,
            exit,
            waited: Duration::ZERO,
            held: None,
            extensions: 0,
            failed_rounds: 0,
            min_margin: None,
            nodes_ok: 0,
        }
    }
}

/// What is counted on the way.
#[derive(Debug)]
pub(super) struct Record {
    began: Tick,
    acquired: Option<Tick>,
    /// When the lock, or the attempt, was given up.
    ended: Option<Tick>,
    extensions: u64,
    failed_rounds: u64,
    min_margin: Option<Duration>,
    nodes_ok: usize,
}

impl Record {
    pub(super) const fn new(began: Tick) -> Self {
        Self {
            began,
            acquired: None,
            ended: None,
            extensions: 0,
            failed_rounds: 0,
            min_margin: None,
            nodes_ok: 0,
        }
    }

    /// When the lock became ours.
    pub(super) const fn acquired(&self) -> Option<Tick> {
        self.acquired
    }

    /// The lock has news; `validity` is its end as known before.
    pub(super) fn hear(&mut self, event: &Event, validity: Option<Tick>, now: Tick) {
        match event {
            Event::Acquired { nodes, .. } => {
                self.acquired.get_or_insert(now);
                self.nodes_ok = *nodes;
            }
            Event::Validity(_) => self.margin(validity, now),
            Event::Denied(denial) => self.nodes_ok = answered(denial),
            Event::Note(Note::Acquired { nodes }) => self.nodes_ok = *nodes,
            Event::Note(Note::Extended { nodes }) => {
                self.extensions += 1;
                self.nodes_ok = *nodes;
            }
            Event::Note(Note::ExtensionFailed { nodes }) => {
                self.failed_rounds += 1;
                self.nodes_ok = *nodes;
            }
            _ => {}
        }
    }

    fn margin(&mut self, validity: Option<Tick>, now: Tick) {
        let left = validity.filter(|_| self.ended.is_none()).map(|end| end.since(now));
        self.min_margin = self.min_margin.into_iter().chain(left).min();
    }

    /// It is given up.
    pub(super) fn end(&mut self, validity: Option<Tick>, now: Tick) {
        self.margin(validity, now);
        self.ended.get_or_insert(now);
    }

    pub(super) fn figures(&self, fate: Fate, exit: Exit, now: Tick) -> Figures {
        let ended = self.ended.unwrap_or(now);
        Figures {
            fate,
            exit,
            waited: self.acquired.unwrap_or(ended).since(self.began),
            held: self.acquired.map(|at| ended.since(at)),
            extensions: self.extensions,
            failed_rounds: self.failed_rounds,
            min_margin: self.min_margin,
            nodes_ok: self.nodes_ok,
        }
    }
}

/// Nodes that gave an answer that counts.
fn answered(denial: &Denial) -> usize {
    let counts =
        |view: &&NodeView| matches!(view, NodeView::Free | NodeView::Ours | NodeView::Held(_));
    denial.nodes.iter().filter(counts).count()
}

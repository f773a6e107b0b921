//! When a run says something: success is silent, waiting talks, warnings are for terminals and
//! `-v`, errors are always said.

use std::{
    fmt::Display,
    time::{Duration, SystemTime},
};

use super::{
    json, line,
    live::Live,
    notice::{Level, Notice, Reason, Say},
    object,
    words::{Subject, is_busy},
};
use crate::{
    clock::{BootClock, Clock, Tick},
    protocol::{Note, Verdict, quorum},
};

/// What is left unsaid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hush {
    /// Nothing.
    #[default]
    No,
    /// Waiting and busy locks (`-q`).
    Quiet,
    /// The same, but for a lock that nobody really holds (`--skip`).
    Skip,
}

/// How our lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// How much is said.
#[derive(Clone, Copy, Debug)]
pub struct Tone {
    /// What is left unsaid.
    pub hush: Hush,
    /// 0; 1 with `-v`: acquisitions, extensions, warnings; 2: each node's part in them.
    pub verbosity: u8,
    /// Standard error is a terminal: warnings are said, and waiting is one live line.
    pub terminal: bool,
    /// How our lines look.
    pub format: Format,
    /// The pause between the first and the second line about waiting; it doubles. `None`: there is
    /// no second.
    pub heartbeat: Option<Duration>,
}

impl Default for Tone {
    fn default() -> Self {
        Self {
            hush: Hush::No,
            verbosity: 0,
            terminal: false,
            format: Format::Text,
            heartbeat: Some(Duration::from_secs(30)),
        }
    }
}

/// The voice of a run.
#[derive(Debug)]
pub struct Voice {
    subject: Subject,
    tone: Tone,
    /// When the next line about waiting is due, and the pause after it; `None` before the first.
    heartbeat: Option<(Tick, Duration)>,
    /// What the last line about waiting was about.
    topic: Topic,
    /// What we wait for, as heard at that time.
    told: Option<(Note, Tick)>,
    live: Live,
    /// How long the lock took, until it was said.
    waited: Duration,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    /// Whoever has the lock.
    Lock,
    /// Nodes.
    Quorum,
}

/// Lines about waiting are at most so far apart.
const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(300);

impl Voice {
    /// A voice that has not said anything.
    pub fn new(subject: Subject, tone: Tone) -> Self {
        let live = Live::new(subject.limit);
        let (heartbeat, topic, told) = (None, Topic::Lock, None);
        Self { subject, tone, heartbeat, topic, told, live, waited: Duration::ZERO }
    }

    /// The lines for `notice`, as far as they are due.
    fn lines(&mut self, notice: &Notice, now: Tick, wall: SystemTime) -> Vec<String> {
        let mut lines: Vec<String> = self.line(notice, now, wall).into_iter().collect();
        let views = match notice {
            Notice::Note(Note::Nodes(views)) => Some(views),
            Notice::Note(Note::Waiting(denial) | Note::Outage(denial))
            | Notice::Exit { reason: Reason::Denied(denial), .. } => Some(&denial.nodes),
            _ => None,
        };
        let of_note = matches!(notice, Notice::Note(Note::Nodes(_)));
        if let Some(views) = views.filter(|_| of_note || !lines.is_empty())
            && self.tone.verbosity > 1
            && self.tone.format == Format::Text
        {
            // The line with the code stays the last one.
            let all = self.subject.nodes(views);
            let place = if matches!(notice, Notice::Exit { .. }) { 0 } else { lines.len() };
            lines.splice(place..place, all);
        }
        lines
    }

    /// The line for `notice`, when one is due.
    fn line(&mut self, notice: &Notice, now: Tick, wall: SystemTime) -> Option<String> {
        match notice {
            Notice::Note(Note::Nodes(_)) => return None,
            Notice::Slot(slot) => {
                if let Some(key) = self.subject.keys.get(*slot) {
                    self.subject.key.clone_from(key);
                }
                return None;
            }
            Notice::Note(note @ (Note::Waiting(_) | Note::Outage(_))) => {
                let topic =
                    if matches!(note, Note::Outage(_)) { Topic::Quorum } else { Topic::Lock };
                // The beginning of an outage is said whenever it comes.
                if topic == Topic::Quorum && self.topic == Topic::Lock {
                    self.heartbeat = None;
                }
                self.topic = topic;
                if !self.heartbeat_is_due(now) {
                    return None;
                }
            }
            Notice::Note(Note::Recovered) => self.heartbeat = None,
            Notice::Acquired { waited } => {
                self.waited = *waited;
                // Whoever was told about the wait is told about its end.
                let was_told = self.heartbeat.take().is_some() && self.tone.hush == Hush::No;
                // With -v the line with the number of nodes tells it.
                let twice = self.tone.format == Format::Text && self.is_said(Level::Detail);
                return (was_told && !twice)
                    .then(|| self.worded(notice, self.subject.got(*waited), wall));
            }
            Notice::Note(Note::Acquired { nodes }) => {
                let verbose = self.is_said(Level::Detail);
                let text = || self.subject.got_on(*nodes, self.waited);
                return verbose.then(|| self.worded(notice, text(), wall));
            }
            _ => {}
        }
        let said = self.is_said(self.level(notice));
        said.then(|| self.worded(notice, self.subject.sentence(notice, wall), wall))
    }

    /// The sentence as it is written.
    fn worded(&self, notice: &Notice, text: String, wall: SystemTime) -> String {
        match self.tone.format {
            Format::Text => text,
            Format::Json => json::object(notice, &text, &self.subject, wall),
        }
    }

    /// What the live line says from now on, when it is wanted.
    fn is_live(&self, notice: &Notice) -> bool {
        matches!(notice, Notice::Note(Note::Waiting(_) | Note::Outage(_)))
            && self.tone.terminal
            && self.tone.format == Format::Text
            && self.tone.verbosity < 2
            && self.is_said(Level::Progress)
    }

    fn is_said(&self, level: Level) -> bool {
        match level {
            Level::Detail => self.tone.verbosity > 0,
            Level::Warning => self.tone.verbosity > 0 || self.tone.terminal,
            Level::Progress => self.tone.hush == Hush::No,
            Level::Error => true,
        }
    }

    fn level(&self, notice: &Notice) -> Level {
        match notice {
            Notice::Note(Note::Waiting(_) | Note::Outage(_) | Note::Recovered) => Level::Progress,
            Notice::Note(Note::ExtensionFailed { .. } | Note::Unfit { .. })
            | Notice::NotReported { .. }
            | Notice::Warning(_) => Level::Warning,
            Notice::Note(Note::Extended { .. })
            | Notice::Cancelled { .. }
            | Notice::Over { .. }
            | Notice::EndingLeftover { .. } => Level::Detail,
            // A minority of nodes keeps nobody from taking the lock.
            Notice::Untold { nodes, .. } if nodes.len() <= self.minority() => Level::Warning,
            Notice::Exit { reason: Reason::Denied(denial), .. } if is_busy(denial) => {
                let really = denial.verdict == Verdict::Held;
                if self.tone.hush == Hush::Skip && !really { Level::Error } else { Level::Progress }
            }
            _ => Level::Error,
        }
    }

    fn minority(&self) -> usize {
        self.subject.nodes.len() - quorum(self.subject.nodes.len())
    }

    fn heartbeat_is_due(&mut self, now: Tick) -> bool {
        let first = self.tone.heartbeat.unwrap_or(Duration::MAX);
        let (due, pause) = self.heartbeat.unwrap_or((now, first));
        if now < due {
            return false;
        }
        let slowest = SLOWEST_HEARTBEAT.max(first);
        self.heartbeat = Some((now.after(pause), pause.saturating_mul(2).min(slowest)));
        true
    }
}

impl Voice {
    /// Says what works and should be mended all the same.
    pub fn warn(&mut self, warnings: &[impl Display]) {
        for warning in warnings {
            self.say(Notice::Warning(warning.to_string()));
        }
    }
}

impl Say for Voice {
    fn say(&mut self, notice: Notice) {
        let (now, wall) = (BootClock.now(), SystemTime::now());
        if self.is_live(&notice) {
            // Its end is announced as that of any other wait.
            self.heartbeat.get_or_insert((now, Duration::MAX));
            return self.live.show(&self.subject.sentence(&notice, wall), now);
        }
        self.remember(&notice, now);
        self.write(&notice, now, wall);
    }

    fn due(&self) -> Option<Tick> {
        self.heartbeat_due().into_iter().chain(self.live.due()).min()
    }

    fn repeat(&mut self) {
        let now = BootClock.now();
        self.live.tick(now);
        if let Some(notice) = self.repetition(now) {
            self.write(&notice, now, SystemTime::now());
        }
    }
}

impl Voice {
    /// Keeps in mind what we wait for.
    fn remember(&mut self, notice: &Notice, now: Tick) {
        match notice {
            Notice::Note(note @ (Note::Waiting(_) | Note::Outage(_))) => {
                self.told = self.is_said(Level::Progress).then(|| (note.clone(), now));
            }
            Notice::Note(Note::Recovered)
            | Notice::Acquired { .. }
            | Notice::Cancelled { .. }
            | Notice::Exit { .. } => self.told = None,
            _ => {}
        }
    }

    fn heartbeat_due(&self) -> Option<Tick> {
        self.heartbeat.filter(|_| self.told.is_some()).map(|(due, _)| due)
    }

    /// What we wait for, once more, when its line is due.
    fn repetition(&self, now: Tick) -> Option<Notice> {
        let (mut note, at) =
            self.told.clone().filter(|_| self.heartbeat_due().is_some_and(|due| now >= due))?;
        if let Note::Waiting(denial) | Note::Outage(denial) = &mut note {
            denial.waited = denial.waited.saturating_add(now.since(at));
        }
        Some(Notice::Note(note))
    }

    fn write(&mut self, notice: &Notice, now: Tick, wall: SystemTime) {
        let lines = self.lines(notice, now, wall);
        let write = || {
            for text in &lines {
                match self.tone.format {
                    Format::Text => line(text),
                    Format::Json => object(text),
                }
            }
        };
        match notice {
            Notice::Acquired { .. } | Notice::Cancelled { .. } | Notice::Exit { .. } => {
                self.live.clear();
                write();
            }
            _ if lines.is_empty() => {}
            _ => self.live.aside(write, now),
        }
    }
}

#[cfg(test)]
mod tests;

//! When a run says something: success is silent, waiting talks, warnings are for terminals and
//! `-v`, errors are always said.

use std::time::{Duration, SystemTime};

use super::{
    line,
    notice::{Level, Notice, Reason, Say},
    words::is_busy,
};
use crate::{
    clock::{BootClock, Clock, Tick},
    protocol::{Note, quorum},
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Tone {
    /// Nothing about waiting or a busy lock.
    pub quiet: bool,
    /// 0; 1 with `-v`: acquisitions, extensions, warnings.
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
    /// How long the lock took, until it was said.
    waited: Duration,
}

/// The pause between the first and the second line about waiting; it doubles.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Lines about waiting are at most so far apart.
const SLOWEST_HEARTBEAT: Duration = Duration::from_secs(300);

impl Voice {
    /// A voice that has not said anything.
    pub fn new(subject: Subject, tone: Tone) -> Self {
        Self { subject, tone, heartbeat: None, waited: Duration::ZERO }
    }

    /// The line for `notice`, when one is due.
    fn line(&mut self, notice: &Notice, now: Tick, wall: SystemTime) -> Option<String> {
        match notice {
            Notice::Note(Note::Waiting(_) | Note::Outage(_)) if !self.heartbeat_is_due(now) => {
                return None;
            }
            Notice::Note(Note::Recovered) => self.heartbeat = None,
            Notice::Acquired { waited } => {
                self.waited = *waited;
                // Whoever was told about the wait is told about its end.
                let was_told = self.heartbeat.take().is_some() && !self.tone.quiet;
                return was_told.then(|| self.subject.got(*waited));
            }
            Notice::Note(Note::Acquired { nodes }) => {
                let verbose = self.is_said(Level::Detail);
                return verbose.then(|| self.subject.got_on(*nodes, self.waited));
            }
            _ => {}
        }
        self.is_said(self.level(notice)).then(|| self.subject.sentence(notice, wall))
    }

    fn is_said(&self, level: Level) -> bool {
        match level {
            Level::Detail => self.tone.verbosity > 0,
            Level::Warning => self.tone.verbosity > 0 || self.tone.terminal,
            Level::Progress => !self.tone.quiet,
            Level::Error => true,
        }
    }

    fn level(&self, notice: &Notice) -> Level {
        match notice {
            Notice::Note(Note::Waiting(_) | Note::Outage(_) | Note::Recovered) => Level::Progress,
            Notice::Note(Note::ExtensionFailed { .. } | Note::Unfit { .. }) => Level::Warning,
            Notice::Note(Note::Extended { .. })
            | Notice::Cancelled { .. }
            | Notice::EndingLeftover { .. } => Level::Detail,
            // A minority of nodes keeps nobody from taking the lock.
            Notice::Untold { nodes, .. } if nodes.len() <= self.minority() => Level::Warning,
            Notice::Exit { reason: Reason::Denied(denial), .. } if is_busy(denial) => {
                Level::Progress
            }
            _ => Level::Error,
        }
    }

    fn minority(&self) -> usize {
        self.subject.nodes.len() - quorum(self.subject.nodes.len())
    }

    fn heartbeat_is_due(&mut self, now: Tick) -> bool {
        let (due, pause) = self.heartbeat.unwrap_or((now, HEARTBEAT));
        if now < due {
            return false;
        }
        self.heartbeat = Some((now.after(pause), (pause * 2).min(SLOWEST_HEARTBEAT)));
        true
    }
}

impl Say for Voice {
    fn say(&mut self, notice: Notice) {
        if let Some(text) = self.line(&notice, BootClock.now(), SystemTime::now()) {
            line(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Denial, NodeIndex, NodeView, Obstacle, Occupant, Verdict};

    fn voice(tone: Tone) -> Voice {
        let subject = Subject {
            key: "K".into(),
            nodes: ["a:1", "b:1", "c:1"].map(String::from).to_vec(),
            patience: "waiting without limit (-n, -w D)".into(),
        };
        Voice::new(subject, tone)
    }

    fn denial() -> Denial {
        let held = || {
            NodeView::Held(vec![Obstacle {
                key: 0,
                occupant: Occupant::Value(b"x".to_vec()),
                expires_in: Some(Duration::from_secs(7)),
            }])
        };
        let nodes = vec![held(), held(), held()];
        Denial { verdict: Verdict::Held, nodes, waited: Duration::ZERO }
    }

    fn said(voice: &mut Voice, notice: &Notice, at: u64) -> Option<String> {
        let now = Tick::from_boot(Duration::from_secs(at));
        voice.line(notice, now, SystemTime::UNIX_EPOCH)
    }

    fn busy() -> Notice {
        Notice::Exit { code: 75, reason: Reason::Denied(denial()) }
    }

    #[test]
    fn waiting_talks_at_once_and_then_in_a_doubling_heartbeat() {
        let mut voice = voice(Tone::default());
        let waiting = Notice::Note(Note::Waiting(denial()));
        let spoken: Vec<u64> =
            (0..2000).filter(|at| said(&mut voice, &waiting, *at).is_some()).collect();
        assert_eq!(spoken, [0, 30, 90, 210, 450, 750, 1050, 1350, 1650, 1950]);
    }

    #[test]
    fn first_waiting_line_names_holder_and_what_ends_the_wait() {
        let waiting = Notice::Note(Note::Waiting(denial()));
        assert_eq!(
            said(&mut voice(Tone::default()), &waiting, 0).unwrap(),
            "waiting for 'K': held by another client's value 'x' (expires in 7s), waiting without \
             limit (-n, -w D)"
        );
    }

    #[test]
    fn end_of_a_wait_that_was_announced_is_announced_too() {
        let mut voice = voice(Tone::default());
        let got = Notice::Acquired { waited: Duration::from_secs(192) };
        assert_eq!(said(&mut voice, &got, 0), None);
        said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0).unwrap();
        assert_eq!(said(&mut voice, &got, 192).unwrap(), "got 'K' after 3m 12s");
    }

    #[test]
    fn verbose_says_one_line_per_acquisition_when_all_nodes_have_answered() {
        let mut voice = voice(Tone { verbosity: 1, ..Tone::default() });
        let got = Notice::Acquired { waited: Duration::from_millis(4) };
        assert_eq!(said(&mut voice, &got, 0), None);
        let all = Notice::Note(Note::Acquired { nodes: 3 });
        assert_eq!(said(&mut voice, &all, 0).unwrap(), "got 'K' on 3 of 3 nodes after 4ms");
    }

    #[test]
    fn quiet_silences_waiting_and_busy_lines_and_never_errors() {
        let mut voice = voice(Tone { quiet: true, ..Tone::default() });
        assert_eq!(said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0), None);
        assert_eq!(said(&mut voice, &busy(), 0), None);
        assert!(said(&mut voice, &Notice::RanOut, 0).is_some());
        let lost = Notice::Exit { code: 79, reason: Reason::Lost };
        assert_eq!(
            said(&mut voice, &lost, 0).unwrap(),
            "exit 79: 'K' was lost while the command ran"
        );
    }

    #[test]
    fn busy_line_names_the_flag_that_would_have_helped() {
        assert_eq!(
            said(&mut voice(Tone::default()), &busy(), 0).unwrap(),
            "exit 75: 'K' is held by another client's value 'x' (expires in 7s); to wait for it: \
             --wait 10m"
        );
    }

    #[test]
    fn success_is_silent_off_a_terminal_and_told_with_v() {
        let extended = Notice::Note(Note::Extended { nodes: 3 });
        let failed = Notice::Note(Note::ExtensionFailed { nodes: 1 });
        let one = Notice::Untold { nodes: vec![NodeIndex(0)], at_most: Duration::from_secs(9) };
        let mut silent = voice(Tone::default());
        let mut verbose = voice(Tone { verbosity: 1, ..Tone::default() });
        let mut terminal = voice(Tone { terminal: true, ..Tone::default() });
        for (notice, on_terminal) in [(&extended, false), (&failed, true), (&one, true)] {
            assert_eq!(said(&mut silent, notice, 0), None);
            assert!(said(&mut verbose, notice, 0).is_some());
            assert_eq!(said(&mut terminal, notice, 0).is_some(), on_terminal);
        }
    }

    #[test]
    fn lock_that_stays_on_a_quorum_is_an_error() {
        let both = vec![NodeIndex(0), NodeIndex(2)];
        let untold = Notice::Untold { nodes: both, at_most: Duration::from_secs(9) };
        assert_eq!(
            said(&mut voice(Tone::default()), &untold, 0).unwrap(),
            "could not tell a:1, c:1: 'K' may stay locked there for up to 9s"
        );
    }
}

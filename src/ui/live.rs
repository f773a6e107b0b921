//! The one line on a terminal while a run waits: what for, since when, how much longer. It moves
//! when the loop says so.

use std::{fmt::Write as _, time::Duration};

use rustix::{stdio::stderr, termios::tcgetwinsize};

use super::{clean, write};
use crate::{clock::Tick, duration::show};

/// How often it moves.
const TICK: Duration = Duration::from_millis(200);
/// What moves.
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];
/// Takes the line that the cursor is on away.
const ERASE: &str = "\r\x1b[2K";
/// The width of a terminal that does not tell.
const COLUMNS: usize = 80;

/// The line, when there is one.
#[derive(Debug)]
pub struct Live {
    limit: Option<Duration>,
    line: Option<Line>,
}

#[derive(Debug)]
struct Line {
    text: String,
    since: Tick,
    frame: usize,
    due: Tick,
}

impl Live {
    /// No line yet; `limit` is how long the wait lasts at most.
    pub const fn new(limit: Option<Duration>) -> Self {
        Self { limit, line: None }
    }

    /// Shows `text`, as much of it as the terminal is wide.
    pub fn show(&mut self, text: &str, now: Tick) {
        let text = clean(text).into_owned();
        match &mut self.line {
            Some(line) => line.text = text,
            None => self.line = Some(Line { text, since: now, frame: 0, due: now }),
        }
        self.draw(now);
    }

    /// When [`Live::tick`] is due.
    pub fn due(&self) -> Option<Tick> {
        self.line.as_ref().map(|line| line.due)
    }

    /// Moves the line, when it is time.
    pub fn tick(&mut self, now: Tick) {
        if self.due().is_some_and(|due| now >= due) {
            self.draw(now);
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.line.take().is_some() {
            write(stderr(), ERASE);
        }
    }

    /// Takes the line away while something else is written.
    pub fn aside(&mut self, write_other: impl FnOnce(), now: Tick) {
        if self.line.is_some() {
            write(stderr(), ERASE);
        }
        write_other();
        self.draw(now);
    }

    fn draw(&mut self, now: Tick) {
        let Some(line) = &mut self.line else { return };
        line.frame += 1;
        line.due = now.after(TICK);
        let width = tcgetwinsize(stderr()).map_or(COLUMNS, |size| usize::from(size.ws_col));
        let width = if width == 0 { COLUMNS } else { width };
        write(stderr(), &format!("{ERASE}{}", line.words(self.limit, width, now)));
    }
}

impl Line {
    /// What is to be seen, one character less than the terminal is wide: a full line would wrap.
    fn words(&self, limit: Option<Duration>, width: usize, now: Tick) -> String {
        let spinner = SPINNER[self.frame % SPINNER.len()];
        let spent = times(now.since(self.since), limit);
        format!("{spinner} {spent} {}", self.text).chars().take(width.saturating_sub(1)).collect()
    }
}

/// How long it has been, and how long it will be at most.
fn times(elapsed: Duration, limit: Option<Duration>) -> String {
    let seconds = |time: Duration| Duration::from_secs(time.as_secs());
    let mut text = show(seconds(elapsed)).replace("0ms", "0s");
    if let Some(limit) = limit {
        let left = limit.saturating_sub(elapsed);
        let _ = write!(text, ", {} left", show(seconds(left)).replace("0ms", "0s"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_cut_to_the_width_of_the_terminal_and_moves() {
        let at = |millis| Tick::from_boot(Duration::from_millis(millis));
        let mut line = Line { text: "waiting for 'k'".into(), since: at(0), frame: 0, due: at(0) };
        assert_eq!(line.words(None, 80, at(3000)), "| 3s waiting for 'k'");
        line.frame += 1;
        assert_eq!(line.words(None, 12, at(3000)), "/ 3s waitin");
    }

    #[test]
    fn line_tells_what_has_passed_and_what_is_left() {
        let of = Duration::from_millis;
        assert_eq!(times(of(700), None), "0s");
        assert_eq!(times(of(192_400), Some(of(600_000))), "3m 12s, 6m 47s left");
        assert_eq!(times(of(9000), Some(of(5000))), "9s, 0s left");
    }
}

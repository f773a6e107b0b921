//! The one line on a terminal while a run waits: what for, since when, how much longer. It moves by
//! itself, in a thread that lives as long as the line.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::clean;
use crate::duration::show;

/// How often it moves.
const TICK: Duration = Duration::from_millis(200);

/// The line, when there is one.
pub struct Live {
    limit: Option<Duration>,
    bar: Option<ProgressBar>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Live {
    /// No line yet; `limit` is how long the wait lasts at most.
    pub const fn new(limit: Option<Duration>) -> Self {
        Self { limit, bar: None }
    }

    /// Shows `text`, as much of it as the terminal is wide.
    pub fn show(&mut self, text: &str) {
        let limit = self.limit;
        let bar = self.bar.get_or_insert_with(|| start(limit));
        bar.set_message(clean(text).into_owned());
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Takes the line away while something else is written.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

fn start(limit: Option<Duration>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let spent = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A terminal that cannot be written to ends no run.
        let _ = out.write_str(&times(state.elapsed(), limit));
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {spent} {wide_msg}") {
        bar.set_style(style.tick_chars("|/-\\ ").with_key("spent", spent));
    }
    bar.enable_steady_tick(TICK);
    bar
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
    fn line_tells_what_has_passed_and_what_is_left() {
        let of = Duration::from_millis;
        assert_eq!(times(of(700), None), "0s");
        assert_eq!(times(of(192_400), Some(of(600_000))), "3m 12s, 6m 47s left");
        assert_eq!(times(of(9000), Some(of(5000))), "9s, 0s left");
    }
}

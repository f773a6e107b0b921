//! What all benches do: they end by printing what came of them.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Nothing in here takes longer.
const BOUND: Duration = Duration::from_secs(60);

/// Prints the figures, or why there are none.
pub fn end(outcome: Outcome<String>) -> ExitCode {
    match outcome {
        Ok(text) => {
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A number above its target is not a failure.
pub fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "over" }
}

/// Waits for a condition.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

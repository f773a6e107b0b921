//! Durations as people write and read them.

use std::{fmt, time::Duration};

/// What is wrong with a duration, with a suggestion where one is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError(String);

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration such as `30s`, `1m 30s`, `500ms` (the units of the humantime crate; `m` is a
/// minute, `M` a month). A unit is required.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let reason = match humantime::parse_duration(text) {
        _ if text.is_empty() => "it is empty; write for example 30s".to_owned(),
        // The crate would accept a bare 0.
        _ if is_number => format!("a unit is needed: did you mean {text}s?"),
        Ok(duration) => return Ok(duration),
        Err(error) => format!("{error}; write for example 30s, 1m 30s or 500ms").to_lowercase(),
    };
    Err(DurationError(reason))
}

/// The same for durations of which zero means "never": that needs no unit.
pub fn parse_or_zero(text: &str) -> Result<Duration, DurationError> {
    if text.trim() == "0" { Ok(Duration::ZERO) } else { parse(text) }
}

/// Writes a duration with the precision that a reader needs: `85ms`, `1.2s`, `21s`, `3m 12s`,
/// `2h 5m`, `3d 4h`.
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        _ if millis < 1000 => format!("{millis}ms"),
        1..10 if duration.subsec_millis() >= 100 => {
            format!("{}.{}s", seconds, duration.subsec_millis() / 100)
        }
        1..60 => format!("{seconds}s"),
        60..3600 => pair(seconds, 60, "m", "s"),
        3600..86_400 => pair(seconds / 60, 60, "h", "m"),
        _ => pair(seconds / 3600, 24, "d", "h"),
    }
}

/// `count` small units as big and small ones; small ones only where there are some.
fn pair(count: u64, size: u64, big: &str, small: &str) -> String {
    match count % size {
        0 => format!("{}{big}", count / size),
        rest => format!("{}{big} {rest}{small}", count / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_required_and_suggested() {
        assert_eq!(parse("10").unwrap_err().to_string(), "a unit is needed: did you mean 10s?");
        assert_eq!(parse("0").unwrap_err().to_string(), "a unit is needed: did you mean 0s?");
        assert!(parse("").is_err() && parse("s").is_err() && parse("-1s").is_err());
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn durations_are_shown_with_the_precision_a_reader_needs() {
        for (millis, text) in [
            (0, "0ms"),
            (85, "85ms"),
            (1000, "1s"),
            (1250, "1.2s"),
            (21_900, "21s"),
            (192_000, "3m 12s"),
            (120_000, "2m"),
            (7_500_000, "2h 5m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}

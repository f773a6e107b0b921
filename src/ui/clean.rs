//! Strings that came from a node, a host or a user must not steer the reader's terminal.

use std::borrow::Cow;

/// `text` with every control character, and what reorders or hides text (Unicode's bidirectional
/// and zero-width marks), replaced by a visible stand-in.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unsafe) {
        Cow::Owned(text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether `c` could steer a terminal or hide text.
pub(super) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_power() {
        assert_eq!(clean("a\x1b[2Jb\r\n\u{9b}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}c");
        assert_eq!(clean("a\u{202e}b"), "a\u{fffd}b");
        assert!(matches!(clean("plain, ünï"), Cow::Borrowed(_)));
    }
}

//! The token that proves whose lock it is.

use std::fmt;

use uuid::Uuid;

/// A random (version 4) UUID, written as 36 characters. Every attempt to acquire takes a fresh
/// one: with one token for all tries, a delayed release of the first would delete the key that the
/// second counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Uuid);

impl Token {
    /// The length of a token's text.
    pub const LENGTH: usize = 36;

    /// A token made from 128 random bits (six of them are fixed by RFC 9562).
    pub fn from_random(bits: u128) -> Self {
        Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Reads a token as it is printed; `None` for anything but 36 characters of hyphenated hex.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == Self::LENGTH).then(|| Uuid::try_parse(text).ok().map(Self)).flatten()
    }

    /// The token that `value` begins with, when it is one of redlock's: bare, or followed by a
    /// space and data.
    pub fn of_value(value: &[u8]) -> Option<Self> {
        let head = value.get(..Self::LENGTH)?;
        if !matches!(value.get(Self::LENGTH), None | Some(b' ')) {
            return None;
        }
        Self::parse(std::str::from_utf8(head).ok()?)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_recognised_bare_and_with_data() {
        let token = Token::from_random(7);
        let text = token.to_string();
        assert_eq!(text.len(), Token::LENGTH);
        assert_eq!(Token::parse(&text), Some(token));
        assert_eq!(Token::of_value(text.as_bytes()), Some(token));
        assert_eq!(Token::of_value(format!("{text} {{}}").as_bytes()), Some(token));
    }

    #[test]
    fn longer_words_and_other_values_are_no_tokens() {
        let text = Token::from_random(7).to_string();
        for value in [format!("{text}x"), text[..35].to_owned(), String::new(), "x".repeat(36)] {
            assert_eq!(Token::of_value(value.as_bytes()), None, "{value}");
        }
        assert_eq!(Token::parse(&Token::from_random(7).0.simple().to_string()), None);
    }
}

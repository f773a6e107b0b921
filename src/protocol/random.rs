//! Chance: tokens and jitter from one injected source of random bits.

use std::{fmt, ops::Range, time::Duration};

use super::Token;

/// A source of 128 random bits a call.
pub struct Random(Box<dyn FnMut() -> u128 + Send>);

impl Random {
    /// Draws from `source`.
    pub fn new(source: Box<dyn FnMut() -> u128 + Send>) -> Self {
        Self(source)
    }

    /// A fresh token.
    pub fn token(&mut self) -> Token {
        Token::from_random((self.0)())
    }

    /// One of `number` places, each as likely; 0 where there is none.
    pub fn place(&mut self, number: usize) -> usize {
        usize::try_from((self.0)() % number.max(1) as u128).unwrap_or(0)
    }

    /// A random share of `whole`, evenly between the two factors.
    pub fn share(&mut self, whole: Duration, factors: Range<f64>) -> Duration {
        // 32 bits are finer than any clock in here; both casts are exact.
        #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are what is wanted")]
        let part = f64::from((self.0)() as u32) / f64::from(u32::MAX);
        whole.mul_f64(factors.start + (factors.end - factors.start) * part)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

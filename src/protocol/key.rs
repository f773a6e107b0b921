//! The name of a lock, and where it lives on the nodes.

use std::fmt;

/// The name of a lock: 1 to 512 bytes, any bytes, as the user gave it, with the prefix put before
/// it. It *is* the Redis key, so other Redlock clients that use the same key share the lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    full: Vec<u8>,
    prefix: usize,
}

/// Why a name cannot be a lock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is nothing in it.
    Empty,
    /// It has this many bytes.
    TooLong(usize),
    /// It begins with the word that redlock keeps for its own data beside the locks.
    Reserved,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a key needs at least one byte"),
            Self::TooLong(length) => {
                write!(f, "a key has at most {} bytes, this one has {length}", Key::MAX)
            }
            Self::Reserved => {
                write!(f, "keys that begin with 'redlock:' are kept for redlock's own data")
            }
        }
    }
}

impl std::error::Error for KeyError {}

impl Key {
    /// The greatest length of a name in bytes, without its prefix.
    pub const MAX: usize = 512;

    const RESERVED: &'static [u8] = b"redlock:";

    /// The lock `name` under `prefix`.
    pub fn new(prefix: &str, name: &[u8]) -> Result<Self, KeyError> {
        if name.is_empty() {
            return Err(KeyError::Empty);
        }
        if name.len() > Self::MAX {
            return Err(KeyError::TooLong(name.len()));
        }
        if name.starts_with(Self::RESERVED) {
            return Err(KeyError::Reserved);
        }
        Ok(Self { full: [prefix.as_bytes(), name].concat(), prefix: prefix.len() })
    }

    /// A key that is no lock's: what rights are tried with. `id` makes it unlike any other.
    pub fn probe(prefix: &str, id: &str) -> Self {
        let full = format!("{prefix}redlock:probe:{id}").into_bytes();
        Self { full, prefix: prefix.len() }
    }

    /// The name as the user gave it.
    pub fn name(&self) -> &[u8] {
        &self.full[self.prefix..]
    }

    /// The key on the nodes.
    pub fn on_node(&self) -> &[u8] {
        &self.full
    }

    /// The channel on which a release of this lock is announced.
    pub fn released_channel(&self) -> Vec<u8> {
        self.beside(b"redlock:released:")
    }

    /// The channel on which the holder of this lock listens.
    pub fn holder_channel(&self) -> Vec<u8> {
        self.beside(b"redlock:holder:")
    }

    /// The counter of this lock's fencing tokens.
    pub fn fence_counter(&self) -> Vec<u8> {
        self.beside(b"redlock:fence:")
    }

    fn beside(&self, word: &[u8]) -> Vec<u8> {
        [&self.full[..self.prefix], word, self.name()].concat()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.name()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.full.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_prefix_the_key_is_the_redis_key() {
        let key = Key::new("", b"a b\xff").unwrap();
        assert_eq!(key.on_node(), b"a b\xff");
        assert_eq!(key.released_channel(), b"redlock:released:a b\xff");
    }

    #[test]
    fn prefix_stands_before_key_and_channel() {
        let key = Key::new("p:", b"k").unwrap();
        assert_eq!((key.name(), key.on_node()), (&b"k"[..], &b"p:k"[..]));
        assert_eq!(key.released_channel(), b"p:redlock:released:k");
        assert_eq!(key.holder_channel(), b"p:redlock:holder:k");
    }

    #[test]
    fn unusable_names_are_refused() {
        assert_eq!(Key::new("", b""), Err(KeyError::Empty));
        assert_eq!(Key::new("", &[b'x'; 513]), Err(KeyError::TooLong(513)));
        assert!(Key::new("", &[b'x'; 512]).is_ok());
        assert_eq!(Key::new("p", b"redlock:x"), Err(KeyError::Reserved));
    }
}

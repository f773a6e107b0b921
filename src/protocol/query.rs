//! Questions about a node or about any keys, and answers of any shape: what `status` and `doctor`
//! want to know. A session asks none of these.

use std::time::Duration;

/// A question. None of them changes a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// A command as it is, word by word.
    Words(Vec<Vec<u8>>),
    /// What is at these keys (whole keys, with their prefix): the list of what is there, each as
    /// place from 1, type, time to live in milliseconds (-1: no expiry), head of the value or nil;
    /// or 0.
    Look(Vec<Vec<u8>>),
    /// Which of these keys hold strings: the list of their places, from 1.
    Strings(Vec<Vec<u8>>),
}

impl Query {
    /// A command of plain words.
    pub fn words(words: &[&str]) -> Self {
        Self::Words(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    /// What the server says of itself.
    pub fn info() -> Self {
        Self::words(&["INFO"])
    }

    /// The server's clock.
    pub fn time() -> Self {
        Self::words(&["TIME"])
    }

    /// The next batch of strings whose keys begin with `prefix`.
    pub fn scan(cursor: &[u8], prefix: &str, count: u32) -> Self {
        let pattern = [glob_quoted(prefix.as_bytes()).as_slice(), b"*"].concat();
        let count = count.to_string();
        let words: [&[u8]; 8] =
            [b"SCAN", cursor, b"MATCH", &pattern, b"COUNT", count.as_bytes(), b"TYPE", b"string"];
        Self::Words(words.iter().map(|word| word.to_vec()).collect())
    }

    /// How many listen on each of these channels.
    pub fn listeners(channels: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let words = [b"PUBSUB".to_vec(), b"NUMSUB".to_vec()].into_iter().chain(channels);
        Self::Words(words.collect())
    }
}

/// `text` so that a pattern matches it literally.
fn glob_quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for &byte in text {
        if b"*?[]^\\".contains(&byte) {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted
}

/// An answer, whatever its shape; maps are lists of keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Any bytes.
    Text(Vec<u8>),
    /// Several.
    List(Vec<Datum>),
}

impl Datum {
    /// The bytes of a text.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A text in which what is no UTF-8 is replaced.
    pub fn text(&self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The parts of a list.
    pub fn list(&self) -> Option<&[Datum]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// A number, also one written as a text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The answer to TIME, since 1970.
    pub fn time(&self) -> Option<Duration> {
        match self.list()? {
            [seconds, micros] => {
                let number = |datum: &Self| u64::try_from(datum.int()?).ok();
                let micros = Duration::from_micros(number(micros)?);
                Some(Duration::from_secs(number(seconds)?).saturating_add(micros))
            }
            _ => None,
        }
    }

    /// The value of `name` in a list of names and values (CONFIG GET, PUBSUB NUMSUB).
    pub fn of(&self, name: &[u8]) -> Option<&Datum> {
        self.list()?.chunks_exact(2).find(|pair| pair[0].bytes() == Some(name)).map(|pair| &pair[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_matched_literally() {
        let Query::Words(words) = Query::scan(b"0", "a*[b]\\?", 10) else { panic!() };
        assert_eq!(words[3], b"a\\*\\[b\\]\\\\\\?*");
    }

    #[test]
    fn data_of_any_shape_never_panics() {
        let odd = Datum::List(vec![Datum::Nil, Datum::Int(3), Datum::Text(b"x".to_vec())]);
        assert_eq!((odd.time(), odd.int(), odd.of(b"x")), (None, None, None));
        let time = Datum::List(vec![Datum::Text(b"7".to_vec()), Datum::Text(b"5".to_vec())]);
        assert_eq!(time.time(), Some(Duration::from_micros(7_000_005)));
    }
}

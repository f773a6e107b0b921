//! Answers out of bytes, in whatever pieces they come. The parser is the redis crate's; one is
//! kept per connection, since it remembers half an answer.

use std::io::{self, Read};

use redis::{Parser, Value};

/// The bytes are no Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// The most bytes that one answer may have. Ours are a KiB or so per key; what claims to be more
/// only wants our memory.
const LARGEST: usize = 4 << 20;

/// A parser that is fed instead of reading.
pub struct Decoder {
    parser: Parser,
    since_value: usize,
    tail: Tail,
}

impl Decoder {
    /// At the beginning of a connection.
    pub fn new() -> Self {
        Self { parser: Parser::new(), since_value: 0, tail: Tail::default() }
    }

    /// Takes the bytes that came next and hands out the values that they complete, until `take`
    /// has enough.
    pub fn feed<E: From<Garbage>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Value) -> Result<(), E>,
    ) -> Result<(), E> {
        self.since_value = self.since_value.saturating_add(bytes.len());
        let mut piece = self.tail.piece(bytes);
        loop {
            match self.parser.parse_value(&mut piece) {
                Ok(value) => {
                    self.since_value = piece.bytes.len();
                    take(value)?;
                }
                // Only the end of the piece says so.
                Err(error) if error.is_timeout() => break,
                Err(_) => return Err(Garbage.into()),
            }
        }
        if self.since_value > LARGEST {
            return Err(Garbage.into());
        }
        Ok(())
    }
}

/// Keeps the parser from seeing the first byte of an answer alone: it would take a wrong one for
/// an unfinished answer and pass over it, and what follows might look like a vote. Such a byte
/// stands behind a line end and waits for the next; no answer ends with it.
#[derive(Default)]
struct Tail {
    /// How much of a line end the parser saw last.
    line_end: LineEnd,
    held: Option<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LineEnd {
    #[default]
    Whole,
    Half,
    No,
}

impl Tail {
    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Piece<'a> {
        let Some((&last, before)) = bytes.split_last() else {
            return Piece { first: None, bytes };
        };
        let seen = self.held.into_iter().chain(before.iter().copied());
        let line_end = seen.fold(self.line_end, LineEnd::then);
        let first = self.held.take();
        if line_end == LineEnd::Whole {
            self.held = Some(last);
            self.line_end = line_end;
            Piece { first, bytes: before }
        } else {
            self.line_end = line_end.then(last);
            Piece { first, bytes }
        }
    }
}

impl LineEnd {
    const fn then(self, byte: u8) -> Self {
        match (self, byte) {
            (_, b'\r') => Self::Half,
            (Self::Half, b'\n') => Self::Whole,
            _ => Self::No,
        }
    }
}

/// A reader whose end means "later" and not "never".
struct Piece<'a> {
    first: Option<u8>,
    bytes: &'a [u8],
}

impl Read for Piece<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        if let (Some(slot), Some(first)) = (out.first_mut(), self.first) {
            *slot = first;
            self.first = None;
            count = 1;
        }
        count += self.bytes.read(&mut out[count..])?;
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(bytes: &[u8], step: usize) -> Result<Vec<Value>, Garbage> {
        let mut decoder = Decoder::new();
        let mut values = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.feed::<Garbage>(piece, |value| {
                values.push(value);
                Ok(())
            })?;
        }
        Ok(values)
    }

    #[test]
    fn answers_are_the_same_in_whatever_pieces_they_come() {
        let text = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n+proto\r\n:3\r\n+OK\r\n*2\r\n:1\r\n\
            *2\r\n*3\r\n:1\r\n$3\r\na\r\n\r\n:-1\r\n*3\r\n:2\r\n+hash\r\n:5\r\n-ERR foo bar\r\n\
            >3\r\n+message\r\n$1\r\nc\r\n$1\r\nx\r\n_\r\n$-1\r\n*0\r\n$0\r\n\r\n#t\r\n,1.5\r\n\
            !5\r\nERR x\r\n=5\r\ntxt:a\r\n|1\r\n+a\r\n+b\r\n:4\r\n:7\r\n";
        let whole = values(text, text.len()).unwrap();
        assert_eq!(whole.len(), 15);
        for step in 1..text.len() {
            assert_eq!(values(text, step).unwrap(), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn other_protocols_are_garbage() {
        for text in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"\x15\x03\x01\x00\x02",
            b":x\r\n",
            b"$3\r\nabcd\r\n",
            b"+\xff\r\n",
        ] {
            for step in 1..=text.len() {
                assert_eq!(values(text, step), Err(Garbage), "{}", text.escape_ascii());
            }
        }
        // What the parser would make of an unknown byte that comes alone.
        assert_eq!(values(b":0\r\nx:1\r\n", 1), Err(Garbage));
    }

    #[test]
    fn lengths_that_lie_cost_neither_memory_nor_a_panic() {
        for text in [
            &b"*9223372036854775807\r\n:1\r\n"[..],
            b"$9223372036854775807\r\nabc",
            b"%4611686018427387903\r\n:1\r\n",
            b"%-1\r\n",
            b"|9223372036854775807\r\n",
            b"=-1\r\nxx\r\n",
            b">-1\r\n",
            b"-\r\n",
        ] {
            let _ = values(text, 3);
        }
        let _ = values(&b"*4096\r\n".repeat(500), 64);
        let endless = [b"$999999999\r\n".to_vec(), vec![b'x'; LARGEST + 1]].concat();
        assert_eq!(values(&endless, 1 << 14), Err(Garbage));
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_a_node_says_panics(
            bytes in "([*$%~>|=!:,#_+-](-1|[0-9]{1,3}|t|x{1,4})\r\n){1,12}", step in 1_usize..9
        ) {
            let _ = values(bytes.as_bytes(), step);
        }
    }
}

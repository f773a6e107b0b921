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
}

impl Decoder {
    /// At the beginning of a connection.
    pub fn new() -> Self {
        Self { parser: Parser::new(), since_value: 0 }
    }

    /// Takes the bytes that came next and hands out the values that they complete, until `take`
    /// has enough.
    pub fn feed<E: From<Garbage>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Value) -> Result<(), E>,
    ) -> Result<(), E> {
        self.since_value = self.since_value.saturating_add(bytes.len());
        let mut piece = Piece(bytes);
        loop {
            match self.parser.parse_value(&mut piece) {
                Ok(value) => {
                    self.since_value = piece.0.len();
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

/// A reader whose end means "later" and not "never".
struct Piece<'a>(&'a [u8]);

impl Read for Piece<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.read(out)
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
            assert_eq!(values(text, 1), Err(Garbage), "{}", text.escape_ascii());
        }
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

//! A client of a few lines, independent of the program's own, to look into the nodes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use super::LIMIT;

/// An answer (RESP2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Text(Vec<u8>),
    Nil,
    List(Vec<Reply>),
}

/// A blocking connection to one server.
#[derive(Debug)]
pub struct Resp {
    stream: BufReader<TcpStream>,
}

impl Resp {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a command and waits for its answer.
    pub fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Reply {
        self.send(words);
        self.receive()
    }

    /// Sends a command.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        let mut packed = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            packed.extend(format!("${}\r\n", word.len()).into_bytes());
            packed.extend(word);
            packed.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&packed).unwrap();
    }

    /// The next answer.
    pub fn receive(&mut self) -> Reply {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).expect("the server hung up");
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()),
            "$" | "*" if number() < 0 => Reply::Nil,
            "$" => {
                let mut text = vec![0; usize::try_from(number()).unwrap() + 2];
                self.stream.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Text(text)
            }
            "*" => Reply::List((0..number()).map(|_| self.receive()).collect()),
            _ => panic!("not RESP2: {line}"),
        }
    }

    pub fn get(&mut self, key: &str) -> Option<String> {
        match self.command(&["GET", key]) {
            Reply::Text(text) => Some(String::from_utf8(text).unwrap()),
            Reply::Nil => None,
            other => panic!("GET {key}: {other:?}"),
        }
    }

    pub fn exists(&mut self, key: &str) -> bool {
        self.integer(&["EXISTS", key]) == 1
    }

    pub fn set_px(&mut self, key: &str, value: &str, milliseconds: u64) {
        let answer = self.command(&["SET", key, value, "PX", &milliseconds.to_string()]);
        assert_eq!(answer, Reply::Simple("OK".to_owned()));
    }

    /// The milliseconds until `key` expires: -1 without expiry, -2 without key.
    pub fn pttl(&mut self, key: &str) -> i64 {
        self.integer(&["PTTL", key])
    }

    pub fn del(&mut self, key: &str) -> bool {
        self.integer(&["DEL", key]) == 1
    }

    pub fn keys(&mut self) -> Vec<String> {
        let Reply::List(keys) = self.command(&["KEYS", "*"]) else {
            panic!("KEYS is not a list");
        };
        let text = |reply| match reply {
            Reply::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("KEYS: {other:?}"),
        };
        let mut keys: Vec<String> = keys.into_iter().map(text).collect();
        keys.sort();
        keys
    }

    /// How often `command` was called on this server since its start or the last
    /// `CONFIG RESETSTAT`.
    pub fn calls(&mut self, command: &str) -> u64 {
        let head = format!("cmdstat_{command}:calls=");
        let info = self.info("commandstats");
        info.lines()
            .find_map(|line| line.strip_prefix(&head)?.split(',').next()?.parse().ok())
            .unwrap_or(0)
    }

    /// A section of INFO.
    pub fn info(&mut self, section: &str) -> String {
        match self.command(&["INFO", section]) {
            Reply::Text(text) => String::from_utf8(text).unwrap(),
            other => panic!("INFO: {other:?}"),
        }
    }

    /// One number out of a section of INFO.
    pub fn info_number(&mut self, section: &str, name: &str) -> u64 {
        let info = self.info(section);
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().parse().unwrap()
    }

    fn integer(&mut self, words: &[&str]) -> i64 {
        match self.command(words) {
            Reply::Integer(number) => number,
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::servers::{Inspect, fleet};
    use super::*;

    #[test]
    fn client_speaks_with_a_real_server() {
        let fleet = fleet(1);
        let mut client = fleet.servers()[0].client();
        assert_eq!(client.get("k"), None);
        assert_eq!(client.pttl("k"), -2);
        client.set_px("k", "v", 60_000);
        assert!(client.pttl("k") > 50_000);
        assert_eq!(client.get("k").as_deref(), Some("v"));
        assert_eq!(client.keys(), ["k"]);
        assert!(client.del("k") && !client.del("k") && !client.exists("k"));
        assert_eq!((client.calls("set"), client.calls("mset")), (1, 0));
        assert!(matches!(client.command(&["NOSUCH"]), Reply::Error(_)));
        assert!(client.info_number("clients", "connected_clients") >= 1);
    }
}

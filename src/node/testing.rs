//! Real servers for the tests of this module.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use redis::{Parser, Value};
use rustix::process::{Pid, Signal, kill_process};

/// A redis-server of the test's own, on a free port and a socket. It ends with this value.
pub struct Server {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Server {
    /// A server without anything special.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with more options, each as redis.conf has it, with `--` before its name.
    pub fn with(options: &[&str]) -> Self {
        // Somebody else may take the port between our look and the server's.
        (0..20).find_map(|_| Self::attempt(options)).expect("redis-server does not start")
    }

    fn attempt(options: &[&str]) -> Option<Self> {
        let port = free_port();
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(directory.path())
            .arg("--unixsocket")
            .arg(directory.path().join("s"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut lines = log.by_ref().lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains("eady to accept connections"));
        let server = Self { child, port, directory };
        if !ready {
            return None;
        }
        // The pipe must not fill up.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(server)
    }

    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// As a node is written.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client {
            stream: TcpStream::connect(("127.0.0.1", self.port)).unwrap(),
            parser: Parser::new(),
        }
    }

    /// One command on a connection of its own.
    pub fn call(&self, command: &str) -> Value {
        self.client().call(command)
    }

    /// Stops or continues it.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback on which nobody listens at this moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server on loopback that does `serve` with its first connection.
pub fn impostor(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    address
}

/// A blocking client.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
}

impl Client {
    /// Sends packed bytes and reads one answer.
    pub fn raw(&mut self, bytes: &[u8]) -> Value {
        self.stream.write_all(bytes).unwrap();
        self.next()
    }

    /// The next answer or message.
    pub fn next(&mut self) -> Value {
        self.parser.parse_value(&mut self.stream).unwrap()
    }

    /// Sends a command whose words have no white space in them.
    pub fn call(&mut self, command: &str) -> Value {
        let mut words = command.split_whitespace();
        let mut cmd = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            cmd.arg(word);
        });
        self.raw(&cmd.get_packed_command())
    }
}

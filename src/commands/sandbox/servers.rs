//! Throw-away Redis masters: real `redis-server` (or `valkey-server`) processes on loopback, for
//! `redlock sandbox` and for the integration tests, which also stop, kill and restart them.
//!
//! A server keeps nothing on disk, reads no configuration file and dies with the thread that
//! started it, so nothing is left even when that thread's process is killed.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::FileExt, process::CommandExt},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::launcher::{Launcher, Port, START_LIMIT, ServerError, nameless_file};
use crate::child::belt;

/// How often the start of one server is tried when others take its port away.
const START_TRIES: u32 = 20;

/// The pause between two looks at something that takes milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// One server. It is killed, and its directory removed, on drop.
#[derive(Debug)]
pub struct Server {
    launcher: Launcher,
    options: Vec<OsString>,
    port: Port,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    pid: Pid,
    /// The server's words. The file has no name any more.
    log: File,
}

impl Server {
    /// Starts a server on a free port and waits until it answers. `options` are further arguments
    /// of the program, such as `--requirepass`.
    pub fn start<O: Into<OsString>>(
        launcher: &Launcher,
        options: impl IntoIterator<Item = O>,
    ) -> Result<Self, ServerError> {
        let mut server = Self::begin(launcher, options)?;
        server.settle()?;
        Ok(server)
    }

    /// Starts the process and leaves the waiting to [`Self::settle`].
    fn begin<O: Into<OsString>>(
        launcher: &Launcher,
        options: impl IntoIterator<Item = O>,
    ) -> Result<Self, ServerError> {
        let mut server = Self {
            launcher: launcher.clone(),
            options: options.into_iter().map(Into::into).collect(),
            port: Port::reserve()?,
            process: None,
        };
        server.spawn()?;
        Ok(server)
    }

    /// Waits until the server answers. Where somebody else took the port between our look and the
    /// server's bind, takes another one.
    fn settle(&mut self) -> Result<(), ServerError> {
        for _ in 0..START_TRIES {
            match self.wait_ready()? {
                Start::Ready => return Ok(()),
                Start::PortTaken => {
                    self.kill();
                    self.port = Port::reserve()?;
                    self.spawn()?;
                }
            }
        }
        Err(ServerError::NoPort)
    }

    /// Starts the server again, empty, on the same port, and waits until it answers. One that
    /// still runs is killed first.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        for _ in 0..START_TRIES {
            self.kill();
            self.spawn()?;
            if matches!(self.wait_ready()?, Start::Ready) {
                return Ok(());
            }
        }
        Err(ServerError::NoPort)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The server as a node of a list.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The server's process; none after [`Self::kill`].
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Stops the process (SIGSTOP) and waits until it stands. Its kernel still accepts
    /// connections and buffers what they bring.
    pub fn stop(&self) -> io::Result<()> {
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::STOP)?;
            let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), until)?;
        }
        Ok(())
    }

    /// Lets a stopped process go on: it then executes what was buffered.
    pub fn cont(&self) -> io::Result<()> {
        match self.pid() {
            Some(pid) => Ok(kill_process(pid, Signal::CONT)?),
            None => Ok(()),
        }
    }

    /// Kills the process (SIGKILL) and waits for its end. Connections to its port are refused
    /// from then on.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only for a process that has ended.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }

    fn spawn(&mut self) -> Result<(), ServerError> {
        let program = self.launcher.program();
        let failed = |error| ServerError::Spawn(program.to_owned(), error);
        let log = nameless_file().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(["--port", &self.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--loglevel", "warning"])
            .args(&self.options)
            .current_dir(self.launcher.directory())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log.try_clone().map_err(failed)?)
            // A ^C is for the command; its locks shall still find their nodes then.
            .process_group(0);
        let child = belt::die_with_parent(&mut command).spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        self.process = Some(Process { child, pid, log });
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<Start, ServerError> {
        let address = self.address();
        let program = self.launcher.program();
        let Some(process) = &mut self.process else {
            return Err(ServerError::NoPort);
        };
        let limit = Instant::now() + START_LIMIT;
        while Instant::now() < limit {
            let ended = process
                .child
                .try_wait()
                .map_err(|error| ServerError::Spawn(program.to_owned(), error))?;
            if let Some(status) = ended {
                let log = process.read_log();
                if log.contains("ddress already in use") || log.contains("ailed listening") {
                    return Ok(Start::PortTaken);
                }
                let said = log.lines().last().unwrap_or_default().trim().to_owned();
                return Err(ServerError::Ended(program.to_owned(), status, said));
            }
            match ask_pid(address) {
                Ok(Answer::Pid(pid)) if pid == process.pid.as_raw_nonzero().get() => {
                    return Ok(Start::Ready);
                }
                // A server that answers and does not say who it is: it wants a password first.
                Ok(Answer::Refusal) => return Ok(Start::Ready),
                // Somebody else's server: ours is about to fail at its bind.
                Ok(Answer::Pid(_)) | Err(_) => thread::sleep(LOOK_AGAIN),
            }
        }
        Err(ServerError::Silent(program.to_owned(), address.port()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    fn read_log(&self) -> String {
        let mut text = vec![0; 4096];
        let length = self.log.read_at(&mut text, 0).unwrap_or(0);
        String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()
    }
}

/// How the start of a process went.
enum Start {
    Ready,
    PortTaken,
}

/// What a server says about itself.
enum Answer {
    Pid(i32),
    Refusal,
}

/// Asks the server at `address` for its process id.
fn ask_pid(address: SocketAddr) -> io::Result<Answer> {
    let patience = Duration::from_millis(250);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"INFO server\r\n")?;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(piece.get(..length).unwrap_or_default());
        if text.first() == Some(&b'-') {
            return Ok(Answer::Refusal);
        }
        if let Some(pid) = find_pid(&String::from_utf8_lossy(&text)) {
            return Ok(Answer::Pid(pid));
        }
    }
}

/// The process id in the text of INFO, once its line is complete.
fn find_pid(info: &str) -> Option<i32> {
    let (_, rest) = info.split_once("process_id:")?;
    let (pid, _) = rest.split_once("\r\n")?;
    pid.parse().ok()
}

/// Several servers in one directory.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Server>,
    launcher: Launcher,
}

impl Fleet {
    /// Starts `count` servers at once and waits until all of them answer.
    pub fn start(count: u8) -> Result<Self, ServerError> {
        let launcher = Launcher::new()?;
        let mut servers = (0..count)
            .map(|_| Server::begin(&launcher, [] as [&str; 0]))
            .collect::<Result<Vec<_>, _>>()?;
        for server in &mut servers {
            server.settle()?;
        }
        Ok(Self { servers, launcher })
    }

    /// The servers, in the order of their start.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The servers, to kill and restart them.
    pub fn servers_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The list of nodes, as `--nodes` and `REDLOCK_NODES` take it.
    pub fn nodes(&self) -> String {
        let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
        urls.join(",")
    }

    /// Removes the directory while the servers run: they need it no more, and then not even our
    /// sudden death leaves it behind. After this no server can be restarted, or save anything.
    pub fn drop_directory(&self) {
        self.launcher.drop_directory();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

    use super::*;

    /// The state letter of proc(5).
    fn state(pid: Pid) -> char {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let stat = fs::read_to_string(path).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(") ").unwrap_or_default();
        rest.chars().next().unwrap_or('-')
    }

    fn say(server: &Server, line: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "{line}\r\n").unwrap();
        let mut answer = [0; 64];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    #[test]
    fn fleet_serves_and_leaves_nothing_behind() {
        let fleet = Fleet::start(3).unwrap();
        let directory = fleet.launcher.directory().to_owned();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let pids: Vec<Pid> = fleet.servers().iter().filter_map(Server::pid).collect();
        assert_eq!(pids.len(), 3);
        for server in fleet.servers() {
            assert_eq!(say(server, "SET k v"), "+OK\r\n");
        }
        drop(fleet);
        assert!(!directory.exists());
        assert!(pids.iter().all(|&pid| "-ZX".contains(state(pid))));
    }

    #[test]
    fn server_stops_goes_on_and_restarts_empty_on_its_port() {
        let launcher = Launcher::new().unwrap();
        let mut server = Server::start(&launcher, ["--databases", "3"]).unwrap();
        let (port, pid) = (server.port(), server.pid().unwrap());
        assert_eq!(say(&server, "SET k v"), "+OK\r\n");
        server.stop().unwrap();
        assert_eq!(state(pid), 'T');
        server.cont().unwrap();
        assert_eq!(say(&server, "EXISTS k"), ":1\r\n");
        assert!(say(&server, "SELECT 3").starts_with("-ERR"));
        server.kill();
        assert!(TcpStream::connect(server.address()).is_err());
        server.restart().unwrap();
        assert_eq!(server.port(), port);
        assert_eq!(say(&server, "EXISTS k"), ":0\r\n");
    }

    #[test]
    fn server_takes_another_port_when_its_own_was_taken() {
        let launcher = Launcher::new().unwrap();
        let port = Port::reserve().unwrap();
        let number = port.number();
        let _thief = TcpListener::bind(port.address()).unwrap();
        let options = Vec::new();
        let mut server = Server { launcher, options, port, process: None };
        server.spawn().unwrap();
        server.settle().unwrap();
        assert_ne!(server.port(), number);
        assert_eq!(say(&server, "PING"), "+PONG\r\n");
    }

    #[test]
    fn server_that_wants_a_password_counts_as_started() {
        let launcher = Launcher::new().unwrap();
        let server = Server::start(&launcher, ["--requirepass", "pw"]).unwrap();
        assert!(say(&server, "PING").starts_with("-NOAUTH"));
    }

    #[test]
    fn wrong_option_is_an_error_in_the_servers_own_words() {
        let launcher = Launcher::new().unwrap();
        let error = Server::start(&launcher, ["--no-such-option", "1"]).unwrap_err();
        assert!(matches!(error, ServerError::Ended(..)));
        assert!(error.to_string().contains("did not start"), "{error}");
    }
}

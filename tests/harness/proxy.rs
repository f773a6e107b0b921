//! A network that misbehaves: a TCP proxy in front of one server, on a free loopback port of its
//! own. What it does to the bytes can be changed while connections are open, for all of them or for
//! one.
//!
//! One thread with one poll loop per proxy: every chunk is queued with the time at which it is due.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use redlock::{commands::sandbox::launcher::Port, wake};
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

use super::eventually;

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Bytes pass.
    Pass,
    /// Bytes arrive this much later, in either direction.
    Delay(Duration),
    /// Connections are accepted and what they bring is swallowed. A connection that has lost bytes
    /// in this way never works again.
    Blackhole,
    /// Bytes wait until the mode changes: a partition that heals.
    Hold,
    /// No one listens, and open connections are cut.
    Refuse,
    /// Connections are cut, new ones right after they were accepted.
    Cut,
    /// The server's answers come byte by byte, one each time this has passed.
    Drip(Duration),
}

/// A running proxy. It ends, with its connections, on drop.
#[derive(Debug)]
pub struct Proxy {
    /// Ours also while the proxy refuses connections.
    port: Port,
    control: wake::Sender<Control>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// What has gone through a proxy so far.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

#[derive(Debug)]
enum Control {
    Mode(Mode, mpsc::Sender<()>),
    Rule(u64, Mode, mpsc::Sender<()>),
    End,
}

impl Proxy {
    /// A proxy that passes everything on to `server`.
    pub fn to(server: SocketAddr) -> Self {
        let port = Port::reserve().unwrap();
        let address = port.address();
        let (control, inbox) = wake::channel().unwrap();
        let counts = Arc::new(Counts::default());
        let mut state = State {
            server,
            address,
            listener: Some(listen(address)),
            mode: Mode::Pass,
            rules: Vec::new(),
            pairs: Vec::new(),
            counts: Arc::clone(&counts),
        };
        let thread = thread::spawn(move || state.serve(&inbox));
        Self { port, control, counts, thread: Some(thread) }
    }

    /// The proxy as a node of a list.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Changes what happens, to open connections too. It is so when this returns.
    pub fn set(&self, mode: Mode) {
        self.tell(|done| Control::Mode(mode, done));
    }

    /// What happens to the connection with this number (the first one is 0), whatever the mode is.
    pub fn rule(&self, connection: u64, mode: Mode) {
        self.tell(|done| Control::Rule(connection, mode, done));
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// How many bytes came from clients so far, swallowed ones included.
    pub fn bytes_up(&self) -> u64 {
        self.counts.bytes_up.load(Ordering::SeqCst)
    }

    /// How many bytes were delivered to clients so far.
    pub fn bytes_down(&self) -> u64 {
        self.counts.bytes_down.load(Ordering::SeqCst)
    }

    /// Waits until so many connections were accepted in all.
    pub fn wait_connections(&self, count: u64) {
        eventually("connections at the proxy", || self.connections() >= count);
    }

    fn tell(&self, control: impl FnOnce(mpsc::Sender<()>) -> Control) {
        let (done, answer) = mpsc::channel();
        self.control.send(control(done));
        answer.recv().expect("the proxy's thread panicked");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.send(Control::End);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed; a second one here would abort the whole run.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

struct State {
    server: SocketAddr,
    address: SocketAddr,
    listener: Option<TcpListener>,
    mode: Mode,
    rules: Vec<(u64, Mode)>,
    pairs: Vec<Pair>,
    counts: Arc<Counts>,
}

/// A client, its connection to the server, and what is under way between them.
struct Pair {
    number: u64,
    client: TcpStream,
    server: TcpStream,
    up: VecDeque<Chunk>,
    down: VecDeque<Chunk>,
    /// It has lost bytes: what follows would be nonsense.
    deaf: bool,
    over: bool,
}

/// Bytes, or an end of file, and when they are due.
struct Chunk {
    due: Instant,
    /// Empty for the end of file.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl State {
    fn serve(&mut self, inbox: &wake::Receiver<Control>) {
        loop {
            self.sleep(inbox);
            inbox.hush();
            while let Ok(control) = inbox.try_recv() {
                match control {
                    Control::Mode(mode, done) => {
                        self.mode = mode;
                        self.apply();
                        let _ = done.send(());
                    }
                    Control::Rule(number, mode, done) => {
                        self.rules.push((number, mode));
                        self.apply();
                        let _ = done.send(());
                    }
                    Control::End => return,
                }
            }
            self.accept();
            let modes: Vec<Mode> = self.pairs.iter().map(|pair| self.mode_of(pair)).collect();
            for (pair, mode) in self.pairs.iter_mut().zip(modes) {
                pair.advance(mode, &self.counts);
            }
            self.pairs.retain(|pair| !pair.over);
        }
    }

    fn mode_of(&self, pair: &Pair) -> Mode {
        let rule = self.rules.iter().rfind(|(number, _)| *number == pair.number);
        rule.map_or(self.mode, |(_, mode)| *mode)
    }

    /// Makes listener and connections agree with the mode.
    fn apply(&mut self) {
        if self.mode == Mode::Refuse {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(listen(self.address));
        }
        let cut = |mode| matches!(mode, Mode::Refuse | Mode::Cut);
        let kept: Vec<bool> = self.pairs.iter().map(|pair| !cut(self.mode_of(pair))).collect();
        let mut kept = kept.into_iter();
        self.pairs.retain(|_| kept.next().unwrap());
    }

    fn accept(&mut self) {
        while let Some(Ok((client, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let number = self.counts.connections.fetch_add(1, Ordering::SeqCst);
            let Ok(server) = TcpStream::connect(self.server) else {
                // As the server does, so does the proxy.
                continue;
            };
            for stream in [&client, &server] {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
            }
            let pair = Pair {
                number,
                client,
                server,
                up: VecDeque::new(),
                down: VecDeque::new(),
                deaf: false,
                over: false,
            };
            if !matches!(self.mode_of(&pair), Mode::Refuse | Mode::Cut) {
                self.pairs.push(pair);
            }
        }
    }

    /// Sleeps until there is something to read, to accept, to obey, or to deliver.
    fn sleep(&self, inbox: &wake::Receiver<Control>) {
        let mut fds = vec![PollFd::new(inbox, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let mut next: Option<Instant> = None;
        for pair in &self.pairs {
            if self.mode_of(pair) == Mode::Hold {
                continue;
            }
            fds.push(PollFd::from_borrowed_fd(pair.client.as_fd(), PollFlags::IN));
            fds.push(PollFd::from_borrowed_fd(pair.server.as_fd(), PollFlags::IN));
            let due = [&pair.up, &pair.down].map(|queue| queue.front().map(|chunk| chunk.due));
            next = due.into_iter().flatten().chain(next).min();
        }
        let wait = next.map(|due| {
            // A receiver whose buffer is full is looked at every millisecond.
            let time = due.saturating_duration_since(Instant::now());
            let time = time.max(Duration::from_millis(u64::from(time.is_zero())));
            Timespec::try_from(time).unwrap()
        });
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

impl Pair {
    fn advance(&mut self, mode: Mode, counts: &Counts) {
        if mode == Mode::Hold {
            return;
        }
        for direction in [Direction::Up, Direction::Down] {
            self.read(direction, mode, counts);
            self.deliver(direction, counts);
        }
    }

    fn read(&mut self, direction: Direction, mode: Mode, counts: &Counts) {
        let (mut from, queue) = match direction {
            Direction::Up => (&self.client, &mut self.up),
            Direction::Down => (&self.server, &mut self.down),
        };
        if queue.back().is_some_and(|chunk| chunk.bytes.is_empty()) {
            return;
        }
        let mut piece = [0; 16 * 1024];
        loop {
            let bytes = match from.read(&mut piece) {
                Ok(length) => &piece[..length],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A reset: the other side learns of it in the same way.
                Err(_) => {
                    self.over = true;
                    return;
                }
            };
            let end = bytes.is_empty();
            if direction == Direction::Up {
                counts.bytes_up.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            }
            if mode == Mode::Blackhole {
                self.deaf = true;
            }
            if self.deaf {
                // Who gives up on a silent connection closes both halves of it.
                self.over |= end;
            } else {
                let now = Instant::now();
                let last = queue.back().map_or(now, |chunk| chunk.due.max(now));
                let due = match mode {
                    Mode::Delay(delay) => last.max(now + delay),
                    _ => last,
                };
                match (mode, direction) {
                    (Mode::Drip(every), Direction::Down) if !end => {
                        queue.extend((1..).zip(bytes).map(|(count, byte)| Chunk {
                            due: last + every * count,
                            bytes: vec![*byte],
                        }));
                    }
                    _ => queue.push_back(Chunk { due, bytes: bytes.to_vec() }),
                }
            }
            if end {
                return;
            }
        }
    }

    fn deliver(&mut self, direction: Direction, counts: &Counts) {
        let (mut to, queue) = match direction {
            Direction::Up => (&self.server, &mut self.up),
            Direction::Down => (&self.client, &mut self.down),
        };
        while let Some(chunk) = queue.front_mut() {
            if self.deaf {
                queue.clear();
                return;
            }
            if chunk.due > Instant::now() {
                return;
            }
            if chunk.bytes.is_empty() {
                // Where one side has ended the other has no use for the rest (these are servers
                // and their clients).
                self.over = true;
                return;
            }
            match to.write(&chunk.bytes) {
                Ok(length) => {
                    if direction == Direction::Down {
                        counts.bytes_down.fetch_add(length as u64, Ordering::SeqCst);
                    }
                    chunk.bytes.drain(..length);
                    if chunk.bytes.is_empty() {
                        queue.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.over = true;
                    return;
                }
            }
        }
    }
}

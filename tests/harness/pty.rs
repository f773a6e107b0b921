//! A terminal with somebody at it: runs a program as the leader of a session on a new pty, waits for
//! what it shows, and types.

use std::{
    ffi::OsStr,
    io::{ErrorKind, Read, Write},
    process::{Child, Command},
    time::{Duration, Instant},
};

use redlock::child::belt;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
    time::Timespec,
};

use super::{LIMIT, builder::End};

/// What `^C` types.
pub const INTERRUPT: &str = "\x03";
/// What `^\` types.
pub const QUIT: &str = "\x1c";
/// What `^Z` types.
pub const SUSPEND: &str = "\x1a";

/// A program on a terminal. It is killed on drop.
#[derive(Debug)]
pub struct Terminal {
    master: Option<std::fs::File>,
    leader: Child,
    screen: Vec<u8>,
    /// Up to where the screen has been waited for.
    seen: usize,
}

impl Terminal {
    /// Starts `words` with a new terminal as its controlling one and as its stdin, stdout and
    /// stderr.
    pub fn start<A: AsRef<OsStr>>(
        words: impl IntoIterator<Item = A>,
        environment: &[(&str, &str)],
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = open(name, flags, Mode::empty()).unwrap();
        // setsid(1) becomes a session leader, takes its stdin as the terminal, and is then replaced
        // by the program: the pid stays.
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .env("TERM", "xterm")
            .envs(environment.iter().copied())
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave);
        let leader = belt::die_with_parent(&mut command).spawn().unwrap();
        Self { master: Some(std::fs::File::from(master)), leader, screen: Vec::new(), seen: 0 }
    }

    pub fn leader(&self) -> Pid {
        Pid::from_child(&self.leader)
    }

    /// Everything shown so far, as the terminal got it: lines end with `\r\n`, what was typed is
    /// echoed.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen).into_owned()
    }

    /// Waits until `text` is shown after what was waited for last.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> &mut Self {
        let start = Instant::now();
        loop {
            let new = &self.screen[self.seen..];
            let place = new.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(place) = place {
                self.seen += place + text.len();
                return self;
            }
            assert!(
                start.elapsed() < LIMIT && self.look(),
                "no {text:?} on the terminal, but:\n{}",
                self.screen()
            );
        }
    }

    /// Types `text`.
    #[track_caller]
    pub fn types(&mut self, text: &str) -> &mut Self {
        let mut master = self.master.as_ref().expect("the terminal was closed");
        master.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Closes the terminal's window: the kernel hangs up.
    pub fn close(&mut self) {
        self.master = None;
    }

    /// A script: waits for each text and then types what follows it.
    #[track_caller]
    pub fn script(&mut self, steps: &[(&str, &str)]) -> &mut Self {
        for (text, keys) in steps {
            self.wait_for(text).types(keys);
        }
        self
    }

    /// Waits for the end of the leader.
    #[track_caller]
    pub fn finish(&mut self) -> End {
        let start = Instant::now();
        loop {
            if let Some(status) = self.leader.try_wait().unwrap() {
                // What it said last is still in the terminal.
                while self.master.is_some() && self.look_for(Duration::ZERO) {}
                return status.into();
            }
            assert!(
                start.elapsed() < LIMIT,
                "the leader still runs; the terminal shows:\n{}",
                self.screen()
            );
            self.look_for(Duration::from_millis(2));
        }
    }

    /// Reads more of the screen; whether the terminal is still open.
    fn look(&mut self) -> bool {
        let start = Instant::now();
        while !self.look_for(Duration::from_millis(20)) {
            if self.master.is_none() {
                return false;
            }
            if start.elapsed() > LIMIT {
                return true;
            }
        }
        true
    }

    /// Reads what is there within `patience`; whether anything was.
    fn look_for(&mut self, patience: Duration) -> bool {
        let Some(mut master) = self.master.as_ref() else {
            std::thread::sleep(patience);
            return false;
        };
        let mut fds = [PollFd::new(&master, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::try_from(patience).unwrap())).unwrap_or(0) == 0 {
            return false;
        }
        let mut piece = [0; 4096];
        match master.read(&mut piece) {
            Ok(length) => {
                self.screen.extend_from_slice(&piece[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            // EIO: nobody has the other side open any more.
            Err(_) => {
                self.master = None;
                false
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.leader.try_wait(), Ok(None)) {
            let _ = kill_process(self.leader(), Signal::KILL);
            let _ = self.leader.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_shows_takes_input_and_reports_the_exit() {
        let mut terminal = Terminal::start(
            ["sh", "-c", "tty -s && echo ready; read x </dev/tty; echo got $x; exit 7"],
            &[],
        );
        terminal.script(&[("ready\r\n", "hello\n")]).wait_for("got hello");
        assert_eq!(terminal.finish(), End::Exit(7));
    }

    #[test]
    fn interrupt_typed_at_the_terminal_kills_its_leader() {
        let mut terminal = Terminal::start(["sh", "-c", "echo ready; exec sleep 60"], &[]);
        terminal.script(&[("ready", INTERRUPT)]);
        assert_eq!(terminal.finish(), End::Signal(2));
    }

    #[test]
    fn closing_the_terminal_hangs_up() {
        let mut terminal = Terminal::start(["sh", "-c", "echo ready; exec sleep 60"], &[]);
        terminal.wait_for("ready").close();
        assert_eq!(terminal.finish(), End::Signal(1));
    }
}

//! The only module that writes to the terminal. Standard output is the command's; our words go to
//! standard error, one line each, prefixed `redlock: `. A line is one write(2) whose failure is
//! ignored: a closed terminal or pipe must never end a run, and one that nobody reads any more must
//! not hold it up.

mod clean;
mod denial;
mod json;
mod live;
pub mod mend;
mod notice;
mod paint;
mod secure;
mod table;
mod voice;
mod words;

use std::{
    fmt::Display,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

pub use clean::clean;
pub use denial::{Names, Sought, describe, finished, trouble, troubles};
pub use notice::{EndedBy, Level, Notice, OnLost, Process, Reason, Say};
pub use paint::{Color, Hue, Palette};
pub use table::Table;
pub use voice::{Format, Hush, Tone, Voice};
pub use words::Subject;

/// The one last line when the exit code is ours and nothing else was said.
pub fn exit(format: Format, code: u8, reason: &str) {
    match format {
        Format::Text => exit_line(code, reason),
        Format::Json => object(&json::exit(code, reason, std::time::SystemTime::now())),
    }
}

/// A warning that is always said, whatever was asked for.
pub fn warning(format: Format, text: &str) {
    match format {
        Format::Text => line(&format!("warning: {text}")),
        Format::Json => object(&json::warning(text, std::time::SystemTime::now())),
    }
}

/// Writes one line that is an object of ours.
fn object(text: &str) {
    write(rustix::stdio::stderr(), &format!("{}\n", clean(text)));
}

/// Writes one line of ours to standard error. Control characters do not get through.
pub fn line(text: &str) {
    write(rustix::stdio::stderr(), &format!("redlock: {}\n", clean(text)));
}

/// Says what works and should be mended all the same, where somebody may read it.
pub fn warn(warnings: &[impl Display]) {
    if is_terminal() {
        for warning in warnings {
            line(&format!("warning: {warning}"));
        }
    }
}

/// The one last line when the exit code is ours.
pub fn exit_line(code: u8, reason: &str) {
    line(&format!("exit {code}: {reason}"));
}

/// Writes what a script waits for to standard output, and says when that failed.
pub fn deliver(text: &str) -> std::io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Replaces what is on the terminal by `text`.
pub fn redraw(text: &str) -> std::io::Result<()> {
    // Line by line, each cleared behind its end, then the rest of the screen: no flicker.
    let lines = text.replace('\n', "\x1b[K\n");
    deliver(&format!("\x1b[H{lines}\x1b[J"))
}

/// A JSON text in which whatever could steer a terminal is escaped. Such characters stand only in
/// strings there.
pub fn json(text: &str) -> String {
    use std::fmt::Write as _;
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if clean::is_unsafe(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// A line that says how far something is, where there is a terminal to say it on.
#[derive(Debug, Default)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Shows `text` in place of what was shown before.
    pub fn show(&mut self, text: &str) {
        if is_terminal() {
            write(rustix::stdio::stderr(), &format!("\r\x1b[K{}", clean(text)));
            self.shown = true;
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            write(rustix::stdio::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whether standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stdout())
}

/// Asks a question that wants a yes, where there is a terminal to ask on.
pub fn ask(question: &str) -> Answer {
    use std::io::BufRead as _;
    if !is_terminal() || !rustix::termios::isatty(rustix::stdio::stdin()) {
        return Answer::NobodyThere;
    }
    write(rustix::stdio::stderr(), &format!("redlock: {} [y/N] ", clean(question)));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match (read, line.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Answer::Yes,
        _ => Answer::No,
    }
}

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Yes,
    /// Anything else.
    No,
    /// There is no terminal.
    NobodyThere,
}

/// Whether standard error is a terminal.
pub fn is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stderr())
}

/// How long a slow reader may hold up a line. One that has stopped (^S, a pipe that is full) is
/// waited for once.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A pipe that is ready takes as much without blocking (pipe(7): `PIPE_BUF`).
const PIECE: usize = 4096;
/// The last line did not get through.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Writes what may be lost: a run that waited for its reader could neither end its command in time
/// nor hear a signal. So where a line does not get through the rest of it is dropped.
fn write(fd: impl AsFd, text: &str) {
    let mut patience = if STOPPED.load(Ordering::Relaxed) { Timespec::default() } else { PATIENCE };
    for mut rest in text.as_bytes().chunks(PIECE) {
        while !rest.is_empty() {
            match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&patience)) {
                Ok(0) => return STOPPED.store(true, Ordering::Relaxed),
                // A signal is no reason to wait again from the beginning.
                Err(Errno::INTR) => patience = Timespec::default(),
                _ => match rustix::io::write(&fd, rest) {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                },
            }
        }
    }
    STOPPED.store(false, Ordering::Relaxed);
}

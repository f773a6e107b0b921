//! The only module that writes to the terminal. Standard output is the command's; our words go to
//! standard error, one line each, prefixed `redlock: `. A line is one write(2) whose failure is
//! ignored: a closed terminal or pipe must never end a run.

mod clean;
mod denial;
mod json;
mod live;
mod notice;
mod voice;
mod words;

use std::os::fd::AsFd;

pub use clean::clean;
pub use notice::{EndedBy, Level, Notice, OnLost, Process, Reason, Say};
pub use voice::{Format, Hush, Tone, Voice};
pub use words::Subject;

/// The one last line when the exit code is ours and nothing else was said.
pub fn exit(format: Format, code: u8, reason: &str) {
    match format {
        Format::Text => exit_line(code, reason),
        Format::Json => object(&json::exit(code, reason, std::time::SystemTime::now())),
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

/// The one last line when the exit code is ours.
pub fn exit_line(code: u8, reason: &str) {
    line(&format!("exit {code}: {reason}"));
}

/// Writes a text that the user asked for (help, version) to standard output.
pub fn print(text: &str) {
    write(rustix::stdio::stdout(), text);
}

/// Whether standard error is a terminal.
pub fn is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stderr())
}

fn write(fd: impl AsFd, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(&fd, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

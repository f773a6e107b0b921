//! `redlock acquire`: takes a lock, says its token, and leaves it on the nodes.
//!
//! Until the token is written somewhere nobody else knows it, so whatever goes wrong before that
//! releases the lock again: a signal, a full disk, a reader that went away.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::mpsc::TryRecvError,
};

use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use serde_json::json;

use crate::{
    child::Inherited,
    clock::{BootClock, Clock as _, Tick},
    exit::{Code, Exit},
    node::{self, Nodes},
    protocol::{Denial, Event, Note, Session, Token, Verdict},
    settings::AcquireSettings,
    signal::Signals,
    ui::{self, Notice, Reason, Say as _, Voice},
    wake::{self, Receiver},
};

/// The signals that end the wait.
const STOPS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Carries it out.
pub fn run(settings: AcquireSettings) -> Exit {
    let mut voice = Voice::new(settings.subject.clone(), settings.tone);
    voice.warn(&settings.warnings);
    match attempt(settings, &mut voice) {
        Ok(exit) => exit,
        Err((what, error)) => {
            let code = Code::Failure;
            let reason = Reason::Failed { error: format!("cannot {what}: {error}") };
            voice.say(Notice::Exit { code: code.number(), reason });
            code.into()
        }
    }
}

type Failure = (&'static str, io::Error);

fn attempt(settings: AcquireSettings, voice: &mut Voice) -> Result<Exit, Failure> {
    let AcquireSettings { fleet, keys, contract, json, token_file, conflict_exit_code, .. } =
        settings;
    let inherited = Inherited::take(&STOPS);
    if inherited.closed(1) && token_file.is_none() {
        return Err(("write the token to standard output", Errno::BADF.into()));
    }
    let wanted = STOPS.into_iter().filter(|&signal| !inherited.ignores(signal));
    let signals = Signals::watch(wanted).map_err(|error| ("handle signals", error))?;
    Inherited::unblock();
    let (events, news) = wake::channel().map_err(|error| ("make a channel", error))?;
    let delivery =
        Delivery { key: settings.subject.key, of: fleet.len(), number: None, json, token_file };
    let nodes = node::start(fleet, Session::new(contract), &keys, events)
        .map_err(|error| ("start talking to the nodes", error))?;
    nodes.begin();
    let taking = Taking {
        voice,
        nodes,
        delivery,
        conflict_exit_code,
        state: State::Waiting,
        exit: Code::Failure.into(),
    };
    taking.run(signals, &news).map_err(|error| ("talk to the nodes", error))
}

/// How far it got.
enum State {
    /// For the lock.
    Waiting,
    /// It is ours; the other nodes may still answer.
    Taken { token: Token, validity: Tick },
    /// All is decided.
    Ending,
}

struct Taking<'a> {
    voice: &'a mut Voice,
    nodes: Nodes,
    delivery: Delivery,
    conflict_exit_code: u8,
    state: State,
    exit: Exit,
}

impl Taking<'_> {
    fn run(mut self, mut signals: Signals, news: &Receiver<Event>) -> io::Result<Exit> {
        loop {
            let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(news, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(received) = signals.drain().next() {
                self.cancel(received.signal);
            }
            news.hush();
            loop {
                match news.try_recv() {
                    Ok(Event::Settled { .. }) => return Ok(self.exit),
                    Ok(event) => self.hear(event),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        return Err(io::Error::other("the connections ended"));
                    }
                }
            }
        }
    }

    fn cancel(&mut self, signal: i32) {
        // Once the token is written the lock belongs to whoever reads it.
        if !matches!(self.state, State::Ending) {
            self.voice.say(Notice::Cancelled { signal });
            self.end(Exit::Signal(signal));
            self.nodes.stop();
        }
    }

    fn end(&mut self, exit: Exit) {
        self.state = State::Ending;
        self.exit = exit;
    }

    fn hear(&mut self, event: Event) {
        match (event, &mut self.state) {
            (Event::Fenced(number), State::Waiting) => self.delivery.number = Some(number),
            (Event::Acquired { token, validity, waited, .. }, State::Waiting) => {
                self.state = State::Taken { token, validity };
                self.voice.say(Notice::Acquired { waited });
            }
            (Event::Validity(later), State::Taken { validity, .. }) => *validity = later,
            (
                Event::Note(note @ Note::Acquired { nodes }),
                &mut State::Taken { token, validity },
            ) => {
                self.voice.say(Notice::Note(note));
                self.deliver(token, validity, nodes);
            }
            (Event::Lost(_), State::Taken { .. }) => {
                self.fail(Code::Lost.number(), Reason::Lost);
                self.nodes.stop();
            }
            (Event::Denied(denial), State::Waiting) => {
                let code = code(&denial, self.conflict_exit_code);
                self.fail(code, Reason::Denied(denial));
            }
            (Event::Note(note), State::Waiting) => self.voice.say(Notice::Note(note)),
            _ => {}
        }
    }

    fn fail(&mut self, code: u8, reason: Reason) {
        self.voice.say(Notice::Exit { code, reason });
        self.end(Exit::Status(code));
    }

    fn deliver(&mut self, token: Token, validity: Tick, nodes: usize) {
        match self.delivery.write(token, validity, nodes) {
            Ok(()) => {
                self.end(Code::Success.into());
                self.nodes.keep();
            }
            Err((what, error)) => {
                let reason = Reason::Failed { error: format!("cannot {what}: {error}") };
                self.fail(Code::Failure.number(), reason);
                self.nodes.stop();
            }
        }
    }
}

fn code(denial: &Denial, conflict: u8) -> u8 {
    match denial.verdict {
        Verdict::Held | Verdict::Contended => conflict,
        Verdict::Unfit | Verdict::Ourselves { .. } => Code::Config.number(),
        Verdict::NotOurs | Verdict::NotInherited => Code::Lost.number(),
        Verdict::Unavailable if denial.is_about_rights() => Code::Refused.number(),
        Verdict::Unavailable | Verdict::TooSlow | Verdict::Guarded(_) => Code::Unavailable.number(),
    }
}

/// Where the token goes.
struct Delivery {
    key: String,
    of: usize,
    /// The fencing token.
    number: Option<u64>,
    json: bool,
    token_file: Option<std::path::PathBuf>,
}

impl Delivery {
    fn write(&self, token: Token, validity: Tick, nodes: usize) -> Result<(), Failure> {
        if let Some(path) = &self.token_file {
            write_private(path, &format!("{token}\n"))
                .map_err(|error| ("write the token file; the lock is given back", error))?;
        }
        let text = if self.json {
            let left = validity.since(BootClock.now());
            let object = json!({
                "v": 1,
                "key": self.key,
                "token": token.to_string(),
                "validity_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                "fencing_token": self.number,
                "nodes": nodes,
                "of": self.of,
            });
            format!("{object}\n")
        } else {
            format!("{token}\n")
        };
        ui::deliver(&text).map_err(|error| {
            if let Some(path) = &self.token_file {
                // A token that was given up must not lie about.
                let _ = fs::remove_file(path);
            }
            ("write the token to standard output; the lock is given back", error)
        })
    }
}

/// Replaces the file as a whole; nobody else can read it at any time. What is there and is no regular
/// file (a device, a pipe, a link like `/dev/stdout`) stays what it is: others need it.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is no regular file")),
        _ => {}
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

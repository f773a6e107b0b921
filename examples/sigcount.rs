//! A child that says `ready` and then every signal it gets, one line each, with its sender: the
//! counterpart of the tests in tests/supervision. It ends when the file named by its argument is
//! there. With a second argument it appends a byte to that file every millisecond, so that a test
//! can see whether it ran. It never forks: a shell that is stopped in the middle of a vfork(2) looks
//! as if it were not.
//!
//! usage: `sigcount` END [TICKS]
#![expect(clippy::print_stdout, reason = "this is a main of its own")]

use std::{env, fs::File, io::Write, path::PathBuf, thread, time::Duration};

use redlock::signal::{Sender, Signals, name};

fn main() {
    let mut args = env::args().skip(1);
    let end = PathBuf::from(args.next().unwrap_or_default());
    let mut ticks = args.next().and_then(|path| File::create(path).ok());
    let signals = [1, 2, 3, 10, 12, 14, 15, 18, 28];
    let Ok(mut signals) = Signals::watch(signals) else {
        return;
    };
    let say = |text: &str| {
        println!("{text}");
        let _ = std::io::stdout().flush();
    };
    say("ready");
    while !end.exists() {
        for received in signals.drain() {
            let sender = match received.sender {
                Sender::Kernel => "kernel".to_owned(),
                Sender::Process(pid) => pid.to_string(),
                Sender::Unknown => "unknown".to_owned(),
            };
            say(&format!("got {} from {sender}", name(received.signal)));
        }
        if let Some(ticks) = &mut ticks {
            let _ = ticks.write_all(b".");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

//! ^C for commands that repeat themselves and have nothing to clean up: it ends the repetition at
//! a moment when the output is whole.

use std::io;

use crate::wake::{self, Receiver};

/// A receiver that hears of every ^C from now on. Call it once in a process.
pub fn on_interrupt() -> io::Result<Receiver<()>> {
    let (interrupts, inbox) = wake::channel()?;
    ctrlc::set_handler(move || interrupts.send(())).map_err(io::Error::other)?;
    Ok(inbox)
}

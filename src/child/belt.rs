//! The belt: a direct child that the kernel kills when we end, however we end (prctl(2),
//! `PR_SET_PDEATHSIG`). It holds no further than that: the child's own children live on, and a
//! set-user-ID program takes it off.

use std::{io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes `command`, once it is spawned, die by KILL as soon as its parent is gone.
///
/// "Gone" means the end of the *thread* that spawns it, so spawn from one that lives as long as
/// the child should. From here on std forks instead of using `posix_spawn`.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let buckle = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that ended before the line above would never be noticed. Its pid was taken
        // before the fork: comparing with 1 goes wrong under an init or a subreaper.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are called; nothing is
    // allocated (an `io::Error` made from an `ErrorKind` or a system error has no heap part),
    // no lock is taken.
    unsafe { command.pre_exec(buckle) }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        sync::mpsc,
        thread,
    };

    use super::die_with_parent;

    #[test]
    fn child_dies_with_the_thread_that_started_it() {
        let (sender, receiver) = mpsc::channel();
        let starter = thread::spawn(move || {
            let mut command = Command::new("sleep");
            command.arg("60").stdin(Stdio::null());
            sender.send(die_with_parent(&mut command).spawn().unwrap()).unwrap();
        });
        starter.join().unwrap();
        let status = receiver.recv().unwrap().wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}

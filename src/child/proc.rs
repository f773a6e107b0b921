//! Reading /proc: who is there, whose child, since when, and whether a run's id is in its
//! environment (proc(5)). Everything here can be out of date when it returns; who signals by it
//! looks again through a handle first.

use std::{fs, io, io::Read};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::sys;

/// One process, as /proc/PID/stat has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its id.
    pub pid: Pid,
    /// The name of its program (15 bytes at most).
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// Its parent; 0 for those that have none.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Looks at one process; `None` when it is gone.
    pub fn of(pid: Pid) -> Option<Self> {
        let mut file = fs::File::open(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The kernel hands the line out in one piece.
        let mut line = [0; 1024];
        let length = file.read(&mut line).ok()?;
        Self::parse(&String::from_utf8_lossy(&line[..length]))
    }

    /// The name may hold spaces and parentheses: it ends at the last closing one.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse::<i32>().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        // Fields 7 to 21 stand between the session and the start time.
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self {
            pid: Pid::from_raw(pid.parse().ok()?)?,
            name: name.to_owned(),
            state,
            parent,
            group,
            session,
            start,
        })
    }

    /// Whether it still runs or could run again: it is neither a zombie nor dead.
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Sends `signal` to this very process, never to another that was given its number since.
    ///
    /// # Errors
    /// As kill(2); `ESRCH` also when the number belongs to somebody else by now.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let Some(named) = Signal::from_named_raw(signal) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => {
                // The handle holds the process; now it is certain whether it is the one meant.
                let again = Self::of(self.pid).ok_or_else(gone)?;
                if again.start != self.start {
                    return Err(gone());
                }
                Ok(pidfd_send_signal(&handle, named)?)
            }
            // Before Linux 5.3, or out of descriptors: the number has to do.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                sys::signal_process(self.pid, signal)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether /proc shows our pid namespace. Another one's (`unshare --pid` without a /proc of its own)
/// has other processes under the same numbers, and must not be believed.
fn is_ours() -> bool {
    let me = getpid().as_raw_nonzero().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == me.as_str())
}

/// Every process of the machine (of our pid namespace); none where /proc is another's.
pub fn all() -> Vec<Stat> {
    if !is_ours() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter_map(Stat::of)
        .collect()
}

/// The children of all threads of `pid`, from the kernel's own list; `None` where the kernel has
/// none (`CONFIG_PROC_CHILDREN`) or the process is gone.
pub fn children(pid: Pid) -> Option<Vec<Pid>> {
    if !is_ours() {
        return None;
    }
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
    let mut found = Vec::new();
    for task in tasks.flatten() {
        // A thread can end between the two calls; its children have moved to another by then.
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
            ),
            Err(_) if task.path().join("stat").exists() => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

/// Whether `variable` in the environment that `pid` was started with mentions `id`. An
/// unreadable environment (another user's) mentions nothing.
pub fn mentions(pid: Pid, variable: &[u8], id: &[u8]) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
        return false;
    };
    environment
        .split(|&byte| byte == 0)
        .filter_map(|entry| entry.strip_prefix(variable)?.strip_prefix(b"="))
        .any(|value| value.windows(id.len()).any(|window| window == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_spaces_and_parentheses_is_read_whole() {
        let text = "42 (a) (b c)) S 7 40 39 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(stat.pid.as_raw_nonzero().get(), 42);
        assert_eq!(stat.name, "a) (b c)");
        assert_eq!((stat.state, stat.parent, stat.group), ('S', 7, 40));
        assert_eq!((stat.session, stat.start), (39, 12345));
    }

    #[test]
    fn we_find_ourselves_and_our_parent() {
        let me = rustix::process::getpid();
        let stat = Stat::of(me).unwrap();
        assert!(stat.is_alive());
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        assert_eq!(stat.parent, parent);
        assert!(all().iter().any(|process| process.pid == me));
    }

    #[test]
    fn process_that_took_over_a_number_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let stale = Stat { start: 1, ..Stat::of(pid).unwrap() };
        let error = stale.signal(libc::SIGKILL).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        assert!(Stat::of(pid).unwrap().is_alive());
        Stat::of(pid).unwrap().signal(libc::SIGKILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn run_is_found_in_its_own_variable_only() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("OURS", "abc 123-456 x")
            .env("OTHER", "789")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        // Until exec the child still shows our own environment.
        while !mentions(pid, b"OTHER", b"789") {
            std::thread::yield_now();
        }
        assert!(mentions(pid, b"OURS", b"123-456"));
        assert!(!mentions(pid, b"OURS", b"789"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

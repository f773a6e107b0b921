//! Host names: one thread per name, since getaddrinfo(3) blocks for as long as it likes. Nobody
//! ever waits for such a thread, not even the end of the process.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{Arc, mpsc},
    thread,
};

use crate::wake;

/// How a name is looked up; tests have their own.
pub type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The system's resolver.
pub fn system() -> Lookup {
    Arc::new(|host| Ok((host, 0).to_socket_addrs()?.collect()))
}

/// What a thread found out.
pub struct Resolution {
    name: usize,
    result: Result<Vec<SocketAddr>, String>,
}

/// The names of a fleet.
pub struct Resolver {
    names: Vec<Name>,
    /// Keeps the inbox from being disconnected when there are no names.
    _answers: wake::Sender<Resolution>,
}

struct Name {
    host: String,
    questions: mpsc::Sender<()>,
    progress: Progress,
    /// The addresses of the last answer, without ports.
    known: Vec<SocketAddr>,
    /// Addresses at which nobody answered: they are tried last.
    late: Vec<SocketAddr>,
}

#[derive(PartialEq, Eq)]
enum Progress {
    Idle,
    /// Asked; until the answer the thread may hang.
    Asked,
}

impl Resolver {
    /// Starts a thread for each of `hosts`; they idle until asked. Answers come to the receiver.
    pub fn start<'a>(
        hosts: impl Iterator<Item = &'a str>,
        lookup: &Lookup,
    ) -> io::Result<(Self, wake::Receiver<Resolution>)> {
        let (answers, inbox) = wake::channel()?;
        let mut names: Vec<Name> = Vec::new();
        for host in hosts {
            if names.iter().any(|name| name.host == host) {
                continue;
            }
            let (questions, asked) = mpsc::channel();
            let (name, answers, lookup) = (names.len(), answers.clone(), Arc::clone(lookup));
            let owned = host.to_owned();
            thread::Builder::new().name("resolver".into()).spawn(move || {
                while let Ok(()) = asked.recv() {
                    let result = lookup(&owned).map_err(|error| words(&error));
                    answers.send(Resolution { name, result });
                }
            })?;
            names.push(Name {
                host: host.to_owned(),
                questions,
                progress: Progress::Idle,
                known: Vec::new(),
                late: Vec::new(),
            });
        }
        Ok((Self { names, _answers: answers }, inbox))
    }

    /// Asks for the addresses of `host` anew. Returns those of the last answer when the thread
    /// still hangs at an earlier question; otherwise the answer comes later.
    pub fn ask(&mut self, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let name = self.names.iter_mut().find(|name| name.host == host)?;
        match name.progress {
            Progress::Asked if !name.known.is_empty() => Some(name.with_port(port)),
            Progress::Asked => None,
            Progress::Idle => {
                name.progress = Progress::Asked;
                // A thread that ended (its lookup panicked) is as one that hangs.
                let _ = name.questions.send(());
                None
            }
        }
    }

    /// Takes an answer in and returns whose it is.
    pub fn answer(&mut self, resolution: Resolution) -> Option<Answer> {
        let name = self.names.get_mut(resolution.name)?;
        name.progress = Progress::Idle;
        let failure = match resolution.result {
            Ok(mut addresses) => {
                for address in &mut addresses {
                    address.set_port(0);
                }
                name.late.retain(|late| addresses.contains(late));
                name.known = addresses;
                name.sort();
                "the name has no address".to_owned()
            }
            // What was known before still serves: a resolver's bad hour is no node's.
            Err(words) => words,
        };
        Some(Answer { host: name.host.clone(), addresses: name.known.clone(), failure })
    }

    /// Nobody answered at `address`: the next connection tries others first.
    pub fn avoid(&mut self, host: &str, mut address: SocketAddr) {
        address.set_port(0);
        if let Some(name) = self.names.iter_mut().find(|name| name.host == host) {
            name.late.retain(|late| *late != address);
            name.late.push(address);
            name.sort();
        }
    }
}

/// An answer for everybody who waits for `host`.
pub struct Answer {
    /// The name.
    pub host: String,
    addresses: Vec<SocketAddr>,
    failure: String,
}

impl Answer {
    /// The addresses with `port`, or why there are none.
    pub fn at(&self, port: u16) -> Result<Vec<SocketAddr>, String> {
        if self.addresses.is_empty() {
            Err(self.failure.clone())
        } else {
            Ok(with_port(&self.addresses, port))
        }
    }
}

impl Name {
    fn with_port(&self, port: u16) -> Vec<SocketAddr> {
        with_port(&self.known, port)
    }

    /// The system's order, with those at the end that did not answer, the latest last.
    fn sort(&mut self) {
        let Self { known, late, .. } = self;
        known.sort_by_key(|known| late.iter().position(|late| late == known));
    }
}

fn with_port(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let with = |address: &SocketAddr| {
        let mut address = *address;
        address.set_port(port);
        address
    };
    addresses.iter().map(with).collect()
}

/// The resolver's words, without those that every failure has.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let common = "failed to lookup address information: ";
    text.strip_prefix(common).unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rustix::{
        event::{PollFd, PollFlags, poll},
        time::Timespec,
    };

    use super::*;

    fn ip(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], port))
    }

    type Found = io::Result<Vec<SocketAddr>>;

    /// A resolver for one name that answers what the test sends.
    fn resolver() -> (Resolver, wake::Receiver<Resolution>, mpsc::Sender<Found>) {
        let (found, finds) = mpsc::channel::<Found>();
        let finds = Mutex::new(finds);
        let lookup: Lookup = Arc::new(move |_| {
            finds.lock().unwrap().recv().unwrap_or_else(|_| Err(io::Error::other("the end")))
        });
        let (resolver, inbox) = Resolver::start(["db", "db"].into_iter(), &lookup).unwrap();
        assert_eq!(resolver.names.len(), 1, "one thread per name");
        (resolver, inbox, found)
    }

    fn answer(resolver: &mut Resolver, inbox: &wake::Receiver<Resolution>) -> Answer {
        let bound = Timespec { tv_sec: 20, tv_nsec: 0 };
        loop {
            if let Ok(resolution) = inbox.try_recv() {
                return resolver.answer(resolution).unwrap();
            }
            let mut fds = [PollFd::new(inbox, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&bound)), Ok(1));
            inbox.hush();
        }
    }

    #[test]
    fn last_known_addresses_serve_while_a_resolver_hangs_or_fails() {
        let (mut resolver, inbox, found) = resolver();
        assert_eq!(resolver.ask("db", 1), None);
        assert_eq!(resolver.ask("db", 1), None);
        found.send(Ok(vec![ip(1, 0), ip(2, 0)])).unwrap();
        let known = vec![ip(1, 7), ip(2, 7)];
        assert_eq!(answer(&mut resolver, &inbox).at(7), Ok(known.clone()));

        // Asked anew, the answer is awaited; only one who asks while it hangs gets the old one.
        assert_eq!(resolver.ask("db", 7), None);
        assert_eq!(resolver.ask("db", 7), Some(known.clone()));
        found.send(Err(io::Error::other("down"))).unwrap();
        assert_eq!(answer(&mut resolver, &inbox).at(7), Ok(known));

        // A new answer replaces it, one without addresses too.
        assert_eq!(resolver.ask("db", 7), None);
        found.send(Ok(Vec::new())).unwrap();
        let words = "the name has no address".to_owned();
        assert_eq!(answer(&mut resolver, &inbox).at(7), Err(words));
    }

    #[test]
    fn address_at_which_nobody_answered_is_tried_last() {
        let (mut resolver, inbox, found) = resolver();
        for _ in 0..2 {
            resolver.ask("db", 1);
            found.send(Ok(vec![ip(1, 0), ip(2, 0), ip(3, 0)])).unwrap();
            answer(&mut resolver, &inbox);
            resolver.avoid("db", ip(1, 9));
        }
        resolver.ask("db", 1);
        assert_eq!(resolver.ask("db", 1), Some(vec![ip(2, 1), ip(3, 1), ip(1, 1)]));
        resolver.avoid("db", ip(2, 9));
        assert_eq!(resolver.ask("db", 1), Some(vec![ip(3, 1), ip(1, 1), ip(2, 1)]));
    }
}

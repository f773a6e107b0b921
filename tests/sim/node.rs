//! One model node: the keys with their expiry, by the node's own clock, and what the scripts do to
//! them (docs/protocol.md, section 2). Nothing in here knows the protocol's rules, so that it also
//! executes what breaks them.

use std::{rc::Rc, time::Duration};

use redlock::protocol::{Obstacle, Occupant, Reply, Request, Token};

/// Milliseconds of the node's clock.
pub type NodeMs = u64;

/// What sits at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub occupant: Rc<Occupant>,
    /// The token that the value begins with.
    pub token: Option<Token>,
    /// `None`: it stays.
    pub expires: Option<NodeMs>,
}

/// How faithful the scripts are. The broken forms show that the checks see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scripts {
    #[default]
    Faithful,
    /// SET NX PX replaced by SET PX.
    AcquireOverwrites,
    /// PEXPIRE without asking whether it shortens: an expiry of half the ttl.
    ExtendShortens,
    /// SET XX PX without comparing the token.
    ExtendBySet,
    /// DEL without comparing the token.
    ReleaseAnything,
    /// The fencing token is written without asking whose the lock is and what the counter is.
    SealsAnything,
    /// The fencing token is written without comparing the counter.
    SealsAnyCount,
}

/// The keys of one node, by their place in the plan's list.
#[derive(Clone, Debug, Default)]
pub struct Store {
    entries: Vec<Option<Entry>>,
    scripts: Scripts,
    counters: Vec<u64>,
}

impl Store {
    /// An empty node whose counters stand at `counter`.
    pub fn new(keys: usize, scripts: Scripts, counter: u64) -> Self {
        Self { entries: vec![None; keys], scripts, counters: vec![counter; keys] }
    }

    /// What is at `key` at `now`.
    pub fn get(&self, key: usize, now: NodeMs) -> Option<&Entry> {
        // A key may go a millisecond before its time: Redis counts whole milliseconds, and so the
        // first of them can be as good as over when the key is set.
        self.entries[key].as_ref().filter(|entry| entry.expires.is_none_or(|at| at > now))
    }

    /// Puts something there, as any other client could.
    pub fn put(&mut self, key: usize, occupant: Occupant, expires: Option<NodeMs>) {
        let token = match &occupant {
            Occupant::Value(value) => Token::of_value(value),
            Occupant::Type(_) => None,
        };
        self.entries[key] = Some(Entry { occupant: Rc::new(occupant), token, expires });
    }

    /// DEL of every key, as by hand, or their eviction. The counters stay.
    pub fn free(&mut self) {
        self.entries.fill(None);
    }

    /// FLUSHALL, or a restart without memory.
    pub fn forget(&mut self) {
        self.entries.fill(None);
        self.counters.fill(0);
    }

    /// Executes one request on the client's `keys`, atomically.
    pub fn execute(&mut self, keys: &[usize], request: &Request, now: NodeMs) -> Reply {
        for &key in keys {
            if self.get(key, now).is_none() {
                self.entries[key] = None;
            }
        }
        match request {
            Request::Acquire { token, value, ttl } => self.acquire(keys, *token, value, *ttl, now),
            Request::Heal { token, value, ttl, number } => {
                for key in keys {
                    self.counters[*key] = self.counters[*key].max(number.unwrap_or(0));
                }
                self.acquire(keys, *token, value, *ttl, now)
            }
            Request::AcquireCounted { token, value, ttl } => {
                let reply = self.acquire(keys, *token, value, *ttl, now);
                if reply != Reply::Done {
                    return reply;
                }
                let mut next = |key: &usize| {
                    self.counters[*key] = (self.counters[*key] + 1).max(now * 1000);
                    self.counters[*key]
                };
                Reply::Counted(keys.iter().map(&mut next).collect())
            }
            Request::Seal { token, counted, number } => self.seal(keys, *token, counted, *number),
            Request::Extend { token, ttl } => self.extend(keys, *token, *ttl, now),
            Request::Release { token, .. } => self.release(keys, *token, now),
            Request::Finish { token, value, rest } => self.finish(keys, *token, value, *rest, now),
            // Who listens is the connections' business.
            Request::Subscribe | Request::Attend => Reply::Done,
            Request::Look => match self.obstacles(keys, None, now) {
                found if found.is_empty() => Reply::Absent,
                found => Reply::Held(found),
            },
            other => unreachable!("no session sends {other:?}"),
        }
    }

    fn acquire(
        &mut self,
        keys: &[usize],
        token: Token,
        value: &str,
        ttl: Duration,
        now: NodeMs,
    ) -> Reply {
        if self.scripts == Scripts::AcquireOverwrites {
            for &key in keys {
                self.put(key, Occupant::Value(value.into()), Some(now + millis(ttl)));
            }
            return Reply::Done;
        }
        let others = self.obstacles(keys, Some(token), now);
        if !others.is_empty() {
            return Reply::Held(others);
        }
        for &key in keys {
            match &mut self.entries[key] {
                Some(own) => raise(own, now + millis(ttl)),
                None => self.put(key, Occupant::Value(value.into()), Some(now + millis(ttl))),
            }
        }
        Reply::Done
    }

    fn extend(&mut self, keys: &[usize], token: Token, ttl: Duration, now: NodeMs) -> Reply {
        let others = self.obstacles(keys, Some(token), now);
        let by_set = self.scripts == Scripts::ExtendBySet;
        if !others.is_empty() && !by_set {
            return Reply::Held(others);
        }
        if keys.iter().any(|&key| self.entries[key].is_none()) {
            return Reply::Absent;
        }
        for &key in keys {
            if by_set {
                let value = Occupant::Value(token.to_string().into_bytes());
                self.put(key, value, Some(now + millis(ttl)));
            } else if let Some(own) = &mut self.entries[key] {
                if self.scripts == Scripts::ExtendShortens {
                    own.expires = Some(now + millis(ttl) / 2);
                } else {
                    raise(own, now + millis(ttl));
                }
            }
        }
        Reply::Done
    }

    fn seal(&mut self, keys: &[usize], token: Token, counted: &[u64], number: u64) -> Reply {
        let ours =
            |key: &usize| self.entries[*key].as_ref().is_some_and(|e| e.token == Some(token));
        let same = keys.iter().zip(counted).all(|(key, told)| self.counters[*key] == *told);
        let ours = self.scripts == Scripts::SealsAnything || keys.iter().all(ours);
        let blind = matches!(self.scripts, Scripts::SealsAnything | Scripts::SealsAnyCount);
        if !ours || !(same || blind) {
            return Reply::Absent;
        }
        for key in keys {
            self.counters[*key] = self.counters[*key].max(number);
        }
        Reply::Done
    }

    fn release(&mut self, keys: &[usize], token: Token, now: NodeMs) -> Reply {
        let others = self.obstacles(keys, Some(token), now);
        let anything = self.scripts == Scripts::ReleaseAnything;
        let mut deleted = false;
        for &key in keys {
            let entry = &mut self.entries[key];
            if entry.as_ref().is_some_and(|entry| anything || entry.token == Some(token)) {
                *entry = None;
                deleted = true;
            }
        }
        if deleted {
            Reply::Done
        } else if others.is_empty() {
            Reply::Absent
        } else {
            Reply::Held(others)
        }
    }

    fn finish(
        &mut self,
        keys: &[usize],
        token: Token,
        value: &str,
        rest: Duration,
        now: NodeMs,
    ) -> Reply {
        let others = self.obstacles(keys, Some(token), now);
        let ours =
            |key: &&usize| self.entries[**key].as_ref().is_some_and(|e| e.token == Some(token));
        let ours: Vec<usize> = keys.iter().filter(ours).copied().collect();
        for key in &ours {
            self.put(*key, Occupant::Value(value.into()), Some(now + millis(rest)));
        }
        match (ours.is_empty(), others.is_empty()) {
            (false, _) => Reply::Done,
            (true, true) => Reply::Absent,
            (true, false) => Reply::Held(others),
        }
    }

    /// What is at `keys` that does not carry `token`.
    fn obstacles(&self, keys: &[usize], token: Option<Token>, now: NodeMs) -> Vec<Obstacle> {
        let at = |(place, &key): (usize, &usize)| {
            let entry = self.entries[key].as_ref()?;
            if token.is_some() && entry.token == token {
                return None;
            }
            Some(Obstacle {
                key: place,
                occupant: Occupant::clone(&entry.occupant),
                expires_in: entry.expires.map(|at| Duration::from_millis(at.saturating_sub(now))),
            })
        };
        keys.iter().enumerate().filter_map(at).collect()
    }
}

/// PEXPIRE that never shortens.
fn raise(entry: &mut Entry, to: NodeMs) {
    entry.expires = entry.expires.map(|at| at.max(to));
}

fn millis(ttl: Duration) -> NodeMs {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(100);

    fn acquire(token: Token) -> Request {
        Request::Acquire { token, value: format!("{token} {{}}"), ttl: TTL }
    }

    fn extend(token: Token, ttl: Duration) -> Request {
        Request::Extend { token, ttl }
    }

    fn release(token: Token) -> Request {
        Request::Release { token, announce: true }
    }

    fn expiry(store: &Store) -> Option<NodeMs> {
        store.get(0, 0).and_then(|entry| entry.expires)
    }

    #[test]
    fn own_expiry_is_raised_and_never_lowered() {
        let (a, mut node) = (Token::from_random(1), Store::new(1, Scripts::Faithful, 0));
        assert_eq!(node.execute(&[0], &acquire(a), 1000), Reply::Done);
        assert_eq!(node.execute(&[0], &acquire(a), 900), Reply::Done);
        assert_eq!(expiry(&node), Some(1100));
        let short = Duration::from_millis(5);
        assert_eq!(node.execute(&[0], &extend(a, short), 1050), Reply::Done);
        assert_eq!(expiry(&node), Some(1100));
        assert_eq!(node.execute(&[0], &extend(a, TTL), 1050), Reply::Done);
        assert_eq!(expiry(&node), Some(1150));
        // Its time has come.
        assert_eq!(node.execute(&[0], &extend(a, TTL), 1150), Reply::Absent);
    }

    #[test]
    fn value_of_another_is_named_and_left_alone() {
        let (a, b) = (Token::from_random(1), Token::from_random(2));
        let mut node = Store::new(3, Scripts::Faithful, 0);
        node.execute(&[1], &acquire(b), 1000);
        node.put(2, Occupant::Type("hash".into()), None);
        let Reply::Held(found) = node.execute(&[0, 1, 2], &acquire(a), 1040) else {
            panic!("acquired");
        };
        assert_eq!(found.iter().map(|o| o.key).collect::<Vec<_>>(), [1, 2], "{found:?}");
        assert_eq!(found[0].expires_in, Some(Duration::from_millis(60)));
        assert_eq!(found[1].expires_in, None);
        assert!(node.get(0, 1040).is_none());
        let before = node.entries.clone();
        for request in [extend(a, TTL), release(a), Request::Look] {
            assert!(matches!(node.execute(&[0, 1, 2], &request, 1040), Reply::Held(_)));
        }
        assert_eq!(node.entries, before);
    }

    #[test]
    fn only_the_owner_releases() {
        let (a, b) = (Token::from_random(1), Token::from_random(2));
        let mut node = Store::new(1, Scripts::Faithful, 0);
        assert_eq!(node.execute(&[0], &release(a), 1000), Reply::Absent);
        node.execute(&[0], &acquire(a), 1000);
        assert!(matches!(node.execute(&[0], &release(b), 1000), Reply::Held(_)));
        assert_eq!(node.execute(&[0], &release(a), 1000), Reply::Done);
        assert_eq!(node.execute(&[0], &Request::Look, 1000), Reply::Absent);
    }
}

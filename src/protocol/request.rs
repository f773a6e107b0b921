//! What is asked of a node and what it answers: the vocabulary between the pure machines and the
//! shell that owns the sockets.

use std::time::Duration;

use super::{Datum, Introduction, Query, TlsTrouble, Token, Unfit};

/// A node's place in the canonical (sorted) list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u8);

impl NodeIndex {
    /// The place as an index into per-node tables.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// One ordered connection to one node. A node can have several in the course of a session; the
/// serial number grows with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// Whose connection it is.
    pub node: NodeIndex,
    /// Which of this node's connections.
    pub serial: u32,
}

/// One request; each is one round trip, atomic at the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Set every key to `value` for `ttl` when all are absent or already ours; on keys of our own
    /// raise the expiry, never lower it. Answers [`Reply::Done`] or [`Reply::Held`].
    Acquire {
        /// Whose keys these are.
        token: Token,
        /// The whole value: token, separator, the holder's data.
        value: String,
        /// The expiry.
        ttl: Duration,
    },
    /// As [`Request::Acquire`], and raise the counter of every key by one, or to the node's time.
    /// Answers [`Reply::Counted`] or [`Reply::Held`].
    AcquireCounted {
        /// Whose keys these are.
        token: Token,
        /// The whole value.
        value: String,
        /// The expiry.
        ttl: Duration,
    },
    /// Raise every counter to `number` when every key carries the token and every counter is as it
    /// was told. Answers [`Reply::Done`], [`Reply::Held`], or [`Reply::Absent`] when a key or a
    /// counter is another.
    Seal {
        /// The token that must be there.
        token: Token,
        /// The counters that must be there, one per key.
        counted: Vec<u64>,
        /// The fencing token.
        number: u64,
    },
    /// Set keys that a holder found absent on this node again, as [`Request::Acquire`] does.
    Heal {
        /// Whose keys these are.
        token: Token,
        /// The whole value.
        value: String,
        /// The expiry.
        ttl: Duration,
        /// The holder's fencing token: the counters become at least that.
        number: Option<u64>,
    },
    /// Raise the expiry to `ttl` when every key carries the token. Answers
    /// [`Reply::Extended`], [`Reply::Absent`] or [`Reply::Held`].
    Extend {
        /// The token that must be there.
        token: Token,
        /// The expiry.
        ttl: Duration,
    },
    /// Delete the keys that carry the token. Answers [`Reply::Done`], [`Reply::Absent`] or
    /// [`Reply::Held`].
    Release {
        /// The token that must be there.
        token: Token,
        /// Tell those who wait. An attempt that did not win stays silent (an *undo*), else losers
        /// would wake each other in a storm.
        announce: bool,
    },
    /// The command has ended and the lock is kept for a while: where a key carries the token, the
    /// value becomes `value` and the expiry `rest`; where memory is short, the expiry alone. As
    /// final as a release. Answers [`Reply::Done`], [`Reply::Absent`] or [`Reply::Held`].
    Finish {
        /// The token that must be there.
        token: Token,
        /// The whole value, which says that the lock is only kept.
        value: String,
        /// For so long.
        rest: Duration,
    },
    /// Delete exactly what is named, and tell those who wait and the holder itself: a release from
    /// outside of the run whose lock it is. Answers [`Reply::Done`] when something was deleted,
    /// [`Reply::Absent`], or [`Reply::Held`] with what is there instead.
    Free {
        /// For each key a token (of 36 characters: whatever carries it), or a whole value (only
        /// where it has an expiry); nothing: that key is left alone.
        values: Vec<Vec<u8>>,
    },
    /// A question that is not about the session's keys. Answers [`Reply::Data`].
    Query(Query),
    /// From now on tell this connection when a lock of these keys is released. Answers
    /// [`Reply::Done`]; then messages come as [`LinkEvent::Released`].
    Subscribe,
    /// From now on tell this connection when the holder of these keys is addressed, and no more of
    /// releases: whoever has the lock is not among those who wait for it. Answers
    /// [`Reply::Done`]; then messages come as [`LinkEvent::Called`].
    Attend,
    /// The same request about one key alone, by its place among all. The answer is about that key
    /// alone, too: what it lists has place 0.
    Only {
        /// The key.
        key: usize,
        /// What is asked about it.
        request: Box<Request>,
    },
    /// Only look. Answers [`Reply::Absent`] when no key is there, else [`Reply::Held`], which then
    /// also lists keys of our own.
    Look,
}

impl Request {
    /// The same, about `key` alone where one is given.
    #[must_use]
    pub fn only(self, key: Option<usize>) -> Self {
        match key {
            Some(key) => Self::Only { key, request: Box::new(self) },
            None => self,
        }
    }

    /// For how long it keeps keys at a node from its execution on: not at all when it sets and
    /// raises none.
    pub fn keeps(&self) -> Duration {
        match self {
            Self::Acquire { ttl, .. }
            | Self::AcquireCounted { ttl, .. }
            | Self::Heal { ttl, .. }
            | Self::Extend { ttl, .. } => *ttl,
            Self::Only { request, .. } => request.keeps(),
            Self::Seal { .. }
            | Self::Release { .. }
            | Self::Finish { .. }
            | Self::Free { .. }
            | Self::Query(_)
            | Self::Subscribe
            | Self::Attend
            | Self::Look => Duration::ZERO,
        }
    }
}

/// What sits at one of the keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occupant {
    /// A string: ours, another redlock's, or any other client's.
    Value(Vec<u8>),
    /// Something that is no string, named by its Redis type (`hash`, `zset`, ...).
    Type(String),
}

/// One key that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obstacle {
    /// Which of the session's keys, by its place in their sorted list.
    pub key: usize,
    /// What is there.
    pub occupant: Occupant,
    /// When the node will drop it; `None` when it has no expiry.
    pub expires_in: Option<Duration>,
}

/// Why a node would not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Refusal {
    /// What kind of refusal, as far as anybody decides by it.
    pub kind: RefusalKind,
    /// The node's own words, cleaned of control characters, without secrets. Empty where it is not
    /// the node that refuses but we: [`RefusalKind::Unfit`].
    pub text: String,
}

impl Refusal {
    /// Whether only somebody who grants rights can mend it.
    pub fn is_about_rights(&self) -> bool {
        self.kind == RefusalKind::Rights
    }
}

/// The refusals that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// NOAUTH, WRONGPASS or NOPERM: waiting will not mend it.
    Rights,
    /// It answers, and Redlock cannot use it: it is no independent master.
    Unfit(Unfit),
    /// Anything else: READONLY, MASTERDOWN, NOREPLICAS, OOM, MISCONF, LOADING, BUSY, MOVED,
    /// CLUSTERDOWN, too many clients, ...
    State,
}

/// A complete answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done: set, extended, deleted.
    Done,
    /// There was nothing of ours (extend, release) or nothing at all (look).
    Absent,
    /// Keys that are not ours (acquire, extend, release) or all that is there (look). Never empty
    /// for acquire.
    Held(Vec<Obstacle>),
    /// The node refused.
    Refused(Refusal),
    /// What a [`Request::Query`] brought to light.
    Data(Datum),
    /// As [`Reply::Done`], to an extension; the node's clock shows so much since 1970.
    Extended(Duration),
    /// As [`Reply::Done`], to an acquire that counts: the counters, one per key.
    Counted(Vec<u64>),
    /// As [`Reply::Done`], to an acquire: every key carried the token before.
    Already,
}

impl Reply {
    /// The answer to [`Request::Only`], with the key's place among all.
    #[must_use]
    pub fn about(mut self, key: usize) -> Self {
        if let Self::Held(obstacles) = &mut self {
            for obstacle in obstacles {
                obstacle.key += key;
            }
        }
        self
    }

    /// Whether it was done, whatever else the answer says.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::Already | Self::Extended(_) | Self::Counted(_))
    }
}

/// Why a connection came to nothing. What was unanswered on it may have been executed, unless the
/// connection never became ready.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The name has no address, or its resolution failed.
    Unresolvable(String),
    /// The resolver or the TCP handshake was not ready in time.
    ConnectTimeout,
    /// The connection was refused or could not be made; the system's words.
    Unreachable(String),
    /// Connected, and then no answer in time.
    Silent,
    /// The node or something between us closed the connection.
    Cut,
    /// The answer is no Redis protocol.
    Garbage,
    /// TLS could not be agreed on, or broke.
    Tls(TlsTrouble),
    /// Spoken to in the clear, it answers in TLS.
    SpeaksTls,
}

/// How much of what a session needs one message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its only key.
    Whole,
    /// One of its keys.
    Part,
}

/// What the shell tells about one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The network has connected, and TLS is to be agreed on: nothing of ours is on its way yet.
    /// Comes at most once, before [`LinkEvent::Ready`], and only where TLS is spoken.
    Securing,
    /// TLS has found out whom we speak with. Comes right before [`LinkEvent::Ready`].
    Secured {
        /// When the server's certificate ends, since 1970; none where it does not say so legibly.
        ends: Option<Duration>,
    },
    /// Connected; from here on bytes of requests may be on their way. Comes at most once and
    /// before any reply. The node's refusal of our credentials or database is no event of its own:
    /// it makes every reply of this connection a [`Reply::Refused`], although the requests behind
    /// it may have been executed.
    Ready,
    /// What the server says about itself. Comes once, behind [`LinkEvent::Ready`] and before any
    /// reply; not at all where the node refuses us.
    Introduced(Introduction),
    /// The answer to the oldest unanswered request of this connection.
    Replied(Reply),
    /// Somebody released a lock of these keys on this node.
    Released {
        /// Whether that frees all of them there.
        extent: Extent,
        /// Whose lock it was, as far as the message says so.
        by: Option<Token>,
        /// How many connections of this node listen for that, this one among them; 1 where the
        /// node did not say.
        listeners: u32,
    },
    /// Somebody tells the holder of this token that its lock was touched.
    Called(Token),
    /// Nothing more comes from this connection.
    Ended(Trouble),
}

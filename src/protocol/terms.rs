//! The terms between a session and its owner: what is wanted, what is to be done, and what became
//! of it.

use std::time::Duration;

use super::{
    ConnId, Fencing, GuardTerms, Holder, NodeIndex, Obstacle, Refusal, Request, Timing, Token,
    Trouble, Unfit, Youth, lease::quorum,
};
use crate::clock::Tick;

/// How the nodes are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// All at once.
    #[default]
    Concurrent,
    /// One after the other, as Redlock was first published.
    Sequential,
}

/// How long to wait for a lock that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// One true verdict now.
    NoWait,
    /// At most this long from the start; the last verdict decides.
    Within(Duration),
    /// Without limit, but give up after this much continuous outage.
    Forever {
        /// The outage that is endured.
        outage: Duration,
    },
}

/// Everything a session needs to know.
pub struct Contract {
    /// How many nodes the list has.
    pub nodes: usize,
    /// What the value says about us.
    pub holder: Holder,
    /// The durations.
    pub timing: Timing,
    /// How long to wait.
    pub patience: Patience,
    /// How to ask.
    pub strategy: Strategy,
    /// Whether a fencing token is wanted.
    pub fencing: Fencing,
    /// When nodes that restarted may vote.
    pub guard: GuardTerms,
    /// How many keys there are when one of them is wanted, any (`--slots`); none: all together.
    pub slots: Option<usize>,
    /// The tokens of the runs around us: waiting for them would never end.
    pub kin: Vec<Token>,
    /// Where randomness comes from: 128 random bits a call.
    pub random: Box<dyn FnMut() -> u128 + Send>,
}

/// What the shell is to do, or what it should know. To be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<E = Event> {
    /// Start a connection to its node.
    Open(ConnId),
    /// Queue a request on a connection, also while it is not ready yet; requests stay in order.
    /// A connection that ended ignores it.
    Send(ConnId, Request),
    /// Write what is queued, then end the connection in an orderly way. Nothing is reported of it
    /// any more. A connection that is not ready yet is dropped with what was queued on it.
    Close(ConnId),
    /// Tell the owner of the session.
    Tell(E),
}

/// What the owner of the session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The slot of the lock, which follows at once: the place of its key among all.
    Slot(usize),
    /// The fencing token of the lock, which follows at once.
    Fenced(u64),
    /// The lock is ours.
    Acquired {
        /// Under this token.
        token: Token,
        /// Until then, if nothing else happens.
        validity: Tick,
        /// On so many nodes so far.
        nodes: usize,
        /// After so much time.
        waited: Duration,
    },
    /// The end of the validity moved (later, or earlier when nodes proved that they lost the key).
    Validity(Tick),
    /// So many nodes proved that the lock is not there that it is lost for certain. This is what
    /// is known of each node.
    Lost(Vec<NodeView>),
    /// The attempt ended without the lock. Its clean-up goes on until [`Event::Settled`].
    Denied(Denial),
    /// The session has ended: nothing of it is under way any more, nothing will be sent.
    Settled {
        /// Nodes that may still carry the lock, since they could not be told.
        untold: Vec<NodeIndex>,
        /// How long at most they may keep it from now on.
        at_most: Duration,
    },
    /// Something that a person may want to follow.
    Note(Note),
}

/// Progress, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Somebody else has the lock and we wait.
    Waiting(Denial),
    /// No quorum of nodes answers, and we wait.
    Outage(Denial),
    /// A quorum answers again.
    Recovered,
    /// All answers to the acquisition are in, or overdue.
    Acquired {
        /// Nodes that carry the lock.
        nodes: usize,
    },
    /// How each node took part in what was said last.
    Nodes(Vec<NodeView>),
    /// A node turned out to be no independent master while we hold the lock: it does not count.
    Unfit {
        /// Which.
        node: NodeIndex,
        /// Why.
        why: Unfit,
    },
    /// An extension round ended with a quorum.
    Extended {
        /// Nodes that confirmed it.
        nodes: usize,
    },
    /// An extension round missed its quorum. No loss yet: the lock is ours until its validity ends.
    ExtensionFailed {
        /// Nodes that confirmed it.
        nodes: usize,
    },
}

/// Why the lock could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What the nodes' answers amount to.
    pub verdict: Verdict,
    /// The last that is known of each node.
    pub nodes: Vec<NodeView>,
    /// How long we tried.
    pub waited: Duration,
}

impl Denial {
    /// Whether so many nodes refuse our credentials or rights that no quorum is possible.
    pub fn is_about_rights(&self) -> bool {
        let refuses =
            |view: &&NodeView| matches!(view, NodeView::Refused(why) if why.is_about_rights());
        let refusing = self.nodes.iter().filter(refuses).count();
        refusing > 0 && self.nodes.len() - refusing < quorum(self.nodes.len())
    }
}

/// The ways to be without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One other holder has a quorum.
    Held,
    /// A run around us has this key (by its place in the sorted list), and waits for us.
    Ourselves {
        /// Which.
        key: usize,
    },
    /// A quorum answered and nobody has one: split votes, or leftovers of the dead.
    Contended,
    /// Fewer than a quorum gave an answer that counts.
    Unavailable,
    /// A quorum answered, too slowly for this ttl.
    TooSlow,
    /// A quorum of nodes would vote for us, and some are too young for it.
    Guarded(Youth),
    /// The list breaks Redlock's premises: a server is in it twice, or no quorum is left without
    /// replicas, clusters and the like.
    Unfit,
    /// The token that was to be adopted does not hold the lock.
    NotOurs,
    /// No run around us holds the lock.
    NotInherited,
}

/// The last that is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeView {
    /// Not asked yet, or no answer yet.
    Unknown,
    /// Nothing of anybody's is there.
    Free,
    /// It voted for us.
    Ours,
    /// Somebody else's is there.
    Held(Vec<Obstacle>),
    /// It refuses, or we refuse it ([`RefusalKind::Unfit`](super::RefusalKind::Unfit)).
    Refused(Refusal),
    /// It cannot be reached or does not answer.
    Troubled(Trouble),
}

//! One connection between one run of the program and one node: two first-in-first-out pipes.

use std::collections::VecDeque;

use redlock::{
    clock::Tick,
    protocol::{ConnId, Request, Token},
};

use super::clock::Real;

/// How far the connection has come, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not ready; requests queue up.
    Opening,
    /// Requests are on their way.
    Ready,
    /// Ended, and the client knows.
    Ended,
    /// Closed by the client; what it had sent still arrives.
    Closed,
}

/// What became of the path to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Whole,
    /// Broken: so many of the messages under way still arrive, nothing comes back.
    Broken {
        admits: usize,
    },
    /// The node's machine vanished: nothing arrives, and nobody is told until it is back.
    Vanished,
}

/// The checks' memory of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub kind: Kind,
    /// When it was queued, by the client's clock.
    pub at: Tick,
}

/// What is asked, whatever keys it is about.
pub fn bare(request: &Request) -> &Request {
    match request {
        Request::Only { request, .. } => request,
        request => request,
    }
}

/// What was asked, as far as the checks tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Acquire(Token),
    Extend(Token),
    Release(Token),
    Seal(Token),
    Subscribe,
    Attend,
    Look,
}

impl Kind {
    pub fn of(request: &Request) -> Self {
        match request {
            // Both set keys, whenever they are executed.
            Request::Acquire { token, .. }
            | Request::AcquireCounted { token, .. }
            | Request::Heal { token, .. } => Self::Acquire(*token),
            Request::Seal { token, .. } => Self::Seal(*token),
            Request::Extend { token, .. } => Self::Extend(*token),
            Request::Release { token, .. } | Request::Finish { token, .. } => Self::Release(*token),
            Request::Subscribe => Self::Subscribe,
            Request::Attend => Self::Attend,
            Request::Look => Self::Look,
            Request::Only { request, .. } => Self::of(request),
            other => unreachable!("no session sends {other:?}"),
        }
    }
}

/// The connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one connection")]
pub struct Link {
    pub actor: usize,
    pub id: ConnId,
    /// The node that it really leads to.
    pub node: usize,
    pub stage: Stage,
    pub path: Path,
    /// What waits for the connection to be ready.
    pub queued: Vec<Request>,
    /// What has no answer yet, oldest first.
    pub unanswered: VecDeque<Asked>,
    /// When it became ready, by the client's clock: nothing was sent before.
    pub ready_at: Tick,
    /// Messages between client and node.
    pub under_way: usize,
    /// Arrival of the last message in each direction; no later one overtakes it.
    pub up_last: Real,
    pub down_last: Real,
    /// Its preamble failed (a SELECT of a database that is not there): whatever the node does, the
    /// client is told that it refused.
    pub spoiled: bool,
    /// The node refused a release that came on it.
    pub refused: bool,
    /// The node has said who it is.
    pub introduced: bool,
    /// The node tells it of releases.
    pub listens: bool,
    /// The node tells it when the holder is addressed.
    pub attends: bool,
    /// Tokens whose acquire was sent on this connection.
    pub acquired: Vec<Token>,
}

impl Link {
    pub fn new(actor: usize, id: ConnId, node: usize) -> Self {
        Self {
            actor,
            id,
            node,
            stage: Stage::Opening,
            path: Path::Whole,
            queued: Vec::new(),
            unanswered: VecDeque::new(),
            ready_at: Tick::default(),
            under_way: 0,
            up_last: 0,
            down_last: 0,
            spoiled: false,
            refused: false,
            introduced: false,
            listens: false,
            attends: false,
            acquired: Vec::new(),
        }
    }

    /// Nobody reads what comes back any more.
    pub fn deaf(&self) -> bool {
        self.path != Path::Whole || matches!(self.stage, Stage::Ended | Stage::Closed)
    }
}

//! One connection: what is unanswered on it, and who is overdue.

use std::{collections::VecDeque, time::Duration};

use super::super::{Action, ConnId, Request, Timing, Token, Trouble};
use crate::clock::Tick;

/// What an unanswered or answered request was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// [`Request::Acquire`] or [`Request::AcquireCounted`] for this token.
    Acquire(Token),
    /// [`Request::Seal`] for this token.
    Seal(Token),
    /// [`Request::Heal`] for this token.
    Heal(Token),
    /// [`Request::Extend`] for this token.
    Extend(Token),
    /// [`Request::Release`] or [`Request::Finish`] for this token.
    Release(Token),
    /// [`Request::Subscribe`].
    Subscribe,
    /// [`Request::Attend`].
    Attend,
    /// [`Request::Look`].
    Look,
    /// [`Request::Free`] or [`Request::Query`], which no session sends.
    Other,
}

impl Ask {
    /// What a request is about, whatever keys it names.
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Acquire { token, .. } | Request::AcquireCounted { token, .. } => {
                Self::Acquire(*token)
            }
            Request::Seal { token, .. } => Self::Seal(*token),
            Request::Heal { token, .. } => Self::Heal(*token),
            Request::Extend { token, .. } => Self::Extend(*token),
            Request::Release { token, .. } | Request::Finish { token, .. } => Self::Release(*token),
            Request::Subscribe => Self::Subscribe,
            Request::Attend => Self::Attend,
            Request::Look => Self::Look,
            Request::Only { request, .. } => Self::of(request),
            Request::Free { .. } | Request::Query(_) => Self::Other,
        }
    }

    /// The token whose keys it sets where they are absent, whenever it is executed.
    pub(super) fn sets(self) -> Option<Token> {
        match self {
            Self::Acquire(token) | Self::Heal(token) => Some(token),
            _ => None,
        }
    }
}

/// A request that was queued on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// What it was.
    pub ask: Ask,
    /// When its first byte was queued.
    pub at: Tick,
    /// The one key that it was about, where it was not about all.
    pub key: Option<usize>,
    /// For how long it keeps its token's keys there.
    pub(super) keeps: Duration,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) opened: Tick,
    /// What it means when it is not ready in time.
    pub(super) late: Trouble,
    pub(super) ready: Option<Tick>,
    pub(super) unanswered: VecDeque<Sent>,
    /// The oldest unanswered request is overdue, and that was said.
    pub(super) silent: bool,
    /// Its last answer was a refusal. That can be the connection's fault (its credentials, its
    /// database), so that only another one brings the node back.
    pub(super) refuses: bool,
    pub(super) listening: Listening,
    /// A request that sets keys was queued on it.
    pub(super) sets: bool,
}

/// Whether a connection is told of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listening {
    /// It was not asked to.
    No,
    /// It was asked to, and has not answered.
    Asked,
    /// It does.
    Yes,
    /// The node refused; it is not asked again on this connection.
    Refused,
    /// It listens as the holder, and hears no more of releases.
    Attending,
}

impl Conn {
    /// It may still set the keys of `token`.
    pub(super) fn may_set(&self, token: Token) -> bool {
        self.unanswered.iter().any(|sent| sent.ask.sets() == Some(token))
    }

    pub(super) fn owes(&self, ask: Ask) -> bool {
        self.unanswered.iter().any(|sent| sent.ask == ask)
    }

    /// When the oldest unanswered request is overdue.
    pub(super) fn due(&self, timing: &Timing) -> Option<Tick> {
        let Some(ready) = self.ready else {
            return Some(self.opened.after(timing.connect_timeout));
        };
        self.unanswered.front().map(|sent| sent.at.max(ready).after(timing.node_timeout))
    }
}

/// Queues `request` on `conn`.
pub(super) fn push(conn: &mut Conn, request: Request, now: Tick, actions: &mut Vec<Action>) {
    let ask = Ask::of(&request);
    conn.sets |= ask.sets().is_some();
    let key = match request {
        Request::Only { key, .. } => Some(key),
        _ => None,
    };
    conn.unanswered.push_back(Sent { ask, at: now, key, keeps: request.keeps() });
    actions.push(Action::Send(conn.id, request));
}

//! One node: its connections, and the tokens that it may still carry.

use std::collections::VecDeque;

use super::{
    super::{Action, ConnId, Introduction, NodeIndex, Reply, Request, Token, Trouble, Unfit},
    Ask, Conn, Listening, Sent, Told, push,
};
use crate::clock::Tick;

/// A token that the node may carry.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) token: Token,
    /// The one key that it is for, where it is not for all.
    pub(super) key: Option<usize>,
    pub(super) evidence: Evidence,
    /// The release that was ordered; nothing else is sent with this token any more.
    pub(super) release: Option<Request>,
    /// It was asked more than once to set the token.
    pub(super) again: bool,
    /// On which connection the node said last that it carries the token, and when that was heard.
    pub(super) heard: Option<(ConnId, Tick)>,
    /// Until when the node keeps the token at the most, as far as is known: each request keeps it
    /// from its execution on, which was, at the latest, when it was queued, when it was answered (a
    /// stopped node executes late), or when its connection broke.
    pub(super) kept_until: Tick,
}

/// Why a node may carry a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It was asked to, and has not answered or has refused. A release behind the request on the
    /// same connection settles it, whenever that is executed.
    Asked,
    /// The connection broke after it was asked to: it may have obeyed, or may still.
    Unsure,
    /// It said so.
    Confirmed,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: NodeIndex,
    pub(super) serial: u32,
    /// The node answered the last time that anything was heard of it.
    pub(super) answers: bool,
    pub(super) current: Option<Conn>,
    pub(super) aside: Vec<Conn>,
    pub(super) carried: Vec<Carried>,
    /// What the server said about itself the last time, on which connection and when.
    pub(super) told: Option<(ConnId, Introduction, Tick)>,
}

impl Link {
    pub(super) fn told(&self) -> Option<Told<'_>> {
        let (conn, introduction, at) = self.told.as_ref()?;
        let live = self.current.as_ref().is_some_and(|current| current.id == *conn);
        Some(Told { introduction, at: *at, live })
    }

    pub(super) fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.current.iter_mut().chain(&mut self.aside).find(|conn| conn.id == id)
    }

    /// Opens a connection where there is none; releases of what was given up go first.
    pub(super) fn connect(&mut self, now: Tick, actions: &mut Vec<Action>) {
        if self.current.is_some() {
            return;
        }
        self.carried.retain(|c| c.release.is_none() || now < c.kept_until);
        let id = ConnId { node: self.node, serial: self.serial };
        self.serial += 1;
        actions.push(Action::Open(id));
        let mut conn = Conn {
            id,
            opened: now,
            late: Trouble::ConnectTimeout,
            ready: None,
            unanswered: VecDeque::new(),
            silent: false,
            refuses: false,
            listening: Listening::No,
            sets: false,
        };
        for request in self.carried.iter().filter_map(|carried| carried.release.clone()) {
            push(&mut conn, request, now, actions);
        }
        self.current = Some(conn);
    }

    pub(super) fn queue(
        &mut self,
        request: Request,
        key: Option<usize>,
        now: Tick,
        actions: &mut Vec<Action>,
    ) {
        match request {
            Request::Acquire { token, .. }
            | Request::AcquireCounted { token, .. }
            | Request::Heal { token, .. }
            | Request::Extend { token, .. } => {
                let kept_until = now.after(request.keeps());
                match self.carried.iter_mut().find(|carried| carried.token == token) {
                    Some(carried) => {
                        carried.kept_until = carried.kept_until.max(kept_until);
                        carried.again = true;
                    }
                    None => self.carried.push(Carried {
                        token,
                        key,
                        evidence: Evidence::Asked,
                        release: None,
                        again: false,
                        heard: None,
                        kept_until,
                    }),
                }
            }
            Request::Release { .. }
            | Request::Finish { .. }
            | Request::Seal { .. }
            | Request::Subscribe
            | Request::Attend
            | Request::Look
            | Request::Only { .. }
            | Request::Free { .. }
            | Request::Query(_) => {}
        }
        if let Some(conn) = &mut self.current {
            push(conn, request.only(key), now, actions);
        }
    }

    /// The node carried a token that it was never asked to carry: we know it by another name too.
    pub(super) fn stranger(&self, sent: Sent, reply: &Reply) -> Option<Unfit> {
        let Ask::Acquire(token) = sent.ask else {
            return None;
        };
        let first = self.carried.iter().any(|c| c.token == token && !c.again);
        (first && *reply == Reply::Already).then_some(Unfit::SameServer(None))
    }

    /// What an answer says about the tokens that the node carries.
    pub(super) fn learn(&mut self, conn: ConnId, sent: Sent, reply: &Reply, now: Tick) {
        let token = match sent.ask {
            Ask::Acquire(token) | Ask::Heal(token) | Ask::Extend(token) | Ask::Release(token) => {
                token
            }
            Ask::Seal(_) | Ask::Subscribe | Ask::Attend | Ask::Look | Ask::Other => return,
        };
        let Some(place) = self.carried.iter().position(|carried| carried.token == token) else {
            return;
        };
        let may_come = self.current.iter().chain(&self.aside).any(|c| c.may_set(token));
        let gone = match (sent.ask, reply) {
            (Ask::Release(_), Reply::Refused(_)) => {
                // It refused the acquire as well: there is nothing to tell.
                self.carried[place].evidence == Evidence::Asked
            }
            (Ask::Acquire(_) | Ask::Heal(_) | Ask::Extend(_), reply) if reply.is_done() => {
                let carried = &mut self.carried[place];
                carried.evidence = Evidence::Confirmed;
                carried.heard = Some((conn, now));
                carried.kept_until = carried.kept_until.max(now.after(sent.keeps));
                false
            }
            // A refused acquire may have set one of several keys.
            (_, Reply::Refused(_) | Reply::Data(_)) => false,
            _ => true,
        };
        // What was asked before the node's word came on another connection may be older than that.
        let outdated =
            self.carried[place].heard.is_some_and(|(on, at)| on != conn && sent.at <= at);
        if gone && !may_come && !outdated {
            self.carried.swap_remove(place);
        }
    }

    /// `conn` ended. What was queued on it before it was ready was never written; what was
    /// unanswered after that may have been executed.
    pub(super) fn part_with(&mut self, conn: &Conn, now: Tick) {
        if conn.ready.is_none() {
            self.answers = false;
        }
        for sent in &conn.unanswered {
            let Some(token) = sent.ask.sets() else {
                continue;
            };
            // One that was set aside may still carry an older one out.
            let may_come = self.current.iter().chain(&self.aside).any(|c| c.may_set(token));
            if conn.ready.is_none() && !may_come {
                self.carried.retain(|c| c.token != token || c.evidence != Evidence::Asked);
            } else if conn.ready.is_some()
                && let Some(c) = self.carried.iter_mut().find(|c| c.token == token)
                && c.evidence == Evidence::Asked
            {
                c.evidence = Evidence::Unsure;
                c.kept_until = c.kept_until.max(now.after(sent.keeps));
            }
        }
    }
}

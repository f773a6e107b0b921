//! What was said to each node on which connection, what is unanswered, and which tokens a node may
//! still carry.
//!
//! Three rules of the protocol live here because they are about connections:
//!
//! - Whoever gives a token up writes its release *behind* the unanswered acquire on the same
//!   connection. On another connection it could overtake the acquire and leave an orphan.
//! - After a reconnect the releases of tokens that were given up go first, since our own orphan
//!   would block us.
//! - While a lock is held, a connection with an unanswered acquire is never given a release; it is
//!   set aside, its answers count for nothing, and the final release is written on it as well.

mod connection;
mod node;

use std::time::Duration;

use super::{
    Action, ConnId, Extent, Introduction, LinkEvent, NodeIndex, Refusal, RefusalKind, Reply,
    Request, Server, Timing, TlsTrouble, Token, Trouble, Unfit, server::unfit,
};
use crate::clock::Tick;
pub use connection::{Ask, Sent};
use connection::{Conn, Listening, push};
use node::{Evidence, Link};

/// What a server said about itself.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// What.
    pub introduction: &'a Introduction,
    /// When that was heard.
    pub at: Tick,
    /// The connection is still there, and so it is still the same process.
    pub live: bool,
}

impl Told<'_> {
    /// Until when this process is known to have lived, at `now`.
    pub fn seen_at(&self, now: Tick) -> Tick {
        if self.live { now } else { self.at }
    }
}

/// A lock was released on some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which node told.
    pub node: NodeIndex,
    /// Whether that frees all that we need there.
    pub extent: Extent,
    /// Whose it was, where that is known.
    pub by: Option<Token>,
    /// How many listen for that there.
    pub listeners: u32,
}

/// What an event on a connection means.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The node answered a request on its current connection.
    Answer {
        /// The node.
        node: NodeIndex,
        /// What it answered.
        sent: Sent,
        /// How.
        reply: Reply,
    },
    /// The server at the end of the node's current connection said who it is.
    Introduced(NodeIndex),
    /// A lock was released on the node.
    Released(Release),
    /// The holder of this token is told that its lock was touched.
    Called(Token),
    /// The node's current connection is gone.
    Broken {
        /// The node.
        node: NodeIndex,
        /// Why.
        trouble: Trouble,
        /// When the connection was asked for.
        opened: Tick,
    },
}

/// The connections to all nodes, as the protocol sees them.
#[derive(Debug)]
pub struct Links {
    nodes: Vec<Link>,
    timing: Timing,
    /// The one key that requests are about, where they are not about all.
    focus: Option<usize>,
    actions: Vec<Action>,
}

impl Links {
    /// No connection yet to any of `nodes` nodes.
    pub fn new(nodes: usize, timing: Timing) -> Self {
        let link = |node| Link {
            node: NodeIndex(node),
            serial: 0,
            answers: false,
            current: None,
            aside: Vec::new(),
            carried: Vec::new(),
            told: None,
        };
        Self {
            nodes: (0_u8..).take(nodes).map(link).collect(),
            timing,
            focus: None,
            actions: Vec::new(),
        }
    }

    /// Every node, in canonical order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0_u8..).take(self.nodes.len()).map(NodeIndex)
    }

    /// Where the session's actions gather, in order.
    pub fn actions(&mut self) -> &mut Vec<Action> {
        &mut self.actions
    }

    /// From now on requests are about this key alone, or about all of them. What was sent before is
    /// given up as it was sent.
    pub fn focus(&mut self, key: Option<usize>) {
        self.focus = key;
    }

    /// Whether a request was about the same keys as those that are sent now.
    pub fn is_in_focus(&self, sent: Sent) -> bool {
        sent.key == self.focus
    }

    /// Queues a request on the node's current connection, opening one where there is none.
    pub fn ask(&mut self, node: NodeIndex, request: Request, now: Tick) {
        let link = &mut self.nodes[node.get()];
        link.connect(now, &mut self.actions);
        link.queue(request, self.focus, now, &mut self.actions);
    }

    /// Has the node's current connection told of releases, opening one where there is none.
    pub fn listen(&mut self, node: NodeIndex, now: Tick) {
        let link = &mut self.nodes[node.get()];
        link.connect(now, &mut self.actions);
        if let Some(conn) = &mut link.current
            && conn.listening == Listening::No
        {
            conn.listening = Listening::Asked;
            push(conn, Request::Subscribe, now, &mut self.actions);
        }
    }

    /// Has the node's current connection, where there is one, told when the holder is addressed.
    pub fn attend(&mut self, node: NodeIndex, now: Tick) {
        if let Some(conn) = &mut self.nodes[node.get()].current
            && !conn.silent
            && conn.ready.is_some()
            && !matches!(conn.listening, Listening::Refused | Listening::Attending)
        {
            conn.listening = Listening::Attending;
            push(conn, Request::Attend, now, &mut self.actions);
        }
    }

    /// How many nodes tell us of releases.
    pub fn listening(&self) -> usize {
        let tells = |link: &&Link| {
            let told = |conn: &Conn| conn.listening == Listening::Yes && !conn.silent;
            link.current.as_ref().is_some_and(told)
        };
        self.nodes.iter().filter(tells).count()
    }

    /// Gives `token` up: on every node that may carry it, behind whatever was sent, a release is
    /// written on each connection that may still execute an acquire of it, and on the current one.
    pub fn release(&mut self, token: Token, announce: bool, now: Tick) {
        self.give_up(token, &Request::Release { token, announce }, now);
    }

    /// Gives `token` up in the same way, and leaves `value` in its place for `rest`.
    pub fn finish(&mut self, token: Token, value: String, rest: Duration, now: Tick) {
        self.give_up(token, &Request::Finish { token, value, rest }, now);
    }

    fn give_up(&mut self, token: Token, request: &Request, now: Tick) {
        for link in &mut self.nodes {
            let Some(carried) = link.carried.iter_mut().find(|c| c.token == token) else {
                continue;
            };
            if carried.release.is_some() {
                continue;
            }
            let request = request.clone().only(carried.key);
            carried.release = Some(request.clone());
            for conn in &mut link.aside {
                if conn.may_set(token) {
                    push(conn, request.clone(), now, &mut self.actions);
                }
            }
            match &mut link.current {
                Some(conn) => push(conn, request.clone(), now, &mut self.actions),
                // A new connection writes the releases of what was given up first of all.
                None => link.connect(now, &mut self.actions),
            }
        }
    }

    /// Something happened on a connection. `None` when it is of no interest to anybody: events of
    /// connections that were closed or set aside, and the connection's readiness.
    pub fn handle(&mut self, id: ConnId, event: LinkEvent, now: Tick) -> Option<Heard> {
        let link = self.nodes.get_mut(id.node.get())?;
        match event {
            LinkEvent::Securing => {
                link.conn(id)?.late = Trouble::Tls(TlsTrouble::Unanswered);
                None
            }
            LinkEvent::Ready => {
                link.conn(id)?.ready = Some(now);
                None
            }
            LinkEvent::Secured { .. } => None,
            LinkEvent::Introduced(introduction) => {
                link.current.as_ref().filter(|conn| conn.id == id)?;
                link.told = Some((id, introduction, now));
                Some(Heard::Introduced(id.node))
            }
            LinkEvent::Replied(reply) => self.replied(id, reply, now),
            LinkEvent::Released { extent, by, listeners } => {
                Some(Heard::Released(Release { node: id.node, extent, by, listeners }))
            }
            LinkEvent::Called(token) => Some(Heard::Called(token)),
            LinkEvent::Ended(trouble) => {
                link.aside.retain(|conn| conn.id != id);
                let conn = link.current.take_if(|conn| conn.id == id)?;
                link.part_with(&conn, now);
                Some(Heard::Broken { node: id.node, trouble, opened: conn.opened })
            }
        }
    }

    fn replied(&mut self, id: ConnId, reply: Reply, now: Tick) -> Option<Heard> {
        let unfit = self.unfit(id.node);
        let link = self.nodes.get_mut(id.node.get())?;
        let conn = link.conn(id)?;
        let sent = conn.unanswered.pop_front()?;
        conn.silent = false;
        let refused = unfit.is_some() || matches!(reply, Reply::Refused(_));
        match sent.ask {
            // A user without rights to the channel can do all the rest.
            Ask::Subscribe if refused => conn.listening = Listening::Refused,
            Ask::Subscribe if conn.listening == Listening::Asked => {
                conn.listening = Listening::Yes;
            }
            Ask::Subscribe | Ask::Attend => {}
            _ => conn.refuses = refused,
        }
        link.answers = true;
        let unfit = unfit.or_else(|| link.stranger(sent, &reply));
        link.learn(id, sent, &reply, now);
        let current = link.current.as_ref().is_some_and(|conn| conn.id == id);
        link.aside.retain(|conn| {
            !conn.unanswered.is_empty() || {
                self.actions.push(Action::Close(conn.id));
                false
            }
        });
        let told = current && !matches!(sent.ask, Ask::Subscribe | Ask::Attend);
        // Whatever it did, its answer does not count.
        let reply = unfit.map_or(reply, |why| Reply::Refused(refusal(why)));
        let reply = sent.key.map_or(reply.clone(), |key| reply.about(key));
        told.then_some(Heard::Answer { node: id.node, sent, reply })
    }

    /// What the servers said about themselves.
    pub fn told(&self) -> Vec<Option<Told<'_>>> {
        self.nodes.iter().map(Link::told).collect()
    }

    /// Why the server of `node` cannot be used, if so.
    pub fn unfit(&self, node: NodeIndex) -> Option<Unfit> {
        let server = |link| match Link::told(link)? {
            Told { introduction: Introduction::Known(server), live: true, .. } => Some(server),
            _ => None,
        };
        let servers: Vec<Option<&Server>> = self.nodes.iter().map(server).collect();
        unfit(node, &servers)
    }

    /// Finds what is overdue: connections that are not ready in time are dropped, nodes that leave
    /// requests unanswered are named, each once for every time they fall silent.
    pub fn overdue(&mut self, now: Tick) -> Vec<Heard> {
        let mut heard = Vec::new();
        for link in &mut self.nodes {
            let Some(conn) = &mut link.current else {
                continue;
            };
            if conn.silent || conn.due(&self.timing).is_none_or(|due| now < due) {
                continue;
            }
            let (node, opened) = (link.node, conn.opened);
            link.answers = false;
            if conn.ready.is_some() {
                conn.silent = true;
                heard.push(Heard::Broken { node, trouble: Trouble::Silent, opened });
            } else {
                self.actions.push(Action::Close(conn.id));
                let trouble = conn.late.clone();
                if let Some(conn) = link.current.take() {
                    link.part_with(&conn, now);
                }
                heard.push(Heard::Broken { node, trouble, opened });
            }
        }
        heard
    }

    /// When [`Links::overdue`] has something to say at the earliest.
    pub fn deadline(&self) -> Option<Tick> {
        let waiting = self.nodes.iter().filter_map(|link| link.current.as_ref());
        waiting.filter(|conn| !conn.silent).filter_map(|conn| conn.due(&self.timing)).min()
    }

    /// Whether the node leaves an overdue request unanswered.
    pub fn is_silent(&self, node: NodeIndex) -> bool {
        self.nodes[node.get()].current.as_ref().is_some_and(|conn| conn.silent)
    }

    /// Whether the node's current connection still owes an answer to `ask`.
    pub fn owes(&self, node: NodeIndex, ask: Ask) -> bool {
        self.nodes[node.get()].current.as_ref().is_some_and(|conn| conn.owes(ask))
    }

    /// Parts with a silent connection, so that the next request goes out on a fresh one. It is set
    /// aside while it may still execute an acquire of a token that is in use.
    pub fn renew(&mut self, node: NodeIndex) {
        let link = &mut self.nodes[node.get()];
        let Some(conn) = link.current.take_if(|conn| conn.silent) else {
            return;
        };
        let in_use = |sent: &Sent| {
            let token = sent.ask.sets();
            link.carried.iter().any(|c| Some(c.token) == token && c.release.is_none())
        };
        if conn.unanswered.iter().any(in_use) {
            link.aside.push(conn);
        } else {
            self.actions.push(Action::Close(conn.id));
        }
    }

    /// For a hold: parts with a silent connection, and with one that refuses, unless it carried an
    /// acquire; a preamble can fail for a while as everything can.
    pub fn reopen(&mut self, node: NodeIndex) {
        let barren = |conn: &mut Conn| conn.refuses && conn.unanswered.is_empty() && !conn.sets;
        if let Some(conn) = self.nodes[node.get()].current.take_if(barren) {
            self.actions.push(Action::Close(conn.id));
        }
        self.renew(node);
    }

    /// Parts with a connection that refuses as well. Not for a hold: if an acquire that was refused
    /// was executed all the same, its release has to be written on that connection.
    pub fn refresh(&mut self, node: NodeIndex) {
        let refuses = |conn: &mut Conn| conn.refuses && conn.unanswered.is_empty();
        if let Some(conn) = self.nodes[node.get()].current.take_if(refuses) {
            self.actions.push(Action::Close(conn.id));
        }
        self.renew(node);
    }

    /// Whether a node that answered the last time still owes the answer to a release.
    pub fn awaits_release(&self) -> bool {
        self.nodes.iter().any(|link| {
            let owes = |conn: &Conn| {
                !conn.silent
                    && (conn.ready.is_some() || link.answers)
                    && conn.unanswered.iter().any(|sent| matches!(sent.ask, Ask::Release(_)))
            };
            link.current.as_ref().is_some_and(owes)
        })
    }

    /// The nodes that may carry a token of ours although all were given up, with the time until
    /// which they keep it at the most.
    pub fn untold(&self) -> Vec<(NodeIndex, Tick)> {
        let still = |link: &Link| {
            let carried = link.carried.iter().filter(|c| c.evidence != Evidence::Asked);
            carried.map(|c| c.kept_until).max().map(|until| (link.node, until))
        };
        self.nodes.iter().filter_map(still).collect()
    }
}

/// As which an answer of an unfit server counts.
pub fn refusal(why: Unfit) -> Refusal {
    Refusal { kind: RefusalKind::Unfit(why), text: String::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::{Limits, Ttl};

    const NODE: NodeIndex = NodeIndex(0);

    fn at(ms: u64) -> Tick {
        Tick::from_boot(Duration::from_millis(ms))
    }

    const fn conn(serial: u32) -> ConnId {
        ConnId { node: NODE, serial }
    }

    /// Every release that is to be sent, with its connection.
    fn releases(links: &mut Links) -> Vec<ConnId> {
        let actions = std::mem::take(links.actions());
        let release = |action| match action {
            Action::Send(conn, Request::Release { .. }) => Some(conn),
            _ => None,
        };
        actions.into_iter().filter_map(release).collect()
    }

    /// An acquire that went unanswered on the first connection, which was set aside, and an
    /// extension on the second.
    fn aside() -> (Links, Token) {
        let ttl = Ttl::new(Duration::from_secs(5), Ttl::DEFAULT_MAX).unwrap();
        let timing = Timing::new(ttl, &Limits::default()).unwrap();
        let (mut links, token) = (Links::new(1, timing), Token::from_random(1));
        let ttl = timing.ttl;
        links.ask(NODE, Request::Acquire { token, value: String::new(), ttl }, at(0));
        links.handle(conn(0), LinkEvent::Ready, at(1));
        assert_eq!(links.overdue(at(400)).len(), 1);
        links.reopen(NODE);
        links.ask(NODE, Request::Extend { token, ttl }, at(400));
        links.handle(conn(1), LinkEvent::Ready, at(401));
        assert_eq!(releases(&mut links), []);
        (links, token)
    }

    /// The node executed the extension first, and is heard last: the simulator left a key behind.
    #[test]
    fn absence_that_was_asked_for_before_the_token_was_heard_elsewhere_proves_nothing() {
        let (mut links, token) = aside();
        links.handle(conn(0), LinkEvent::Replied(Reply::Done), at(500));
        links.handle(conn(1), LinkEvent::Replied(Reply::Absent), at(501));
        links.release(token, true, at(600));
        assert_eq!(releases(&mut links), [conn(1)]);
        links.handle(conn(1), LinkEvent::Replied(Reply::Done), at(700));
        assert_eq!(links.untold(), []);
    }

    #[test]
    fn absence_on_the_connection_of_the_acquire_or_asked_for_later_is_final() {
        let (mut links, token) = aside();
        links.handle(conn(0), LinkEvent::Replied(Reply::Absent), at(500));
        links.handle(conn(1), LinkEvent::Replied(Reply::Absent), at(501));
        links.release(token, true, at(600));
        assert_eq!(releases(&mut links), []);

        let (mut links, token) = aside();
        links.handle(conn(0), LinkEvent::Replied(Reply::Done), at(500));
        links.handle(conn(1), LinkEvent::Replied(Reply::Absent), at(501));
        links.ask(NODE, Request::Extend { token, ttl: Duration::from_secs(5) }, at(502));
        links.handle(conn(1), LinkEvent::Replied(Reply::Absent), at(503));
        links.release(token, true, at(600));
        assert_eq!(releases(&mut links), []);
    }

    #[test]
    fn absence_that_is_heard_while_an_acquire_is_unanswered_proves_nothing() {
        let (mut links, token) = aside();
        links.handle(conn(1), LinkEvent::Replied(Reply::Absent), at(500));
        links.release(token, true, at(600));
        assert_eq!(releases(&mut links), [conn(0), conn(1)]);
    }
}

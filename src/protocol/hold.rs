//! Holding the lock: extension round by round, healing, and the proof of its loss.
//!
//! A round that misses its quorum is not a loss: the lock is ours until its validity ends, and a
//! node that failed is asked again in between. Loss is definite when so many nodes proved that they
//! do not carry the token that the others cannot be a quorum. Past its validity a lease is dead for
//! ever, since somebody may have held and released the lock meanwhile.
//!
//! A node that lost the lock (restarted empty, say) gets it back, so that it normally sits on all
//! nodes. Such a node counts only after a quorum of others confirmed an extension that was sent
//! when it was back already: else somebody who took the lock away from a majority, node by node,
//! would not be noticed.

mod seat;

use std::time::Duration;

use self::seat::{Back, Seat};
use super::{
    Lease, Links, NodeIndex, NodeView, Note, Reply, Request, Timing, Token,
    lease::quorum,
    link::{Ask, Sent},
    views::Views,
};
use crate::clock::Tick;

/// How long a hold lasts before its nodes are asked to tell us what happens to it.
const ATTEND_AFTER: Duration = Duration::from_millis(100);

/// What a step of the hold brings to light.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The end of the validity moved.
    Validity(Tick),
    /// The lock is lost for certain.
    Lost,
    /// Progress, for people.
    Note(Note),
}

/// A round of requests to all nodes, until it was reported.
#[derive(Clone, Copy, Debug)]
enum Round {
    /// The remaining answers to the acquisition.
    First { until: Tick },
    /// An extension.
    Extension { until: Tick },
    /// Reported.
    Over,
}

/// The state of a lock that is held.
#[derive(Debug)]
pub struct Hold {
    token: Token,
    /// With which value and fencing token nodes that lose the lock are healed; none where that is
    /// somebody else's to do.
    heal: Option<(String, Option<u64>)>,
    lease: Lease,
    seats: Vec<Seat>,
    acquired: Tick,
    next: Tick,
    /// When we begin to listen on the holder's channel; `None` when we have. Short commands are
    /// over before that.
    attend: Option<Tick>,
    round: Round,
    /// How many rounds there were.
    rounds: u64,
    validity: Tick,
    over: bool,
}

impl Hold {
    /// The lock was acquired under `token`, with `lease` so far; `heal` is the value and the
    /// fencing token that nodes which lose it are healed with, if that is ours to do.
    pub fn start(
        token: Token,
        heal: Option<(String, Option<u64>)>,
        lease: Lease,
        links: &Links,
        views: &Views,
        timing: &Timing,
        now: Tick,
    ) -> Self {
        let mut seats = vec![Seat::default(); links.nodes().count()];
        for (node, seat) in links.nodes().zip(&mut seats) {
            seat.due =
                links.owes(node, Ask::Acquire(token)) || links.owes(node, Ask::Extend(token));
            // While it owes an answer, what it said in a round before proves nothing.
            seat.gone = !seat.due && matches!(views.of(node), NodeView::Held(_) | NodeView::Free);
            seat.confirmed = matches!(views.of(node), NodeView::Ours);
            seat.strict = seat.confirmed;
            if matches!(views.of(node), NodeView::Refused(_) | NodeView::Troubled(_)) {
                seat.retry = Some(now.after(timing.retry));
            }
        }
        // An acquisition that succeeded has a validity; without one there is nothing to hold.
        let validity = lease.validity().unwrap_or(now);
        let asked = validity.before(timing.ttl.saturating_sub(timing.drift));
        Self {
            token,
            heal,
            lease,
            seats,
            acquired: now,
            next: asked.after(timing.every),
            attend: Some(now.after(ATTEND_AFTER)),
            round: Round::First { until: now.after(timing.node_timeout) },
            rounds: 0,
            validity,
            over: false,
        }
    }

    /// Has every node that takes part keep the lock for the wanted time, whatever becomes of us.
    /// The expiry of the acquisition is the ttl, since its votes may have to be given back. No round
    /// of its own: it promises nothing and is not reported.
    pub fn keep(&self, links: &mut Links, timing: &Timing, now: Tick) {
        if timing.rest(self.acquired, now).is_zero() {
            return;
        }
        let ttl = timing.expiry(self.acquired, now);
        for (node, seat) in links.nodes().zip(&self.seats) {
            // Whoever failed is asked again in time, and then for this.
            if seat.due || seat.confirmed {
                links.ask(node, Request::Extend { token: self.token, ttl }, now);
            }
        }
    }

    /// When the lock became ours.
    pub fn acquired(&self) -> Tick {
        self.acquired
    }

    /// Something may have happened to the lock: ask all nodes now.
    pub fn hurry(&mut self, now: Tick) {
        self.next = self.next.min(now);
    }

    /// The token of the lock.
    pub fn token(&self) -> Token {
        self.token
    }

    /// How many nodes carry the lock as far as is known.
    pub fn nodes(&self) -> usize {
        self.lease.nodes()
    }

    /// Whether the answers to the acquisition have not been reported yet.
    pub fn is_first_round(&self) -> bool {
        matches!(self.round, Round::First { .. })
    }

    /// A node answered. Whether its vote would count in a fresh acquisition matters for the late
    /// answers to ours.
    pub fn answer(
        &mut self,
        node: NodeIndex,
        sent: Sent,
        reply: &Reply,
        votes: bool,
        timing: &Timing,
        now: Tick,
    ) -> Vec<Finding> {
        match sent.ask {
            Ask::Acquire(token) | Ask::Heal(token) | Ask::Extend(token) if token == self.token => {}
            _ => return Vec::new(),
        }
        // The late answers to what made the lock ours: an extension, where it was adopted.
        let taking = match sent.ask {
            Ask::Acquire(_) => true,
            Ask::Extend(_) => sent.at < self.acquired,
            _ => false,
        };
        let place = &mut self.seats[node.get()];
        place.due = false;
        place.retry = None;
        match (sent.ask, reply) {
            (_, Reply::Absent | Reply::Held(_)) => self.gone(node, reply),
            (Ask::Heal(_), Reply::Refused(_)) => {}
            (_, Reply::Refused(_) | Reply::Data(_)) => place.retry = Some(now.after(timing.retry)),
            _ if taking => {
                (place.strict, place.gone, place.confirmed) = (true, false, true);
                if votes && !self.is_dead(now) {
                    self.lease.raise(node, sent.at, timing.ttl, timing.drift);
                }
            }
            (Ask::Extend(_), _) if place.strict => {
                place.confirmed = true;
                let runs_true = match reply {
                    Reply::Extended(shows) => {
                        place.pace.is_true(sent.at, now, *shows, timing.drift)
                    }
                    _ => true,
                };
                if runs_true && !self.is_dead(now) {
                    self.lease.raise(node, sent.at, timing.ttl, timing.drift);
                }
                self.vouch(node, timing, now);
            }
            _ => {
                place.confirmed = true;
                let fresh = Back { round: self.rounds, sent: sent.at, vouchers: 0 };
                let known = place.back.is_some();
                place.back.get_or_insert(fresh).sent = sent.at;
                if !known {
                    self.hurry(now);
                }
            }
        }
        self.judge(now)
    }

    /// The node does not carry our token.
    fn gone(&mut self, node: NodeIndex, reply: &Reply) {
        let seat = &mut self.seats[node.get()];
        (seat.strict, seat.gone, seat.back) = (false, true, None);
        seat.absent = *reply == Reply::Absent;
        self.lease.clear(node);
        for other in &mut self.seats {
            if let Some(back) = &mut other.back {
                back.vouchers &= !bit(node);
            }
        }
    }

    /// A node that counts confirmed an extension: the lock was ours, there, when nodes that were
    /// back before it was sent carried it too.
    fn vouch(&mut self, node: NodeIndex, timing: &Timing, now: Tick) {
        let quorum = quorum(self.seats.len());
        let asked = self.seats[node.get()].asked;
        let dead = self.is_dead(now);
        for (other, seat) in (0_u8..).map(NodeIndex).zip(&mut self.seats) {
            let Some(back) = &mut seat.back else { continue };
            if asked > back.round {
                back.vouchers |= bit(node);
            }
            if back.vouchers.count_ones() as usize >= quorum {
                if !dead {
                    self.lease.raise(other, back.sent, timing.ttl, timing.drift);
                }
                (seat.strict, seat.gone, seat.absent, seat.back) = (true, false, false, None);
            }
        }
    }

    /// A node failed: it is asked again in time, at once when it had served us for a while.
    pub fn failed(&mut self, node: NodeIndex, opened: Tick, timing: &Timing, now: Tick) {
        let seat = &mut self.seats[node.get()];
        seat.due = false;
        let at = if now.since(opened) > timing.retry { now } else { now.after(timing.retry) };
        seat.retry = Some(at);
    }

    /// Does what is due.
    pub fn step(&mut self, links: &mut Links, timing: &Timing, now: Tick) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.over |= now >= self.validity;
        self.attend = self.attend.filter(|at| now < *at);
        if !self.over {
            let whole = now >= self.next;
            if whole {
                self.report(&mut findings);
                self.round = Round::Extension { until: now.after(timing.node_timeout) };
                self.rounds += 1;
                self.next = now.after(timing.every);
            }
            for node in links.nodes() {
                let seat = &mut self.seats[node.get()];
                if whole {
                    (seat.due, seat.confirmed) = (false, false);
                }
                if whole || seat.retry.is_some_and(|at| now >= at) {
                    seat.retry = None;
                    links.reopen(node);
                    // A second extension behind an unanswered one would tell nothing new.
                    if !links.owes(node, Ask::Extend(self.token)) {
                        seat.due = true;
                        seat.asked = if whole { self.rounds } else { seat.asked };
                        let ttl = timing.expiry(self.acquired, now);
                        let request = Request::Extend { token: self.token, ttl };
                        links.ask(node, request, now);
                    }
                }
                if self.attend.is_none() {
                    links.attend(node, now);
                }
            }
            self.heal(links, timing, now);
        }
        let ended = match self.round {
            Round::First { until } | Round::Extension { until } => {
                now >= until || self.seats.iter().all(|seat| !seat.due)
            }
            Round::Over => false,
        };
        if ended {
            self.report(&mut findings);
        }
        findings
    }

    /// Sets the lock again on nodes that have nothing there: only in a round that proved it ours
    /// on a quorum, and only while the command is not being ended.
    fn heal(&mut self, links: &mut Links, timing: &Timing, now: Tick) {
        let Some((value, number)) = &self.heal else {
            return;
        };
        let proved = self.seats.iter().filter(|seat| seat.strict && seat.confirmed).count();
        let ending = now >= self.validity.before(timing.reserve());
        if !matches!(self.round, Round::Extension { .. })
            || proved < quorum(self.seats.len())
            || ending
        {
            return;
        }
        for node in links.nodes() {
            let seat = &mut self.seats[node.get()];
            if seat.absent && seat.back.is_none() && !seat.due && now >= seat.heal_from {
                seat.heal_from = now.after(timing.retry);
                let (token, value, number) = (self.token, value.clone(), *number);
                let ttl = timing.expiry(self.acquired, now);
                let request = Request::Heal { token, value, ttl, number };
                links.ask(node, request, now);
            }
        }
    }

    /// When [`Hold::step`] is due.
    pub fn deadline(&self) -> Option<Tick> {
        let report = match self.round {
            Round::First { until } | Round::Extension { until } => Some(until),
            Round::Over => None,
        };
        let work = (!self.over).then(|| {
            let retries = self.seats.iter().filter_map(|seat| seat.retry);
            retries.chain(self.attend).chain(std::iter::once(self.next)).min()
        });
        work.flatten().into_iter().chain(report).min()
    }

    /// The lock cannot come back: its validity ended, or its loss was proved.
    fn is_dead(&self, now: Tick) -> bool {
        self.over || now >= self.validity
    }

    fn judge(&mut self, now: Tick) -> Vec<Finding> {
        if self.is_dead(now) {
            return Vec::new();
        }
        let possible = self.seats.iter().filter(|seat| !seat.gone).count();
        if possible < quorum(self.seats.len()) {
            self.over = true;
            return vec![Finding::Lost];
        }
        // Where fewer than a quorum are certain, somebody else may have the others by now.
        let validity = self.lease.validity().unwrap_or(now);
        if validity == self.validity {
            return Vec::new();
        }
        self.validity = validity;
        vec![Finding::Validity(validity)]
    }

    /// Says how the round went, once.
    fn report(&mut self, findings: &mut Vec<Finding>) {
        let nodes = self.seats.iter().filter(|seat| seat.confirmed).count();
        let note = match self.round {
            Round::Over => return,
            Round::First { .. } => Note::Acquired { nodes },
            Round::Extension { .. } if nodes >= quorum(self.seats.len()) => {
                Note::Extended { nodes }
            }
            Round::Extension { .. } => Note::ExtensionFailed { nodes },
        };
        self.round = Round::Over;
        findings.push(Finding::Note(note));
    }
}

fn bit(node: NodeIndex) -> u16 {
    1 << node.0
}

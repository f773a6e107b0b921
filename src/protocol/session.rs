//! One lock from the first request to the last: attempt, wait, hold, release. The single entry
//! point of the pure core; the node thread and the simulator drive it in the same way.

mod ending;
mod slots;
#[cfg(test)]
mod tests;
mod trying;
mod waiting;

use std::time::Duration;

use super::{
    Action, ConnId, Contract, Denial, Event, Fencing, Holder, LinkEvent, Machine, NodeIndex,
    NodeView, Note, Patience, Reply, Strategy, Timing, Token,
    attempt::Attempt,
    guard::Guard,
    hold::{Finding, Hold},
    lease::quorum,
    link::{Ask, Heard, Links, Sent, refusal},
    random::Random,
    views::Views,
    wait::{Rumours, Wait},
};
use crate::clock::Tick;

/// What goes on now.
#[derive(Debug)]
enum Phase {
    Idle,
    Trying(Attempt),
    Waiting(Wait),
    Holding(Hold),
    /// Releases are under way, until then at the latest. Where the lock is to be kept until `kept`,
    /// nodes that do so until then are as they should be.
    Settling {
        until: Tick,
        kept: Tick,
    },
    Over,
}

/// The state of one lock. Every method takes the present time and leaves actions in the queue that
/// [`Machine::actions`] empties.
pub struct Session {
    nodes: usize,
    holder: Holder,
    timing: Timing,
    patience: Patience,
    strategy: Strategy,
    fencing: Fencing,
    guard: Guard,
    random: Random,
    links: Links,
    views: Views,
    phase: Phase,
    started: Tick,
    outage_since: Option<Tick>,
    rumours: Rumours,
    /// How many places there are to have what we want.
    slots: usize,
    /// When they were looked at first because the one that was attempted was taken.
    around_since: Option<Tick>,
    /// What the last look at all of them came to.
    looked: Option<Denial>,
}

impl Session {
    /// The longest time that a release may take.
    pub const RELEASE_BOUND: Duration = Duration::from_secs(1);

    /// A session that has not started.
    pub fn new(contract: Contract) -> Self {
        let Contract {
            nodes,
            holder,
            timing,
            patience,
            strategy,
            fencing,
            guard,
            slots,
            kin,
            random,
        } = contract;
        Self {
            nodes,
            holder,
            timing,
            patience,
            strategy,
            fencing,
            guard: Guard::new(guard),
            random: Random::new(random),
            links: Links::new(nodes, timing),
            views: Views::new(nodes, slots, kin),
            phase: Phase::Idle,
            started: Tick::default(),
            outage_since: None,
            rumours: Rumours::default(),
            slots: slots.unwrap_or(1),
            around_since: None,
            looked: None,
        }
    }
}

impl Machine for Session {
    type Event = Event;

    fn start(&mut self, now: Tick) {
        self.started = now;
        let place = self.any_place();
        self.attempt(place, now);
    }

    fn handle(&mut self, conn: ConnId, event: LinkEvent, now: Tick) {
        if let Some(heard) = self.links.handle(conn, event, now) {
            self.hear(heard, now);
        }
        // Who is overdue is not asked here: after a stop of ours the answers of the others can be
        // among the next events.
        self.step(now);
    }

    fn wake(&mut self, now: Tick) {
        for heard in self.links.overdue(now) {
            self.hear(heard, now);
        }
        self.step(now);
    }

    /// The lock is extended at once, whenever it was due.
    fn resume(&mut self, now: Tick) {
        if let Phase::Holding(hold) = &mut self.phase {
            hold.hurry(now);
        }
        self.wake(now);
    }

    /// Gives the attempt up, or releases the lock.
    fn stop(&mut self, now: Tick) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle | Phase::Waiting(_) => self.settle(now),
            Phase::Trying(attempt) => {
                self.links.release(attempt.token(), false, now);
                self.settle(now);
            }
            Phase::Holding(hold) => {
                self.report_first_round(&hold);
                self.links.release(hold.token(), true, now);
                self.settle(now);
            }
            ending @ (Phase::Settling { .. } | Phase::Over) => self.phase = ending,
        }
    }

    /// Where the lock is to be kept for a time, it stays until then and says so.
    fn finish(&mut self, now: Tick) {
        self.leave(now);
    }

    /// Without the lock it is as [`Session::stop`].
    fn keep(&mut self, now: Tick) {
        if matches!(self.phase, Phase::Holding(_)) {
            self.phase = Phase::Over;
            self.tell(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO });
        } else {
            self.stop(now);
        }
    }

    fn deadline(&self) -> Option<Tick> {
        let phase = match &self.phase {
            Phase::Idle | Phase::Over => return None,
            Phase::Trying(attempt) => attempt.deadline(&self.timing),
            Phase::Waiting(wait) => Some(wait.deadline()),
            Phase::Holding(hold) => hold.deadline(),
            Phase::Settling { until, .. } => Some(*until),
        };
        let patience = match self.phase {
            Phase::Trying(_) | Phase::Waiting(_) => self.out_of_patience(),
            _ => None,
        };
        phase.into_iter().chain(patience).chain(self.links.deadline()).min()
    }

    fn actions(&mut self) -> Vec<Action> {
        std::mem::take(self.links.actions())
    }

    fn is_last(event: &Event) -> bool {
        matches!(event, Event::Settled { .. })
    }
}

impl Session {
    fn step(&mut self, now: Tick) {
        match &mut self.phase {
            Phase::Idle | Phase::Over => {}
            Phase::Trying(_) => self.step_attempt(now),
            Phase::Waiting(_) => self.step_wait(now),
            Phase::Holding(hold) => {
                let findings = hold.step(&mut self.links, &self.timing, now);
                self.report(findings);
            }
            Phase::Settling { until, kept } => {
                let kept = *kept;
                if now >= *until || !self.links.awaits_release() {
                    self.settled(kept, now);
                }
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.links.actions().push(Action::Tell(event));
    }

    fn hear(&mut self, heard: Heard, now: Tick) {
        match heard {
            Heard::Introduced(_) => self.introduced(),
            Heard::Answer { node, sent, reply } => self.answer(node, sent, &reply, now),
            Heard::Released(release) => {
                if let Some(rumour) = self.rumours.hear(release, now)
                    && let Phase::Waiting(wait) = &mut self.phase
                {
                    wait.released(rumour, &self.links, &mut self.random, now);
                }
            }
            Heard::Called(token) => {
                if let Phase::Holding(hold) = &mut self.phase
                    && hold.token() == token
                {
                    hold.hurry(now);
                }
            }
            Heard::Broken { node, trouble, opened } => {
                // A node that voted for us keeps its vote until its time runs out.
                if *self.views.of(node) != NodeView::Ours {
                    self.views.set(node, NodeView::Troubled(trouble));
                }
                match &mut self.phase {
                    Phase::Trying(attempt) => attempt.failed(node),
                    Phase::Waiting(wait) => wait.failed(node),
                    Phase::Holding(hold) => hold.failed(node, opened, &self.timing, now),
                    Phase::Idle | Phase::Settling { .. } | Phase::Over => {}
                }
            }
        }
    }

    /// A server said who it is: what that means for it, and for those that did so before.
    fn introduced(&mut self) {
        for node in self.links.nodes() {
            let Some(why) = self.links.unfit(node) else {
                continue;
            };
            let view = NodeView::Refused(refusal(why));
            if *self.views.of(node) == view {
                continue;
            }
            self.views.set(node, view);
            match &mut self.phase {
                Phase::Trying(attempt) => attempt.unfit(node),
                Phase::Waiting(wait) => wait.failed(node),
                Phase::Holding(_) => self.tell(Event::Note(Note::Unfit { node, why })),
                Phase::Idle | Phase::Settling { .. } | Phase::Over => {}
            }
        }
    }

    fn answer(&mut self, node: NodeIndex, sent: Sent, reply: &Reply, now: Tick) {
        self.guard.learn(reply);
        match &mut self.phase {
            Phase::Trying(_) => {
                self.with_attempt(now, |attempt, desk| attempt.answer(node, sent, reply, desk));
            }
            Phase::Waiting(wait) => {
                if sent.ask == Ask::Look && self.links.is_in_focus(sent) {
                    self.views.learn(node, reply, now);
                    match reply {
                        Reply::Refused(_) => wait.failed(node),
                        _ => wait.answer(node),
                    }
                }
            }
            Phase::Holding(hold) => {
                let votes = self.guard.electorate(&self.links.told(), now).counts(node);
                let findings = hold.answer(node, sent, reply, votes, &self.timing, now);
                if !matches!(sent.ask, Ask::Release(_)) {
                    self.views.learn(node, reply, now);
                }
                self.report(findings);
            }
            Phase::Idle | Phase::Settling { .. } | Phase::Over => {}
        }
    }

    fn report(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let event = match finding {
                Finding::Validity(validity) => Event::Validity(validity),
                Finding::Lost => Event::Lost(self.views.all()),
                Finding::Note(note) => {
                    self.tell(Event::Note(note));
                    Event::Note(Note::Nodes(self.views.all()))
                }
            };
            self.tell(event);
        }
    }
}

/// Makes the value for a token. The holder's `since` was read when the session started.
fn valuer(holder: &Holder, elapsed: Duration) -> impl Fn(Token) -> String + use<'_> {
    let since = holder.since.saturating_add(millis(elapsed));
    move |token| Holder { since, ..holder.clone() }.value(token)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

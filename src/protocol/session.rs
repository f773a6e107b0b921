//! One lock from the first request to the last: attempt, wait, hold, release. The single entry
//! point of the pure core; the node thread and the simulator drive it in the same way.

mod slots;

use std::time::Duration;

use super::{
    Action, ConnId, Contract, Denial, Event, Fencing, Holder, LinkEvent, Machine, NodeIndex,
    NodeView, Note, Patience, Reply, Strategy, Timing, Token, Verdict,
    attempt::{Attempt, Desk, Outcome},
    guard::Guard,
    hold::{Finding, Hold},
    lease::quorum,
    link::{Ask, Heard, Links, Sent, refusal},
    random::Random,
    views::{Place, Views},
    wait::{Beginning, Rumours, Wait, Waking},
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
        let Phase::Holding(hold) = &self.phase else {
            return self.stop(now);
        };
        let acquired = hold.acquired();
        let rest = self.timing.rest(acquired, now);
        if rest.is_zero() {
            return self.stop(now);
        }
        let Phase::Holding(hold) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        self.report_first_round(&hold);
        let until = acquired.after(self.timing.min_hold).since(self.started);
        let holder = Holder {
            until: Some(self.holder.since.saturating_add(millis(until))),
            // Nobody extends it any more.
            every: None,
            ..self.holder.clone()
        };
        let value = valuer(&holder, acquired.since(self.started))(hold.token());
        self.links.finish(hold.token(), value, rest, now);
        self.settle_until(now.after(rest), now);
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

    fn report_first_round(&mut self, hold: &Hold) {
        if hold.is_first_round() {
            self.tell(Event::Note(Note::Acquired { nodes: hold.nodes() }));
            self.tell(Event::Note(Note::Nodes(self.views.all())));
        }
    }

    fn tell(&mut self, event: Event) {
        self.links.actions().push(Action::Tell(event));
    }

    /// Runs `work` on the attempt with everything it needs.
    fn with_attempt<T>(
        &mut self,
        now: Tick,
        work: impl FnOnce(&mut Attempt, &mut Desk<'_>) -> T,
    ) -> Option<T> {
        let value = valuer(&self.holder, now.since(self.started));
        let electorate = self.guard.electorate(&self.links.told(), now);
        let mut desk = Desk {
            links: &mut self.links,
            electorate: &electorate,
            fencing: self.fencing,
            views: &mut self.views,
            random: &mut self.random,
            timing: &self.timing,
            value: &value,
            now,
        };
        match &mut self.phase {
            Phase::Trying(attempt) => Some(work(attempt, &mut desk)),
            _ => None,
        }
    }

    fn attempt(&mut self, place: Place, now: Tick) {
        self.focus(place.key());
        let value = valuer(&self.holder, now.since(self.started));
        let electorate = self.guard.electorate(&self.links.told(), now);
        let mut desk = Desk {
            links: &mut self.links,
            electorate: &electorate,
            fencing: self.fencing,
            views: &mut self.views,
            random: &mut self.random,
            timing: &self.timing,
            value: &value,
            now,
        };
        self.phase = Phase::Trying(Attempt::start(self.nodes, self.strategy, &mut desk));
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

    fn step_attempt(&mut self, now: Tick) {
        let outcome = self.with_attempt(now, Attempt::step).flatten();
        match outcome {
            Some(Outcome::Acquired) => self.acquired(now),
            Some(Outcome::Denied(verdict)) => self.denied(verdict, now),
            None => {
                if self.out_of_patience().is_some_and(|at| now >= at) {
                    let verdict = match &self.phase {
                        Phase::Trying(attempt) => attempt
                            .verdict(&self.views, &self.guard.electorate(&self.links.told(), now)),
                        _ => return,
                    };
                    self.denied(verdict, now);
                }
            }
        }
    }

    fn acquired(&mut self, now: Tick) {
        let Phase::Trying(attempt) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let electorate = self.guard.electorate(&self.links.told(), now);
        let (token, mut lease) = (attempt.token(), attempt.lease().clone());
        lease.retain(|node| electorate.counts(node));
        self.recovered();
        let nodes = lease.nodes();
        let validity = lease.validity().unwrap_or(now);
        let waited = now.since(self.started);
        let value = valuer(&self.holder, now.since(self.started))(token);
        let number = attempt.number();
        let heal = Some((value, number));
        let hold = Hold::start(token, heal, lease, &self.links, &self.views, &self.timing, now);
        hold.keep(&mut self.links, &self.timing, now);
        self.phase = Phase::Holding(hold);
        if let Some(slot) = self.views.focused() {
            self.tell(Event::Slot(slot));
        }
        if let Some(number) = number {
            self.tell(Event::Fenced(number));
        }
        self.tell(Event::Acquired { token, validity, nodes, waited });
        self.step(now);
    }

    /// An attempt ended without the lock: its votes are given back, and we wait or give up.
    fn denied(&mut self, verdict: Verdict, now: Tick) {
        let Phase::Trying(attempt) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let denial = self.denial(verdict, now);
        self.links.release(attempt.token(), false, now);
        self.focus(None);
        if self.has_others(verdict, attempt.trip(), now) {
            return self.sleep_from(Beginning::Deaf, verdict, attempt.trip(), now);
        }
        if self.is_final(verdict, now) {
            let denial = self.of_all(denial);
            self.tell(Event::Denied(denial));
            self.settle(now);
            return;
        }
        self.note(denial, now);
        if self.links.listening() >= quorum(self.nodes) {
            self.sleep(verdict, attempt.trip(), now);
        } else {
            self.sleep_from(Beginning::Deaf, verdict, attempt.trip(), now);
        }
    }

    /// Whether a verdict ends the session.
    fn is_final(&mut self, verdict: Verdict, now: Tick) -> bool {
        // Time in which only age is missing is no outage.
        let answered = matches!(verdict, Verdict::Held | Verdict::Contended | Verdict::Guarded(_));
        if answered {
            self.recovered();
        }
        // What only an operator can mend is not waited for.
        let hopeless = matches!(verdict, Verdict::Unfit | Verdict::Ourselves { .. });
        if hopeless || !answered && self.views.is_forbidden() {
            return true;
        }
        match self.patience {
            Patience::NoWait => true,
            Patience::Within(limit) => now >= self.started.after(limit),
            Patience::Forever { outage } => {
                !answered && now.since(*self.outage_since.get_or_insert(now)) >= outage
            }
        }
    }

    /// When patience ends, whatever is going on then.
    fn out_of_patience(&self) -> Option<Tick> {
        match self.patience {
            Patience::NoWait => None,
            Patience::Within(limit) => Some(self.started.after(limit)),
            Patience::Forever { outage } => self.outage_since.map(|since| since.after(outage)),
        }
    }

    fn recovered(&mut self) {
        if self.outage_since.take().is_some() {
            self.tell(Event::Note(Note::Recovered));
        }
    }

    /// Says what we wait for.
    fn note(&mut self, denial: Denial, now: Tick) {
        let note = match denial.verdict {
            Verdict::Held | Verdict::Contended | Verdict::Guarded(_) => Note::Waiting(denial),
            Verdict::Unavailable
            | Verdict::TooSlow
            | Verdict::Unfit
            | Verdict::Ourselves { .. }
            | Verdict::NotOurs
            | Verdict::NotInherited => {
                self.outage_since.get_or_insert(now);
                Note::Outage(denial)
            }
        };
        self.tell(Event::Note(note));
    }

    fn denial(&self, verdict: Verdict, now: Tick) -> Denial {
        Denial { verdict, nodes: self.views.all(), waited: now.since(self.started) }
    }

    /// Sleeps until there is a reason to look, which can be there already.
    fn sleep(&mut self, verdict: Verdict, trip: Option<Duration>, now: Tick) {
        let open = self.rumours.settle(&self.views);
        let beginning = open.map_or(Beginning::Quiet, Beginning::Announced);
        self.sleep_from(beginning, verdict, trip, now);
    }

    fn sleep_from(
        &mut self,
        beginning: Beginning,
        verdict: Verdict,
        trip: Option<Duration>,
        now: Tick,
    ) {
        let electorate = self.guard.electorate(&self.links.told(), now);
        let (rumours, known) = (&mut self.rumours, (&self.links, &self.views, &electorate));
        let wait = Wait::start(beginning, verdict, trip, rumours, known, &mut self.random, now);
        self.phase = Phase::Waiting(wait);
        // It may be time to look already.
        self.step(now);
    }

    fn step_wait(&mut self, now: Tick) {
        let Phase::Waiting(wait) = &mut self.phase else {
            return;
        };
        let electorate = self.guard.electorate(&self.links.told(), now);
        let known = (&mut self.links, &mut self.views, &electorate);
        let waking = wait.step(known, &mut self.random, &self.timing, now);
        let (verdict, trip) = (wait.verdict(), wait.trip());
        match waking {
            Waking::NotYet => {
                if self.out_of_patience().is_some_and(|at| now >= at) {
                    let denial = self.denial(verdict, now);
                    let denial = self.of_all(denial);
                    self.tell(Event::Denied(denial));
                    self.settle(now);
                }
            }
            Waking::Free(place) => {
                self.recovered();
                self.attempt(place, now);
                self.step(now);
            }
            Waking::Taken => {
                let denial = self.denial(verdict, now);
                if self.slots > 1 {
                    self.looked = Some(denial.clone());
                }
                if self.looks_again(verdict, trip, now) {
                    return self.sleep_from(Beginning::Soon, verdict, trip, now);
                }
                if self.is_final(verdict, now) {
                    self.tell(Event::Denied(denial));
                    self.settle(now);
                } else {
                    self.note(denial, now);
                    self.sleep(verdict, trip, now);
                }
            }
        }
    }

    /// Waits for the answers to the releases, as long as they can be expected.
    fn settle(&mut self, now: Tick) {
        self.settle_until(now, now);
    }

    fn settle_until(&mut self, kept: Tick, now: Tick) {
        let bound = self.timing.node_timeout.min(Self::RELEASE_BOUND);
        self.phase = Phase::Settling { until: now.after(bound), kept };
        self.step(now);
    }

    fn settled(&mut self, kept: Tick, now: Tick) {
        self.phase = Phase::Over;
        // A node that was asked to keep it for the wanted time may have heard that a little later.
        let wanted = if kept > now { kept.after(self.timing.node_timeout) } else { now };
        let untold = self.links.untold().into_iter().filter(|(_, until)| *until > wanted);
        let untold: Vec<_> = untold.map(|(node, until)| (node, until.since(now))).collect();
        let at_most = untold.iter().map(|(_, rest)| *rest).max().unwrap_or_default();
        let untold = untold.into_iter().map(|(node, _)| node).collect();
        self.tell(Event::Settled { untold, at_most });
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

#[cfg(test)]
mod tests;

//! How a session ends: the lock is given back, or left for a time with a word about that.

use super::{
    super::{Event, Holder, Machine as _, Note},
    Phase, Session, millis, valuer,
};
use crate::{clock::Tick, protocol::hold::Hold};

impl Session {
    /// Where the lock is to be kept for a time, it stays until then and says so.
    pub(super) fn leave(&mut self, now: Tick) {
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

    pub(super) fn report_first_round(&mut self, hold: &Hold) {
        if hold.is_first_round() {
            self.tell(Event::Note(Note::Acquired { nodes: hold.nodes() }));
            self.tell(Event::Note(Note::Nodes(self.views.all())));
        }
    }

    /// Waits for the answers to the releases, as long as they can be expected.
    pub(super) fn settle(&mut self, now: Tick) {
        self.settle_until(now, now);
    }

    pub(super) fn settle_until(&mut self, kept: Tick, now: Tick) {
        let bound = self.timing.node_timeout.min(Self::RELEASE_BOUND);
        self.phase = Phase::Settling { until: now.after(bound), kept };
        self.step(now);
    }

    pub(super) fn settled(&mut self, kept: Tick, now: Tick) {
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

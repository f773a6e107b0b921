//! What the answers of an attempt amount to.

use std::time::Duration;

use super::{
    super::{NodeIndex, Verdict, guard::Electorate, lease::quorum, views::Views},
    Attempt, Ballot, Desk, Phase, Seat,
};
use crate::clock::Tick;

/// How long contention is endured at the least before the verdict is "contended".
const CONTENDED: Duration = Duration::from_secs(1);
/// The same in round trips.
const CONTENDED_TRIPS: u32 = 40;
/// Below this, differences between round trips are the scheduler's.
const SHORTEST_TRIP: Duration = Duration::from_micros(250);

/// How long to go on where nobody has a quorum, before the verdict is that.
pub fn contended_after(trip: Duration) -> Duration {
    CONTENDED.max(trip * CONTENDED_TRIPS)
}

impl Attempt {
    /// What the answers so far amount to, for a verdict that cannot wait any longer.
    pub fn verdict(&self, views: &Views, electorate: &Electorate) -> Verdict {
        if let Some(key) = views.kin() {
            Verdict::Ourselves { key }
        } else if views.is_held() {
            Verdict::Held
        } else if self.is_guarded() {
            Verdict::Guarded(electorate.youth())
        } else if self.count(|seat| seat.spoke) < quorum(self.seats.len()) {
            Verdict::Unavailable
        } else {
            Verdict::Contended
        }
    }

    /// A quorum is ours and leaves what ending the command in time takes.
    pub(super) fn is_acquired(&self, desk: &Desk<'_>) -> bool {
        let enough = desk.now.after(desk.timing.reserve());
        let counts = |node| desk.electorate.counts(node);
        self.lease.validity_with(counts).is_some_and(|validity| validity > enough)
    }

    /// Somebody who was asked may still turn the outcome: show that a server is in the list twice,
    /// or a lock that is longer than those who voted are old. They get as long as every round has.
    pub(super) fn is_premature(&self, desk: &Desk<'_>) -> bool {
        let Phase::Vote { judge, .. } = self.phase else {
            return false;
        };
        let waits = judge.is_none_or(|at| desk.now < at);
        let mut hopeful = self.asked(desk).peekable();
        let stranger = |node| !desk.electorate.is_introduced(node);
        let surely = desk.links.nodes().filter(|node| {
            self.seats[node.get()].ballot == Ballot::Ours && desk.electorate.is_beyond_doubt(*node)
        });
        waits
            && hopeful.peek().is_some()
            && (surely.count() < quorum(self.seats.len()) || hopeful.any(stranger))
    }

    /// The nodes whose answer is awaited.
    pub(super) fn asked<'a>(
        &'a self,
        desk: &Desk<'_>,
    ) -> impl Iterator<Item = NodeIndex> + use<'a> {
        desk.links.nodes().filter(|node| self.seats[node.get()].ballot == Ballot::Asked)
    }

    /// Only the age of nodes keeps us from having the lock.
    pub(super) fn is_guarded(&self) -> bool {
        self.count(|seat| seat.ballot == Ballot::Ours) >= quorum(self.seats.len())
    }

    pub(super) fn count(&self, wanted: impl Fn(&Seat) -> bool) -> usize {
        self.seats.iter().filter(|seat| wanted(seat)).count()
    }

    /// Nodes that gave an answer that counts, in this round.
    pub(super) fn answered(&self) -> usize {
        self.count(|seat| matches!(seat.ballot, Ballot::Ours | Ballot::Other))
    }

    pub(super) fn measured_trip(&self) -> Duration {
        self.trip.unwrap_or(self.took).max(SHORTEST_TRIP)
    }

    /// Fewer than a quorum of nodes can give an answer that counts.
    pub(super) fn out_of_reach(&self, views: &Views) -> Option<Verdict> {
        let failed = self.count(|seat| seat.ballot == Ballot::Failed);
        let verdict = || views.kin().map_or(Verdict::Unavailable, |key| Verdict::Ourselves { key });
        (self.seats.len() - failed < quorum(self.seats.len())).then(verdict)
    }

    pub(super) fn is_over(&self, now: Tick) -> bool {
        let bound = contended_after(self.measured_trip());
        // While fewer have been heard the others have to be asked, or to fail: only that tells a
        // contended lock from an outage.
        let heard = self.count(|seat| seat.spoke) >= quorum(self.seats.len());
        heard && now.since(self.started) >= bound
    }

    pub(super) fn is_too_slow(&self, desk: &Desk<'_>) -> bool {
        let needed = desk.now.after(desk.timing.reserve());
        self.lease.oldest().is_some_and(|oldest| oldest <= needed)
    }
}

//! The fencing token: a number that grows from one holder to the next, so that a resource can turn
//! away whoever comes late.
//!
//! Redlock has none, and a maximum over counters of the nodes alone repeats and goes backwards: two
//! quorums share one node, which need not be the one with the greatest counter. So the number is
//! made in two phases.
//!
//! 1. The acquire at node *i* raises the counter beside the key and returns it: *c(i)*. It is the
//!    old counter plus one, or the node's time in microseconds where that is more.
//! 2. The number is the greatest *c(i)* of the nodes whose votes are counted. It is written back to
//!    those nodes, at each only if the lock there is still ours *and* the counter is still the
//!    *c(i)* that we were told. Only when a quorum has taken it the command starts; else the whole
//!    attempt has failed.
//!
//! **Why it grows.** Let A and B be two acquisitions that finished. Each wrote back to a quorum, so
//! some node *k* took both numbers. On *k* A's lock was there from its acquire to its write-back,
//! for the write-back is conditional on it, and so was B's. One key carries one lock at a time:
//! one of the two intervals, say A's, was over before the other began. So when B acquired *k*, the
//! counter was at least A's number, B was told at least one more, and B's maximum is not less.
//! Nothing in this speaks of clocks, pauses or validity.
//!
//! **Conditions.** Nodes keep their counters. One that forgets them (an empty restart) starts from
//! its clock, so that the order also survives that, as long as the clocks of the nodes differ by
//! less than the restart guard, for which such a node does not vote. Counters expire seven days
//! after their number as a time. All clients of a key use the same nodes, and all that fence use
//! `--fence`.
//!
//! **What would break it**, each found by the model in the tests: letting an acquire's answer that
//! came during phase 2 into it; healing before phase 2 is over; a write-back that does not ask
//! whose the lock is; one that does not compare the counter, as an acquire of ours that is executed
//! twice raises it in between. A node that is healed later gets at least the number of its holder
//! in the same script.
//!
//! **What a resource must do.** Keep the greatest number that it has seen, durably and with its
//! data; compare and write in one atomic step; refuse whatever carries a smaller one. *Reads as
//! well*, when what was read is acted upon: a holder that is late and only reads must not be told
//! what only the present holder may know to be current, and a read by a newer holder must raise the
//! number, or a late write of the older one gets in behind it. An equal number is the same holder.

use super::{NodeIndex, lease::quorum};

/// Whether a fencing token is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// It is not.
    #[default]
    Off,
    /// It is.
    On,
}

/// What became of one node's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Seat {
    /// It was not counted.
    #[default]
    Out,
    /// Phase 1: it voted, and these are its counters, one per key.
    Counted(Vec<u64>),
    /// Phase 2: it was asked to take the number.
    Asked,
    /// It has.
    Sealed,
    /// It has not, or left us without an answer.
    Failed,
}

/// How phase 2 stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// A quorum has taken the number.
    Done,
    /// It may still.
    Open,
    /// It cannot any more.
    Failed,
}

/// The two phases of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    seats: Vec<Seat>,
    number: Option<u64>,
}

impl Fence {
    /// At the beginning of phase 1.
    pub fn new(nodes: usize) -> Self {
        Self { seats: vec![Seat::Out; nodes], number: None }
    }

    /// `node` voted for us and told its counters. Too late once phase 2 has begun.
    pub fn count(&mut self, node: NodeIndex, counters: &[u64]) {
        if self.number.is_none() {
            self.seats[node.get()] = Seat::Counted(counters.to_vec());
        }
    }

    /// Phase 2 begins with the nodes whose vote counts. The number, and for each of them the
    /// counters that must still be there.
    pub fn seal(
        &mut self,
        counts: impl Fn(NodeIndex) -> bool,
    ) -> (u64, Vec<(NodeIndex, Vec<u64>)>) {
        let mut asked = Vec::new();
        for (node, seat) in (0_u8..).map(NodeIndex).zip(&mut self.seats) {
            match std::mem::take(seat) {
                Seat::Counted(counters) if counts(node) => {
                    *seat = Seat::Asked;
                    asked.push((node, counters));
                }
                _ => {}
            }
        }
        let number = asked.iter().flat_map(|(_, counters)| counters).max().copied();
        let number = number.unwrap_or_default();
        self.number = Some(number);
        (number, asked)
    }

    /// `node` has taken the number.
    pub fn sealed(&mut self, node: NodeIndex) {
        let seat = &mut self.seats[node.get()];
        if *seat == Seat::Asked {
            *seat = Seat::Sealed;
        }
    }

    /// `node` has not taken it, or is silent. That is not asked for again.
    pub fn failed(&mut self, node: NodeIndex) {
        let seat = &mut self.seats[node.get()];
        if *seat == Seat::Asked {
            *seat = Seat::Failed;
        }
    }

    /// How phase 2 stands.
    pub fn sealing(&self) -> Sealing {
        let count = |wanted| self.seats.iter().filter(|seat| **seat == wanted).count();
        let (sealed, quorum) = (count(Seat::Sealed), quorum(self.seats.len()));
        if sealed >= quorum {
            Sealing::Done
        } else if sealed + count(Seat::Asked) >= quorum {
            Sealing::Open
        } else {
            Sealing::Failed
        }
    }

    /// The fencing token, once phase 2 has begun.
    pub fn number(&self) -> Option<u64> {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn n(node: u8) -> NodeIndex {
        NodeIndex(node)
    }

    fn counted() -> Fence {
        let mut fence = Fence::new(3);
        fence.count(n(0), &[5, 9]);
        fence.count(n(2), &[7, 1]);
        fence
    }

    #[test]
    fn number_is_the_greatest_counter_of_those_that_count() {
        assert_eq!(counted().seal(|_| true).0, 9);
        let (number, asked) = counted().seal(|node| node == n(2));
        assert_eq!((number, asked), (7, vec![(n(2), vec![7, 1])]));
    }

    #[test]
    fn answer_that_comes_in_phase_two_is_not_let_in() {
        let mut fence = counted();
        fence.seal(|_| true);
        fence.count(n(1), &[99, 99]);
        fence.sealed(n(1));
        assert_eq!((fence.number(), fence.sealing()), (Some(9), Sealing::Open));
    }

    #[test]
    fn quorum_of_write_backs_makes_it_final_and_too_few_make_it_fail() {
        let mut fence = counted();
        fence.seal(|_| true);
        fence.sealed(n(0));
        assert_eq!(fence.sealing(), Sealing::Open);
        let mut failed = fence.clone();
        fence.sealed(n(2));
        assert_eq!(fence.sealing(), Sealing::Done);
        failed.failed(n(2));
        failed.sealed(n(2));
        assert_eq!(failed.sealing(), Sealing::Failed);
    }
}

//! How long the lock is ours: one point in time per node, and the quorum-th largest of them.

use std::time::Duration;

use super::NodeIndex;
use crate::clock::Tick;

/// How many of `nodes` configured nodes are a majority. Always of the configured list, never of
/// those that answer.
pub const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Until when each node certainly carries our token. A node's time is the moment at which the
/// first byte of the request was queued, plus ttl, minus drift, for a request that it answered
/// positively. It only rises, or becomes none when the node proves that it does not carry the
/// token. An unanswered request changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    until: Vec<Option<Tick>>,
}

impl Lease {
    /// A lease that no node carries.
    pub fn new(nodes: usize) -> Self {
        Self { until: vec![None; nodes] }
    }

    /// `node` answered positively to a request queued at `asked`.
    pub fn raise(&mut self, node: NodeIndex, asked: Tick, ttl: Duration, drift: Duration) {
        let until = asked.after(ttl.saturating_sub(drift));
        let slot = &mut self.until[node.get()];
        *slot = Some(slot.map_or(until, |now| now.max(until)));
    }

    /// `node` proved that it does not carry our token.
    pub fn clear(&mut self, node: NodeIndex) {
        self.until[node.get()] = None;
    }

    /// Forgets the nodes whose vote does not count.
    pub fn retain(&mut self, counts: impl Fn(NodeIndex) -> bool) {
        for (node, until) in (0_u8..).map(NodeIndex).zip(&mut self.until) {
            *until = until.filter(|_| counts(node));
        }
    }

    /// How many nodes carry the token as far as is known.
    pub fn nodes(&self) -> usize {
        self.until.iter().flatten().count()
    }

    /// The earliest end among the nodes that carry the token.
    pub fn oldest(&self) -> Option<Tick> {
        self.until.iter().flatten().min().copied()
    }

    /// The end of the validity: the quorum-th largest of the nodes' times, none without a quorum.
    pub fn validity(&self) -> Option<Tick> {
        self.validity_with(|_| true)
    }

    /// The same of those nodes alone whose vote counts.
    pub fn validity_with(&self, counts: impl Fn(NodeIndex) -> bool) -> Option<Tick> {
        let all = (0_u8..).map(NodeIndex).zip(&self.until);
        let voting = all.filter(|(node, _)| counts(*node)).filter_map(|(_, until)| *until);
        let mut times: Vec<Tick> = voting.collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times.get(quorum(self.until.len()) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Tick {
        Tick::from_boot(ms(n))
    }

    fn lease(asked: &[Option<u64>]) -> Lease {
        let mut lease = Lease::new(asked.len());
        for (node, asked) in (0_u8..).zip(asked) {
            if let Some(asked) = asked {
                lease.raise(NodeIndex(node), at(*asked), ms(1000), ms(12));
            }
        }
        lease
    }

    #[test]
    fn quorum_is_the_majority_of_the_configured_nodes() {
        let table = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (15, 8)];
        assert!(table.iter().all(|(nodes, want)| quorum(*nodes) == *want));
    }

    #[test]
    fn one_round_gives_redlocks_ttl_minus_elapsed_minus_drift() {
        let lease = lease(&[Some(100), Some(100), Some(100), None, None]);
        assert_eq!(lease.validity(), Some(at(1088)));
    }

    #[test]
    fn validity_is_the_quorum_th_largest() {
        let lease = lease(&[Some(0), Some(50), Some(20), Some(40), None]);
        assert_eq!(lease.validity(), Some(at(1008)));
        assert_eq!(lease.oldest(), Some(at(988)));
    }

    #[test]
    fn without_a_quorum_there_is_no_validity() {
        assert_eq!(lease(&[Some(0), Some(0), None, None, None]).validity(), None);
        assert_eq!(lease(&[None]).validity(), None);
    }

    #[test]
    fn late_answer_to_an_older_request_never_lowers() {
        let mut lease = lease(&[Some(500)]);
        lease.raise(NodeIndex(0), at(100), ms(1000), ms(12));
        assert_eq!(lease.validity(), Some(at(1488)));
    }

    #[test]
    fn proof_of_absence_takes_the_vote_away() {
        let mut lease = lease(&[Some(0), Some(0), None]);
        lease.clear(NodeIndex(0));
        assert_eq!((lease.validity(), lease.nodes()), (None, 1));
    }

    proptest! {
        /// A quorum of nodes carries the key at least until the validity, and no later moment has one.
        #[test]
        fn validity_is_the_last_moment_with_a_quorum(
            asked in prop::collection::vec(prop::option::of(0_u64..100_000), 1..=15)
        ) {
            let lease = lease(&asked);
            let carriers = |t: Tick| {
                asked.iter().flatten().filter(|a| at(**a + 988) >= t).count()
            };
            match lease.validity() {
                Some(end) => {
                    prop_assert!(carriers(end) >= quorum(asked.len()));
                    prop_assert!(carriers(end.after(Duration::from_nanos(1))) < quorum(asked.len()));
                }
                None => prop_assert!(asked.iter().flatten().count() < quorum(asked.len())),
            }
        }
    }
}

//! How a lock stands, judged from what the nodes show and nothing else: for `status` and
//! `doctor`, which hold nothing themselves.

use std::time::Duration;

use super::{Holder, NodeIndex, Occupant, Token, holder::identity, lease::quorum};

/// What one node shows at one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cell {
    /// Nothing is known: the node is silent or refuses.
    #[default]
    Unknown,
    /// Nothing is there.
    Free,
    /// Something is there.
    Taken {
        /// What.
        occupant: Occupant,
        /// When the node will drop it; `None` when it has no expiry.
        expires_in: Option<Duration>,
    },
}

/// How a lock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One holder was seen on a quorum of nodes.
    Held,
    /// Somebody may have a quorum: too few nodes answered to exclude it.
    Unknown,
    /// Nobody can have a quorum, and something is left on some node.
    Partial,
    /// Nothing is there on any node that answered, and nobody can have a quorum.
    Free,
}

impl State {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Partial => "partial",
            Self::Free => "free",
        }
    }
}

/// What can be said about the life of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its holder extends it.
    Alive {
        /// So long ago, at most.
        extended: Duration,
    },
    /// Its holder should have extended it and has not.
    Late {
        /// For so long.
        silent: Duration,
        /// It ends by itself after so much more.
        ends_in: Duration,
    },
    /// It lasts longer than its holder's ttl (`--min-hold`, or extended by hand), and so does not
    /// show whether the holder lives.
    Kept {
        /// It ends by itself after so much, if nobody extends it.
        ends_in: Duration,
    },
    /// Nobody extends it by itself: it was taken by `redlock acquire`, or nothing is known of it.
    Acquired {
        /// It ends by itself after so much.
        ends_in: Duration,
    },
    /// Its job is done and it stays until its time is over (`--min-hold`).
    Finished {
        /// After so much.
        ends_in: Duration,
    },
    /// Another client's value, or no string at all.
    Foreign {
        /// When it ends by itself; `None` for never.
        ends_in: Option<Duration>,
    },
    /// A value of ours without an expiry: somebody took that away.
    Endless,
    /// Nobody can have a quorum: it only stands in the way.
    Leftover {
        /// When the last of it ends by itself; `None` for never.
        ends_in: Option<Duration>,
    },
    /// There is nothing.
    Nothing,
}

/// One lock on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its name, without the prefix.
    pub name: Vec<u8>,
    /// What each node shows.
    pub cells: Vec<Cell>,
    /// How many wait for it, where a node told.
    pub waiters: Option<u64>,
}

/// The claim that is on most nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader<'a> {
    /// What is there.
    pub occupant: &'a Occupant,
    /// Where.
    pub nodes: Vec<NodeIndex>,
    /// When the last node drops it; `None` when one never does.
    pub expires_in: Option<Duration>,
    /// The longest that one of its nodes keeps it, of those that drop it.
    longest: Duration,
}

impl Leader<'_> {
    /// What a value of ours says about its holder.
    pub fn holder(&self) -> Option<Holder> {
        match self.occupant {
            Occupant::Value(value) => Holder::of_value(value),
            Occupant::Type(_) => None,
        }
    }

    /// The token of a value of ours.
    pub fn token(&self) -> Option<Token> {
        match self.occupant {
            Occupant::Value(value) => Token::of_value(value),
            Occupant::Type(_) => None,
        }
    }
}

/// Judges `all` nodes of which `most` show one and the same claim, `taken` show any, and `unknown`
/// say nothing.
pub const fn judge(all: usize, most: usize, taken: usize, unknown: usize) -> State {
    let needed = quorum(all);
    if most >= needed {
        State::Held
    } else if most + unknown >= needed {
        State::Unknown
    } else if taken > 0 {
        State::Partial
    } else {
        State::Free
    }
}

impl Lock {
    /// How it stands.
    pub fn state(&self) -> State {
        let unknown = self.cells.iter().filter(|cell| **cell == Cell::Unknown).count();
        let taken = self.cells.iter().filter(|cell| matches!(cell, Cell::Taken { .. })).count();
        let most = self.leader().map_or(0, |leader| leader.nodes.len());
        judge(self.cells.len(), most, taken, unknown)
    }

    /// The claim that is on most nodes; of equals the one that comes first.
    pub fn leader(&self) -> Option<Leader<'_>> {
        let mut claims: Vec<Leader<'_>> = Vec::new();
        for (node, cell) in (0_u8..).map(NodeIndex).zip(&self.cells) {
            let Cell::Taken { occupant, expires_in } = cell else { continue };
            let same = |claim: &&mut Leader<'_>| {
                identity(claim.occupant) == identity(occupant)
                    && matches!(claim.occupant, Occupant::Type(_))
                        == matches!(occupant, Occupant::Type(_))
            };
            let longest = expires_in.unwrap_or_default();
            if let Some(claim) = claims.iter_mut().find(same) {
                claim.nodes.push(node);
                claim.expires_in = claim.expires_in.zip(*expires_in).map(|(a, b)| a.max(b));
                claim.longest = claim.longest.max(longest);
            } else {
                let (nodes, expires_in) = (vec![node], *expires_in);
                claims.push(Leader { occupant, nodes, expires_in, longest });
            }
        }
        // The last of the greatest is the first of the reversed.
        claims.into_iter().rev().max_by_key(|claim| claim.nodes.len())
    }

    /// What can be said about its life, where an answer may take `node_timeout`.
    pub fn life(&self, node_timeout: Duration) -> Life {
        let Some(leader) = self.leader() else { return Life::Nothing };
        if self.state() == State::Partial {
            let ends = self.cells.iter().filter_map(|cell| match cell {
                Cell::Taken { expires_in, .. } => Some(*expires_in),
                Cell::Free | Cell::Unknown => None,
            });
            // One that never ends decides.
            let ends_in = ends.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten();
            return Life::Leftover { ends_in };
        }
        if leader.token().is_none() {
            return Life::Foreign { ends_in: leader.expires_in };
        }
        let Some(ends_in) = leader.expires_in else { return Life::Endless };
        let Some(holder) = leader.holder() else { return Life::Acquired { ends_in } };
        if holder.until.is_some() {
            return Life::Finished { ends_in };
        }
        let Some(every) = holder.every.map(Duration::from_millis) else {
            return Life::Acquired { ends_in };
        };
        if leader.longest > Duration::from_millis(holder.ttl) {
            return Life::Kept { ends_in };
        }
        // By the node that was extended last: late is who is late everywhere.
        let silent = Duration::from_millis(holder.ttl).saturating_sub(leader.longest);
        if silent > every.saturating_mul(2).saturating_add(node_timeout) {
            Life::Late { silent, ends_in }
        } else {
            Life::Alive { extended: silent }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn taken(value: &str, ms: u32) -> Cell {
        let occupant = Occupant::Value(value.as_bytes().to_vec());
        Cell::Taken { occupant, expires_in: Some(MS * ms) }
    }

    fn lock(cells: Vec<Cell>) -> Lock {
        Lock { name: b"k".to_vec(), cells, waiters: None }
    }

    /// Every way in which up to five nodes can be free, silent, or carry one of three claims, held
    /// against the meaning of the words: what could the silent ones still be?
    #[test]
    fn states_are_true_for_every_combination() {
        for all in 1..=5_u32 {
            for number in 0..5_u32.pow(all) {
                let kinds: Vec<u32> = (0..all).map(|node| number / 5_u32.pow(node) % 5).collect();
                let cells = kinds.iter().map(|kind| match kind {
                    0 => Cell::Free,
                    1 => Cell::Unknown,
                    2 => taken("a", 1),
                    3 => taken("b", 1),
                    _ => Cell::Taken { occupant: Occupant::Type("a".into()), expires_in: None },
                });
                let state = lock(cells.collect()).state();
                let count = |kind| kinds.iter().filter(|k| **k == kind).count();
                let needed = quorum(kinds.len());
                let seen = (2..5).map(count).max().unwrap_or(0);
                let certain = seen >= needed;
                let possible = seen + count(1) >= needed;
                let expected = match (certain, possible, seen) {
                    (true, ..) => State::Held,
                    (_, true, _) => State::Unknown,
                    (.., 0) => State::Free,
                    _ => State::Partial,
                };
                assert_eq!(state, expected, "{kinds:?}");
            }
        }
    }

    fn value(token: u128, every: Option<u64>) -> String {
        let holder = Holder { host: "h".into(), ttl: 30_000, every, ..Holder::default() };
        holder.value(Token::from_random(token))
    }

    #[test]
    fn one_token_with_changed_data_is_one_claim() {
        let (a, b) = (value(1, Some(10_000)), value(1, None));
        let lock = lock(vec![taken(&a, 9), taken(&b, 7), taken(&value(2, None), 5)]);
        assert_eq!(lock.state(), State::Held);
        let leader = lock.leader().unwrap();
        assert_eq!(leader.nodes, [NodeIndex(0), NodeIndex(1)]);
        assert_eq!(leader.expires_in, Some(MS * 9));
    }

    #[test]
    fn late_is_who_is_late_on_all_nodes() {
        let value = value(1, Some(10_000));
        let life = |a, b| lock(vec![taken(&value, a), taken(&value, b), Cell::Free]).life(MS * 500);
        assert_eq!(life(26_000, 4_000), Life::Alive { extended: MS * 4_000 });
        assert_eq!(life(9_500, 9_500), Life::Alive { extended: MS * 20_500 });
        let late = Life::Late { silent: MS * 20_501, ends_in: MS * 9_499 };
        assert_eq!(life(9_499, 9_000), late);
        // A min-hold, or somebody extended it by hand.
        assert_eq!(life(90_000, 30_000), Life::Kept { ends_in: MS * 90_000 });
        assert_eq!(life(30_000, 30_000), Life::Alive { extended: Duration::ZERO });
    }

    #[test]
    fn lives_of_what_nobody_extends() {
        let life = |value: &str| lock(vec![taken(value, 700)]).life(MS);
        assert_eq!(life(&value(1, None)), Life::Acquired { ends_in: MS * 700 });
        assert_eq!(life("thief"), Life::Foreign { ends_in: Some(MS * 700) });
        let done = Holder { until: Some(1), ..Holder::default() }.value(Token::from_random(1));
        assert_eq!(life(&done), Life::Finished { ends_in: MS * 700 });
        let endless = Cell::Taken {
            occupant: Occupant::Value(value(1, None).into_bytes()),
            expires_in: None,
        };
        assert_eq!(lock(vec![endless]).life(MS), Life::Endless);
        let rest = lock(vec![taken(&value(1, None), 9), Cell::Free, Cell::Free]);
        assert_eq!(rest.life(MS), Life::Leftover { ends_in: Some(MS * 9) });
        assert_eq!(lock(vec![Cell::Free]).life(MS), Life::Nothing);
    }
}

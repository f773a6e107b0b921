//! What a hold knows of one node.

use super::super::pace::Pace;
use crate::clock::Tick;

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one node")]
pub(super) struct Seat {
    /// It counts: it carries our token since the acquisition, as far as is known.
    pub(super) strict: bool,
    /// The node proved that it does not carry our token, and has not made up for that.
    pub(super) gone: bool,
    /// Nothing is there: it may be healed.
    pub(super) absent: bool,
    /// It carries our token again, and does not count yet.
    pub(super) back: Option<Back>,
    /// It is not healed again before that.
    pub(super) heal_from: Tick,
    /// The number of the round in which it was asked the last time.
    pub(super) asked: u64,
    pub(super) pace: Pace,
    /// It failed, and is asked again at this time.
    pub(super) retry: Option<Tick>,
    /// It owes this round an answer.
    pub(super) due: bool,
    /// It confirmed this round.
    pub(super) confirmed: bool,
}

/// A node that carries our token again. Somebody may have taken the lock away on the others
/// meanwhile, and what they answered before says nothing about that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    /// The round in which that was heard.
    pub(super) round: u64,
    /// When it was asked for what it answered then, or positively since.
    pub(super) sent: Tick,
    /// Nodes that confirmed an extension sent after that, as a bit mask.
    pub(super) vouchers: u16,
}

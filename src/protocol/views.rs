//! What is known of every node: for verdicts, and for the words in which a verdict is told.

use std::time::Duration;

use super::{
    NodeIndex, NodeView, Obstacle, Refusal, RefusalKind, Reply, Token, Unfit, holder::identity,
    lease::quorum,
};
use crate::clock::Tick;

/// By what one holder of one key is told from another.
type Claim = (usize, Vec<u8>);

/// What can be had of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All of them together.
    All,
    /// This one, by its place among all.
    Slot(usize),
}

impl Place {
    /// The one key that requests are about, where they are not about all.
    pub const fn key(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Slot(key) => Some(key),
        }
    }

    const fn needs(self, key: usize) -> bool {
        match self {
            Self::All => true,
            Self::Slot(slot) => slot == key,
        }
    }
}

#[derive(Debug)]
struct Seat {
    view: NodeView,
    /// The foreign claim that the node showed last, and since when unchanged.
    shown: Option<(Claim, Tick)>,
}

/// The nodes' last answers, and every claim seen since the last [`Views::forget`].
#[derive(Debug)]
pub struct Views {
    seats: Vec<Seat>,
    /// The tokens of the runs around us.
    kin: Vec<Token>,
    /// How many keys there are of which one is wanted; none where all are.
    slots: Option<usize>,
    /// The one of them that matters now; none where each does.
    focus: Option<usize>,
    /// Which nodes showed a foreign claim, as a bit mask.
    seen: Vec<(Claim, u16)>,
}

impl Views {
    /// Nothing is known of any of `nodes` nodes. Where there are `slots`, one of so many keys is
    /// wanted. `kin` are the tokens of the runs around us.
    pub fn new(nodes: usize, slots: Option<usize>, kin: Vec<Token>) -> Self {
        let seat = || Seat { view: NodeView::Unknown, shown: None };
        Self {
            seats: std::iter::repeat_with(seat).take(nodes).collect(),
            kin,
            slots,
            focus: None,
            seen: Vec::new(),
        }
    }

    /// Starts to count claims anew.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// From now on only this key matters, or each. What nodes said of others is forgotten.
    pub fn focus(&mut self, key: Option<usize>) {
        if self.focus == key {
            return;
        }
        self.focus = key;
        self.seen.clear();
        for seat in &mut self.seats {
            if matches!(seat.view, NodeView::Ours | NodeView::Free | NodeView::Held(_)) {
                seat.view = NodeView::Unknown;
            }
        }
    }

    /// The only key that matters now, if so.
    pub const fn focused(&self) -> Option<usize> {
        self.focus
    }

    /// What can be had: one of the slots; or all keys together, which is the only place then.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let (from, until) = match (self.focus, self.slots) {
            (Some(key), _) => (key, key + 1),
            (None, slots) => (0, slots.unwrap_or(1)),
        };
        let all = self.slots.is_none();
        (from..until).map(move |key| if all { Place::All } else { Place::Slot(key) })
    }

    /// `node` answered an acquire (then [`Reply::Done`] is a vote for us) or a look.
    pub fn learn(&mut self, node: NodeIndex, reply: &Reply, now: Tick) {
        let view = match reply {
            Reply::Done | Reply::Already | Reply::Extended(_) | Reply::Counted(_) => NodeView::Ours,
            Reply::Absent => NodeView::Free,
            Reply::Held(obstacles) => {
                let matters = |o: &&Obstacle| self.focus.is_none_or(|key| o.key == key);
                let obstacles: Vec<Obstacle> = obstacles.iter().filter(matters).cloned().collect();
                for obstacle in &obstacles {
                    self.count(node, obstacle);
                }
                if obstacles.is_empty() { NodeView::Free } else { NodeView::Held(obstacles) }
            }
            Reply::Refused(refusal) => NodeView::Refused(refusal.clone()),
            // Nobody asks for data here.
            Reply::Data(_) => NodeView::Unknown,
        };
        let shown = match &view {
            NodeView::Held(obstacles) => obstacles.first().map(claim),
            _ => None,
        };
        let seat = &mut self.seats[node.get()];
        if seat.shown.as_ref().map(|(claim, _)| claim) != shown.as_ref() {
            seat.shown = shown.map(|claim| (claim, now));
        }
        seat.view = view;
    }

    /// Something else became known of `node`.
    pub fn set(&mut self, node: NodeIndex, view: NodeView) {
        self.seats[node.get()].view = view;
    }

    fn count(&mut self, node: NodeIndex, obstacle: &Obstacle) {
        let claim = claim(obstacle);
        let bit = 1 << node.0;
        match self.seen.iter_mut().find(|(seen, _)| *seen == claim) {
            Some((_, nodes)) => *nodes |= bit,
            None => self.seen.push((claim, bit)),
        }
    }

    /// The last that is known of `node`.
    pub fn of(&self, node: NodeIndex) -> &NodeView {
        &self.seats[node.get()].view
    }

    /// The last that is known of every node.
    pub fn all(&self) -> Vec<NodeView> {
        self.seats.iter().map(|seat| seat.view.clone()).collect()
    }

    /// Whether one foreign claim was seen on a quorum of nodes, at every place.
    pub fn is_held(&self) -> bool {
        self.places().all(|place| self.is_held_at(place))
    }

    fn is_held_at(&self, place: Place) -> bool {
        let quorum = quorum(self.seats.len());
        let mut claims = self.claims(place);
        claims.any(|(_, nodes)| nodes.count_ones() as usize >= quorum)
    }

    /// The claims that stand in the way at `place`.
    fn claims(&self, place: Place) -> impl Iterator<Item = &(Claim, u16)> {
        self.seen.iter().filter(move |((key, _), _)| place.needs(*key))
    }

    /// Whether nothing stands in the way at `place` on `node`.
    pub fn is_free(&self, node: NodeIndex, place: Place) -> bool {
        match self.of(node) {
            NodeView::Free => true,
            NodeView::Held(obstacles) => !obstacles.iter().any(|o| place.needs(o.key)),
            _ => false,
        }
    }

    /// Which of our keys a run around us has, so that we would wait for ourselves: it is on a quorum
    /// of nodes, or would be with those that fail, and nobody else is. Less than that is what is
    /// left of a run that has ended. With slots it has to be so at every one.
    pub fn kin(&self) -> Option<usize> {
        let keys: Option<Vec<usize>> = self.places().map(|place| self.kin_at(place)).collect();
        keys?.first().copied()
    }

    fn kin_at(&self, place: Place) -> Option<usize> {
        let fails =
            |seat: &&Seat| matches!(seat.view, NodeView::Refused(_) | NodeView::Troubled(_));
        let failing =
            if self.is_held_at(place) { 0 } else { self.seats.iter().filter(fails).count() };
        let enough = quorum(self.seats.len()) - failing.min(quorum(self.seats.len()) - 1);
        let mut kin = self.claims(place).filter(|((_, identity), nodes)| {
            let token = Token::of_value(identity);
            nodes.count_ones() as usize >= enough
                && token.is_some_and(|token| self.kin.contains(&token))
        });
        kin.next().map(|((key, _), _)| *key)
    }

    /// Whether a node showed `token` since the last [`Views::forget`].
    pub fn shows(&self, token: Token) -> bool {
        let token = token.to_string();
        self.seen.iter().any(|((_, identity), _)| identity == token.as_bytes())
    }

    /// Whether the foreign claim on `node` stands there unchanged for longer than `age`.
    pub fn is_leftover(&self, node: NodeIndex, age: Duration, now: Tick) -> bool {
        let shown = &self.seats[node.get()].shown;
        shown.as_ref().is_some_and(|(_, since)| now.since(*since) > age)
    }

    /// Whether so many nodes refuse our rights that no quorum is possible, wait as we may.
    pub fn is_forbidden(&self) -> bool {
        let refuses = |seat: &&Seat| matches!(&seat.view, NodeView::Refused(refusal) if refusal.kind == RefusalKind::Rights);
        self.seats.iter().filter(refuses).count() > self.seats.len() - quorum(self.seats.len())
    }

    /// Whether the list of nodes cannot keep a lock: one server is in it twice, or no quorum is
    /// left without those that are no independent masters. No waiting mends it.
    pub fn is_unfit(&self) -> bool {
        let why = |seat: &Seat| match &seat.view {
            NodeView::Refused(Refusal { kind: RefusalKind::Unfit(why), .. }) => Some(*why),
            _ => None,
        };
        let unfit: Vec<Unfit> = self.seats.iter().filter_map(why).collect();
        let twice = unfit.iter().any(|why| matches!(why, Unfit::SameServer(_)));
        twice || unfit.len() > self.seats.len() - quorum(self.seats.len())
    }

    /// When the quorum-th node becomes free by itself, at the first place, from the expiries that the
    /// nodes told; `None` when that takes a key without expiry or a node that does not answer.
    pub fn free_in(&self) -> Option<Duration> {
        self.places().filter_map(|place| self.free_at_in(place)).min()
    }

    fn free_at_in(&self, place: Place) -> Option<Duration> {
        let time = |seat: &Seat| match &seat.view {
            NodeView::Free | NodeView::Ours => Some(Duration::ZERO),
            NodeView::Held(obstacles) => {
                let needed = obstacles.iter().filter(|o| place.needs(o.key));
                let expiries: Option<Vec<_>> = needed.map(|o| o.expires_in).collect();
                // Whole milliseconds, rounded down: a key with 0 left is still there.
                let gone = |left: Duration| left.saturating_add(Duration::from_millis(1));
                Some(expiries?.into_iter().max().map_or(Duration::ZERO, gone))
            }
            _ => None,
        };
        let mut times: Vec<Duration> = self.seats.iter().filter_map(time).collect();
        times.sort_unstable();
        times.get(quorum(self.seats.len()) - 1).copied()
    }
}

fn claim(obstacle: &Obstacle) -> Claim {
    (obstacle.key, identity(&obstacle.occupant).to_vec())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Occupant, Trouble},
        *,
    };

    /// What `nodes` nodes show at one key: `k` a run around us, `x` somebody else, `-` nothing, `!`
    /// no answer.
    fn kin(nodes: &str) -> bool {
        let kin = Token::from_random(1);
        let mut views = Views::new(nodes.len(), None, vec![Token::from_random(2), kin]);
        for (node, shows) in (0..).map(NodeIndex).zip(nodes.chars()) {
            let value = match shows {
                'k' => kin.to_string(),
                'x' => "x".to_owned(),
                '-' => {
                    views.learn(node, &Reply::Absent, Tick::default());
                    continue;
                }
                _ => {
                    views.set(node, NodeView::Troubled(Trouble::Silent));
                    continue;
                }
            };
            let occupant = Occupant::Value(value.into_bytes());
            let obstacle = Obstacle { key: 0, occupant, expires_in: None };
            views.learn(node, &Reply::Held(vec![obstacle]), Tick::default());
        }
        views.kin() == Some(0)
    }

    #[test]
    fn run_around_us_is_known_where_it_has_or_may_have_a_quorum() {
        for nodes in ["kkkkk", "kkk--", "kkkxx", "kk-!!", "k!!!!", "kk!x-"] {
            assert!(kin(nodes), "{nodes}");
        }
        for nodes in ["kk---", "kkxxx", "k!--x", "xxx!!", "!!!!!", "-----", "k!xxx"] {
            assert!(!kin(nodes), "{nodes}");
        }
    }

    #[test]
    fn key_in_its_last_millisecond_is_not_free_yet() {
        let ms = Duration::from_millis;
        let free_in = |nodes: [Option<u64>; 3]| {
            let mut views = Views::new(3, None, Vec::new());
            for (node, left) in (0..).map(NodeIndex).zip(nodes) {
                let reply = left.map_or(Reply::Absent, |left| {
                    let occupant = Occupant::Value(b"x".to_vec());
                    let expires_in = Some(ms(left));
                    Reply::Held(vec![Obstacle { key: 0, occupant, expires_in }])
                });
                views.learn(node, &reply, Tick::default());
            }
            views.free_in()
        };
        assert_eq!(free_in([Some(0), Some(0), Some(0)]), Some(ms(1)));
        assert_eq!(free_in([None, Some(0), Some(9)]), Some(ms(1)));
        assert_eq!(free_in([None, None, Some(9)]), Some(ms(0)));
        assert_eq!(free_in([Some(4), Some(5), Some(6)]), Some(ms(6)));
    }
}

//! The restart guard: a node that lost its memory must not vote while a lock from before may still
//! be valid.
//!
//! A node that restarted empty votes for whoever asks, although the lock that it forgot may be
//! held. So its vote in a fresh acquisition counts only when the node is older than every such lock
//! can be: older than the *guard*. It takes part in all the rest: keys are set there, what it shows
//! of others counts, and a holder's extensions count.
//!
//! Nodes that were all started together, as a new fleet is, have nothing to remember. That opens
//! the guard (`auto`), and is the one restart without memory that it does not cover.

use std::time::Duration;

use super::{
    Holder, Introduction, NodeIndex, Obstacle, Occupant, Reply, Server, lease::quorum, link::Told,
};
use crate::clock::Tick;

/// When the vote of a young node counts (`--restart-guard`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartGuard {
    /// Not before it is older than every lock that is known of, unless all nodes are of one age.
    #[default]
    Auto,
    /// The same, whatever the others' age, and never where the age is not known.
    Strict,
    /// Always.
    Off,
    /// Not before this age, or that of every lock that is known of.
    For(Duration),
}

/// What the guard of one lock goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardTerms {
    /// The rule.
    pub rule: RestartGuard,
    /// The largest of our own durations that keep a key: ttl, min-hold, a configured `max-ttl`.
    pub own: Duration,
    /// No lock is longer.
    pub max_ttl: Duration,
}

impl GuardTerms {
    /// The same, where locks of this length are known of.
    #[must_use]
    pub fn with(self, longest: Duration) -> Self {
        Self { own: self.own.max(longest), ..self }
    }
}

/// How many nodes are too young to vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Youth {
    /// So many.
    pub nodes: usize,
    /// They started less than this ago.
    pub guard: Duration,
    /// A quorum of nodes may vote after so much time; none when that cannot be told.
    pub votes_in: Option<Duration>,
}

/// By how much a node may be younger than it says: it rounds its seconds up.
const ROUNDED: Duration = Duration::from_secs(1);

/// The guard of one session.
#[derive(Debug)]
pub struct Guard {
    terms: GuardTerms,
    /// The longest that any key seen so far was, or is, to last.
    seen: Duration,
}

impl Guard {
    /// A guard that has not seen any value.
    pub fn new(terms: GuardTerms) -> Self {
        Self { terms, seen: Duration::ZERO }
    }

    /// Whoever shows up at the key may have a longer ttl than ours.
    pub fn learn(&mut self, reply: &Reply) {
        let Reply::Held(obstacles) = reply else { return };
        for Obstacle { occupant, expires_in, .. } in obstacles {
            self.seen = self.seen.max(lasts(occupant, *expires_in));
        }
    }

    /// The age below which a node does not vote.
    fn age(&self) -> Duration {
        let asked = match self.terms.rule {
            RestartGuard::For(age) => age,
            _ => Duration::ZERO,
        };
        self.terms.own.max(self.seen).max(asked)
    }

    /// Who may vote at `now`, by what the servers said of themselves.
    pub fn electorate(&self, told: &[Option<Told<'_>>], now: Tick) -> Electorate {
        let guard = self.age();
        let open = match self.terms.rule {
            RestartGuard::Off => true,
            RestartGuard::Auto => started_together(told, guard, now),
            RestartGuard::Strict | RestartGuard::For(_) => false,
        };
        let seat = |told: &Option<Told<'_>>| {
            let told = told.as_ref();
            let known = told.and_then(|told| Some((told, of_age(told, guard)?)));
            let vote = match known {
                _ if open => Vote::Counts,
                Some((told, at)) if told.seen_at(now) >= at => Vote::Counts,
                Some((told, at)) => Vote::From(told.live.then_some(at)),
                None if self.terms.rule == RestartGuard::Strict => Vote::From(None),
                None => Vote::Counts,
            };
            let old = known.is_none_or(|(told, _)| {
                of_age(told, self.terms.max_ttl).is_none_or(|at| told.seen_at(now) >= at)
            });
            Seat { vote, beyond_doubt: open || old, introduced: told.is_some() }
        };
        Electorate { seats: told.iter().map(seat).collect(), guard, now }
    }
}

/// How long at the most what is at a key was, or is, to last, by what it says and what is left.
pub fn lasts(occupant: &Occupant, expires_in: Option<Duration>) -> Duration {
    let named = match occupant {
        Occupant::Value(value) => Holder::of_value(value).map(|holder| holder.ttl),
        Occupant::Type(_) => None,
    };
    named.map(Duration::from_millis).max(expires_in).unwrap_or_default()
}

/// When the server is as old as `age`; unknown where it may not tell.
fn of_age(told: &Told<'_>, age: Duration) -> Option<Tick> {
    match told.introduction {
        Introduction::Known(server) => {
            Some(told.at.after(age).after(ROUNDED).before(server.uptime))
        }
        Introduction::Unknown => None,
    }
}

/// Every node told its age, and they differ by less than `guard`.
fn started_together(told: &[Option<Told<'_>>], guard: Duration, now: Tick) -> bool {
    let age = |told: &Option<Told<'_>>| match told {
        Some(Told { introduction: Introduction::Known(server), at, live: true }) => {
            Some(server.uptime.saturating_add(now.since(*at)))
        }
        _ => None,
    };
    let ages: Option<Vec<Duration>> = told.iter().map(age).collect();
    let Some(ages) = ages else { return false };
    let (oldest, youngest) = (ages.iter().max(), ages.iter().min());
    oldest.zip(youngest).is_some_and(|(oldest, youngest)| oldest.saturating_sub(*youngest) < guard)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vote {
    /// It counts.
    Counts,
    /// It will, when that is known.
    From(Option<Tick>),
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    vote: Vote,
    /// No lock that may still show up can be longer than the node is old.
    beyond_doubt: bool,
    introduced: bool,
}

/// Whose votes count at one moment.
#[derive(Debug)]
pub struct Electorate {
    seats: Vec<Seat>,
    guard: Duration,
    now: Tick,
}

impl Electorate {
    /// Whether the vote of `node` counts.
    pub fn counts(&self, node: NodeIndex) -> bool {
        self.seats[node.get()].vote == Vote::Counts
    }

    /// Whether it counts whatever ttl the others show.
    pub fn is_beyond_doubt(&self, node: NodeIndex) -> bool {
        let seat = self.seats[node.get()];
        seat.vote == Vote::Counts && seat.beyond_doubt
    }

    /// Whether the server of `node` said who it is.
    pub fn is_introduced(&self, node: NodeIndex) -> bool {
        self.seats[node.get()].introduced
    }

    /// When a quorum of nodes may vote that may not yet.
    pub fn comes_of_age(&self) -> Option<Tick> {
        self.quorum_votes_at().filter(|at| *at > self.now)
    }

    fn quorum_votes_at(&self) -> Option<Tick> {
        let at = |seat: &Seat| match seat.vote {
            Vote::Counts => Some(self.now),
            Vote::From(at) => at,
        };
        let mut times: Vec<Tick> = self.seats.iter().filter_map(at).collect();
        times.sort_unstable();
        times.get(quorum(self.seats.len()) - 1).copied()
    }

    /// The nodes that are too young.
    pub fn youth(&self) -> Youth {
        Youth {
            nodes: self.seats.iter().filter(|seat| seat.vote != Vote::Counts).count(),
            guard: self.guard,
            votes_in: self.quorum_votes_at().map(|at| at.since(self.now)),
        }
    }
}

/// Whether a node votes in a fresh acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffrage {
    /// It does.
    Now,
    /// It will, after this time.
    In(Duration),
    /// It does not tell its age, and under this guard it never will.
    Never,
}

/// Who would vote in a fresh acquisition, by the uptimes that the servers tell, for those who only
/// look on.
pub fn suffrage(terms: GuardTerms, uptimes: &[Option<Duration>]) -> Vec<Suffrage> {
    let now = Tick::default();
    let introduce = |uptime: &Option<Duration>| match *uptime {
        Some(uptime) => Introduction::Known(Server { uptime, ..Server::default() }),
        None => Introduction::Unknown,
    };
    let introductions: Vec<Introduction> = uptimes.iter().map(introduce).collect();
    let told =
        introductions.iter().map(|introduction| Some(Told { introduction, at: now, live: true }));
    let electorate = Guard::new(terms).electorate(&told.collect::<Vec<_>>(), now);
    let seats = electorate.seats.iter().map(|seat| match seat.vote {
        Vote::Counts => Suffrage::Now,
        Vote::From(Some(at)) => Suffrage::In(at.since(now)),
        Vote::From(None) => Suffrage::Never,
    });
    seats.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Token;

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn at(n: u64) -> Tick {
        Tick::from_boot(s(n))
    }

    /// Nodes that were heard at second 100.
    fn known(uptimes: &[u64]) -> Vec<Introduction> {
        let server = |uptime: &u64| Server { uptime: s(*uptime), ..Server::default() };
        uptimes.iter().map(|uptime| Introduction::Known(server(uptime))).collect()
    }

    fn told(introductions: &[Introduction]) -> Vec<Option<Told<'_>>> {
        let told = |introduction| Some(Told { introduction, at: at(100), live: true });
        introductions.iter().map(told).collect()
    }

    fn guard(rule: RestartGuard) -> Guard {
        Guard::new(GuardTerms { rule, own: s(30), max_ttl: s(86_400) })
    }

    fn votes(guard: &Guard, uptimes: &[u64], now: u64) -> Vec<bool> {
        let known = known(uptimes);
        let electorate = guard.electorate(&told(&known), at(now));
        let nodes = (0_u8..).take(uptimes.len()).map(NodeIndex);
        nodes.map(|node| electorate.counts(node)).collect()
    }

    #[test]
    fn young_node_votes_when_it_is_certainly_older_than_the_guard() {
        let auto = guard(RestartGuard::Auto);
        // It says 9 s and may be 8 s old.
        assert_eq!(votes(&auto, &[9, 900, 900], 100), [false, true, true]);
        assert_eq!(votes(&auto, &[9, 900, 900], 121), [false, true, true]);
        assert_eq!(votes(&auto, &[9, 900, 900], 122), [true, true, true]);
        assert_eq!(votes(&auto, &[30, 900, 900], 100), [false, true, true]);
        assert_eq!(votes(&auto, &[31, 900, 900], 100), [true, true, true]);
    }

    #[test]
    fn fleet_of_one_age_is_new() {
        assert_eq!(votes(&guard(RestartGuard::Auto), &[0, 3, 29], 100), [true; 3]);
        assert_eq!(votes(&guard(RestartGuard::Auto), &[0, 3, 30], 100), [false; 3]);
        assert_eq!(votes(&guard(RestartGuard::Strict), &[0, 3, 29], 100), [false; 3]);
        assert_eq!(votes(&guard(RestartGuard::For(s(10))), &[0, 3, 5], 100), [false; 3]);
        assert_eq!(votes(&guard(RestartGuard::Off), &[0, 300, 5], 100), [true; 3]);
    }

    #[test]
    fn fleet_is_not_new_while_one_of_it_has_not_answered() {
        let known = known(&[0, 1]);
        let unknown = Introduction::Unknown;
        let silent = told(&known).into_iter().chain([None]).collect::<Vec<_>>();
        let denied = [told(&known), told(std::slice::from_ref(&unknown))].concat();
        for (told, third) in [(silent, true), (denied, true)] {
            let electorate = guard(RestartGuard::Auto).electorate(&told, at(100));
            let counts: Vec<_> = (0..3).map(|n| electorate.counts(NodeIndex(n))).collect();
            assert_eq!(counts, [false, false, third]);
        }
    }

    #[test]
    fn unknown_age_votes_under_auto_and_a_duration_and_not_under_strict() {
        let unknown = Introduction::Unknown;
        let told = told(std::slice::from_ref(&unknown));
        for (rule, vote) in [
            (RestartGuard::Auto, true),
            (RestartGuard::For(s(5)), true),
            (RestartGuard::Off, true),
            (RestartGuard::Strict, false),
        ] {
            let electorate = guard(rule).electorate(&told, at(100));
            assert_eq!(electorate.counts(NodeIndex(0)), vote, "{rule:?}");
        }
    }

    #[test]
    fn longest_lock_that_shows_up_makes_the_guard() {
        let mut auto = guard(RestartGuard::Auto);
        assert_eq!(votes(&auto, &[60, 900, 900], 100), [true; 3]);
        let holder = Holder { ttl: 300_000, ..Holder::default() };
        let shown = |occupant, expires| {
            let expires_in = Some(s(expires));
            Reply::Held(vec![Obstacle { key: 0, occupant, expires_in }])
        };
        let value = holder.value(Token::from_random(1)).into_bytes();
        auto.learn(&shown(Occupant::Value(value), 12));
        assert_eq!(auto.age(), s(300));
        assert_eq!(votes(&auto, &[60, 900, 900], 100), [false, true, true]);
        auto.learn(&shown(Occupant::Value(b"thief".to_vec()), 400));
        assert_eq!(auto.age(), s(400));
        // A duration that was asked for does not make it smaller.
        assert_eq!(guard(RestartGuard::For(s(5))).age(), s(30));
        assert_eq!(guard(RestartGuard::For(s(50))).age(), s(50));
    }

    #[test]
    fn youth_says_how_many_and_for_how_long() {
        let known = known(&[9, 5, 900, 900, 900]);
        let electorate = guard(RestartGuard::Auto).electorate(&told(&known), at(100));
        // A quorum may vote already.
        let youth = Youth { nodes: 2, guard: s(30), votes_in: Some(s(0)) };
        assert_eq!((electorate.youth(), electorate.comes_of_age()), (youth, None));
        let known = super::tests::known(&[9, 5, 4, 900, 900]);
        let electorate = guard(RestartGuard::Auto).electorate(&told(&known), at(100));
        let youth = Youth { nodes: 3, guard: s(30), votes_in: Some(s(22)) };
        assert_eq!((electorate.youth(), electorate.comes_of_age()), (youth, Some(at(122))));
    }

    #[test]
    fn node_does_not_grow_older_when_its_connection_is_gone() {
        let known = known(&[9, 900, 900]);
        let mut told = told(&known);
        told[0].as_mut().unwrap().live = false;
        told[1].as_mut().unwrap().live = false;
        let electorate = guard(RestartGuard::Auto).electorate(&told, at(500));
        let counts: Vec<_> = (0..3).map(|n| electorate.counts(NodeIndex(n))).collect();
        assert_eq!(counts, [false, true, true]);
    }

    #[test]
    fn those_who_look_on_judge_as_those_who_acquire() {
        let terms = |rule| GuardTerms { rule, own: s(30), max_ttl: s(86_400) };
        let of = |rule, uptimes: &[u64]| {
            let uptimes: Vec<_> = uptimes.iter().map(|n| (*n > 0).then_some(s(*n))).collect();
            suffrage(terms(rule), &uptimes)
        };
        let (now, never) = (Suffrage::Now, Suffrage::Never);
        let later = |n| Suffrage::In(s(n));
        assert_eq!(of(RestartGuard::Auto, &[9, 100, 101]), [later(22), now, now]);
        assert_eq!(of(RestartGuard::Auto, &[9, 10, 10]), [now; 3]);
        assert_eq!(of(RestartGuard::Auto, &[9, 10, 0]), [later(22), later(21), now]);
        assert_eq!(of(RestartGuard::Strict, &[9, 10, 0]), [later(22), later(21), never]);
        assert_eq!(of(RestartGuard::Strict, &[9, 10, 10]), [later(22), later(21), later(21)]);
        assert_eq!(of(RestartGuard::For(s(50)), &[9, 10, 99]), [later(42), later(41), now]);
        assert_eq!(of(RestartGuard::Off, &[9, 10, 0]), [now; 3]);
    }
}

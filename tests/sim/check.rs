//! The invariants (docs/protocol.md, section 10), checked at every step against what really happened.
//! In here is a second, independent account of what a client may believe: the requests that it
//! queued, the answers that reached it, and the validity that follows from these.

use std::{collections::HashMap, time::Duration};

use redlock::{
    clock::Tick,
    protocol::{Fencing, Reply, Request, Timing, Token},
};

use super::{
    clock::{Real, nanos},
    link::{Asked, Kind, Link},
    node::Entry,
    plan::{ActorPlan, Part, Plan, What},
};

/// The rules, by their number in docs/protocol.md where they have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// 1: at most one command runs per key.
    OneHolder,
    /// 1, by its cause: while a command runs its token is on a quorum of nodes.
    QuorumCarries,
    /// 2: a command that is alive has its validity in the future.
    AliveWithinValidity,
    /// 4: no key remains but for a wanted min-hold.
    NoLeftover,
    /// Section 6: while a min-hold lasts nobody else's command starts.
    MinHold,
    /// 5: a release is the last thing that a token sends, and no connection is given up while an
    /// acquire may still arrive on it.
    ReleaseIsFinal,
    /// 6: a healthy majority is enough, at once; everybody runs in the end.
    Progress,
    /// 7: nobody deletes, shortens or extends another's value.
    OthersUntouched,
    /// 8: requests per second.
    BoundedRequests,
    /// 9: exactly one winner.
    OneWinner,
    /// Section 1: a validity is the quorum-th largest of what positive answers allow, and never
    /// comes back.
    HonestValidity,
    /// Section 4: waiting clients are woken by those who held the lock and by nobody else.
    Announcements,
    /// 3: fencing tokens are unique and ordered by real time.
    FencingGrows,
    /// Verdicts and the end come in time.
    InTime,
}

/// A broken rule.
#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub at: Real,
    pub what: String,
}

/// What a client may believe of one node, for one token.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The node was asked to carry the token.
    asked: bool,
    /// The node carries the token until then, as far as its answers say.
    until: Option<Tick>,
    /// The node's last word was that it does not carry the token.
    gone: bool,
    /// It was, at some time since the client has the lock.
    was_gone: bool,
    /// It carries the token again, heard then; who confirmed an extension sent later, and what it
    /// is good for once a quorum has.
    back: Option<(Tick, u16, Tick)>,
}

/// What a client said about its lock.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub token: Token,
    pub validity: Tick,
    /// Since when.
    since: Tick,
    lost: bool,
}

/// The account of one client.
#[derive(Debug)]
struct Account {
    timing: Timing,
    /// Whose lock it adopts.
    adopts: Option<usize>,
    known: HashMap<Token, Vec<Known>>,
    released: Vec<Token>,
    claim: Option<Claim>,
    /// It was told to stop, or has stopped of its own: no more is expected of it.
    ended: bool,
    /// When the first node was asked to carry a token.
    asked: HashMap<Token, Tick>,
    /// The token that has a quorum, and since when.
    ripe: Option<(Token, Tick)>,
    /// Per node, the moment to which its allowance of requests is used up.
    spent: Vec<u64>,
}

/// All accounts.
#[derive(Debug)]
pub struct Check {
    quorum: usize,
    nodes: usize,
    accounts: Vec<Account>,
    owners: HashMap<Token, usize>,
    /// The rules that are looked at; all, but where a test wants to see that one of them alone
    /// catches a bug.
    watched: Option<Vec<Rule>>,
    /// The fencing tokens of every key, with the time at which they were had.
    fences: HashMap<usize, Vec<(Real, u64)>>,
    /// When the first node was asked to carry a token.
    began: HashMap<Token, Real>,
    /// Nodes restart, so that the votes of some do not count.
    restarts: bool,
    pub found: Option<Violation>,
}

/// So many requests at once are in order, however fast they come: one contended attempt on a fast
/// network goes on for a second.
const BURST: u64 = 500;

impl Check {
    pub fn new(plan: &Plan) -> Self {
        let account = |actor: &ActorPlan| Account {
            timing: actor.timing,
            adopts: match actor.part {
                Part::Adopt(of) => Some(of),
                Part::Run | Part::Acquire => None,
            },
            known: HashMap::new(),
            released: Vec::new(),
            claim: None,
            ended: false,
            asked: HashMap::new(),
            ripe: None,
            spent: vec![0; plan.nodes.len()],
        };
        Self {
            quorum: plan.quorum(),
            nodes: plan.nodes.len(),
            accounts: plan.actors.iter().map(account).collect(),
            owners: HashMap::new(),
            fences: HashMap::new(),
            began: HashMap::new(),
            watched: plan.watched.clone(),
            // Nor is it when there is a second phase.
            restarts: plan.fencing == Fencing::On
                || plan.faults.iter().any(|f| matches!(f.what, What::Down { .. })),
            found: None,
        }
    }

    /// Notes a violation; the first one counts.
    pub fn broken(&mut self, rule: Rule, at: Real, what: impl Into<String>) {
        if self.watched.as_ref().is_some_and(|watched| !watched.contains(&rule)) {
            return;
        }
        let what = what.into();
        self.found.get_or_insert(Violation { rule, at, what });
    }

    /// Whose token it is.
    pub fn owner(&self, token: Token) -> Option<usize> {
        self.owners.get(&token).copied()
    }

    pub fn claim(&self, actor: usize) -> Option<Claim> {
        self.accounts[actor].claim
    }

    /// From now on the client only clears up.
    pub fn ends(&mut self, actor: usize) {
        self.accounts[actor].ended = true;
    }

    /// A client has the lock on its keys, with this fencing token: nobody else has had that, and
    /// whoever had the lock before the client asked for it has had a smaller one.
    pub fn fenced(&mut self, keys: &[usize], token: Token, number: u64, at: Real) {
        let began = self.began.get(&token).copied().unwrap_or(at);
        for key in keys {
            let all = self.fences.entry(*key).or_default();
            let stale =
                |(had, other): &&(Real, u64)| *other == number || *had < began && *other > number;
            let found = all.iter().find(stale).copied();
            all.push((at, number));
            if let Some((_, other)) = found {
                self.broken(Rule::FencingGrows, at, format!("{number} comes after {other}"));
            }
        }
    }

    /// A request was queued.
    pub fn sent(&mut self, actor: usize, node: usize, request: &Request, now: Tick, at: Real) {
        let kind = Kind::of(request);
        let account = &mut self.accounts[actor];
        if let Kind::Acquire(token) | Kind::Extend(token) | Kind::Release(token) = kind {
            let owner = *self.owners.entry(token).or_insert(actor);
            let released = account.released.contains(&token);
            if owner != actor && account.adopts != Some(owner) {
                let what = format!("client {actor} uses a token of client {owner}");
                return self.broken(Rule::OthersUntouched, at, what);
            }
            if released && !matches!(kind, Kind::Release(_)) {
                let what = format!("client {actor} sends {kind:?} to node {node} after a release");
                return self.broken(Rule::ReleaseIsFinal, at, what);
            }
            let won = account.claim.is_some_and(|claim| claim.token == token);
            if let Request::Finish { .. } = request {
                account.released.push(token);
                if !won {
                    let what = format!("client {actor} keeps a lock that it never had");
                    return self.broken(Rule::NoLeftover, at, what);
                }
            }
            if let Request::Release { announce, .. } = request {
                account.released.push(token);
                if *announce != won {
                    let what = format!("client {actor} announces {announce}, had the lock {won}");
                    return self.broken(Rule::Announcements, at, what);
                }
            }
        }
        if let Kind::Acquire(token) = kind {
            self.began.entry(token).or_insert(at);
            account.asked.entry(token).or_insert(now);
            let known = account.known.entry(token);
            known.or_insert_with(|| vec![Known::default(); self.nodes])[node].asked = true;
        }
        // What a hold may ask: every extension, every retry of a node that failed, and a few.
        let per_second = |period: Duration| 1_000_000_000 / nanos(period).max(1);
        let rate = 6 + 2 * per_second(account.timing.every) + 2 * per_second(account.timing.retry);
        let cost = 1_000_000_000 / rate;
        let spent = &mut account.spent[node];
        *spent = (*spent).max(at) + cost;
        if *spent > at + BURST * cost {
            let what = format!("client {actor} floods node {node}");
            self.broken(Rule::BoundedRequests, at, what);
        }
    }

    /// An answer reached the client, on the newest connection to this node or on an older one.
    pub fn answered(
        &mut self,
        actor: usize,
        link: &Link,
        newest: bool,
        asked: Asked,
        reply: &Reply,
        now: Tick,
    ) {
        let nodes = self.nodes;
        let account = &mut self.accounts[actor];
        let (Kind::Acquire(token) | Kind::Extend(token)) = asked.kind else {
            return;
        };
        let all = account.known.entry(token).or_insert_with(|| vec![Known::default(); nodes]);
        // Nothing can have been executed before there was a connection.
        let sent = asked.at.max(link.ready_at);
        let until = sent.after(account.timing.ttl).before(account.timing.drift);
        let held = account.claim.is_some_and(|claim| claim.token == token);
        let known = &mut all[link.node];
        if held && !newest && !reply.is_done() {
            // Its successor may have told later news.
            return;
        }
        if matches!(reply, Reply::Absent | Reply::Held(_)) {
            *known = Known { asked: known.asked, gone: true, was_gone: held, ..Known::default() };
            return;
        }
        if !reply.is_done() {
            return;
        }
        // Late answers to the acquisition itself count.
        let again = match asked.kind {
            Kind::Acquire(_) => account.claim.is_some_and(|claim| asked.at > claim.since),
            _ => true,
        };
        if known.gone && held && again {
            // Whoever took the lock away from others is not noticed by what they said before.
            let back = known.back.get_or_insert((now, 0, until));
            back.2 = back.2.max(until);
            return;
        }
        known.until = known.until.max(Some(until));
        known.gone &= !newest;
        if let Kind::Extend(_) = asked.kind {
            for known in all {
                let Some((since, vouchers, until)) = &mut known.back else { continue };
                if asked.at >= *since {
                    *vouchers |= 1 << link.node;
                }
                if vouchers.count_ones() as usize >= self.quorum {
                    known.until = known.until.max(Some(*until));
                    (known.gone, known.back) = (false, None);
                }
            }
        }
    }

    /// The latest validity that `token` can have.
    fn allowed(&self, actor: usize, token: Token) -> Option<Tick> {
        let known = self.accounts[actor].known.get(&token)?;
        let mut all: Vec<Tick> = known.iter().filter_map(|known| known.until).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.get(self.quorum - 1).copied()
    }

    /// The client says that it has the lock.
    pub fn acquired(&mut self, actor: usize, token: Token, validity: Tick, now: Tick, at: Real) {
        let account = &mut self.accounts[actor];
        let (reserve, adopts) = (account.timing.reserve(), account.adopts);
        let before = account.claim.replace(Claim { token, validity, since: now, lost: false });
        if before.is_some() {
            self.broken(Rule::HonestValidity, at, format!("client {actor} acquires twice"));
        }
        // The shell looks once more in any case.
        if validity.since(now) <= reserve && adopts.is_none() {
            let what = format!("client {actor} acquired without room to end its command");
            self.broken(Rule::HonestValidity, at, what);
        }
        self.honest(actor, token, validity, at);
    }

    /// The client says that the end of its validity moved.
    pub fn moved(&mut self, actor: usize, validity: Tick, now: Tick, at: Real) {
        let Some(claim) = &mut self.accounts[actor].claim else {
            return self.broken(Rule::HonestValidity, at, "a validity without a lock");
        };
        let (token, before) = (claim.token, claim.validity);
        claim.validity = validity;
        if now >= before && validity > before {
            let what = format!("client {actor} revives a lease that was over");
            self.broken(Rule::HonestValidity, at, what);
        }
        // It may always fall; only what it promises has to be true.
        if validity > now {
            self.honest(actor, token, validity, at);
        }
    }

    fn honest(&mut self, actor: usize, token: Token, validity: Tick, at: Real) {
        let allowed = self.allowed(actor, token);
        if allowed.is_none_or(|allowed| validity > allowed) {
            let what = format!("client {actor} claims {validity:?}, its answers give {allowed:?}");
            self.broken(Rule::HonestValidity, at, what);
        }
    }

    /// The client says that the lock is lost for certain.
    pub fn lost(&mut self, actor: usize, at: Real) {
        let account = &self.accounts[actor];
        let known = account.claim.and_then(|c| account.known.get(&c.token));
        let asked = |known: &Known| known.asked || account.adopts.is_some();
        let may_carry = |known: &&Known| asked(known) && !known.gone && !known.was_gone;
        let carriers = known.map_or(0, |all| all.iter().filter(may_carry).count());
        if carriers >= self.quorum {
            let what = format!("client {actor} gives up a lock that may be there");
            self.broken(Rule::Progress, at, what);
        }
        if let Some(claim) = &mut self.accounts[actor].claim {
            claim.lost = true;
        }
    }

    fn surely_lost(&self, actor: usize) -> bool {
        let account = &self.accounts[actor];
        let known = account.claim.and_then(|c| account.known.get(&c.token));
        let gone = known.map_or(0, |all| all.iter().filter(|k| k.gone).count());
        gone > self.nodes - self.quorum
    }

    /// The client has dealt with an answer: what follows from it must have been said.
    pub fn settled_thoughts(&mut self, actor: usize, now: Tick, at: Real) {
        let account = &self.accounts[actor];
        if account.ended {
            return;
        }
        if let Some(claim) = account.claim {
            if !claim.lost && claim.validity > now && self.surely_lost(actor) {
                let what = format!("client {actor} does not see that its lock is lost");
                self.broken(Rule::AliveWithinValidity, at, what);
            }
            return;
        }
        let ripe = account.known.keys().find(|token| {
            let room = self.allowed(actor, **token).map(|v| v.since(now));
            !account.released.contains(token)
                && room.is_some_and(|room| room > account.timing.reserve())
        });
        let ripe = ripe.copied();
        let first = ripe.and_then(|token| account.asked.get(&token).copied());
        let (Some(token), Some(first)) = (ripe, first) else {
            self.accounts[actor].ripe = None;
            return;
        };
        let account = &mut self.accounts[actor];
        let since = match account.ripe {
            Some((known, since)) if known == token => since,
            _ => now,
        };
        account.ripe = Some((token, since));
        // Those who have not said who they are get twice the time that a quorum took.
        let patience = since.since(first) * 5 / 2 + Duration::from_millis(3);
        if now.since(since) > patience && !self.restarts {
            let what = format!("client {actor} has a quorum and does not say so");
            self.broken(Rule::Progress, at, what);
        }
    }

    /// A node executed a request of `actor`: what was at a key before and after.
    pub fn executed(
        &mut self,
        actor: usize,
        kind: Kind,
        before: Option<&Entry>,
        after: Option<&Entry>,
        at: Real,
    ) {
        let Some(before) = before else { return };
        let owner = before.token.and_then(|token| self.owner(token));
        let shorter = after.is_none_or(|after| match (before.expires, after.expires) {
            (Some(before), Some(after)) => after < before,
            (None, Some(_)) => true,
            _ => false,
        });
        let adopted = owner.is_some() && owner == self.accounts[actor].adopts;
        if owner != Some(actor) && !adopted && after != Some(before) {
            let what = format!("{kind:?} of client {actor} changes what is {owner:?}'s");
            self.broken(Rule::OthersUntouched, at, what);
        } else if shorter && !matches!(kind, Kind::Release(_)) {
            let what = format!("{kind:?} of client {actor} shortens its own key");
            self.broken(Rule::OthersUntouched, at, what);
        }
    }
}

//! Connections in the world: every message takes its time, none overtakes another on the same
//! connection, and what was sent before an end may or may not still arrive.

use redlock::protocol::{ConnId, LinkEvent, Request, Trouble};

use super::{
    actor::Phase,
    check::Rule,
    clock::Real,
    link::{Asked, Kind, Link, Path, Stage, bare},
    plan::{Connect, Part, Refusing, Seen},
    show::{show, show_event},
    world::{Due, World},
};

impl World<'_> {
    pub(super) fn open(&mut self, actor: usize, id: ConnId) {
        let a = &mut self.actors[actor];
        if a.link(id).is_some() {
            return self.broken(Rule::InTime, format!("client {actor} opens {id:?} again"));
        }
        let node = a.plan.view[id.node.get()];
        let link = self.links.len();
        a.links.push((id, link));
        self.note(|| format!("client {actor} opens {}.{} (node {node})", id.node.0, id.serial));
        self.links.push(Link::new(actor, id, node));
        self.knock(link);
    }

    /// The connection's first packet, or one of its repetitions.
    pub(super) fn knock(&mut self, link: usize) {
        let delay = match self.plan.net.connect {
            Connect::Free => 0,
            Connect::RoundTrip => self.delay(link) + self.delay(link),
        };
        let l = &mut self.links[link];
        let node = &mut self.nodes[l.node];
        l.spoiled = node.refusing == Some(Refusing::Nothing);
        let dark = node.dark_until.max(self.now);
        let (at, event) = match node.down {
            Some(Seen::Never) => return node.knocking.push(link),
            Some(Seen::AtOnce) => {
                (dark + delay, LinkEvent::Ended(Trouble::Unreachable("connection refused".into())))
            }
            None => (dark + delay, LinkEvent::Ready),
        };
        self.send_back(link, at, event);
    }

    pub(super) fn send(&mut self, actor: usize, id: ConnId, request: Request) {
        let Some(link) = self.actors[actor].link(id) else {
            return self.broken(Rule::InTime, format!("client {actor} sends on unknown {id:?}"));
        };
        self.note(|| {
            format!("client {actor} sends {}.{} {}", id.node.0, id.serial, show(&request))
        });
        let now = self.actors[actor].plan.clock.tick(self.now);
        let l = &mut self.links[link];
        let kind = Kind::of(&request);
        match l.stage {
            Stage::Closed => {
                let what = format!("client {actor} sends on {id:?} after closing it");
                return self.broken(Rule::InTime, what);
            }
            Stage::Ended => return,
            Stage::Opening | Stage::Ready => l.unanswered.push_back(Asked { kind, at: now }),
        }
        self.check.sent(actor, l.node, bare(&request), now, self.now);
        let outcome = &mut self.actors[actor].outcome;
        outcome.requests += 1;
        outcome.acquires += usize::from(matches!(kind, Kind::Acquire(_)));
        if self.links[link].stage == Stage::Opening {
            self.links[link].queued.push(request);
        } else {
            self.transmit(link, request);
        }
    }

    pub(super) fn transmit(&mut self, link: usize, request: Request) {
        let delay = self.delay(link);
        let l = &mut self.links[link];
        if let Kind::Acquire(token) = Kind::of(&request) {
            l.acquired.push(token);
        }
        let node = &self.nodes[l.node];
        match l.path {
            // The first packet to a machine that came back without knowing the connection.
            Path::Vanished if node.down.is_none() => {
                let at = self.now + delay;
                l.path = Path::Broken { admits: 0 };
                return self.send_back(link, at, LinkEvent::Ended(Trouble::Cut));
            }
            Path::Broken { .. } | Path::Vanished => return,
            Path::Whole => {}
        }
        let at = (self.now.max(node.dark_until) + delay).max(l.up_last);
        l.up_last = at;
        l.under_way += 1;
        self.actors[l.actor].under_way += 1;
        self.at(at, Due::Arrive(link, request));
    }

    /// How long one message takes.
    pub(super) fn delay(&mut self, link: usize) -> Real {
        let l = &self.links[link];
        let half = self.actors[l.actor].distance[l.node] * self.nodes[l.node].slow;
        let net = self.plan.net;
        let spike = if self.rng.below(1000) < net.spikes { self.rng.tail(20 * half) } else { 0 };
        half + self.rng.tail(half * net.jitter / 100) + spike
    }

    pub(super) fn close(&mut self, actor: usize, id: ConnId) {
        self.note(|| format!("client {actor} closes {}.{}", id.node.0, id.serial));
        match self.actors[actor].link(id) {
            Some(link) => self.hang_up(link, Phase::Ending),
            None => self.broken(Rule::InTime, format!("client {actor} closes unknown {id:?}")),
        }
    }

    pub(super) fn hang_up(&mut self, link: usize, phase: Phase) {
        let l = &mut self.links[link];
        let ready = l.stage == Stage::Ready;
        if matches!(l.stage, Stage::Opening | Stage::Ready) {
            l.stage = Stage::Closed;
        }
        l.queued.clear();
        if !ready || phase == Phase::Crashed {
            return;
        }
        // An acquire that may still arrive needs its release behind it on the same connection.
        let open = l.unanswered.iter().enumerate().find_map(|(i, asked)| match asked.kind {
            Kind::Acquire(token) => {
                let mut behind = l.unanswered.iter().skip(i);
                let undone = behind.any(|later| later.kind == Kind::Release(token));
                (!undone).then_some(token)
            }
            _ => None,
        });
        // Who leaves a lock behind may leave it on one node more.
        let left = self.actors[l.actor].plan.part != Part::Run;
        let left = self.check.claim(l.actor).filter(|_| left).map(|claim| claim.token);
        if open.is_some_and(|token| left != Some(token)) {
            let what = format!("client {} abandons an acquire on {:?}", l.actor, l.id);
            self.broken(Rule::ReleaseIsFinal, what);
        }
    }

    pub(super) fn send_back(&mut self, link: usize, at: Real, event: LinkEvent) {
        let l = &mut self.links[link];
        l.down_last = l.down_last.max(at);
        let at = l.down_last;
        self.at(at, Due::Deliver(link, event));
    }

    pub(super) fn deliver(&mut self, link: usize, mut event: LinkEvent) {
        let l = &mut self.links[link];
        if matches!(l.stage, Stage::Ended | Stage::Closed) {
            return;
        }
        if let (LinkEvent::Ended(trouble @ Trouble::Unreachable(_)), Stage::Ready) =
            (&mut event, l.stage)
        {
            // Broken while the news that it is ready was on its way.
            *trouble = Trouble::Cut;
        }
        let (actor, id) = (l.actor, l.id);
        let now = self.actors[actor].plan.clock.tick(self.now);
        match &event {
            LinkEvent::Ready => {
                l.stage = Stage::Ready;
                l.ready_at = now;
                for request in std::mem::take(&mut l.queued) {
                    self.transmit(link, request);
                }
            }
            LinkEvent::Ended(_) => l.stage = Stage::Ended,
            LinkEvent::Securing
            | LinkEvent::Secured { .. }
            | LinkEvent::Introduced(_)
            | LinkEvent::Released { .. }
            | LinkEvent::Called(_) => {}
            LinkEvent::Replied(reply) => {
                if let Some(asked) = l.unanswered.pop_front() {
                    let mut same = self.actors[actor].links.iter().rev();
                    let newest = same.find(|(known, _)| known.node == id.node);
                    let newest = newest.is_some_and(|(known, _)| *known == id);
                    self.check.answered(actor, l, newest, asked, reply, now);
                }
            }
        }
        self.note(|| {
            format!("client {actor} hears {}.{} {}", id.node.0, id.serial, show_event(&event))
        });
        self.think(actor, |brain, now| brain.handle(id, event, now));
    }

    pub(super) fn cut(&mut self, link: usize) {
        let admits = self.rng.index(self.links[link].under_way + 1);
        let delay = self.delay(link);
        let l = &mut self.links[link];
        if l.path != Path::Whole {
            return;
        }
        l.path = Path::Broken { admits };
        let trouble = match l.stage {
            Stage::Ready => Trouble::Cut,
            Stage::Opening => Trouble::Unreachable("connection reset by peer".into()),
            // What was sent before the end may still be lost; nobody is told.
            Stage::Ended | Stage::Closed => return,
        };
        self.send_back(link, self.now + delay, LinkEvent::Ended(trouble));
    }
}

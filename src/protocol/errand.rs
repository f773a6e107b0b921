//! One question to every node about a token, and what the answers amount to: `extend` and
//! `release` from outside of a run. Pure counting; an [`super::Interview`] asks.

use std::time::Duration;

use super::{Lease, NodeIndex, NodeView, Reply, Testimony, Timing, lease::quorum};
use crate::clock::Tick;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// [`super::Request::Extend`].
    Extend,
    /// [`super::Request::Free`] or [`super::Request::Release`].
    Release,
}

/// What it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A quorum did it; or, for a release, a quorum answered and nothing is left there.
    Done,
    /// So many nodes do not carry the token that it cannot hold the lock.
    NotOurs,
    /// Too few nodes answered to say either.
    Unavailable,
}

/// The answers to an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Nodes that did it.
    pub done: usize,
    /// Nodes that do not carry the token.
    pub gone: usize,
    /// The last that is known of each node; [`NodeView::Ours`] where it was done.
    pub nodes: Vec<NodeView>,
    /// The end of the validity that an extension brought, with a quorum.
    pub validity: Option<Tick>,
}

impl Tally {
    /// Counts the first answer of every node.
    pub fn count(testimonies: &[Testimony], timing: &Timing) -> Self {
        let mut lease = Lease::new(testimonies.len());
        let mut nodes = Vec::new();
        for (node, testimony) in (0_u8..).map(NodeIndex).zip(testimonies) {
            let answer = testimony.answers.first();
            nodes.push(match (answer, &testimony.trouble) {
                (Some(answer), _) => match &answer.reply {
                    Reply::Done | Reply::Already | Reply::Extended(_) | Reply::Counted(_) => {
                        lease.raise(node, answer.sent, timing.ttl, timing.drift);
                        NodeView::Ours
                    }
                    Reply::Absent => NodeView::Free,
                    Reply::Held(obstacles) => NodeView::Held(obstacles.clone()),
                    Reply::Refused(refusal) => NodeView::Refused(refusal.clone()),
                    Reply::Data(_) => NodeView::Unknown,
                },
                (None, Some(trouble)) => NodeView::Troubled(trouble.clone()),
                (None, None) => NodeView::Unknown,
            });
        }
        let count =
            |wanted: fn(&NodeView) -> bool| nodes.iter().filter(|view| wanted(view)).count();
        Self {
            done: count(|view| *view == NodeView::Ours),
            gone: count(|view| matches!(view, NodeView::Free | NodeView::Held(_))),
            validity: lease.validity(),
            nodes,
        }
    }

    /// What the answers amount to. A release is done when a quorum answered and the token may have
    /// held the lock before: then nobody is kept out by it any more.
    pub fn outcome(&self, errand: Errand) -> Outcome {
        let all = self.nodes.len();
        let needed = quorum(all);
        if all - self.gone < needed {
            return Outcome::NotOurs;
        }
        let did = match errand {
            Errand::Extend => self.done,
            Errand::Release => self.done + self.gone,
        };
        if did >= needed { Outcome::Done } else { Outcome::Unavailable }
    }

    /// Whether so many nodes refuse our rights that no quorum is possible.
    pub fn is_about_rights(&self) -> bool {
        let refuses =
            |view: &&NodeView| matches!(view, NodeView::Refused(why) if why.is_about_rights());
        let refusing = self.nodes.iter().filter(refuses).count();
        refusing > 0 && self.nodes.len() - refusing < quorum(self.nodes.len())
    }

    /// How long the lock is certain from `now` on.
    pub fn left(&self, now: Tick) -> Duration {
        self.validity.map_or(Duration::ZERO, |end| end.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(done: usize, gone: usize, silent: usize) -> Tally {
        let nodes = [
            vec![NodeView::Ours; done],
            vec![NodeView::Free; gone],
            vec![NodeView::Unknown; silent],
        ]
        .concat();
        Tally { done, gone, nodes, validity: None }
    }

    /// All ways in which up to five nodes can do it, deny it or say nothing.
    #[test]
    fn verdict_is_certain_or_none() {
        for all in 1..=5 {
            for done in 0..=all {
                for gone in 0..=all - done {
                    let silent = all - done - gone;
                    let tally = tally(done, gone, silent);
                    let q = quorum(all);
                    let case = format!("{done} done, {gone} gone, {silent} silent");
                    match tally.outcome(Errand::Extend) {
                        Outcome::Done => assert!(done >= q, "{case}"),
                        Outcome::NotOurs => assert!(done + silent < q, "{case}"),
                        Outcome::Unavailable => {
                            assert!(done < q && done + silent >= q, "{case}");
                        }
                    }
                    match tally.outcome(Errand::Release) {
                        Outcome::Done => assert!(done + gone >= q && done + silent >= q, "{case}"),
                        Outcome::NotOurs => assert!(done + silent < q, "{case}"),
                        Outcome::Unavailable => assert!(done + gone < q, "{case}"),
                    }
                }
            }
        }
    }
}

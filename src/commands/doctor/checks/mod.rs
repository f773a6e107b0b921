//! Every check of the doctor. Pure: facts go in, findings come out.

mod certificates;
mod clocks;
mod list;
mod node;
mod rights;

use std::time::Duration;

use serde::Serialize;

use super::facts::Facts;
use crate::{
    duration::show,
    node::Fleet,
    protocol::{GuardTerms, Suffrage, quorum, suffrage},
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gravity {
    /// The lock works; something makes its promise weaker.
    Warning,
    /// These nodes do not vote.
    Node,
    /// The list itself breaks the premises of Redlock.
    List,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub gravity: Gravity,
    /// A word for it, stable for programs.
    pub check: &'static str,
    /// Where; empty when it is about the list.
    pub nodes: Vec<String>,
    /// What was found.
    pub what: String,
    /// What it endangers.
    pub endangers: String,
    /// What would mend it.
    pub mend: String,
}

/// What findings are made from.
pub struct Patient<'a> {
    /// The list.
    pub fleet: &'a Fleet,
    /// Its nodes as they are written.
    pub names: &'a [String],
    /// What is put before every key.
    pub prefix: &'a str,
    /// How long an answer may take.
    pub node_timeout: Duration,
    /// The guard that a fresh acquisition would have.
    pub guard: GuardTerms,
    /// What time it is here, since 1970.
    pub wall: Duration,
    /// Each node.
    pub facts: &'a [Facts],
}

impl Patient<'_> {
    /// All findings, the worst first.
    pub fn examine(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.list(&mut found);
        self.trust(&mut found);
        for (name, facts) in self.names.iter().zip(self.facts) {
            self.node(name, facts, &mut found);
        }
        self.votes(&mut found);
        self.clocks(&mut found);
        let mut merged: Vec<Finding> = Vec::new();
        for finding in found {
            let same = |other: &&mut Finding| {
                other.check == finding.check
                    && other.what == finding.what
                    && other.mend == finding.mend
            };
            match merged.iter_mut().find(same) {
                Some(other) => other.nodes.extend(finding.nodes),
                None => merged.push(finding),
            }
        }
        merged.sort_by_key(|finding| std::cmp::Reverse(finding.gravity));
        merged
    }

    /// Which nodes vote in a fresh acquisition.
    pub fn voters(&self, findings: &[Finding]) -> Vec<bool> {
        let names = self.names.iter().zip(self.suffrage());
        names
            .map(|(name, vote)| {
                let bad = |finding: &Finding| {
                    finding.gravity != Gravity::Warning && finding.nodes.contains(name)
                };
                vote == Suffrage::Now && !findings.iter().any(bad)
            })
            .collect()
    }

    fn suffrage(&self) -> Vec<Suffrage> {
        let uptimes: Vec<_> = self.facts.iter().map(Facts::uptime).collect();
        suffrage(self.guard, &uptimes)
    }

    fn votes(&self, found: &mut Vec<Finding>) {
        for ((name, facts), vote) in self.names.iter().zip(self.facts).zip(self.suffrage()) {
            let rest = match vote {
                Suffrage::In(rest) => rest,
                Suffrage::Never if facts.no_info => {
                    found.push(Finding {
                        gravity: Gravity::Warning,
                        check: "no-age",
                        nodes: vec![name.clone()],
                        what: "does not tell its age and never votes under the strict guard".into(),
                        endangers: "its vote: each node less brings the others closer to an outage"
                            .into(),
                        mend: "ACL SETUSER the user with +info, or do not set the guard to strict"
                            .into(),
                    });
                    continue;
                }
                Suffrage::Never | Suffrage::Now => continue,
            };
            found.push(Finding {
                gravity: Gravity::Warning,
                check: "young",
                nodes: vec![name.clone()],
                what: format!("restarted a short time ago and votes in {}", show(rest)),
                endangers: "nothing: it does not vote until no lock that it forgot can be valid"
                    .into(),
                mend: "wait: redlock doctor --wait 5m".into(),
            });
        }
    }
}

/// What it all amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A quorum votes and nothing was found.
    Sound,
    /// A quorum votes.
    Warned,
    /// Too few nodes vote.
    NoQuorum,
    /// Too few nodes vote for want of rights.
    Refused,
    /// The list itself is wrong.
    WrongList,
}

/// Judges the findings; `votes` nodes of `all` vote.
pub fn verdict(findings: &[Finding], facts: &[Facts], votes: usize) -> Verdict {
    let all = facts.len();
    let rights = |facts: &&Facts| {
        facts.lacks_rights()
            || facts.refusal.as_ref().is_some_and(crate::protocol::Refusal::is_about_rights)
    };
    let refusing = facts.iter().filter(rights).count();
    if findings.iter().any(|finding| finding.gravity == Gravity::List) {
        Verdict::WrongList
    } else if votes < quorum(all) {
        if all - refusing < quorum(all) { Verdict::Refused } else { Verdict::NoQuorum }
    } else if findings.is_empty() {
        Verdict::Sound
    } else {
        Verdict::Warned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{RestartGuard, Ttl};

    pub fn facts(info: &str) -> Facts {
        Facts { info: Some(info.to_owned()), ..Facts::default() }
    }

    pub fn examine(facts: &[Facts]) -> (Vec<Finding>, Vec<bool>) {
        examine_under(RestartGuard::Auto, facts)
    }

    fn examine_under(rule: RestartGuard, facts: &[Facts]) -> (Vec<Finding>, Vec<bool>) {
        let names: Vec<String> = (1..=facts.len()).map(|n| format!("db{n}:1")).collect();
        let fleet = Fleet::parse(names.iter().map(String::as_str), None).unwrap();
        let patient = Patient {
            fleet: &fleet,
            names: &names,
            prefix: "",
            node_timeout: Duration::from_millis(500),
            guard: GuardTerms { rule, own: Duration::from_secs(30), max_ttl: Ttl::DEFAULT_MAX },
            wall: Duration::from_secs(1_700_000_000),
            facts,
        };
        let findings = patient.examine();
        let voters = patient.voters(&findings);
        (findings, voters)
    }

    pub fn checks(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn young_node_does_not_vote_yet() {
        let up = |seconds: u32| facts(&format!("uptime_in_seconds:{seconds}\r\n"));
        let (found, voters) = examine(&[up(900), up(9), up(900)]);
        assert_eq!((checks(&found), voters), (vec!["young"], vec![true, false, true]));
        assert_eq!(found[0].what, "restarted a short time ago and votes in 22s");
        // All of them: a new fleet, which the strict guard does not believe.
        let young = [up(3), up(9), up(4)];
        let (found, voters) = examine(&young);
        assert_eq!((checks(&found), voters), (vec![], vec![true; 3]));
        let (found, voters) = examine_under(RestartGuard::Strict, &young);
        assert_eq!((checks(&found), voters), (vec!["young"; 3], vec![false; 3]));
    }

    #[test]
    fn node_that_keeps_its_age_to_itself_never_votes_under_the_strict_guard() {
        let mute = Facts { no_info: true, ..Facts::default() };
        let old = || facts("uptime_in_seconds:900\r\n");
        let under = |rule| examine_under(rule, &[old(), mute.clone(), old()]);
        let (found, voters) = under(RestartGuard::Strict);
        assert!(checks(&found).contains(&"no-age") && voters == [true, false, true], "{found:?}");
        let (found, voters) = under(RestartGuard::Auto);
        assert!(!checks(&found).contains(&"no-age") && voters == [true; 3], "{found:?}");
    }

    #[test]
    fn certificate_is_spoken_of_when_it_ends_within_a_fortnight() {
        let ends = |rest: u64| Facts {
            certificate_ends: Some(Duration::from_secs(1_700_000_000 + rest)),
            ..facts("role:master\r\n")
        };
        let day = 86_400;
        let (found, voters) = examine(&[ends(14 * day + 1), ends(14 * day), ends(day - 1)]);
        assert_eq!((checks(&found), voters), (vec!["certificate-ends"; 2], vec![true; 3]));
        assert_eq!(found[0].nodes, ["db2:1"]);
        assert_eq!(found[0].what, "its certificate ends 2023-11-28T22:13:20Z, in 14 days");
        assert!(found[1].what.ends_with("2023-11-15T22:13:19Z, in less than a day"));
        let (found, _) = examine(&[facts(""), ends(0), ends(day)]);
        assert_eq!(checks(&found), ["certificate-ended", "certificate-ends"]);
    }

    #[test]
    fn slow_answers_sentinels_and_old_servers() {
        let slow = Facts { latency: Some(Duration::from_millis(126)), ..facts("role:master\r\n") };
        let sentinel = facts("redis_mode:sentinel\r\n");
        let old = facts("redis_version:5.0.14\r\n");
        let (found, voters) = examine(&[slow, sentinel, old]);
        assert_eq!(checks(&found), ["sentinel", "latency", "version"]);
        assert_eq!(voters, [true, false, true]);
    }
}

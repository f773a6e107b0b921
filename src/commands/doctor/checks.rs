//! Every check of the doctor. Pure: facts go in, findings come out.

use std::{net::IpAddr, time::Duration};

use serde::Serialize;

use super::facts::{ClockReading, Facts};
use crate::{
    duration::show,
    node::{Address, Fleet},
    protocol::{GuardTerms, RestartGuard, Suffrage, quorum, suffrage},
    ui::mend,
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
    /// Each node.
    pub facts: &'a [Facts],
}

/// The clocks of two nodes may differ by so much.
const APART: Duration = Duration::from_secs(1);

impl Patient<'_> {
    /// All findings, the worst first.
    pub fn examine(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.list(&mut found);
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

    /// What the list says by itself, and what the nodes say about each other.
    fn list(&self, found: &mut Vec<Finding>) {
        let all = self.names.len();
        let mut add =
            |gravity, check, nodes: Vec<String>, what: String, endangers: &str, mend: &str| {
                found.push(Finding {
                    gravity,
                    check,
                    nodes,
                    what,
                    endangers: endangers.into(),
                    mend: mend.into(),
                });
            };
        if all == 1 {
            add(
                Gravity::Warning,
                "single-node",
                Vec::new(),
                "one node only".into(),
                "every lock, whenever that node is down or loses its memory",
                "list three or five independent masters",
            );
        } else if all.is_multiple_of(2) {
            add(
                Gravity::Warning,
                "even-list",
                Vec::new(),
                format!("{all} nodes, an even number"),
                "nothing but availability: it survives no more failures than one node less",
                "add or remove one node",
            );
        }
        let local = |address: &Address| match address {
            Address::Literal(address) => address.ip().is_loopback(),
            Address::Name(host, _) => {
                host == "localhost"
                    || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Address::Unix(_) => true,
        };
        if self.fleet.iter().all(|node| local(node.address())) {
            add(
                Gravity::Warning,
                "loopback",
                Vec::new(),
                "all nodes are on this machine".into(),
                "whatever runs on other machines: the lock excludes nobody there",
                "list nodes that every machine reaches by the same names",
            );
        }
        for (second, later) in self.facts.iter().enumerate() {
            for (first, earlier) in self.facts.iter().enumerate().take(second) {
                let nodes = || vec![self.names[first].clone(), self.names[second].clone()];
                if earlier.field("run_id").is_some()
                    && earlier.field("run_id") == later.field("run_id")
                {
                    add(
                        Gravity::List,
                        "same-server",
                        nodes(),
                        "the same server by two names".into(),
                        "the lock itself: one server would have two votes",
                        "remove one of the two from the list",
                    );
                } else if share_history(earlier, later) {
                    add(
                        Gravity::List,
                        "shared-history",
                        nodes(),
                        "they share a replication history: one is or was the other's replica"
                            .into(),
                        "the lock itself: after a failover both show the locks of one",
                        "list independent masters",
                    );
                }
            }
        }
    }

    /// What one node says.
    fn node(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
        let mut add = |gravity, check, what: String, endangers: &str, mend: String| {
            let nodes = vec![name.to_owned()];
            let endangers = endangers.to_owned();
            found.push(Finding { gravity, check, nodes, what, endangers, mend });
        };
        let vote = "its vote: each node less brings the others closer to an outage";
        // Whoever says why before it hangs up has said more.
        if let (Some(trouble), None) = (&facts.trouble, &facts.refusal) {
            let remedy = mend::trouble(trouble);
            let what = crate::ui::trouble(trouble);
            return add(Gravity::Node, remedy.check, what, vote, remedy.mend.into());
        }
        let cluster = facts.field("cluster_enabled") == Some("1");
        if facts.field("redis_mode") == Some("sentinel") {
            return add(
                Gravity::List,
                "sentinel",
                "a Sentinel, which keeps no data".into(),
                vote,
                "list the masters themselves".into(),
            );
        }
        if cluster {
            return add(
                Gravity::List,
                "cluster",
                "a member of a Redis Cluster".into(),
                "the lock itself: a failover there forgets locks",
                "list independent masters, not members of a cluster".into(),
            );
        }
        if facts.field("role").is_some_and(|role| role != "master") {
            let of = facts.field("master_host").zip(facts.field("master_port"));
            let of = of.map_or_else(String::new, |(host, port)| format!(" of {host}:{port}"));
            return add(
                Gravity::List,
                "replica",
                format!("a replica{of}"),
                "the lock itself: what is written to its master is no vote of its own",
                "list its master instead, or make it one: REPLICAOF NO ONE".into(),
            );
        }
        if let Some(refusal) = &facts.refusal {
            let remedy = mend::refusal(refusal);
            let what = format!("refuses locks: {}", refusal.text);
            add(Gravity::Node, remedy.check, what, vote, remedy.mend.into());
        }
        self.rights(name, facts, found);
        self.premises(name, facts, found);
    }

    fn rights(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
        let user = facts.user.as_deref().or_else(|| {
            let node = self.fleet.iter().zip(self.names).find(|(_, other)| *other == name);
            node?.0.credentials()?.username.as_deref()
        });
        let user = user.unwrap_or("default");
        let rule = |commands: &[&str], keys: bool, channels: bool| {
            let mut words: Vec<String> =
                commands.iter().map(|command| format!("+{command}")).collect();
            words.extend(keys.then(|| format!("~{}*", self.prefix)));
            words.extend(channels.then(|| format!("&{}redlock:*", self.prefix)));
            format!("ACL SETUSER {user} {}", words.join(" "))
        };
        let mut add = |gravity, check, what: String, endangers: &str, mend| {
            let nodes = vec![name.to_owned()];
            let endangers = endangers.to_owned();
            found.push(Finding { gravity, check, nodes, what, endangers, mend });
        };
        if facts.lacks_rights() {
            let mut lacks: Vec<String> =
                facts.missing.iter().map(|command| command.to_uppercase()).collect();
            lacks.extend(facts.no_keys.then(|| format!("the keys {}*", self.prefix)));
            let release = facts.missing.iter().any(|command| ["eval", "del"].contains(command));
            add(
                Gravity::Node,
                "rights",
                format!("user '{user}' may not use {}", lacks.join(", ")),
                if release {
                    "its vote, and every release: who may not run EVAL and DEL cannot give a lock \
                     back"
                } else {
                    "its vote: each node less brings the others closer to an outage"
                },
                rule(&facts.missing, facts.no_keys, false),
            );
        }
        if facts.no_channels || !facts.missed.is_empty() {
            let mut lacks: Vec<String> =
                facts.missed.iter().map(|c| c.to_uppercase().replace('|', " ")).collect();
            lacks.extend(
                facts.no_channels.then(|| format!("the channels {}redlock:*", self.prefix)),
            );
            add(
                Gravity::Warning,
                "channels",
                format!("user '{user}' may not use {}", lacks.join(", ")),
                "quick hand-overs: waiters are not told of a release and have to look again and \
                 again",
                rule(&facts.missed, false, facts.no_channels),
            );
        }
        if facts.no_info {
            add(
                Gravity::Warning,
                "info",
                format!("user '{user}' may not use INFO"),
                "the checks of its role, age and identity",
                rule(&["info"], false, false),
            );
        }
    }

    fn premises(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
        let mut add = |check, what: String, endangers: &str, mend: String| {
            let nodes = vec![name.to_owned()];
            let (gravity, endangers) = (Gravity::Warning, endangers.to_owned());
            found.push(Finding { gravity, check, nodes, what, endangers, mend });
        };
        if let Some(latency) = facts.latency.filter(|it| *it > self.node_timeout / 4) {
            add(
                "latency",
                format!("answers only after {}", show(latency)),
                "its vote, when it becomes slower: answers may take the node-timeout",
                format!("find out why, or raise --node-timeout ({})", show(self.node_timeout)),
            );
        }
        let policy = facts.field("maxmemory_policy").unwrap_or("noeviction");
        if facts.number("maxmemory").is_some_and(|limit| limit > 0) && policy != "noeviction" {
            add(
                "eviction",
                format!("evicts keys when its memory is short ({policy})"),
                "held locks: they can vanish",
                "CONFIG SET maxmemory-policy noeviction".into(),
            );
        }
        if facts.number("second_repl_offset").is_some_and(|offset| offset >= 0) {
            add(
                "promoted",
                "was a replica and has been promoted".into(),
                "locks from before its promotion: it may never have heard of them",
                "list masters that no failover replaces".into(),
            );
        }
        let forgets = facts.number("aof_enabled") == Some(0)
            && facts.save.as_deref().is_some_and(str::is_empty);
        if self.guard.rule == RestartGuard::Off && forgets {
            add(
                "no-persistence",
                "keeps nothing on disk, and the restart guard is off".into(),
                "held locks: after a restart it votes for a second holder",
                "do not switch the guard off (REDLOCK_RESTART_GUARD), or CONFIG SET appendonly yes"
                    .into(),
            );
        }
        let old = facts.field("redis_version").and_then(|version| {
            let major: u32 = version.split('.').next()?.parse().ok()?;
            (major < 6).then(|| version.to_owned())
        });
        if let Some(version) = old {
            add(
                "version",
                format!("runs version {version}"),
                "nothing yet; it has neither RESP3 nor users with rules",
                "upgrade it to 6.2 or later".into(),
            );
        }
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

    fn clocks(&self, found: &mut Vec<Finding>) {
        // Where each clock stood at the same moment of ours.
        let mut offsets: Vec<(usize, i128)> = self
            .facts
            .iter()
            .enumerate()
            .filter_map(|(node, facts)| {
                let ClockReading { sent, came, time } = *facts.clock.first()?;
                let middle = sent.after(came.since(sent) / 2).since_boot();
                let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
                Some((node, nanos(time) - nanos(middle)))
            })
            .collect();
        offsets.sort_by_key(|(_, offset)| *offset);
        let median = offsets.get(offsets.len() / 2).map_or(0, |(_, offset)| *offset);
        for (node, offset) in &offsets {
            let apart = Duration::from_nanos(
                u64::try_from((offset - median).unsigned_abs()).unwrap_or(u64::MAX),
            );
            if apart > APART {
                let way = if *offset > median { "ahead of" } else { "behind" };
                found.push(Finding {
                    gravity: Gravity::Warning,
                    check: "clock",
                    nodes: vec![self.names[*node].clone()],
                    what: format!("its clock is {} {way} the others", show(apart)),
                    endangers: "fencing tokens and the times that people read; locks only if it \
                                is set while they are held"
                        .into(),
                    mend: "synchronise its clock (chrony, ntpd)".into(),
                });
            }
        }
        for (name, facts) in self.names.iter().zip(self.facts) {
            let [first, last] = facts.clock.as_slice() else { continue };
            let progress = last.time.saturating_sub(first.time);
            let fewest = last.sent.since(first.came).mul_f64(0.99);
            let most = last.came.since(first.sent).mul_f64(1.01);
            if progress < fewest || progress > most || last.time < first.time {
                let ours = last.sent.since(first.sent);
                found.push(Finding {
                    gravity: Gravity::Warning,
                    check: "clock-rate",
                    nodes: vec![name.clone()],
                    what: format!(
                        "its clock ran for {}ms in {}ms of ours",
                        progress.as_millis(),
                        ours.as_millis()
                    ),
                    endangers: "held locks: it drops them earlier or later than we count".into(),
                    mend: "find out who sets its clock; slew it instead of stepping".into(),
                });
            }
        }
    }
}

/// Whether one is or was the other's replica.
fn share_history(one: &Facts, other: &Facts) -> bool {
    let ids = |facts: &Facts| -> Vec<String> {
        ["master_replid", "master_replid2"]
            .iter()
            .filter_map(|name| facts.field(name))
            // All zeros: there is none.
            .filter(|id| id.bytes().any(|byte| byte != b'0'))
            .map(str::to_owned)
            .collect()
    };
    let others = ids(other);
    ids(one).iter().any(|id| others.contains(id))
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
    use crate::{clock::Tick, protocol::Ttl};

    fn facts(info: &str) -> Facts {
        Facts { info: Some(info.to_owned()), ..Facts::default() }
    }

    fn reading(sent: u64, came: u64, time: u64) -> ClockReading {
        let at = |ms| Tick::from_boot(Duration::from_millis(ms));
        ClockReading { sent: at(sent), came: at(came), time: Duration::from_millis(time) }
    }

    fn examine(facts: &[Facts]) -> (Vec<Finding>, Vec<bool>) {
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
            facts,
        };
        let findings = patient.examine();
        let voters = patient.voters(&findings);
        (findings, voters)
    }

    fn checks(findings: &[Finding]) -> Vec<&str> {
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
    fn clock_that_is_set_wrong_is_told_from_one_that_runs_wrong() {
        let clock = |readings: [ClockReading; 2]| Facts {
            clock: readings.to_vec(),
            ..facts("role:master\r\n")
        };
        let right = || clock([reading(100, 102, 5_101), reading(1100, 1102, 6_101)]);
        let ahead = clock([reading(100, 102, 55_101), reading(1100, 1102, 56_101)]);
        let (found, voters) = examine(&[right(), ahead, right()]);
        assert_eq!((checks(&found), voters), (vec!["clock"], vec![true; 3]));
        assert_eq!(found[0].what, "its clock is 50s ahead of the others");
        assert_eq!(found[0].nodes, ["db2:1"]);
        let fast = clock([reading(100, 102, 5_101), reading(1100, 1102, 6_120)]);
        let (found, _) = examine(&[right(), right(), fast]);
        assert_eq!(checks(&found), ["clock-rate"]);
        // What the way may have taken is no fault of the clock.
        let slow_way = clock([reading(100, 160, 5_101), reading(1100, 1102, 6_046)]);
        let (found, _) = examine(&[right(), right(), slow_way]);
        assert_eq!(checks(&found), [""; 0]);
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

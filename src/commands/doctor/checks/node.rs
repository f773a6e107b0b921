//! What one node says: whether it votes, and what makes its vote weaker.

use super::{Finding, Gravity, Patient};
use crate::{commands::doctor::facts::Facts, duration::show, protocol::RestartGuard, ui::mend};

impl Patient<'_> {
    /// Everything about the node `name`.
    pub(super) fn node(&self, name: &str, facts: &Facts, found: &mut Vec<Finding>) {
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
        // As Redis and as Valkey call it.
        let mode = facts.field("redis_mode").or_else(|| facts.field("server_mode"));
        if mode == Some("sentinel") {
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
        self.certificate(name, facts, found);
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
}

//! What the list says by itself, and what the nodes say about each other.

use std::net::IpAddr;

use super::{Finding, Gravity, Patient};
use crate::{commands::doctor::facts::Facts, node::Address};

impl Patient<'_> {
    /// Everything about the list.
    pub(super) fn list(&self, found: &mut Vec<Finding>) {
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

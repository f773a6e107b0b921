//! What a server says about itself at the beginning of a connection, and whether Redlock can use
//! it: N *independent* masters are its premise, and a list can break it without anybody noticing.
//!
//! A connection does not outlive its server process, so what was said holds for every answer on it.

use std::time::Duration;

use super::NodeIndex;

/// What came of asking a server about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Introduction {
    /// It told.
    Known(Server),
    /// It may not tell us (NOPERM on INFO), or speaks in another way than Redis does.
    Unknown,
}

/// What `INFO server` and `INFO replication` say, as far as a lock depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Fresh with every start of the process.
    pub run_id: String,
    /// For how long it has run, in whole seconds; rounded up at times.
    pub uptime: Duration,
    /// What kind of server it is.
    pub mode: Mode,
    /// Whether it copies another one.
    pub role: Role,
    /// The name of its data's history (`master_replid`).
    pub history: String,
    /// The history that it went on from (`master_replid2`), when it was a replica.
    pub before: Option<String>,
    /// It was a replica and became a master (`second_repl_offset` is not negative).
    pub promoted: bool,
}

/// What kind of server it is (`redis_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One that keeps keys of its own.
    #[default]
    Standalone,
    /// Part of a Redis Cluster.
    Cluster,
    /// It watches others and keeps no keys.
    Sentinel,
}

/// Whether a server copies another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It does not.
    #[default]
    Master,
    /// It does.
    Replica,
}

/// Why a server cannot be one of the independent masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// It is in the list under another name too: one vote would count twice. The other place is
    /// not known where only the lock showed it.
    SameServer(Option<NodeIndex>),
    /// It is a replica.
    Replica,
    /// It is part of a Redis Cluster, which moves and fails over keys by itself.
    Cluster,
    /// It is a sentinel.
    Sentinel,
    /// Its data goes on from that of another node of the list: it was its replica.
    SharedHistory(NodeIndex),
}

/// Whether the server of `node` is unfit, seen together with those of the other nodes.
pub fn unfit(node: NodeIndex, servers: &[Option<&Server>]) -> Option<Unfit> {
    let own = servers.get(node.get()).copied().flatten()?;
    let others = || {
        let all = (0_u8..).map(NodeIndex).zip(servers.iter().copied());
        all.filter_map(|(other, server)| Some((other, server?))).filter(|(o, _)| *o != node)
    };
    if let Some((other, _)) = others().find(|(_, other)| other.run_id == own.run_id) {
        return Some(Unfit::SameServer(Some(other)));
    }
    match (own.mode, own.role) {
        (Mode::Cluster, _) => return Some(Unfit::Cluster),
        (Mode::Sentinel, _) => return Some(Unfit::Sentinel),
        (_, Role::Replica) => return Some(Unfit::Replica),
        (Mode::Standalone, Role::Master) => {}
    }
    let goes_on_from = |(place, other): &(NodeIndex, &Server)| {
        // Of two that share one history without one being the elder, the first may stay.
        let twin = other.role == Role::Master && other.history == own.history && *place < node;
        twin || own.before.as_ref() == Some(&other.history)
    };
    others().find(goes_on_from).map(|(other, _)| Unfit::SharedHistory(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(run_id: &str) -> Server {
        Server { run_id: run_id.into(), history: format!("h-{run_id}"), ..Server::default() }
    }

    fn judge(servers: &[Server]) -> Vec<Option<Unfit>> {
        let known: Vec<_> = servers.iter().map(Some).collect();
        (0_u8..).take(servers.len()).map(|node| unfit(NodeIndex(node), &known)).collect()
    }

    #[test]
    fn independent_masters_are_fit() {
        assert_eq!(judge(&[server("a"), server("b"), server("c")]), [None; 3]);
    }

    #[test]
    fn one_server_under_two_names_is_found_at_both() {
        let same = |node| Some(Unfit::SameServer(Some(NodeIndex(node))));
        assert_eq!(judge(&[server("a"), server("b"), server("a")]), [same(2), None, same(0)]);
    }

    #[test]
    fn replica_is_unfit_and_its_master_is_not() {
        let replica = Server { history: "h-a".into(), role: Role::Replica, ..server("b") };
        assert_eq!(judge(&[replica, server("a")]), [Some(Unfit::Replica), None]);
    }

    #[test]
    fn promoted_replica_is_unfit_beside_its_former_master_and_fit_without_it() {
        let promoted = Server { before: Some("h-a".into()), promoted: true, ..server("b") };
        let shared = Some(Unfit::SharedHistory(NodeIndex(1)));
        assert_eq!(judge(&[promoted.clone(), server("a")]), [shared, None]);
        assert_eq!(judge(&[promoted, server("c")]), [None, None]);
    }

    #[test]
    fn masters_with_one_history_do_not_count_twice() {
        let twin = Server { history: "h-a".into(), ..server("b") };
        assert_eq!(judge(&[server("a"), twin]), [None, Some(Unfit::SharedHistory(NodeIndex(0)))]);
    }

    #[test]
    fn clusters_and_sentinels_are_unfit() {
        let of = |mode| Server { mode, ..server("a") };
        assert_eq!(judge(&[of(Mode::Cluster)]), [Some(Unfit::Cluster)]);
        assert_eq!(judge(&[of(Mode::Sentinel)]), [Some(Unfit::Sentinel)]);
    }

    #[test]
    fn nothing_is_held_against_a_server_that_did_not_tell() {
        let a = server("a");
        assert_eq!(unfit(NodeIndex(0), &[None, Some(&a)]), None);
        assert_eq!(unfit(NodeIndex(1), &[None, Some(&a)]), None);
    }
}

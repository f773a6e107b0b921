//! What would mend a node that does not vote, by its own words: one classification for the message
//! of a run that finds no quorum and for `redlock doctor`.

use super::secure;
use crate::protocol::{NodeView, Refusal, Trouble};

/// What a refusal or a trouble is called, and what would mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// A word for it, stable for programs.
    pub check: &'static str,
    /// One line.
    pub mend: &'static str,
}

/// Everything that a lock needs or does better with, fencing included.
const RIGHTS: &str = "see redlock doctor for the exact rule: ACL SETUSER USER +eval +set +get +type \
                      +pttl +pexpire +pexpireat +del +time +publish +pubsub|numsub +subscribe +info \
                      ~* &*";

/// Refusals by the beginning of the node's words, or by a part of them.
const REFUSALS: &[(&str, &str, &str)] = &[
    (
        "NOAUTH",
        "password-missing",
        "give its password: REDLOCK_PASSWORD, or redis://user:password@host in the list",
    ),
    (
        "WRONGPASS",
        "password-wrong",
        "check --username and REDLOCK_PASSWORD against the node's ACL LIST",
    ),
    (
        "without any password",
        "password-unwanted",
        "the node has no password: take ours away, or give it one: CONFIG SET requirepass ...",
    ),
    ("NOPERM", "rights", RIGHTS),
    ("The user executing the script can't", "rights", RIGHTS),
    ("ACL failure in script", "rights", RIGHTS),
    ("READONLY", "replica", "list its master instead, or make it one: REPLICAOF NO ONE"),
    ("MASTERDOWN", "replica", "list its master instead, or make it one: REPLICAOF NO ONE"),
    ("NOREPLICAS", "min-replicas", "CONFIG SET min-replicas-to-write 0, or start its replicas"),
    ("OOM", "out-of-memory", "give it room: CONFIG SET maxmemory BYTES (0: no limit)"),
    (
        "MISCONF",
        "misconf",
        "make its disk writable (its log says what fails), or CONFIG SET \
         stop-writes-on-bgsave-error no",
    ),
    ("LOADING", "loading", "wait until it has loaded its data: redlock doctor --wait 5m"),
    ("BUSY", "busy", "end the script that runs there: SCRIPT KILL"),
    ("CLUSTERDOWN", "cluster", "list independent masters, not members of a cluster"),
    ("MOVED", "cluster", "list independent masters, not members of a cluster"),
    ("CROSSSLOT", "cluster", "list independent masters, not members of a cluster"),
    (
        "max number of clients",
        "max-clients",
        "CONFIG SET maxclients N, or find out who keeps its connections: CLIENT LIST",
    ),
    ("DENIED", "protected-mode", "give it a password, or CONFIG SET protected-mode no"),
    (
        "unknown command",
        "renamed-command",
        "remove the rename-command for it from the node's configuration",
    ),
    ("DB index", "database", "raise databases in the node's configuration, or list another db"),
];

/// The remedy for a refusal.
pub fn refusal(refusal: &Refusal) -> Remedy {
    let text = &refusal.text;
    let found = REFUSALS.iter().find(|(words, ..)| text.contains(words));
    found.map_or(Remedy { check: "refused", mend: "see the node's log" }, |(_, check, mend)| {
        Remedy { check, mend }
    })
}

/// The remedy for a connection that came to nothing.
pub fn trouble(trouble: &Trouble) -> Remedy {
    let (check, mend) = match trouble {
        Trouble::Unresolvable(_) => {
            ("unresolvable", "correct the name in the list, or list its address")
        }
        Trouble::ConnectTimeout => (
            "no-connection",
            "is the host up, and does no firewall drop the way to it? else raise --connect-timeout",
        ),
        Trouble::Unreachable(_) => {
            ("unreachable", "start the server there, or correct host and port in the list")
        }
        Trouble::Silent => (
            "silent",
            "is the server stopped or overloaded? if that is a TLS port, write rediss://",
        ),
        Trouble::Cut => ("cut", "if that is a TLS port, write rediss:// in the list"),
        Trouble::Garbage => {
            ("no-redis", "correct the port in the list; if it is a TLS port, write rediss://")
        }
        Trouble::Tls(it) => return secure::remedy(it),
        Trouble::SpeaksTls => ("speaks-tls", "write rediss:// in the list"),
    };
    Remedy { check, mend }
}

/// The one line that would mend most of the nodes that do not vote.
pub fn most(views: &[NodeView]) -> Option<&'static str> {
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for view in views {
        let mend = match view {
            NodeView::Refused(it) => refusal(it).mend,
            NodeView::Troubled(it) => trouble(it).mend,
            _ => continue,
        };
        match counts.iter_mut().find(|(other, _)| *other == mend) {
            Some((_, count)) => *count += 1,
            None => counts.push((mend, 1)),
        }
    }
    // Of equals the one that comes first.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(mend, _)| mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RefusalKind;

    fn refused(text: &str) -> NodeView {
        NodeView::Refused(Refusal { kind: RefusalKind::State, text: text.into() })
    }

    /// The words of Redis 7.0.15, and of 8.2.3 where they differ.
    #[test]
    fn refusals_are_known_by_their_words() {
        for (text, check) in [
            ("NOAUTH Authentication required.", "password-missing"),
            ("ERR AUTH <password> called without any password configured", "password-unwanted"),
            ("NOPERM this user has no permissions to run the 'eval' command", "rights"),
            (
                "ERR ACL failure in script: User ci has no permissions to run the 'del' command",
                "rights",
            ),
            ("READONLY You can't write against a read only replica.", "replica"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "out-of-memory"),
            ("ERR max number of clients reached", "max-clients"),
            ("ERR something new", "refused"),
        ] {
            let NodeView::Refused(it) = refused(text) else { panic!() };
            assert_eq!(refusal(&it).check, check, "{text}");
        }
    }

    #[test]
    fn line_that_mends_most_nodes_is_chosen() {
        let down = NodeView::Troubled(Trouble::Unreachable("connection refused".into()));
        let views = [down, refused("OOM a"), NodeView::Free, refused("OOM b")];
        assert!(most(&views).unwrap().contains("maxmemory"));
        assert_eq!(most(&[NodeView::Free, NodeView::Unknown]), None);
    }
}

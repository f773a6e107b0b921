//! The text of INFO as far as a lock depends on it.

use std::time::Duration;

use redis::Value;

use crate::protocol::{Introduction, Mode, Role, Server};

/// What `INFO server` and `INFO replication` said; unknown when something of it is missing.
pub fn read(server: &str, replication: &str) -> Introduction {
    known(server, replication).map_or(Introduction::Unknown, Introduction::Known)
}

fn known(server: &str, replication: &str) -> Option<Server> {
    let run_id = field(server, "run_id")?.to_owned();
    let seconds = field(server, "uptime_in_seconds")?.parse().ok()?;
    let history = field(replication, "master_replid")?.to_owned();
    let before = field(replication, "master_replid2");
    let before = before.filter(|id| id.bytes().any(|byte| byte != b'0')).map(str::to_owned);
    // Valkey calls it by another name (valkey-io/valkey, `extended-redis-compatibility`).
    let mode = field(server, "redis_mode").or_else(|| field(server, "server_mode"))?;
    let promoted = field(replication, "second_repl_offset");
    let promoted = promoted.and_then(|text| text.parse::<i64>().ok()).is_some_and(|n| n >= 0);
    Some(Server {
        run_id,
        uptime: Duration::from_secs(seconds),
        mode: match mode {
            "cluster" => Mode::Cluster,
            "sentinel" => Mode::Sentinel,
            _ => Mode::Standalone,
        },
        role: if field(replication, "role")? == "master" { Role::Master } else { Role::Replica },
        history,
        before,
        promoted,
    })
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| line.trim_end().strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(of).filter(|value| !value.is_empty())
}

/// The text of an answer to INFO; none where it is no text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
                          run_id:51c0\r\nuptime_in_seconds:22\r\n";
    const REPLICATION: &str = "# Replication\r\nrole:master\r\nmaster_replid:aa\r\n\
        master_replid2:0000\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\n";

    fn server(server: &str, replication: &str) -> Server {
        match read(server, replication) {
            Introduction::Known(server) => server,
            Introduction::Unknown => panic!("unknown"),
        }
    }

    #[test]
    fn master_introduces_itself() {
        let expected = Server {
            run_id: "51c0".into(),
            uptime: Duration::from_secs(22),
            history: "aa".into(),
            ..Server::default()
        };
        assert_eq!(server(SERVER, REPLICATION), expected);
    }

    /// `make compat` found it: no valkey ever introduced itself, so its age guarded nothing.
    #[test]
    fn valkey_introduces_itself_too() {
        let valkey = SERVER.replace("redis_mode", "server_mode");
        assert_eq!(server(&valkey, REPLICATION), server(SERVER, REPLICATION));
        let cluster = valkey.replace("standalone", "cluster");
        assert_eq!(server(&cluster, REPLICATION).mode, Mode::Cluster);
    }

    #[test]
    fn replicas_clusters_and_promoted_masters_are_told_apart() {
        let replica = REPLICATION.replace("role:master", "role:slave");
        assert_eq!(server(SERVER, &replica).role, Role::Replica);
        let cluster = SERVER.replace("standalone", "cluster");
        assert_eq!(server(&cluster, REPLICATION).mode, Mode::Cluster);
        let promoted = REPLICATION.replace("0000", "bb").replace("offset:-1", "offset:99");
        let promoted = server(SERVER, &promoted);
        assert_eq!((promoted.before.as_deref(), promoted.promoted), (Some("bb"), true));
    }

    #[test]
    fn what_does_not_tell_its_name_and_age_is_unknown() {
        for missing in ["run_id:51c0", "uptime_in_seconds:22", "redis_mode:standalone"] {
            let text = SERVER.replace(missing, "");
            assert_eq!(read(&text, REPLICATION), Introduction::Unknown, "{missing}");
        }
        assert_eq!(read("OK", "OK"), Introduction::Unknown);
    }
}

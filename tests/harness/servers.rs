//! The servers of a test. They are the sandbox's own; here is what only tests want of them.

pub use redlock::commands::sandbox::servers::Fleet;
use redlock::commands::sandbox::servers::Server;

use super::resp::{Reply, Resp};

/// `count` new, empty masters.
pub fn fleet(count: u8) -> Fleet {
    Fleet::start(count).unwrap()
}

/// Looking into a server and putting things there, past the program under test.
pub trait Inspect {
    /// A new connection.
    fn client(&self) -> Resp;

    /// The value at `key`.
    fn get(&self, key: &str) -> Option<String> {
        self.client().get(key)
    }

    /// Whether there is anything at `key`.
    fn exists(&self, key: &str) -> bool {
        self.client().exists(key)
    }

    /// Puts a value that stays for a minute.
    fn set(&self, key: &str, value: &str) {
        self.client().set_px(key, value, 60_000);
    }

    /// The version of Redis that it is compatible with, major and minor; a Valkey says 7.2.
    fn redis_version(&self) -> (u64, u64) {
        let info = self.client().info("server");
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
        let mut numbers = version.split('.').map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    /// Every key of database 0, sorted.
    fn keys(&self) -> Vec<String> {
        self.client().keys()
    }
}

impl Inspect for Server {
    fn client(&self) -> Resp {
        Resp::connect(self.address())
    }
}

/// The same for all servers of a fleet.
pub trait InspectAll {
    /// The numbers of the servers that have something at `key`.
    fn holding(&self, key: &str) -> Vec<usize>;

    /// Every key on every server, as `number:key`.
    fn all_keys(&self) -> Vec<String>;

    /// How many wait for the release of `key`, by the server that knows of the fewest.
    fn listeners(&self, key: &str) -> usize;

    /// Puts a value on every server.
    fn set_everywhere(&self, key: &str, value: &str);
}

impl InspectAll for Fleet {
    fn holding(&self, key: &str) -> Vec<usize> {
        let servers = self.servers().iter().enumerate();
        let holding = servers.filter(|(_, server)| server.exists(key));
        holding.map(|(number, _)| number).collect()
    }

    fn all_keys(&self) -> Vec<String> {
        let servers = self.servers().iter().enumerate();
        servers
            .flat_map(|(number, server)| {
                let keys = server.keys().into_iter();
                keys.map(move |key| format!("{number}:{key}"))
            })
            .collect()
    }

    fn listeners(&self, key: &str) -> usize {
        let channel = format!("redlock:released:{key}");
        let count = |server: &Server| match server.client().command(&["PUBSUB", "NUMSUB", &channel])
        {
            Reply::List(parts) => match parts.last() {
                Some(Reply::Integer(count)) => usize::try_from(*count).unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        self.servers().iter().map(count).min().unwrap()
    }

    fn set_everywhere(&self, key: &str, value: &str) {
        for server in self.servers() {
            server.set(key, value);
        }
    }
}

#[test]
fn fleet_can_be_looked_into() {
    let fleet = fleet(2);
    assert!(fleet.all_keys().is_empty());
    fleet.servers()[1].set("k", "v");
    assert_eq!(fleet.holding("k"), [1]);
    assert_eq!(fleet.all_keys(), ["1:k"]);
    assert_eq!(fleet.servers()[1].get("k").as_deref(), Some("v"));
    assert_eq!(fleet.servers()[0].get("k"), None);
}

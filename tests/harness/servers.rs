//! The servers of a test. They are the sandbox's own; here is what only tests want of them.

use std::{env, fs, path::PathBuf};

pub use redlock::commands::sandbox::servers::Fleet;
use redlock::commands::sandbox::{launcher::Launcher, servers::Server};

use super::{
    resp::{Reply, Resp},
    scratch, script,
};

/// `count` new, empty masters.
pub fn fleet(count: u8) -> Fleet {
    Fleet::start(count).unwrap()
}

/// A server that `scripts/servers` has fetched, where it did.
pub fn fetched(name: &str) -> Option<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let program = target.join("servers").join(name).join("redis-server");
    fs::canonicalize(program).ok()
}

/// A server whose clocks are what the test says (libfaketime).
pub struct Deceived {
    pub server: Server,
    place: tempfile::TempDir,
}

impl Deceived {
    /// Starts with a clock like `+50s` or `+0 x1.05`; what is missing for it, where something is.
    pub fn start(clock: &str) -> Result<Self, &'static str> {
        // The distribution's server reads the processor's clock past the library.
        let program =
            fetched("redis-6.2").ok_or("no target/servers/redis-6.2 (scripts/servers)")?;
        let library = fs::read_dir("/usr/lib")
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")))
            .find(|path| path.exists())
            .ok_or("no libfaketime")?;
        let place = scratch();
        let deceived = format!(
            "#!/bin/sh\nexec env LD_PRELOAD={} FAKETIME_NO_CACHE=1 FAKETIME_TIMESTAMP_FILE={} {} \"$@\"\n",
            library.display(),
            place.path().join("clock").display(),
            program.display()
        );
        fs::write(place.path().join("clock"), clock).unwrap();
        let program = script(&place, "redis-server", &deceived);
        let server = Server::start(&Launcher::of(program).unwrap(), [] as [&str; 0]).unwrap();
        Ok(Self { server, place })
    }

    /// Sets its clock anew.
    pub fn set(&self, clock: &str) {
        // At once: half a text would be another time.
        let new = self.place.path().join("new");
        fs::write(&new, clock).unwrap();
        fs::rename(new, self.place.path().join("clock")).unwrap();
    }
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
